"""One run in words: what is told of a real record, and of runs that differ from a valid one in one thing."""

import json
from pathlib import Path

import pytest

from mlbench.contracts.statistics import GenerationStatistics
from mlbench.records.run_record import RunRecord
from mlbench.reports.console import (
    conditions,
    estimate_note,
    one_line,
    overhead,
    p99,
    percentile_beside,
    problems,
    result,
    standing,
    table,
)
from mlbench.reports.explanation import explain, next_step, sentence
from mlbench.reports.page import page
from mlbench.reports.precision_table import precision_table

REAL = Path(__file__).parents[1] / "data" / "records" / "gptj-onnxruntime-Server.json"


@pytest.fixture(scope="module")
def real():
    """Return a record that a real run stored."""
    return read(REAL.stem)


def read(name):
    return RunRecord.model_validate(json.loads(REAL.with_name(f"{name}.json").read_text()))


def lines_of(record):
    """Return the lines of a page by what they begin with."""
    return [line.split(maxsplit=1) for line in page(record).splitlines() if line.strip()]


def said(record, name):
    return [rest for first, *rest in lines_of(record) if first == name]


def test_a_real_run_in_a_line(real):
    """Of its record: 545.794 tokens/s, and every target met."""
    line = one_line(real)
    assert line.startswith("gptj onnxruntime Server fp32: 546 tokens/s, valid, ROUGE1 99.21 >= 98.22, ")
    assert line.endswith(f"[{real.run_id}]")


def test_a_page_says_where_the_time_went_and_puts_short_stages_together(real):
    seconds = {"start": 0.5, "compile": 60, "accuracy": 3.0, "performance": 36, "score": 0.5}
    timed = real.model_copy(update={"stages_ns": {stage: int(each * 1e9) for stage, each in seconds.items()}})
    assert "  time      100 s: compile 60.0 s, performance 36.0 s, other stages 4.00 s\n" in page(timed)
    assert "  time " not in page(real), "an older version did not record it"


def test_a_real_run_on_a_page(real):
    text = page(real)
    assert f"  run       {real.run_id}" in text
    assert "  form      profile mini, trained weights, tier smoke" in text
    assert "ok   min_duration: 58189 ms, limit 2000 ms" in text
    assert "ok   latency_limit: 400 ms, limit 20.0 s" in text
    assert "99.00 percentile latency           400 ms" in text
    assert "0 of the tokens from the fp32 model's, 0.003 allowed in fp32; 66 samples" in text
    assert isinstance(real.engine, GenerationStatistics)
    for rule, reason in real.verdict.not_applied.items():
        assert f"  n/a  {rule}: {reason}" in text
    for name, reason in real.not_measured.items():
        assert f"not measured: {reason}" in text, name


def test_a_percentile_of_a_rate_is_reported_and_none_of_all_at_once(real, a_run):
    assert p99(real) == "400 ms"
    assert p99(a_run()) == "-"


def test_a_result_of_loadgens_estimate_says_which_and_the_percentile_itself(a_run):
    latency = {"90.00_percentile_latency": 2_131_565, "99.00_percentile_latency": 2_166_897}
    found = a_run().result.model_dump() | {"value": 2_134_459, "unit": "ns", "latency_ns": latency}
    run = a_run(scenario="SingleStream", result=found | {"higher_is_better": False}, format=2)
    assert estimate_note(run) == " est. p90"
    assert percentile_beside(run) == " (p90 2.13 ms)"
    assert result(run) == "2.13 ms est. p90"
    assert "never below the percentile" in page(run)


def test_without_enough_queries_there_is_no_estimate_to_explain(a_run):
    found = a_run().result.model_dump() | {"value": None, "unit": "ns", "higher_is_better": False}
    run = a_run(scenario="SingleStream", result=found, format=2)
    assert (result(run), estimate_note(run), percentile_beside(run)) == ("no result", "", "")


def test_a_failed_run_says_when_and_how_and_shows_the_end_of_its_log(a_failure):
    assert result(a_failure) == "crash during warm-up"
    assert (standing(a_failure), a_failure.is_good) == ("failed", False)
    first, second = problems(a_failure)
    assert first.endswith("crash: the process was ended by SIGSEGV")
    assert second == "  ..."
    assert "has no result: crash during warm-up" in sentence(a_failure)
    assert "The end of its log is below" in next_step(a_failure)


def test_what_a_backend_does_not_support_needs_no_log_after_a_run_and_has_it_on_its_page(a_failure):
    changes = {"kind": "unsupported", "message": "no operator IsNaN", "log_tail": "the converter said: IsNaN"}
    run = a_failure.model_copy(update={"failure": a_failure.failure.model_copy(update=changes)})
    assert len(list(problems(run))) == 1
    assert next_step(run).startswith("no operator IsNaN. The backend does not support this workload; others may.")
    assert "  the converter said: IsNaN" in page(run).splitlines()


def test_a_good_run_is_to_be_measured_again_before_it_is_compared(a_run):
    step = next_step(a_run(precision="int8", tier="dev"))
    command = (
        "mlbench run resnet50 --backend pytorch --scenario Offline --precision int8 --tier dev --repeat 5 --tag before"
    )
    assert step.endswith(command)


@pytest.mark.parametrize(
    ("changes", "is_placed"),
    [({"tier": "valid", "profile": "full"}, True), ({"tier": "valid"}, False), ({"profile": "full"}, False)],
)
def test_a_run_of_official_length_and_model_is_sent_to_the_published_results(a_run, changes, is_placed):
    run = a_run(**changes)
    assert (f"mlbench published --place {run.run_id[-4:]}" in next_step(run)) is is_placed


def test_the_cost_of_the_overhead_is_explained_where_it_is_known(a_run):
    parts = dict(explain(a_run(overhead_ns_per_sample=20_000)))
    assert "overhead 20.0 us" in parts
    assert not any(part.startswith("overhead") for part in dict(explain(a_run(overhead_ns_per_sample=None))))
    assert overhead(a_run(overhead_ns_per_sample=None)) == "-"


ENERGY = {
    "joules": 600.0,
    "seconds": 4.0,
    "source": "RAPL",
    "covers": "package-0",
    "leaves_out": "fans",
    "idle_w": 40.0,
    "joules_per_sample": 1.5,
    "joules_per_token": 0.25,
}


def test_energy_is_reported_in_joules_per_sample_and_watts(a_run):
    """600 J in 4 s are 150 W."""
    run = a_run(energy=ENERGY, not_measured={})
    (energy,) = said(run, "energy")
    assert energy == ["600 J, 1.50 J/sample, 0.250 J/token, 150.0 W, idle 40.0 W"]
    assert "package-0, by RAPL, in 4.0 s" in page(run)
    assert "not in it              fans" in page(run)


def test_a_machine_not_watched_idle_has_no_idle_power(a_run):
    (energy,) = said(a_run(energy=ENERGY | {"idle_w": None, "joules_per_token": None}, not_measured={}), "energy")
    assert energy == ["600 J, 1.50 J/sample, 150.0 W"]


BESIDE = {"processes": 0.45, "stolen": 0.03}


def test_a_run_beside_other_work_says_so_in_its_line_and_asks_for_a_quiet_machine(a_run):
    run = a_run(other_work=BESIDE)
    assert ", valid under other load (48% of the processors), acc 98.99 >= 98.00" in one_line(run)
    assert next_step(run) == (
        "Other work used 48% of the processors during the test; use an idle machine. " + next_step(a_run())
    )
    used = "processors             45.0% used by other processes, 3.0% by the virtual machine's host, during the test"
    assert f"  {used}\n" in page(run)


def test_a_run_beside_hardly_any_other_work_has_it_on_its_page_alone(a_run):
    run = a_run(other_work={"processes": 0.02, "stolen": 0.0})
    assert one_line(run) == one_line(a_run()) and next_step(run) == next_step(a_run())
    assert "  processors             2.0% used by other processes, during the test\n" in page(run)


WORK = {"graphs": [], "operations_per_sample": 8.2e9, "bytes_per_sample": 1.02e8, "samples_per_s": 91.6}
ROOFLINE = {
    "device": "cpu",
    "precision": "fp32",
    "operations_per_s": 7.5e11,
    "bytes_per_s": 9.3e9,
    "operations_ceiling_per_s": 1.5e12,
    "bytes_ceiling_per_s": 9.3e10,
    "bound": "compute",
    "share": 0.5,
    "measured": "2026-11-21T00:00:00Z",
}


def test_what_goes_into_graphs_and_comes_out_is_reported_as_a_whole_and_by_graph(a_run):
    graphs = [
        {"graph": "encoder", "calls": 10, "input_bytes": 20_000, "output_bytes": 5_000},
        {"graph": "head", "calls": 10, "input_bytes": 5_000, "output_bytes": None},
    ]
    text = page(a_run(transfers={"graphs": graphs, "calls_per_sample": 0.25, "bytes_per_sample": 602_112.0}))
    assert "  graphs per sample      602 kB and 0.25 calls, in and out\n" in text
    assert "    encoder              2.00 kB in and 500 B out a call\n" in text
    assert "    head                 500 B in and - out a call\n" in text


def test_work_and_the_share_of_the_ceiling_are_reported_with_both_ceilings(a_run):
    text = page(a_run(work=WORK | {"useful_share": 0.8}, roofline=ROOFLINE))
    assert "8.20 Gop and 102 MB at least" in text
    assert "80.0%; the rest is padding" in text
    assert "750 Gop/s of 1.50 Top/s, 9.30 GB/s of 93.0 GB/s" in text
    assert "50.0% of compute on cpu" in text


def test_a_page_names_settings_that_are_no_defaults_and_their_layer(a_run):
    settings = {
        "execution.batch": {"value": 32, "layer": "command line"},
        "load.server_load": {"value": 0.5, "layer": "default"},
    }
    text = page(a_run(settings=settings))
    assert "execution.batch              32             command line" in text
    assert "load.server_load" not in text


def test_an_imported_run_says_what_mlbench_did_not_see(a_run, imported):
    text = page(a_run(imported=imported))
    assert f"imported  {imported['path']}; mlbench read its logs, and did not make the run" in text


def test_precisions_are_compared_with_the_first_of_their_kind(a_run):
    """110 of 100 samples/s are 1.1 times as fast; a score of 98 has lost 1 % of 98.99."""

    def run(precision, value, score, **changes):
        return with_value(a_run, value, score, precision=precision, peak_memory_bytes=3 * 2**30, **changes)

    rows = cells_of(precision_table([run("fp32", 100.0, 98.99), run("int8", 110.0, 98.0001)]))
    assert [(row["speed"], row["loss"], row["peak memory"]) for row in rows] == [
        ("x 1.00", "0.00 %", "3.00 GiB"),
        ("x 1.10", "1.00 %", "3.00 GiB"),
    ]


def test_of_latencies_the_shorter_is_the_faster(a_run):
    def run(precision, value):
        found = a_run().result.model_dump() | {"value": value, "unit": "ns", "higher_is_better": False}
        return a_run(precision=precision, result=found)

    assert [row["speed"] for row in cells_of(precision_table([run("fp32", 3e6), run("int8", 2e6)]))] == [
        "x 1.00",
        "x 1.50",
    ]


def with_value(a_run, value, score, **changes):
    found = a_run().accuracy.model_dump()
    found["targets"][0]["value"] = score
    return a_run(result=a_run().result.model_dump() | {"value": value}, accuracy=found, **changes)


def cells_of(shown):
    headings = [str(column.header) for column in shown.columns]
    rows = zip(*(column.cells for column in shown.columns), strict=True)
    return [dict(zip(headings, map(str, row), strict=True)) for row in rows]


def test_a_table_has_a_row_per_run_with_what_was_measured(a_run, a_failure):
    first, second = cells_of(
        table([a_run(overhead_ns_per_sample=20_000, energy=ENERGY, roofline=ROOFLINE), a_failure], 400)
    )
    assert (first["result"], first["performance"], first["overhead"]) == ("685 samples/s", "valid", "20.0 us")
    assert (first["% of peak"], first["per sample"]) == ("50% compute", "1.50 J")
    assert (second["result"], second["performance"]) == ("crash", "failed")


def test_what_runs_have_in_common_is_a_line(a_run):
    line = conditions([a_run(tier="dev"), a_run(profile="full")])
    assert line.endswith("; profile full, mini, tier dev, smoke")


def test_the_speed_of_a_language_model_in_offline_is_told_from_the_tail(stored_run, a_token_run):
    """500 tokens in half a second, and as long again with fewer and fewer sequences."""
    steady = {"new_tokens": 500, "busy_ns": 500_000_000, "whole_ns": 10**9}
    offline = counting(stored_run("mixtral-8x7b-onnxruntime-Offline"), steady)
    assert "1,000 tokens/s while samples waited for a slot" in page(offline)
    assert "took 50% of the time" in page(offline)
    none_waited = {"new_tokens": 0, "busy_ns": 0, "whole_ns": 10**9}
    assert "no sample waited for a slot" in page(counting(offline, none_waited))
    for other in (counting(a_token_run, steady), stored_run("mixtral-8x7b-onnxruntime-Offline")):
        assert "waited for a slot" not in page(other)


def test_of_samples_that_count_as_many_tokens_by_the_rules_the_speed_without_the_tail_is_in_samples(stored_run):
    """GPT-J's result has 69 tokens for each sample; the answers of the stored run, 66, have 3,097 in all."""
    steady = {"new_tokens": 500, "busy_ns": 500_000_000, "whole_ns": 10**9}
    record = counting(stored_run("gptj-pytorch-Offline"), steady)
    assert f"{1000 * 66 / 3097:.1f} samples/s while samples waited for a slot" in page(record)


def counting(record, steady):
    fields = record.model_dump(mode="json")
    return RunRecord.model_validate(fields | {"engine": fields["engine"] | {"steady": steady}})


def test_a_server_that_does_not_answer_is_one_line_without_the_traceback(a_failure):
    message = "http://127.0.0.1:9 does not answer. See that the server runs."
    log = f"Traceback (most recent call last):\n  File x\nmlbench.errors.UnavailableError: {message}\n"
    own = a_failure.model_copy(
        update={"failure": a_failure.failure.model_copy(update={"message": message, "log_tail": log})}
    )
    assert [line.partition(": ")[2] for line in problems(own)] == [f"{own.failure.kind}: {message}"]
    assert "  Traceback (most recent call last):" in "\n".join(
        problems(own.model_copy(update={"failure": own.failure.model_copy(update={"log_tail": log + "ValueError: x"})}))
    )


def test_a_run_of_a_language_model_shows_its_first_and_further_tokens_as_a_table():
    shown = page(read("llama2-70b-endpoint-Server")).splitlines()
    at = shown.index("Latency")
    assert [line.split() for line in shown[at + 1 : at + 5]] == [
        ["p50", "p90", "p99", "p99.9"],
        ["TTFT,", "first", "token", "111", "s", "159", "s", "170", "s", "170", "s"],
        ["TPOT,", "each", "further", "token", "10.8", "ms", "114", "ms", "200", "ms", "245", "ms"],
        ["whole", "answer", "112", "s", "160", "s", "170", "s", "171", "s"],
    ]
    assert "50.00 percentile" not in "".join(shown)


def test_the_command_that_is_to_be_repeated_has_the_settings_of_the_run():
    given = read("llama2-70b-endpoint-Server")
    verdict = given.verdict.model_copy(update={"is_valid": True, "is_accurate": True})
    said = next_step(given.model_copy(update={"verdict": verdict}))
    assert f"--set backend.url={given.settings['backend.url'].value}" in said
