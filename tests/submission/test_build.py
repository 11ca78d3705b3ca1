"""``mlbench submit build``: a tree from stored runs.

No machine of a developer makes runs of the official setup. These are stored records of real runs of ResNet-50, altered
to such ones, with the made logs of `whole_tree`. Such logs are not what the records say, nor those of compliance tests:
whether both are is left out but for one real run, and for one verdict.
"""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from invoking import invoke
from stored_runs import DETAIL, REPLIES, official, store
from tree_building import build, change, files_of, refused, run_of
from whole_tree import DATACENTER, EDGE, IMAGES, SYSTEM, WholeTree, base, write

from mlbench.records.run_record import RunRecord
from mlbench.submission.auditing import audit
from mlbench.submission.auditing.verdicts import AuditVerdict
from mlbench.submission.checking.whole_tree import check_tree

LINE = "accuracy=76.456%, good=38228, total=50000"
ENTRY = "results/anvil/resnet50/Offline"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return a folder with the runs of an edge system, their tests, and its description."""
    folder = tmp_path_factory.mktemp("stored")
    runs = [official(scenario) for scenario in EDGE["resnet50"]]
    for run in runs:
        store(folder / "results", run)
    described = {"system_name": "anvil", "submitter": "", "system_type": "", "division": ""}
    described["host_processor_model_name"] = runs[0].environment.cpu.model
    write(folder / "system.json", json.dumps(SYSTEM | described))
    return folder


@pytest.fixture
def place(stored, tmp_path, unverified):
    """Return a copy that may be changed."""
    return Path(shutil.copytree(stored, tmp_path / "place"))


def test_a_tree_of_stored_runs_is_accepted_and_each_entry_is_a_line(place):
    done = build(place)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == [
        f"closed/Acme/results/anvil/resnet50/{scenario}" for scenario in ("SingleStream", "MultiStream", "Offline")
    ]
    assert "1,000 samples/s, run 20261201T000000Z-resnet50-pytorch-Offline" in lines[2]
    checked = invoke("submit", "check", place / "tree")
    assert (checked.exit_code, "3 of 3 results accepted" in checked.output) == (0, True)


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """Return a folder with a run of each workload in each scenario of both categories, and the system's description."""
    folder = tmp_path_factory.mktemp("complete")
    required = {(base(model), each) for models in (DATACENTER, EDGE) for model in models for each in models[model]}
    runs = [official(scenario, workload) for workload, scenario in sorted(required)]
    for run in runs:
        store(folder / "results", run)
    described = {"system_name": "anvil", "host_processor_model_name": runs[0].environment.cpu.model}
    write(folder / "system.json", json.dumps(SYSTEM | described | {"submitter": "Acme"}))
    return folder


@pytest.mark.thorough("submission")
@pytest.mark.parametrize(
    ("category", "models", "count"),
    [("datacenter", DATACENTER, 26), ("edge", EDGE, 18)],
)
@pytest.mark.usefixtures("unverified")
def test_all_44_entries_are_built_those_of_both_accuracies_of_one_run(complete, tmp_path, category, models, count):
    done = build(complete, "--category", category, "-o", tmp_path / "tree")
    assert done.exit_code == 0, done.output
    results = tmp_path / "tree/closed/Acme/results/anvil"
    built = {model.name: {each.name for each in model.iterdir()} for model in results.iterdir()}
    assert built == {model: set(scenarios) for model, scenarios in models.items()}
    checked = check_tree(tmp_path / "tree")
    assert (checked.accepted, checked.accepted_officially) == (count, count)
    described = WholeTree(tmp_path / "described").add("anvil", category, models)
    described.submitter.rename(described.submitter.with_name("Acme"))
    assert files_of(tmp_path / "tree", "anvil") == files_of(described.root, "anvil")
    images = results / "stable-diffusion-xl/Offline/accuracy/images"
    assert {each.name for each in images.iterdir()} == {*(f"{each}.png" for each in IMAGES), "captions.txt"}


@pytest.mark.usefixtures("unverified")
def test_a_variant_that_is_asked_for_is_entered_alone(complete, tmp_path):
    runs = [each.name for each in (complete / "results").glob("*-bert-*")]
    runs = [name for name in runs if "SingleStream" not in name]
    words = ("--category", "datacenter", "--variant", "99.9", "-o", tmp_path / "tree")
    done = build(complete, *runs, *words)
    assert done.exit_code == 0, done.output
    assert [each.name for each in (tmp_path / "tree/closed/Acme/results/anvil").iterdir()] == ["bert-99.9"]


def test_a_variant_that_is_asked_for_and_not_met_is_refused_and_the_other_one_is_built(complete, place):
    runs = [each.name for each in (complete / "results").glob("*-bert-*") if "SingleStream" not in each.name]
    for name in runs:
        shutil.copytree(complete / "results" / name, place / "results" / name)
        shutil.copytree(complete / "results/.audits" / name, place / "results/.audits" / name)
        file = place / "results" / name / "record.json"
        accuracy = json.loads(file.read_text())["accuracy"]
        accuracy["targets"] = [each | {"is_met": each["name"] == "99"} for each in accuracy["targets"]]
        change(file, accuracy=accuracy)
    datacenter = ("--category", "datacenter")
    for asked in (("99.9",), ("99", "99.9")):
        words = [word for variant in asked for word in ("--variant", variant)]
        assert refused(place, build(place, *runs, *datacenter, *words), "misses 99.9 in F1")
    assert build(place, *runs, *datacenter).exit_code == 0
    assert [each.name for each in (place / "tree/closed/Acme/results/anvil").iterdir()] == ["bert-99"]


def test_logs_are_the_runs_and_replies_are_shortened_with_the_hash_of_the_whole(place):
    build(place)
    entry, run = place / "tree/closed/Acme" / ENTRY, run_of(place)
    for made, kept in (("performance/run_1", "performance"), ("accuracy", "accuracy")):
        assert (entry / made / DETAIL).read_bytes() == (run / kept / DETAIL).read_bytes()
    log = (entry / "accuracy/mlperf_log_accuracy.json").read_text()
    assert len(log) < 10_240
    assert "\n\n...\n\n" in log
    digest = hashlib.sha256(REPLIES.encode()).hexdigest()
    assert (entry / "accuracy/accuracy.txt").read_text() == f"{LINE}\nhash={digest}\n"


@pytest.mark.parametrize(
    "name", ["performance/mlperf_log_summary.txt", "accuracy/mlperf_log_accuracy.json", "TEST01/verify_accuracy.txt"]
)
def test_a_tree_takes_no_file_from_outside_of_its_runs(place, tmp_path, name):
    run, secret = run_of(place), write(tmp_path / "id_rsa", "secret-canary")
    test = name.startswith("TEST01")
    (file,) = place.rglob(f".audits/{run.name}/*/{name}") if test else [run / name]
    file.unlink()
    file.symlink_to(secret)
    done = build(place)
    assert refused(place, done, f"{file.name} cannot be copied: it leads out of its folder, to {secret}")


def test_the_configuration_says_how_loadgen_was_driven(place):
    build(place)
    folder = place / "tree/closed/Acme/measurements/anvil/resnet50"
    official_conf = (folder / "Offline/mlperf.conf").read_text()
    assert "resnet50.*.qsl_rng_seed = 3066443479025735752\n" in official_conf
    assert "resnet50.*.sample_concatenate_permutation = 0\n" in official_conf
    load = json.loads((run_of(place, "MultiStream") / "record.json").read_text())["load"]
    own = (folder / "MultiStream/user.conf").read_text()
    assert f"resnet50.MultiStream.min_query_count = {load['min_query_count']}\n" in own
    assert "resnet50.MultiStream.samples_per_query = 8\n" in own
    assert f"resnet50.MultiStream.target_latency = {load['expected_latency_ns'] / 1e6:.9g}\n" in own


def test_the_code_of_mlbench_the_workload_and_the_backend_is_in_the_tree(place):
    build(place)
    code = place / "tree/closed/Acme/code"
    assert (code / "resnet50").read_text() == "mlbench\n"
    assert {each.name for each in (code / "mlbench").iterdir() if each.is_dir()} == {
        *("mlbench", "mlbench_resnet50", "mlbench_pytorch")
    }


def test_the_newest_run_that_serves_makes_the_entry_and_a_named_one_is_taken(place):
    first = official("Offline")
    store(place / "results", first.model_copy(update={"run_id": "newer", "created": first.created + timedelta(days=1)}))
    assert "run newer" in build(place).output
    shutil.rmtree(place / "tree")
    others = [run_of(place, scenario).name for scenario in ("SingleStream", "MultiStream")]
    assert f"run {first.run_id}" in build(place, first.run_id, *others).output


def test_the_open_division_needs_neither_all_scenarios_nor_tests(place):
    shutil.rmtree(place / "results/.audits")
    done = build(place, run_of(place).name, "--division", "open")
    assert done.exit_code == 0, done.output
    assert check_tree(place / "tree").accepted == 1


def test_a_named_run_that_does_not_serve_is_refused_beside_others_that_do(place):
    change(run_of(place) / "record.json", tier="dev")
    names = [run_of(place, scenario).name for scenario in ("SingleStream", "Offline")]
    assert refused(place, build(place, *names, "--division", "open"), "resnet50 Offline would not pass")
    assert build(place, "--division", "open").exit_code == 0


@pytest.mark.thorough("submission")
def test_of_several_machines_the_newest_run_makes_an_entry(place):
    first = official("Offline")
    elsewhere = first.environment.model_copy(update={"machine": "another"})
    moments = {"older": first.created - timedelta(days=1), "newer": first.created + timedelta(days=1)}
    for name, created in moments.items():
        store(
            place / "results", first.model_copy(update={"run_id": name, "created": created, "environment": elsewhere})
        )
    assert "run newer" in build(place, "newer", first.run_id, "--division", "open").output
    shutil.rmtree(place / "tree")
    assert f"run {first.run_id}" in build(place, "older", first.run_id, "--division", "open").output


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tier": "smoke"}, "tier smoke"),
        ({"profile": "mini"}, "profile mini"),
        ({"accuracy": None}, "no accuracy test"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_run_that_does_not_serve_is_refused_with_the_reason(place, changes, reason):
    change(run_of(place) / "record.json", **changes)
    assert refused(place, build(place, run_of(place).name), f"would not pass: run {run_of(place).name}: {reason}")


def test_a_run_that_is_not_conformant_or_below_its_target_is_refused(place):
    file = run_of(place) / "record.json"
    record = json.loads(file.read_text())
    change(file, verdict=record["verdict"] | {"is_conformant": False})
    assert refused(place, build(place, run_of(place).name), "not by the official rules")
    targets = [each | {"is_met": False} for each in record["accuracy"]["targets"]]
    change(file, accuracy=record["accuracy"] | {"targets": targets})
    assert refused(place, build(place, run_of(place).name), "misses 99 in acc")


def test_a_model_without_a_scenario_of_its_category_is_refused(place):
    shutil.rmtree(run_of(place, "MultiStream"))
    assert refused(place, build(place), "resnet50 lacks scenarios that its category requires: MultiStream (no run)")


def test_a_run_without_a_compliance_test_is_refused_with_the_command(place):
    for folder in (place / "results/.audits" / run_of(place).name).glob("*TEST04"):
        shutil.rmtree(folder)
    assert refused(place, build(place), f"mlbench audit {run_of(place).name} --test TEST04")


def test_a_failed_compliance_test_is_refused_with_the_rule(place):
    (file,) = (place / "results/.audits" / run_of(place).name).rglob("TEST04/verify_performance.txt")
    file.write_text("TEST FAIL\n")
    assert refused(place, build(place), "would not pass: compliance_performance: closed/Acme/compliance/anvil")


def test_the_accuracy_is_judged_by_the_official_target_and_not_by_the_record(place):
    file = run_of(place) / "record.json"
    change(file, accuracy=json.loads(file.read_text())["accuracy"] | {"line": "accuracy=70.0%, good=1, total=2"})
    assert refused(place, build(place), "would not pass: accuracy.acc")


def test_a_log_with_another_result_is_refused(place):
    log = run_of(place) / "performance" / DETAIL
    log.write_text(
        log.read_text().replace(
            '"result_samples_per_second", "value": 1000.0', '"result_samples_per_second", "value": 2000.0'
        )
    )
    assert refused(place, build(place), "differs from its logs: result is 1000.0, and by its log 2000.0")


def test_a_real_run_whose_record_claims_the_official_setup_is_refused_by_its_logs(place, monkeypatch, one_run):
    monkeypatch.undo()
    record, claimed = RunRecord.model_validate_json((one_run / "record.json").read_text()), official("SingleStream")
    names = ("profile", "tier", "verdict", "accuracy")
    claim = record.model_copy(update={name: getattr(claimed, name) for name in names})
    folder = Path(shutil.copytree(one_run, place / "mine" / one_run.name))
    write(folder / "record.json", claim.text())
    change(place / "system.json", host_processor_model_name=record.environment.cpu.model)
    change(place / "system.json", accelerators_per_node=str(len(record.environment.accelerators)))
    done = build(place, folder, "--division", "open")
    assert refused(place, done, f"run {one_run.name} differs from its logs: "), done.output


def test_a_compliance_test_that_fails_by_its_logs_is_refused_whatever_its_files_say(place, monkeypatch):
    (folder,) = (place / "results/.audits" / run_of(place).name).glob("*TEST04")
    verdict = AuditVerdict(test="TEST04", run_id="edited", repeat=1, folder=folder, official_passed=True)
    monkeypatch.setattr(audit, "judge_stored", lambda *_: iter([verdict]))
    assert refused(place, build(place), f"TEST04 of run {run_of(place).name} does not pass: test run edited")


def test_a_compliance_test_that_was_made_on_another_machine_is_refused(place):
    (file,) = (place / "results/.audits" / run_of(place).name).glob("*TEST04/record.json")
    change(file, environment=json.loads(file.read_text())["environment"] | {"machine": "another"})
    assert refused(place, build(place), f"TEST04 of run {run_of(place).name} was made on other machines than the run.")


def test_a_missing_log_is_refused(place):
    (run_of(place) / "accuracy/mlperf_log_accuracy.json").unlink()
    assert refused(place, build(place), "lacks its log accuracy/mlperf_log_accuracy.json")


def test_runs_of_different_machines_are_refused(place):
    file = run_of(place) / "record.json"
    change(file, environment=json.loads(file.read_text())["environment"] | {"machine": "another"})
    assert refused(place, build(place), "were made on different machines")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cooling": ""}, "fields are missing or empty: cooling"),
        ({"system_name": "two words"}, "system_name 'two words' cannot be the name of a folder"),
        ({"system_name": "TEST04"}, "cannot be the name of a folder"),
        ({"system_name": ".."}, "cannot be the name of a folder"),
        ({"host_processor_model_name": "Another CPU"}, "host_processor_model_name of the system is 'Another CPU'"),
        ({"accelerators_per_node": "8"}, "accelerators_per_node of the system is '8'"),
        ({"system_type": "datacenter"}, "system_type is 'datacenter', but 'edge' is requested"),
        ({"submitter": "Other"}, "submitter is 'Other', but 'Acme' is requested"),
        ({"status": "soon"}, "status is 'soon'"),
        ({"sw_notes": None}, "sw_notes is null"),
        ({"is_network": "true"}, "is_network is 'true', and the closed division has no such system"),
        ({"is_network": True}, "is_network is true. Write it as text in quotes."),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_system_that_would_not_pass_is_refused(place, changes, reason):
    change(place / "system.json", **changes)
    assert refused(place, build(place), reason)


def test_a_submitter_with_a_blank_is_refused(place):
    assert refused(place, build(place, submitter="Acme Inc"), "submitter 'Acme Inc' cannot be the name of a folder")


def test_nothing_is_replaced(place):
    write(place / "tree/mine.txt", "mine")
    done = build(place)
    assert (done.exit_code, "is there already" in done.output) == (2, True)
    assert (place / "tree/mine.txt").read_text() == "mine"


KILLED = """
import os, signal, sys
from pathlib import Path
from mlbench.cli import main
from mlbench.submission.building import build

write_tree = build.write_tree

def killed(folder, *arguments):
    write_tree(folder, *arguments)
    print(*(each.name for each in Path(folder).parent.iterdir() if each.name.startswith(".")), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

build.write_tree = killed
from mlbench.submission.auditing import audit
from mlbench.measurement import verification
verification.verify = lambda *_: verification.Verification()
audit.judge_stored = lambda *_: iter(())
main(sys.argv[1:])
"""


def test_a_build_that_is_killed_leaves_no_tree_and_the_next_one_removes_what_it_wrote(place):
    given = ["submit", "build", "--submitter", "Acme", "--category", "edge", "-o", place / "tree"]
    given += ["--system", place / "system.json", "--results", place / "results"]
    done = subprocess.run([sys.executable, "-c", KILLED, *map(str, given)], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (left,) = done.stdout.split()
    assert ((place / left).is_dir(), (place / "tree").exists()) == (True, False)
    assert build(place).exit_code == 0
    assert [each.name for each in place.iterdir() if each.name.startswith(".")] == []


def test_a_run_of_another_category_is_refused_if_named(place):
    change(place / "system.json", system_type="datacenter")
    done = build(place, run_of(place, "SingleStream").name, "--category", "datacenter")
    assert refused(place, done, "makes no entry: resnet50 SingleStream is not one of the category and variant")
