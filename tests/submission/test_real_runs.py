"""Trees of stored runs under the official settings at the official durations, built with every check on.

The logs are real LoadGen's, as tests/data/loadgen_logs says.
"""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from independent_checker import Outcome, read_tree
from real_runs import ARCHIVES, DETAIL, PLUGIN, REPLIES, audit_folders, logged, unpack, with_values
from tree_building import build, change, refused
from whole_tree import DATACENTER, EDGE, SYSTEM, base, write

from mlbench.discovery import Plugins
from mlbench.records.run_record import read
from mlbench.submission.checking.whole_tree import check_tree

pytestmark = pytest.mark.slow

STORED = {file.name.removesuffix(".tar.xz") for file in ARCHIVES.glob("*.tar.xz")}
IMAGES = "stable-diffusion-xl"


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """Install the workloads of the runs, with numbers for samples, instead of the nine; return all plugins."""
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(PLUGIN))
    return Plugins.discover()


@pytest.fixture
def place(tmp_path, plugins):
    """Return a function that makes a folder with the runs of some workloads and the description of their system."""

    def place(*names):
        for name in names:
            shutil.copytree(unpack(name), tmp_path / "results", dirs_exist_ok=True)
        (cpu,) = {read(file.parent).environment.cpu.model for file in tmp_path.glob("results/*/record.json")}
        described = {"system_name": "anvil", "submitter": "", "system_type": "", "division": ""}
        write(tmp_path / "system.json", json.dumps(SYSTEM | described | {"host_processor_model_name": cpu}))
        return tmp_path

    return place


def run_in(place, scenario="Offline"):
    """Return the folder of the run in a scenario."""
    (folder,) = (place / "results").glob(f"*-{scenario}-*")
    return folder


@pytest.mark.thorough("submission")
@pytest.mark.parametrize(
    ("category", "models"),
    [pytest.param("datacenter", DATACENTER, marks=pytest.mark.thorough("submission")), ("edge", EDGE)],
)
def test_runs_of_the_official_setup_make_entries_that_all_checkers_accept(place, category, models):
    folder = place(*{base(model) for model in models})
    done = build(folder, "--category", category)
    assert done.exit_code == 0, done.output
    results = folder / "tree/closed/Acme/results/anvil"
    built = {model.name: {each.name for each in model.iterdir()} for model in results.iterdir()}
    assert built == {model: set(scenarios) for model, scenarios in models.items()}
    checked, count = check_tree(folder / "tree"), sum(map(len, models.values()))
    assert (checked.accepted, checked.accepted_officially) == (count, count)
    reading = read_tree(folder / "tree")
    assert [*map(str, reading.findings)] == []
    assert [result.outcome for result in reading.results] == [Outcome.ACCEPTED] * count
    made = {(folder / "results").joinpath(each.name, f"performance/{DETAIL}").read_bytes() for each in runs(folder)}
    assert {each.read_bytes() for each in results.rglob(f"performance/run_1/{DETAIL}")} <= made


def runs(place):
    """Return the run folders."""
    return [each for each in (place / "results").iterdir() if not each.name.startswith(".")]


def test_another_result_in_a_log_is_refused(place):
    folder = place(IMAGES)
    log = run_in(folder) / "performance" / DETAIL
    rate = logged(log.read_text(), "result_samples_per_second")
    log.write_text(with_values(log.read_text(), result_samples_per_second=2 * rate))
    told = f"differs from its logs: result.value: the record says {rate}, the run folder {2 * rate}"
    assert refused(folder, build(folder), told)


def test_another_reply_in_a_log_is_refused(place):
    folder = place(IMAGES)
    log = run_in(folder) / "accuracy" / REPLIES
    log.write_text(log.read_text().replace('"data" : "00"', '"data" : "01"', 1))
    assert refused(folder, build(folder), f"run {run_in(folder).name} differs from its logs: ")


def test_an_accuracy_that_is_not_the_logs_is_refused(place):
    folder = place(IMAGES)
    file = run_in(folder) / "record.json"
    line = "Accuracy Results: {'FID_SCORE': 23.1000, 'CLIP_SCORE': 31.7600}"
    change(file, accuracy=json.loads(file.read_text())["accuracy"] | {"line": line})
    assert refused(folder, build(folder), "differs from its logs: accuracy.line")


def test_a_compliance_test_that_fails_by_its_log_is_refused_whatever_its_files_say(place):
    folder = place(IMAGES)
    test = audit_folders(run_in(folder))["TEST04"]
    log = test / "performance" / DETAIL
    rate = logged(log.read_text(), "result_samples_per_second")
    log.write_text(with_values(log.read_text(), result_samples_per_second=1.2 * rate))
    assert refused(folder, build(folder), f"TEST04 of run {run_in(folder).name} does not pass: test run {test.name}")


def test_a_log_of_replies_is_unpacked_as_loadgen_wrote_it():
    for name in sorted(STORED):
        for file in Path(unpack(name)).glob("*/record.json"):
            for mode in ("performance", "accuracy"):
                said = read(file.parent).logs[f"{mode}/{REPLIES}"]
                assert said == digest(file.parent / mode / REPLIES)


def digest(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()
