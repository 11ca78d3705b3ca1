"""What `mlbench verify` notices: every value of a record that its folder gives otherwise, and what it cannot know."""

import copy
import json
import os
import shutil
from datetime import datetime, timedelta

import pytest
from invoking import invoke, refusal

from mlbench.measurement.rebuilding import names_of, rebuild
from mlbench.measurement.verification import NOT_CHECKED, PARTLY_CHECKED, verify
from mlbench.records.run_record import RunRecord, read
from mlbench.records.store.run_folder import new_run_id
from mlbench.records.stored import Stored

JOULES, OPERATIONS, BYTES = 3.0, 7, 5
"""Of a sample of the run below."""


@pytest.fixture(scope="module")
def measured(one_run):
    """The record of a null run with what a meter, a counting engine and known ceilings would have added to it."""
    record = json.loads((one_run / "record.json").read_text())
    samples, mean_ns = record["samples"]["issued"], record["result"]["latency_ns"]["mean_latency"]
    rate_per_s = 1e9 / mean_ns
    record["energy"] = {
        "joules": JOULES * samples,
        "seconds": 2.0,
        "source": "a meter",
        "covers": "the package",
        "joules_per_sample": JOULES,
    }
    record["transfers"] = {
        "graphs": [
            {"graph": "classifier", "calls": samples, "input_bytes": 60 * samples, "output_bytes": 40 * samples}
        ],
        "calls_per_sample": 1.0,
        "bytes_per_sample": 100.0,
    }
    graph = {"graph": "classifier", "calls": samples, "shapes": 1}
    record["work"] = {
        "graphs": [graph | {"operations": OPERATIONS * samples, "bytes": BYTES * samples}],
        "operations_per_sample": OPERATIONS,
        "bytes_per_sample": BYTES,
        "samples_per_s": rate_per_s,
        "useful_share": 1.0,
    }
    record["runtime"] = {"device": "cpu"}
    record["roofline"] = {
        "device": "cpu",
        "precision": "fp32",
        "operations_per_s": OPERATIONS * rate_per_s,
        "bytes_per_s": BYTES * rate_per_s,
        "operations_ceiling_per_s": 10 * OPERATIONS * rate_per_s,
        "bytes_ceiling_per_s": 4 * BYTES * rate_per_s,
        "bound": "memory",
        "share": 0.25,
        "measured": "2026-11-21T00:00:00Z",
    }
    record["not_measured"] = {}
    return RunRecord.model_validate(record).model_dump(mode="json")


@pytest.fixture
def record(measured):
    return copy.deepcopy(measured)


@pytest.fixture
def check(one_run, plugins):
    """Return a function that checks a record, given as JSON values, against its folder."""

    def check(record, folder=one_run):
        return verify(RunRecord.model_validate(record), folder, plugins)

    return check


def test_logs_are_not_read_from_outside_of_the_run_folder(one_run, tmp_path):
    folder, secret = shutil.copytree(one_run, tmp_path / one_run.name), tmp_path / "log"
    log = folder / "performance/mlperf_log_detail.txt"
    log.rename(secret)
    log.symlink_to(secret)
    assert f"{log.name}: it leads out of its folder, to {secret}" in refusal(invoke("verify", folder))


def rule(verdict, name):
    return next(each for each in verdict["rules"] if each["rule"] == name)


def test_an_honest_record_is_given_again(check, record):
    outcome = check(record)
    assert outcome.differences == []
    assert outcome.confirmed > 150


def test_a_whole_number_is_the_same_with_and_without_a_decimal_point(check, record):
    record["settings"]["load.target_qps"] = {"value": 50.0, "layer": "suite"}
    record["load"]["target_qps"] = 50
    assert check(record).differences == []
    record["load"]["target_qps"] = 51
    assert check(record).differences == ["load.target_qps: the record says 51, the run folder 50.0"]


@pytest.mark.parametrize(
    ("count", "rule"), [("truncated_prompts", "prompts_whole"), ("late_clients", "client_in_time")]
)
def test_what_the_engine_counts_in_a_record_is_checked_against_its_verdict(check, record, count, rule):
    record["engine"][count] = 3
    (difference,) = [each for each in check(record).differences if rule in each]
    assert difference.startswith(f"verdict.rules.{rule}: the record says nothing, the run folder {{")


def change(*path, to):
    """Return a function that changes one value of a record, and the name under which that should be told."""

    def falsify(record):
        *inner, last = path
        for name in inner:
            record = rule(record, name) if isinstance(record, dict) and "rules" in record else record[name]
        record[last] = to(record[last]) if callable(to) else to

    return falsify


def without(name):
    return lambda record: record["verdict"]["rules"].remove(rule(record["verdict"], name))


def later(moment):
    return (datetime.fromisoformat(moment) + timedelta(days=1)).isoformat()


def half(value):
    return value / 2


def half_of_it(value):
    return value // 2


FALSIFIED = {
    "the result": (change("result", "value", to=half), "result.value"),
    "its unit": (change("result", "unit", to="us"), "result.unit"),
    "its direction": (change("result", "higher_is_better", to=True), "result.higher_is_better"),
    "a latency": (
        change("result", "latency_ns", "99.00_percentile_latency", to=half_of_it),
        "result.latency_ns.99.00_percentile_latency",
    ),
    "a latency more": (change("result", "latency_ns", to=lambda found: found | {"best": 1}), "result.latency_ns.best"),
    "a latency less": (
        change("result", "latency_ns", to=lambda found: {"max_latency": found["max_latency"]}),
        "result.latency_ns.99.00_percentile_latency",
    ),
    "a count": (change("result", "counts", "queries", to=half_of_it), "result.counts.queries"),
    "a score": (change("accuracy", "scores", "acc", to=99.0), "accuracy.scores.acc"),
    "the line of the official script": (change("accuracy", "line", to="accuracy=99%"), "accuracy.line"),
    "whether the targets are met": (change("accuracy", "is_met", to=True), "accuracy.is_met"),
    "no accuracy at all": (lambda record: record.update(accuracy=None), "accuracy"),
    "a rule's verdict": (
        change("verdict", "accuracy.acc@99", "passed", to=True),
        "verdict.rules.accuracy.acc@99.passed",
    ),
    "what a rule measured": (
        change("verdict", "min_duration", "measured", to=600_000),
        "verdict.rules.min_duration.measured",
    ),
    "a limit": (change("verdict", "min_duration", "limit", to=1), "verdict.rules.min_duration.limit"),
    "a rule less": (without("accuracy.acc@99"), "verdict.rules.accuracy.acc@99"),
    "valid": (change("verdict", "is_valid", to=False), "verdict.is_valid"),
    "accurate": (change("verdict", "is_accurate", to=True), "verdict.is_accurate"),
    "conformant": (change("verdict", "is_conformant", to=True), "verdict.is_conformant"),
    "the workload": (change("workload", to="bert"), "workload"),
    "the backend": (change("backend", to="tensorrt"), "backend"),
    "the scenario": (change("scenario", to="Offline"), "scenario"),
    "the profile": (change("profile", to="full"), "profile"),
    "the tier": (change("tier", to="valid"), "tier"),
    "the precision": (change("precision", to="int8"), "precision"),
    "the weights": (change("weights", to="random"), "weights"),
    "the id": (change("run_id", to=lambda name: name.replace("smoke", "valid")), "run_id"),
    "the day": (change("created", to=later), "created"),
    "the duration": (change("duration_ns", to=1_000_000), "duration_ns"),
    "the overhead": (change("overhead_ns_per_sample", to=1), "overhead_ns_per_sample"),
    "a seed": (change("seeds", "qsl", to=1), "seeds.qsl"),
    "the samples": (change("samples", "issued", to=1), "samples.issued"),
    "the load": (change("load", "min_query_count", to=1), "load.min_query_count"),
    "the limits": (change("limits", "min_duration_ms", to=1), "limits.min_duration_ms"),
    "the weights' hash": (change("fingerprints", "weights", to="0"), "fingerprints.weights"),
    "the data's hash": (change("fingerprints", "data", to="0"), "fingerprints.data"),
    "joules per sample": (change("energy", "joules_per_sample", to=half), "energy.joules_per_sample"),
    "joules per token": (change("energy", "joules_per_token", to=0.1), "energy.joules_per_token"),
    "work per sample": (change("work", "operations_per_sample", to=half), "work.operations_per_sample"),
    "the share of the ceiling": (change("roofline", "share", to=0.9), "roofline.share"),
    "which ceiling": (change("roofline", "bound", to="compute"), "roofline.bound"),
    "LoadGen's version": (change("loadgen_version", to="5.0"), "loadgen_version"),
}


@pytest.mark.parametrize("what", FALSIFIED)
def test_a_falsified_value_is_named(check, record, what):
    falsify, name = FALSIFIED[what]
    falsify(record)
    told = [difference.split(": ")[0] for difference in check(record).differences]
    assert name in told


def leaves(value, path=""):
    """Yield (path, owner, key) of every value in a record that can be checked, rules under their names."""
    if isinstance(value, dict):
        for key, inner in value.items():
            name = f"{path}.{key}" if path else key
            if not is_not_checked(name):
                yield from leaves(inner, name) if isinstance(inner, dict | list) else [(name, value, key)]
    else:
        for inner in value:
            name = inner.get("rule") or "@".join(filter(None, (inner.get("score"), inner.get("name"))))
            yield from leaves(inner, f"{path}.{name}")


def is_not_checked(path):
    return any(path == name or path.startswith(f"{name}.") for name in NOT_CHECKED)


OTHERWISE = {
    "profile": "full",
    "tier": "valid",
    "round": "v6.0",
    "scenario_facts.arrivals": "at a rate",
    "scenario_facts.compared_by": "latency",
    "roofline.bound": "compute",
}
"""Fields that can only say one of a few words."""


def falsified(path, value):
    match value:
        case "performance" | "accuracy" if path.endswith(".kind"):
            return "accuracy" if value == "performance" else "performance"
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.01 + 1
        case str():
            return OTHERWISE.get(path, f"{value}x")
    return 1


BY_WHICH_THE_REST_IS_FOUND = ("created", "weights", "rule", "score", "name", "duration_ns")
NOT_OTHERWISE_IN_A_COMPLETED_RUN = ("status", "failure", "imported", "result", "verdict")
IN_SMOKE_ALONE = ("accuracy.tested_in",)
"""The tier is false too here, and no record of another tier has it; a test of its own alters it."""

UNALTERED = (*NOT_OTHERWISE_IN_A_COMPLETED_RUN, *IN_SMOKE_ALONE)


def test_every_value_of_a_record_is_checked_or_stands_in_the_list_of_what_cannot_be(check, record):
    """All values are false at once: each is named, or belongs to what is said to be out of reach."""
    expected = set()
    for path, owner, key in list(leaves(record)):
        if key not in BY_WHICH_THE_REST_IS_FOUND and path not in UNALTERED:
            owner[key] = falsified(path, owner[key])
            expected.add(path)
    outcome = check(record)
    assert {difference.split(": ")[0] for difference in outcome.differences} == expected
    assert {"result.value", "energy.joules_per_sample", "verdict.rules.seeds.passed"} < expected


def paths_of(model, above=""):
    for name, field in model.model_fields.items():
        inner = [each for each in getattr(field.annotation, "__args__", (field.annotation,)) if isinstance(each, type)]
        nested = [each for each in inner if issubclass(each, Stored)]
        yield f"{above}{name}"
        for each in nested:
            yield from paths_of(each, f"{above}{name}.")


PARTS_BY_NAME = ("load.", "verdict.rules.", "verdict.not_applied.")


def test_what_cannot_be_checked_are_fields_of_the_record():
    known = set(paths_of(RunRecord))
    named = {name for name in (*NOT_CHECKED, *PARTLY_CHECKED) if not name.startswith(PARTS_BY_NAME)}
    assert named <= known


def test_each_field_of_the_records_model_is_rebuilt_or_stands_in_the_list(one_run, record, plugins):
    rebuilt = rebuild(RunRecord.model_validate(record), one_run, plugins).model_dump(exclude_unset=True, warnings=False)
    for path in paths_of(RunRecord):
        found = rebuilt
        for name in () if is_not_checked(path) else path.split("."):
            found = found[0] if isinstance(found, list) else found
            if found is None:  # a failure, an import: this run has none
                break
            assert name in found, f"{path} is neither rebuilt nor listed in NOT_CHECKED"
            found = found[name]


def test_a_forged_id_does_not_agree_with_loadgens_clock(one_run, tmp_path, record, check):
    """The folder, the id and the day in one: LoadGen's logs are of another day."""
    forged = one_run.name.replace(one_run.name[:8], "20300101")
    folder = shutil.copytree(one_run, tmp_path / forged)
    record |= {"run_id": forged, "created": "2030-01-01" + record["created"][10:]}
    (difference,) = check(record, folder).differences
    assert difference.startswith("created: the record says 2030-01-01")
    assert "when LoadGen began" in difference


def test_a_folder_under_another_name_is_reported(one_run, tmp_path, record, check):
    folder = shutil.copytree(one_run, tmp_path / "best")
    assert check(record, folder).differences == [f"run_id: the record says {record['run_id']}, the run folder best"]


def test_replies_that_differ_from_the_accuracy_runs_are_noticed(one_run, tmp_path, record, check):
    """Each reply of the null backend is zeros; one in two of those kept while measuring is changed in the log."""
    folder = shutil.copytree(one_run, tmp_path / one_run.name)
    log = folder / "performance" / "mlperf_log_accuracy.json"
    replies = json.loads(log.read_text())
    for reply in replies[::2]:
        reply["data"] = "01" + reply["data"][2:]
    log.write_text("[\n" + ",\n".join(map(json.dumps, replies)) + "\n]\n")
    told = {line.split(": ")[0]: line for line in check(record, folder).differences}
    share = (len(replies) - len(replies[::2])) / len(replies)
    assert told["verdict.rules.replies_agree.measured"].endswith(f"says 1.0, the run folder {share}")
    assert {"verdict.rules.replies_agree.passed", "verdict.is_valid"} < told.keys()


@pytest.mark.parametrize("log", ["mlperf_log_detail.txt", "mlperf_log_summary.txt", "mlperf_log_accuracy.json"])
def test_a_log_that_was_edited_where_no_value_shows_it_is_named(one_run, tmp_path, record, check, log):
    folder = shutil.copytree(one_run, tmp_path / one_run.name)
    with (folder / "performance" / log).open("a") as file:
        file.write("\n")
    (difference,) = check(record, folder).differences
    assert difference.startswith(f"logs.performance/{log}: the record says {record['logs'][f'performance/{log}']}, ")


def test_a_record_of_an_older_version_has_no_digests_and_is_checked_without(one_run, record, check):
    record["format"] = 3
    del record["logs"]
    assert check(record, one_run).differences == []


@pytest.mark.parametrize("format_", [3, 4])
def test_a_record_whose_version_keeps_digests_cannot_lose_them(one_run, record, check, format_):
    record |= {"logs": {}, "format": format_}
    assert [line.partition(":")[0] for line in check(record, one_run).differences] == ["logs"]


def test_a_log_that_contradicts_itself_is_named_without_digests(one_run, tmp_path, record, check):
    folder = shutil.copytree(one_run, tmp_path / one_run.name)
    summary = folder / "performance" / "mlperf_log_summary.txt"
    summary.write_text(summary.read_text().replace("Result is : VALID", "Result is : INVALID"))
    record["format"] = 3
    del record["logs"]
    assert check(record, folder).differences == [
        'the logs of the performance test: "Result is: INVALID" in the summary, and VALID in the detail log'
    ]


def test_a_log_that_became_a_pipe_is_refused_in_one_line(one_run, tmp_path, record):
    folder = shutil.copytree(one_run, tmp_path / one_run.name)
    summary = folder / "performance" / "mlperf_log_summary.txt"
    summary.unlink()
    os.mkfifo(summary)
    assert "mlperf_log_summary.txt: no regular file" in refusal(invoke("verify", folder))


def test_verifying_writes_nothing_into_the_folder(one_run, record, check):
    before = {file: file.stat().st_mtime_ns for file in one_run.rglob("*")}
    check(record)
    assert {file: file.stat().st_mtime_ns for file in one_run.rglob("*")} == before


def test_what_cannot_be_checked_is_printed_with_the_reason(one_run):
    done = invoke("verify", one_run)
    assert done.exit_code == 0
    assert f"{one_run.name}: logs and id confirm" in done.stdout
    assert "not checked: environment: the machine at the time of the run" in done.stdout
    assert "checked in part: duration_ns: only until the end of LoadGen's last test" in done.stdout


def test_a_setting_of_the_wrong_kind_is_refused_in_one_line(one_run, tmp_path):
    folder = shutil.copytree(one_run, tmp_path / one_run.name)
    record = read(folder).model_dump(mode="json")
    record["settings"]["load.min_duration_ms"]["value"] = "long"
    (folder / "record.json").write_text(json.dumps(record))
    done = invoke("verify", folder)
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: run record is corrupt") and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("folder_of_log", "key", "told"),
    [
        ("performance", "power_begin", "has no power_begin"),
        ("performance", "result_query_count", "has no result_query_count"),
        ("performance", "effective_scenario", "is of None, and the run of SingleStream"),
        ("overhead", "result_50.00_percentile_latency_ns", "has no result_50.00_percentile_latency_ns"),
    ],
)
def test_a_log_without_what_is_looked_for_is_refused_in_one_line(one_run, tmp_path, folder_of_log, key, told):
    folder = shutil.copytree(one_run, tmp_path / one_run.name)
    log = folder / folder_of_log / "mlperf_log_detail.txt"
    log.write_text("".join(line for line in log.read_text().splitlines(True) if f'"{key}"' not in line))
    assert told in refusal(invoke("verify", folder))


@pytest.mark.parametrize("workload", ["3d-unet", "llama2-70b"])
@pytest.mark.parametrize("backend", ["null", "my-own", "onnx runtime"])
@pytest.mark.parametrize("precision", ["fp32", "int4-awq"])
def test_names_with_dashes_are_found_in_an_id(plugins, workload, backend, precision):
    created = datetime.fromisoformat("2026-11-21T00:45:01+00:00")
    run_id = new_run_id(created, workload, backend, "Server", "mini", precision, "smoke")
    found = names_of(run_id, plugins)
    assert (found["workload"], found["backend"], found["scenario"], found["profile"], found["tier"]) == (
        workload,
        backend.replace(" ", "_"),
        "Server",
        "mini",
        "smoke",
    )
    assert (found["precision"], found["created"]) == (precision, "20261121T004501Z")
