WITH rates AS (  -- closed v4.1 results, per accelerator
    SELECT CASE benchmark WHEN 'resnet' THEN 'resnet50' ELSE benchmark END AS workload, accelerator_model,
        value / (nodes * TRY_CAST(accelerators_per_node AS BIGINT)) AS per_accelerator
    FROM published
    WHERE division = 'closed' AND scenario = 'Offline'
), state AS (  -- of the hottest, slowest and most throttled GPU
    SELECT run_id, min(clock_mhz) AS clock_mhz, max(highest_temperature_c) AS hottest_c,
        max(list_max(map_values(throttled))) AS throttled
    FROM telemetry
    WHERE sensor = 'nvml'
    GROUP BY run_id
), measured AS (
    SELECT *, (
            SELECT max(per_accelerator) FROM rates
            WHERE rates.workload = runs.workload AND starts_with(accelerator_model, runs.accelerator)
        ) AS published_per_s
    FROM runs
    WHERE tag = 'gpu-session' AND value IS NOT NULL
)
SELECT workload, backend, accelerator, value AS samples_per_s, published_per_s, value / published_per_s AS share,
    transfer_bytes_per_sample, graph_calls_per_sample, clock_mhz, hottest_c, throttled
FROM measured LEFT JOIN state USING (run_id)
ORDER BY workload, backend
