"""``mlbench replay``: a real run of the null backend, once more as its record says."""

import json
import shutil

import pytest
from invoking import invoke, refusal

from mlbench.discovery import Plugins
from mlbench.loadgen.scenarios import OFFLINE
from mlbench.planning.replay import plan_replay
from mlbench.records.scenario_record import ScenarioRecord
from mlbench.reports.replay import plan_lines

SERVICE = ("--set", "backend.service_ms=2")
"""A queue that holds less than 500 samples/s: a rate is soon found, and few queries are sent."""


def record_of(folder):
    return json.loads((folder / "record.json").read_text())


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replays") / "results"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def made(results):
    """Return the folder of a run that was given one setting, and that chose its rate."""
    invoke(
        "run", "resnet50", "--backend", "null", "--scenario", "Server", *SERVICE, "--tag", "set", "--results", results
    )
    (folder,) = results.iterdir()
    return folder


@pytest.fixture(scope="module")
def replayed(results, made):
    """Return the output of a replay, and its folder."""
    done = invoke("replay", made.name[-4:], "--results", results)
    assert done.exit_code == 0, done.output
    (folder,) = set(results.iterdir()) - {made}
    return done, folder


@pytest.fixture
def edited(one_run, tmp_path):
    """Return a function that stores a run elsewhere, with changes to parts of its record."""

    def edit(changes, run=one_run):
        folder = shutil.copytree(run, tmp_path / "elsewhere" / run.name)
        record = record_of(run)
        for path, value in changes.items():
            *names, last = path.split("/")
            place = record
            for name in names:
                place = place[name]
            place[last] = value
        (folder / "record.json").write_text(json.dumps(record))
        return folder

    return edit


@pytest.mark.slow
def test_a_replay_asks_for_the_same_and_says_of_which_run_it_is(made, replayed):
    old, new = record_of(made), record_of(replayed[1])
    same = ("workload", "backend", "scenario", "profile", "tier", "weights", "precision", "settings", "seeds")
    assert {name: new[name] for name in same} == {name: old[name] for name in same}
    assert new["settings"]["backend.service_ms"] == {"value": 2, "layer": "command line"}
    assert new["replay"]["of"] == old["run_id"]
    assert new["tag"] == "replay"  # and not in the set that the run was made in
    assert f"  replay    of {old['run_id']}, with its load.target_qps " in invoke("show", replayed[1]).stdout


@pytest.mark.slow
def test_the_rate_that_the_run_found_is_taken_over_and_not_looked_for_again(made, replayed):
    old, new = record_of(made), record_of(replayed[1])
    assert new["replay"]["chosen"] == {"load.target_qps": old["load"]["target_qps"]}
    assert new["load"]["target_qps"] == old["load"]["target_qps"] > 0
    assert "rate" in old["stages_ns"]
    assert "rate" not in new["stages_ns"]


@pytest.mark.slow
def test_the_text_is_that_of_compare(results, made, replayed):
    done, folder = replayed
    assert done.stdout == invoke("compare", made.name, folder.name, "--results", results).stdout
    assert "resnet50 null Server fp32" in done.stdout


@pytest.mark.slow
def test_where_nothing_differs_that_is_said_before_the_run(made, replayed):
    first, second, third, *rest = replayed[0].stderr.splitlines()
    assert first.startswith(f"Replay of {made.name}: resnet50 null Server, mini, fp32, tier smoke, ")
    assert second.startswith("  Reused: load.target_qps ")
    assert third == "  Same machine, same versions."
    assert rest


@pytest.mark.thorough("command line")
def test_a_run_of_another_processor_is_repeated_and_compared_across_what_was_said_to_differ(edited, made, results):
    folder = edited(
        {
            "environment/cpu/model": "Z80",
            "environment/libraries/numpy": "0.9",
            "environment/libraries/mlcommons-loadgen": "5.1",
            "loadgen_version": "5.1",
            "mlbench_version": "0.0.1",
            "settings/load.target_qps": {"value": 100, "layer": "command line"},
            "settings/load.min_query_count": {"value": 10, "layer": "command line"},
            "settings/load.min_duration_ms": {"value": 100, "layer": "command line"},
            "verdict/not_applied": {"accuracy": "no accuracy test was asked for"},
        },
        made,
    )
    done = invoke("replay", folder, "--results", results, "--json")
    assert done.exit_code == 0, done.output
    for said in (
        "hardware differs: Z80, ",
        "loadgen differs: 5.1, then ",
        "numpy differs: 0.9, then ",
        "mlbench differs",
    ):
        assert done.stderr.index(f"  {said}") < done.stderr.index("resnet50 null Server fp32: ")
    found = json.loads(done.stdout)
    assert found["of"] == folder.name == found["run"]["replay"]["of"]
    assert {"hardware", "loadgen", "numpy", "mlbench"} <= {each["fact"] for each in found["differences"]}
    (cell,) = found["comparison"]["cells"]
    assert {"hardware", "loadgen"} <= {each["fact"] for each in cell["differences"]}


GONE = {"value": 1, "layer": "command line"}
GPU = {
    **{"name": "Pretend X1", "memory_bytes": None, "driver": "1", "power_limit_w": None, "max_clock_mhz": None},
    **{"ecc": None, "mig": None},
}
IMPORTED = {
    **{"path": "closed/Acme", "log_sha256": "", "division": "closed", "submitter": "Acme", "system": "one"},
    **{"variant": "99", "description": {}},
}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"workload": "resnet51"}, "unknown workload 'resnet51'"),
        ({"backend": "gone"}, "unknown backend 'gone'"),
        ({"scenario": "Burst"}, "unknown scenario 'Burst'"),
        ({"precision": "int3"}, "null does not offer precision int3"),
        ({"precision": "int8"}, "null does not offer precision int8"),
        ({"settings/backend.gone": GONE}, "cannot be repeated: unknown setting 'backend.gone'"),
        ({"settings/execution.gone": GONE | {"layer": "default"}}, "cannot be repeated: unknown setting"),
        ({"settings/backend.delay_ms": {"value": -1, "layer": "suite"}}, "backend.delay_ms is -1 (suite)"),
        ({"seeds/qsl": 1}, "has other seeds"),
        ({"scenario_facts/percentile": 0.5}, "was driven by LoadGen's SingleStream, p50"),
        ({"audit": {"test": "TEST01", "of": "another"}}, "is TEST01 of another"),
        ({"imported": IMPORTED}, "was imported"),
        ({"environment/accelerators": [GPU, GPU]}, "made on a machine with 2 x Pretend X1, and this one has "),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_what_cannot_be_repeated_is_refused_in_a_line(edited, results, changes, reason):
    folder, before = edited(changes), sorted(results.iterdir())
    assert reason in refusal(invoke("replay", folder, "--results", results))
    assert sorted(results.iterdir()) == before


def test_of_a_machine_with_accelerators_a_run_of_its_processor_is_repeated(edited, results):
    folder = edited({"environment/accelerators": [GPU], "runtime": {"device": "cpu"}})
    plan = plan_replay(results, str(folder), Plugins.discover())
    assert plan.across == ("hardware", "clocks")
    assert plan.name == str(folder)


def test_what_a_run_left_to_itself_is_taken_over_and_stays_open_in_its_settings(edited, results):
    auto = {"value": "auto", "layer": "default"}
    tuned = {"value": 70.0, "layer": "tune file.toml"}
    changes = {
        **{"settings/execution.batching": {"value": "dynamic", "layer": "default"}, "settings/execution.batch": auto},
        **{"settings/load.target_qps": tuned, "engine": {"batch": 8}},
    }
    plan = plan_replay(results, str(edited(changes)), Plugins.discover())
    assert plan.replay.chosen == {"execution.batch": 8}
    assert "  Reused: execution.batch 8." in plan_lines(plan)
    assert plan.request.settings.plain()["execution.batch"] == "auto"


def test_instances_that_this_machine_has_no_cores_for_are_refused(edited, results):
    offline = {"scenario": "Offline", "scenario_facts": ScenarioRecord.of(OFFLINE).model_dump()}
    auto = {"value": "auto", "layer": "default"}
    changes = {**offline, "settings/execution.instances": auto, "engine": {"instances": 4096}}
    assert "execution.instances is 4096" in refusal(invoke("replay", edited(changes), "--results", results))


def test_a_batch_that_no_run_can_have_chosen_is_refused(edited, results):
    settings = {"settings/execution.batching": {"value": "dynamic", "layer": "default"}}
    auto = {"settings/execution.batch": {"value": "auto", "layer": "default"}}
    line = refusal(invoke("replay", edited({**settings, **auto, "engine": {"batch": -5}}), "--results", results))
    assert "cannot be repeated: execution.batch is -5" in line


@pytest.mark.parametrize(
    ("changes", "wants_accuracy", "power"),
    [
        ({}, True, "auto"),
        ({"accuracy": None, "verdict/not_applied": {"accuracy": "no accuracy test was asked for"}}, False, "auto"),
        ({"not_measured/energy": "not asked for"}, True, "none"),
    ],
    ids=["as it was", "no accuracy test", "no energy"],
)
def test_a_replay_tests_accuracy_and_energy_where_the_run_did(edited, results, changes, wants_accuracy, power):
    plan = plan_replay(results, str(edited(changes)), Plugins.discover())
    assert (plan.request.wants_accuracy, plan.request.power) == (wants_accuracy, power)


def test_a_run_that_failed_is_repeated_too(edited, results):
    failure = {"kind": "crash", "message": "SIGSEGV", "stage": "warm-up", "log_tail": ""}
    empty = {"result": None, "accuracy": None, "verdict": None, "seeds": None, "load": {}}
    plan = plan_replay(results, str(edited({"status": "failed", "failure": failure, **empty})), Plugins.discover())
    assert plan.request.wants_accuracy
    assert not plan.replay.chosen


def test_settings_of_now_do_not_change_a_replay_and_new_ones_have_their_defaults(
    edited, results, monkeypatch, tmp_path
):
    file = tmp_path / "settings.toml"
    file.write_text("[[settings]]\nbackend.tokens = 9\nbackend.delay_ms = 9\n")
    monkeypatch.setenv("MLBENCH_SETTINGS", str(file))
    folder = edited({"settings/backend.tokens": {"value": 7, "layer": "suite"}})
    record = record_of(folder)
    del record["settings"]["backend.delay_ms"]
    (folder / "record.json").write_text(json.dumps(record))
    settings = plan_replay(results, str(folder), Plugins.discover()).request.settings.by_key
    assert (settings["backend.tokens"].value, settings["backend.tokens"].layer) == (7, "suite")
    assert (settings["backend.delay_ms"].value, settings["backend.delay_ms"].layer) == (0, "default")
