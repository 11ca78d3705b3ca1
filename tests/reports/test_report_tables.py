"""What the tables and charts of a report are made of, where runs differ in one thing."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from mlbench.reports.html.conditions import (
    accelerators,
    energy_cell,
    machines_table,
    overhead_cell,
    processor,
    roofline_cell,
    spread_line,
    work_notes,
)
from mlbench.reports.html.drawing import Palette
from mlbench.reports.html.latency_charts import FIRST_TOKEN, SAMPLE, _limit_ns, percentiles_of
from mlbench.reports.html.results import problems, results_table, rules_table, runs_table
from mlbench.reports.html.work_charts import _bin_name, _shares, mean_batch, useful_share, waiting
from mlbench.reports.summary import headline, not_counted, summarise
from mlbench.reports.table import table

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
RULE = {"unit": "", "passed": False, "source": "mlperf.conf", "kind": "performance", "required": True}
LATE = RULE | {"rule": "latency_limit", "measured": 70, "limit": 50, "fix": "Lower the rate."}


def invalid(run, fix="Lower the rate."):
    return run.verdict.model_dump() | {"rules": [LATE | {"fix": fix}], "is_valid": False}


@pytest.fixture
def repeats(a_run):
    """Return runs of the same request with these results, a minute apart."""

    def repeats(*values, **changes):
        return [
            a_run(
                run_id=f"run-{number:04d}",
                created=BEGIN + timedelta(minutes=number),
                result=a_run().result.model_dump() | {"value": value},
                **changes,
            )
            for number, value in enumerate(values)
        ]

    return repeats


def only(runs):
    (combination,) = summarise({"": runs}).combinations
    return combination


def texts(found):
    return [[cell.text for cell in row] for row in found.rows]


def test_repeats_are_reported_by_their_median_and_their_range(repeats):
    """The mean would be 130."""
    found = only(repeats(100.0, 110.0, 180.0))
    assert found.middle() == "110 samples/s"
    assert found.spread() == "100 to 180 samples/s, 3 runs"


def test_repeats_that_look_alike_are_only_counted(repeats):
    assert only(repeats(100.01, 100.02)).spread() == "2 runs"
    assert only(repeats(100.0)).spread() == ""


def test_a_range_over_two_units_names_both(repeats):
    runs = repeats(900_000.0, 2_000_000.0)
    runs = [run.model_copy(update={"result": run.result.model_copy(update={"unit": "ns"})}) for run in runs]
    assert only(runs).spread() == "900 us to 2.00 ms, 2 runs"


def test_runs_are_sorted_by_time_whatever_their_order(repeats):
    runs = repeats(1.0, 2.0, 3.0)
    for order in (runs, runs[::-1]):
        found = only(order)
        assert found.values == (1.0, 2.0, 3.0)
        assert found.newest.run_id == "run-0002"
        assert [row[0] for row in texts(runs_table(found))] == ["run-0002", "run-0001", "run-0000"]


def test_a_run_named_twice_is_one_run(repeats):
    runs = repeats(1.0, 2.0)
    assert len(summarise({"": [*runs, *runs]}).runs) == 2


def test_a_run_that_does_not_count_is_in_no_number_and_is_reported(repeats, a_run):
    good, bad = repeats(100.0, 500.0)
    bad = bad.model_copy(update={"verdict": a_run(verdict=invalid(good)).verdict})
    found = only([good, bad])
    assert (found.values, found.middle()) == ((100.0,), "100 samples/s")
    (row,) = results_table(summarise({"": [good, bad]})).rows
    assert (row[-1].text, row[-1].detail, row[-1].tone) == (
        "100 samples/s",
        "1 of 2 runs does not count\nlatency 70 of 50",
        "bad",
    )


def test_what_went_wrong_is_reported_of_the_newest_bad_run_and_how_many_there_are(repeats, a_run):
    old, good, new = repeats(1.0, 2.0, 3.0)
    old = old.model_copy(update={"verdict": a_run(verdict=invalid(old, "Old advice.")).verdict})
    new = new.model_copy(update={"verdict": a_run(verdict=invalid(new, "New advice.")).verdict})
    (problem,) = problems(summarise({"": [old, good, new]}))
    assert problem.standing == "INVALID (2 of 3 runs)"
    assert problem.findings == (("latency_limit: 70, limit 50.", "New advice."),)


def test_a_failed_run_shows_the_end_of_its_log(a_failure):
    (problem,) = problems(summarise({"": [a_failure]}))
    assert (problem.standing, problem.log_tail) == ("crash during warm-up", "...")
    assert rules_table(a_failure) is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ([{}], "The run is valid and accurate."),
        ([{}, {}], "All 2 runs are valid and accurate."),
        ([{"is_accurate": None}], "The run is valid; accuracy was not measured."),
        ([{"is_accurate": None}, {}], "All 2 runs are valid; accuracy was not measured in 1."),
        ([{"is_valid": False}], "The run does not count: INVALID."),
        ([{"is_accurate": False}], "The run does not count: valid but not accurate."),
        ([{"is_valid": False}, {}], "1 of 2 runs does not count: 1 INVALID."),
        (
            [{"is_valid": False}, {"is_accurate": False}, {}],
            "2 of 3 runs do not count: 1 INVALID, 1 valid but not accurate.",
        ),
        ([{"is_valid": False, "is_accurate": False}], "The run does not count: INVALID."),
    ],
)
def test_the_headline_says_whether_runs_count(a_run, changes, text):
    runs = [
        a_run(run_id=f"run-{number}", verdict=a_run().verdict.model_dump() | change)
        for number, change in enumerate(changes)
    ]
    assert headline(summarise({"": runs})) == text


def test_a_failed_run_is_counted_as_failed(a_run, a_failure):
    text = headline(summarise({"": [a_run(run_id="good"), a_failure]}))
    assert text == "1 of 2 runs does not count: 1 failed."
    assert not_counted(1, 1) == "does not count"


def scored(a_run, number, value, *, lower=97.4):
    accuracy = a_run().accuracy.model_dump()
    is_met = value >= lower
    accuracy["targets"][0] |= {"value": value, "lower": lower, "is_met": is_met}
    verdict = a_run().verdict.model_dump() | {"is_accurate": is_met}
    created = BEGIN + timedelta(minutes=number)
    return a_run(run_id=f"run-{number}", created=created, accuracy=accuracy | {"is_met": is_met}, verdict=verdict)


def test_a_missed_target_is_shown_though_a_later_run_met_it(a_run):
    (row,) = results_table(summarise({"": [scored(a_run, 0, 90.0), scored(a_run, 1, 98.0)]})).rows
    cell = row[2]
    assert (cell.text, cell.tone) == ("acc 90.00", "bad")
    assert cell.detail == "target 97.40\nmissed in 1 of 2 runs"


def test_where_all_targets_are_met_the_newest_score_is_shown(a_run):
    (row,) = results_table(summarise({"": [scored(a_run, 0, 98.0), scored(a_run, 1, 98.5)]})).rows
    assert (row[2].text, row[2].detail, row[2].tone) == ("acc 98.50", "target 97.40", "good")


def test_of_several_targets_those_that_are_met_are_counted(a_run):
    accuracy = a_run().accuracy.model_dump()
    first = accuracy["targets"][0]
    targets = [first, first | {"score": "FID", "is_met": False}, first | {"name": "99.9", "required": False}]
    run = a_run(accuracy=accuracy | {"targets": targets, "is_met": False})
    (row,) = results_table(summarise({"": [run]})).rows
    assert row[2].text.splitlines() == ["acc 98.99", "FID 98.99"]
    assert row[2].detail.splitlines()[0] == "1 of 2 targets met"


def test_a_table_of_rules_has_those_that_failed_that_were_missed_and_that_could_not_be_applied(a_run):
    rules = [
        LATE,
        LATE | {"rule": "seeds", "passed": True, "fix": ""},
        LATE | {"rule": "accuracy.acc@99.9", "required": False},
    ]
    verdict = a_run().verdict.model_dump() | {"rules": rules, "not_applied": {"replies_agree": "no accuracy run"}}
    rows = rules_table(a_run(verdict=verdict)).rows
    assert [(row[0].text, row[3].text, row[3].tone) for row in rows] == [
        ("latency_limit", "failed", "bad"),
        ("seeds", "passed", "good"),
        ("accuracy.acc@99.9", "missed", "bad"),
        ("replies_agree", "not applied", "quiet"),
    ]
    assert (rows[0][4].text, rows[0][4].detail) == ("Lower the rate.", "mlperf.conf")
    assert rows[3][4].text == "no accuracy run"


def test_a_heading_of_numbers_is_marked():
    first, second = table("t", ["name", "value#"], [["a", "1"]]).columns
    assert (first.heading, first.is_number, second.heading, second.is_number) == ("name", False, "value", True)


def test_the_overhead_is_part_of_the_time_per_sample_of_a_throughput(a_run):
    """1/100 s per sample are 10 ms; 100 us are 1 % of it."""
    result = a_run().result.model_dump() | {"value": 100.0}
    assert overhead_cell(a_run(result=result, overhead_ns_per_sample=100_000)).detail == "1.00 % of time per sample"


def test_the_overhead_is_part_of_the_median_latency_elsewhere(a_server_run):
    """The median is 19.373 ms; 1.343 ms are 6.93 %."""
    assert overhead_cell(a_server_run()).detail == "6.93 % of median latency"


def test_the_overhead_is_part_of_a_querys_latency_where_loadgen_timed_queries(a_server_run):
    run = a_server_run()
    latency = run.result.latency_ns | {"50.00_percentile_per_query_latency": 4_000_000}
    run = a_server_run(result=run.result.model_dump() | {"latency_ns": latency})
    assert overhead_cell(run).detail == "33.6 % of median latency"  # 1.343 of 4 ms


def test_tokens_per_second_say_nothing_of_the_time_of_a_sample(a_run):
    result = a_run().result.model_dump() | {"unit": "tokens/s"}
    cell = overhead_cell(a_run(result=result, overhead_ns_per_sample=100_000))
    assert (cell.text, cell.detail) == ("100 us", "")


ENERGY = {"joules": 600.0, "seconds": 4.0, "source": "RAPL", "covers": "package-0"}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "600 J"),
        ({"joules_per_sample": 1.5}, "1.50 J/sample"),
        ({"joules_per_sample": 1.5, "joules_per_token": 0.25}, "0.250 J/token"),
    ],
)
def test_energy_is_per_token_else_per_sample_else_in_all(a_run, more, text):
    cell = energy_cell(a_run(energy=ENERGY | more))
    assert (cell.text, cell.detail) == (text, "package-0, by RAPL")
    cell = energy_cell(a_run(energy=ENERGY | more | {"leaves_out": "fans"}))
    assert cell.detail == "package-0, by RAPL; without fans"


def test_what_no_meter_measured_is_not_estimated(a_run):
    assert energy_cell(a_run()) is None
    assert roofline_cell(a_run()) is None
    assert "energy: not measured: no power meter ran, and energy is never estimated" in work_notes(
        [only([a_run(not_measured={})])]
    )
    notes = work_notes([only([a_run(not_measured={"energy": "no driver"})])])
    assert notes == ["energy: not measured: no driver"]


def test_the_widest_spread_is_reported(repeats, a_run):
    """10 % and 50 % apart."""
    narrow, wide = repeats(100.0, 110.0), repeats(100.0, 150.0, backend="onnxruntime")
    wide = [run.model_copy(update={"run_id": f"w-{run.run_id}"}) for run in wide]
    line = spread_line(summarise({"": [*narrow, *wide]}))
    assert line == "Repeats of the same run differ by up to 50.0 % (resnet50 onnxruntime fp32 Offline)."


def test_a_large_spread_is_a_factor(repeats):
    assert "up to a factor of 3.00 " in spread_line(summarise({"": repeats(100.0, 300.0)}))


def test_without_repeats_the_noise_is_not_known(a_run):
    assert spread_line(summarise({"": [a_run()]})).startswith("No run was repeated")


def busy(a_run, environment, *loads, threads=4, **changes):
    allowance = environment.allowance.model_copy(update={"threads": threads})
    runs = [
        a_run(
            run_id=f"run-{number}",
            environment=environment.model_copy(update={"load_average": load, "allowance": allowance}),
            **changes,
        )
        for number, load in enumerate(loads)
    ]
    rows = texts(machines_table(summarise({"": runs})))
    return dict(rows)["busy"]


def test_a_machine_on_which_others_were_busy_too_is_reported(a_run, environment):
    assert busy(a_run, environment, 1.0, 4.4) == "load average 1.00 to 4.40 on 4 threads"
    assert busy(a_run, environment, 1.0, 4.6).endswith("other processes were running, so results are noisy")
    assert busy(a_run, environment, None) == "not told"


def test_other_work_that_was_counted_tells_more_than_the_load_average(a_run, environment):
    quiet = {"other_work": {"processes": 0.02, "stolen": 0.0}}
    assert busy(a_run, environment, 4.6, **quiet) == (
        "load average 4.60 to 4.60 on 4 threads; almost no other load during the tests"
    )
    loud = {"other_work": {"processes": 0.5, "stolen": 0.0}}
    assert busy(a_run, environment, 0.1, 0.2, **loud).endswith(
        "; 2 of 2 runs were made under other load, which took up to 50% of the processors"
    )


def test_machines_that_differ_have_a_column_each(a_run, environment):
    other = environment.model_copy(update={"machine": "other", "memory_bytes": 64 * 2**30})
    found = machines_table(summarise({"": [a_run(), a_run(run_id="b"), a_run(run_id="c", environment=other)]}))
    headings = [column.heading for column in found.columns]
    assert headings == ["fact", f"machine {environment.machine}, 2 runs", "machine other, 1 run"]
    assert dict((row[0].text, row[2].text) for row in found.rows)["memory"] == "64.0 GiB"


def accelerator(name):
    from mlbench.records.machine.accelerators import Accelerator

    more = {"memory_bytes": None, "power_limit_w": None, "max_clock_mhz": None, "ecc": None, "mig": None}
    return Accelerator(name=name, driver="5", **more)


def test_accelerators_of_a_name_are_counted(environment):
    several = [accelerator("H200"), accelerator("L4"), accelerator("H200")]
    assert accelerators(environment.model_copy(update={"accelerators": several})) == "2 x H200, 1 x L4"
    assert accelerators(environment.model_copy(update={"accelerators": []})) == "none"


def test_a_processor_has_its_usable_threads_where_they_are_known(environment):
    allowance = environment.allowance.model_copy(update={"threads": 1})
    assert processor(environment.model_copy(update={"allowance": allowance})).endswith(", 1 thread")
    unknown = environment.allowance.model_copy(update={"threads": None})
    assert processor(environment.model_copy(update={"allowance": unknown})) == environment.cpu.model


def test_percentiles_are_in_order_with_the_least_first_and_without_zeros(a_server_run):
    run = a_server_run()
    latency = {
        "99.00_percentile_latency": 3,
        "50.00_percentile_latency": 2,
        "min_latency": 1,
        "99.90_percentile_latency": 0,
        "mean_latency": 7,
    }
    run = a_server_run(result=run.result.model_dump() | {"latency_ns": latency})
    assert list(percentiles_of(run, SAMPLE).items()) == [(0.0, 1), (50.0, 2), (99.0, 3)]
    assert percentiles_of(run, FIRST_TOKEN) == {}


def test_a_limit_is_in_milliseconds_and_drawn_only_where_all_runs_have_it(a_server_run, a_run):
    assert _limit_ns([a_server_run()], SAMPLE) == 100_000_000
    assert _limit_ns([a_server_run(), a_server_run(limits={"server_latency_ms": 60})], SAMPLE) is None
    assert _limit_ns([a_server_run(limits={"server_latency_ms": 0})], SAMPLE) is None
    assert _limit_ns([a_run(limits={"server_latency_ms": 50})], SAMPLE) is None, "Offline has no such limit"
    assert _limit_ns([a_server_run(limits={"ttft_ms": 2000})], FIRST_TOKEN) == 2_000_000_000


def test_shares_of_batches_are_by_samples_and_of_steps_by_steps():
    """Eight batches of 1 and one of 8: half of the samples each, and eight ninths of the steps."""
    counts = {1: 8, 8: 1}
    assert _shares(counts, is_weighted=True) == {1: 0.5, 5: 0.5}
    assert _shares(counts, is_weighted=False) == pytest.approx({1: 8 / 9, 5: 1 / 9})
    assert _shares({}, is_weighted=True) == {}


@pytest.mark.parametrize(
    ("size", "name"), [(1, "1"), (2, "2"), (3, "3–4"), (4, "3–4"), (5, "5–8"), (8, "5–8"), (9, "9–16"), (64, "33–64")]
)
def test_batch_sizes_stand_in_bins_that_end_at_powers_of_two(size, name):
    (first,) = _shares({size: 1}, is_weighted=False)
    assert _bin_name(first) == name


def test_a_mean_batch_is_samples_over_batches(a_server_run):
    """696 of 1 and 71 of 2: 838 samples in 767 batches."""
    assert mean_batch(a_server_run()) == "1.09"


def test_useful_work_of_batches_is_without_padding(a_server_run):
    """90 samples and 10 rows of padding."""
    padded = dataclasses.replace(a_server_run().engine, samples=90, padding_samples=10)
    assert useful_share(a_server_run(engine=padded)) == "90.0 %"
    assert waiting(a_server_run()) == ""


def test_useful_work_of_generation_is_of_its_phases_and_the_wait_that_of_a_sample(a_token_run):
    """As the record of a real engine counts it."""
    counted = a_token_run.engine
    shares = {name: getattr(counted, name) for name in ("prefill", "decode")}
    expected = [f"{name} {100 * each.useful_tokens / each.computed_tokens:.3g}" for name, each in shares.items()]
    found = useful_share(a_token_run).replace(" %", "").split(", ")
    assert [each[: len(wanted)] for each, wanted in zip(found, expected, strict=True)] == expected
    wait_ms = counted.queue_ns / counted.samples / 1e6
    assert waiting(a_token_run) == (f"{wait_ms:.3g} ms" if wait_ms >= 1 else f"{wait_ms * 1000:.3g} us")


def test_an_engine_that_answered_nothing_has_no_mean_wait(a_token_run):
    idle = dataclasses.replace(a_token_run.engine, samples=0)
    assert waiting(a_token_run.model_copy(update={"engine": idle})) == ""


def test_series_keep_their_colour_and_differ_in_shape_where_colours_begin_anew():
    palette = Palette(tuple(f"s{number}" for number in range(10)))
    assert palette.colour("s0") == palette.colour("s8")
    assert palette.shape("s0") != palette.shape("s8")
    looks = {(palette.colour(name), palette.shape(name)) for name in palette.series}
    assert len(looks) == 10
