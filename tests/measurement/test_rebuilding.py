"""What a run's logs and its id give again, and by how much a record may differ from that."""

import copy
import dataclasses
import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from invoking import invoke
from mlbench_resnet50.workload import ResNet50

from mlbench import Rules, Tokens
from mlbench.errors import DataError
from mlbench.loadgen.logs import read_detail
from mlbench.measurement.rebuilding import names_of, rebuild
from mlbench.measurement.verification import Verification, set_aside, verify
from mlbench.records.run_record import RunRecord


@pytest.fixture
def record(one_run):
    return copy.deepcopy(json.loads((one_run / "record.json").read_text()))


@pytest.fixture
def rebuilt(one_run, record, plugins):
    """Return what the run folder gives again of the record as it is by then."""
    return lambda: rebuild(RunRecord.model_validate(record), one_run, plugins)


@pytest.fixture(scope="module")
def log(one_run):
    """Return what LoadGen logged of the performance test."""
    return read_detail(one_run / "performance" / "mlperf_log_detail.txt").values


@pytest.fixture
def differences(one_run, record, plugins):
    """Return the fields in which the record, changed, differs from the run folder."""

    def differences(change=lambda record: None):
        change(record)
        stored = RunRecord.model_validate(record)
        return [line.partition(":")[0] for line in verify(stored, one_run, plugins).differences]

    return differences


def test_a_run_is_confirmed(differences):
    assert differences() == []


@pytest.mark.parametrize(("factor", "is_same"), [(1 + 1e-12, True), (1 + 1e-7, False), (1.001, False)])
def test_a_value_may_differ_by_what_a_decimal_loses_and_no_more(differences, factor, is_same):
    def change(record):
        record["result"]["value"] = float(record["result"]["value"]) * factor

    assert differences(change) == ([] if is_same else ["result.value"])


@pytest.mark.parametrize(("factor", "is_same"), [(1 + 1e-8, True), (1 + 1e-4, False)])
def test_a_score_may_differ_by_what_another_machine_rounds_otherwise(differences, factor, is_same):
    def change(record):
        record["accuracy"]["scores"]["acc"] *= factor

    assert differences(change) == ([] if is_same else ["accuracy.scores.acc"])


def test_a_number_is_not_the_word_true(differences):
    """One reply in one is as good as the accuracy run's, and so is true."""

    def change(record):
        (rule,) = [each for each in record["verdict"]["rules"] if each["rule"] == "replies_agree"]
        assert rule["measured"] == 1
        rule["measured"] = True

    assert differences(change) == ["verdict.rules.replies_agree.measured"]


@pytest.mark.parametrize("name", ["energy", "work", "roofline"])
def test_what_was_not_measured_says_why(differences, name):
    assert differences(lambda record: record["not_measured"].pop(name)) == ["not_measured"]


def test_a_rule_that_no_log_can_repeat_failed_for_the_whole_verdict(differences):
    """The record says that answers were remembered, and calls the run valid."""

    def change(record):
        rule = {"rule": "no_caching", "measured": 40.0, "limit": 3.0, "unit": "", "passed": False, "fix": "Compute."}
        more = {"source": "TEST04", "kind": "performance", "required": True}
        record["verdict"]["rules"] = [each for each in record["verdict"]["rules"] if each["rule"] != "no_caching"]
        record["verdict"]["rules"].append(rule | more)
        record["verdict"]["not_applied"].pop("no_caching", None)
        record["verdict"]["is_valid"] = True

    assert "verdict.is_valid" in differences(change)


def moment(log, key):
    return datetime.strptime(log[key], "%m-%d-%Y %H:%M:%S.%f").replace(tzinfo=UTC)


def test_a_run_lasted_at_least_until_loadgen_ended(rebuilt, record, log):
    """The overhead test is LoadGen's last."""
    created = datetime.fromisoformat(record["created"])
    lasted_ns = round((moment(log, "power_end") - created).total_seconds() * 1e9)
    record["duration_ns"] = lasted_ns - 10**9
    found = rebuilt().duration_ns
    assert found.startswith("at least ")
    assert int(found.split()[2].rstrip(",")) >= lasted_ns


def test_a_run_began_before_loadgen_did(one_run, rebuilt, record, plugins, log):
    late = moment(log, "power_begin") + timedelta(hours=1)
    record["created"] = late.isoformat()
    names = names_of(one_run.name, plugins)
    assert rebuilt().created.startswith(
        datetime.strptime(names["created"], "%Y%m%dT%H%M%SZ").strftime("%Y-%m-%dT%H:%M:%S")
    )


ENERGY = {"joules": 600.0, "seconds": 2.0, "source": "a meter", "covers": "all"}


def test_a_run_that_began_while_loadgen_was_at_work_is_not_confirmed(one_run, record, plugins, tmp_path):
    """Halfway between the begin of LoadGen's first test and the end of its last, in the folder's name too."""
    logs = [read_detail(file).values for file in one_run.glob("*/mlperf_log_detail.txt")]
    begun, ended = min(moment(log, "power_begin") for log in logs), max(moment(log, "power_end") for log in logs)
    halfway = begun + (ended - begun) / 2
    name = f"{halfway:%Y%m%dT%H%M%SZ}{one_run.name[16:]}"
    folder = shutil.copytree(one_run, tmp_path / name)
    record |= {"run_id": name, "created": halfway.isoformat()}
    differences = verify(RunRecord.model_validate(record), folder, plugins).differences
    assert [line.partition(":")[0] for line in differences] == ["created"]
    assert "when LoadGen began" in differences[0]


@pytest.fixture(scope="module")
def offline_run(tmp_path_factory):
    """A short run of the null backend in Offline, not scored."""
    results = tmp_path_factory.mktemp("offline")
    short = ["--no-accuracy", "--set", "load.min_duration_ms=1", "--results", str(results)]
    invoke("run", "resnet50", "--backend", "null", "--scenario", "Offline", *short)
    (folder,) = results.iterdir()
    return folder


def test_joules_per_token_are_the_joules_over_the_tokens_that_loadgen_counted(offline_run, plugins, tmp_path):
    """A log of answers of eight tokens each: 600 J over eight times as many tokens as samples."""
    folder = shutil.copytree(offline_run, tmp_path / offline_run.name)
    file = folder / "performance" / "mlperf_log_detail.txt"
    (rate,) = [line for line in file.read_text().splitlines() if '"result_samples_per_second"' in line]
    prefix, _, entry = rate.partition(" ")
    tokens = json.loads(entry)
    tokens |= {"key": "result_tokens_per_second", "value": 8 * tokens["value"]}
    file.write_text(f"{file.read_text()}{prefix} {json.dumps(tokens)}\n")
    record = RunRecord.model_validate(json.loads((folder / "record.json").read_text()) | {"energy": ENERGY})
    workload = ResNet50()
    workload.rules = Rules(scenarios=("Offline",), targets=(), tokens=Tokens.MEASURED)
    of_tokens = dataclasses.replace(plugins, workloads={**plugins.workloads, "resnet50": workload})
    issued, found = record.samples["issued"], rebuild(record, folder, of_tokens).energy
    assert found.joules_per_sample == pytest.approx(600 / issued)
    assert found.joules_per_token == pytest.approx(600 / (8 * issued))
    assert rebuild(record, folder, plugins).energy.joules_per_token is None


def test_joules_per_sample_are_the_joules_over_the_samples_that_loadgen_issued(rebuilt, record, log):
    record["energy"] = ENERGY
    found = rebuilt().energy
    issued = log["result_query_count"] * log["generated_samples_per_query"]
    assert (found.joules_per_sample, found.joules_per_token) == (pytest.approx(600 / issued), None)


def work_of(*graphs):
    """Return work of graphs of which only the operations and bytes are right."""
    rows = [{"graph": "a", "calls": 1, "shapes": 1, "operations": each[0], "bytes": each[1]} for each in graphs]
    rest = {"operations_per_sample": 0, "bytes_per_sample": 0, "samples_per_s": 1, "useful_share": 1}
    return {"graphs": rows} | rest


def test_work_per_sample_is_that_of_all_graphs_over_the_samples(rebuilt, record, log):
    record["work"] = work_of((3000, 500), (1000, 500))
    found = rebuilt().work
    issued = log["result_query_count"] * log["generated_samples_per_query"]
    assert found.operations_per_sample == pytest.approx(4000 / issued)
    assert found.bytes_per_sample == pytest.approx(1000 / issued)
    assert found.samples_per_s == pytest.approx(1e9 / log["result_mean_latency_ns"])


ROOFLINE = {"device": "", "precision": "", "operations_per_s": 0, "bytes_per_s": 0, "bound": "memory", "share": 0}


@pytest.mark.parametrize(
    ("ceilings", "nearer"),
    [((8.0, 4.0), ("compute", 1 / 2)), ((80.0, 4.0), ("memory", 1 / 4)), ((8.0, 1.25), ("memory", 4 / 5))],
)
def test_the_ceiling_that_binds_is_the_nearer_one(rebuilt, record, log, ceilings, nearer):
    """As many operations and bytes as make four million operations and one million bytes a second."""
    issued = log["result_query_count"] * log["generated_samples_per_query"]
    per_sample = 1e6 * log["result_mean_latency_ns"] / 1e9
    record["work"] = work_of((round(4 * issued * per_sample), round(issued * per_sample)))
    names = ("operations_ceiling_per_s", "bytes_ceiling_per_s")
    highest = {name: 1e6 * ceiling for name, ceiling in zip(names, ceilings, strict=True)}
    record["roofline"] = ROOFLINE | highest | {"measured": "2026-11-21T00:00:00Z"}
    found = rebuilt().roofline
    assert (found.bound, pytest.approx(found.share, rel=1e-4)) == nearer


def test_a_hint_is_confirmed_by_six_digits_as_loadgen_prints_it(rebuilt, record, log):
    logged = log["requested_single_stream_expected_latency_ns"]
    said = record["load"]["expected_latency_ns"]
    assert f"{said:.6g}" == f"{logged:.6g}"
    assert rebuilt().load["expected_latency_ns"] == said
    record["load"]["expected_latency_ns"] = said * 1.0001
    assert rebuilt().load["expected_latency_ns"] == logged


def test_a_setting_that_loadgen_does_not_log_is_what_it_was_set_to(rebuilt, record):
    found = rebuilt().load
    assert found["server_load"] == record["settings"]["load.server_load"]["value"]


def test_a_setting_of_the_wrong_kind_is_one_line(rebuilt, record):
    record["settings"]["load.min_duration_ms"]["value"] = "long"
    with pytest.raises(DataError, match=r"a setting is of the wrong kind: .*long"):
        rebuilt()


@pytest.mark.parametrize(
    "run_id",
    [
        "yesterday",
        "20261121T004501Z-resnet50-pytorch-Offline-mini-fp32-smoke-3f2",
        "20261121T004501Z-resnet51-pytorch-Offline-mini-fp32-smoke-3f2a",
        "20261121T004501Z-resnet50-pytorch-Online-mini-fp32-smoke-3f2a",
        "20261121T004501Z-resnet50-pytorch-Offline-mini-fp32-long-3f2a",
    ],
)
def test_a_name_that_no_run_was_given_says_nothing(plugins, run_id):
    assert names_of(run_id, plugins) == {}


def test_the_id_of_a_run_says_what_ran_though_a_backend_has_dashes(plugins):
    found = names_of("20261121T004501Z-llama2-70b-my-own-gpu-Server-full-int4-awq-valid-00ff", plugins)
    assert found == {
        "created": "20261121T004501Z",
        "workload": "llama2-70b",
        "backend": "my-own-gpu",
        "scenario": "Server",
        "profile": "full",
        "precision": "int4-awq",
        "tier": "valid",
    }


def test_scores_that_were_computed_with_other_data_are_not_comparable():
    """No run of a language model: of its scores one depends on data that is another one here."""
    lines = ["accuracy.scores.GEN_LEN: 1, 2", "accuracy.scores.ROUGE1: 3, 4", "accuracy.computed_with.GEN_LEN: A, B"]
    outcome = Verification(differences=lines)
    set_aside(outcome, {"GEN_LEN": "punkt A"}, {"GEN_LEN": "punkt B"})
    assert outcome.differences == [lines[1]]
    assert outcome.not_checked == {
        "accuracy.scores.GEN_LEN": "not comparable: computed with punkt A, and here is punkt B"
    }
