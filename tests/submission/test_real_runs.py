"""Trees of stored runs under the official settings at the official durations, built with every check on.

The logs are real LoadGen's, as tests/data/loadgen_logs says.
"""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from independent_checker import Outcome, read_tree
from invented_round import OF_V6_0, SEEDS, invent_round
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
    [("datacenter", DATACENTER), ("edge", EDGE)],
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


OF_V5_1 = ("measurements/anvil/{}/user.conf", "compliance/anvil/{}/TEST06", "code/{model}")
OF_V6_0_TREES = ("results/anvil/{}/measurements.json", "results/anvil/{}/TEST06", "src")
WRITTEN = {
    "Interactive/user.conf": "llama2-70b-interactive.Server.target_qps = ",
    "Interactive/README.md": "--scenario Interactive --round v6.0",
    "Offline/user.conf": "llama2-70b.Offline.target_qps = ",
}
"""Interactive is configured under a name of its own, and its command names the round."""


@pytest.mark.thorough("submission")
@pytest.mark.parametrize(
    ("of", "scenarios", "files", "written"),
    [
        ("v5.1", {"Server", "Offline"}, OF_V5_1, {}),
        ("v6.0", {"Interactive", "Offline"}, OF_V6_0_TREES, WRITTEN),
    ],
    ids=["v5.1", "v6.0"],
)
def test_runs_of_a_later_round_make_a_tree_of_that_round(place, of, scenarios, files, written):
    folder = place(f"llama2-70b@{of}")
    done = build(folder, "--category", "datacenter", "--round", of)
    assert done.exit_code == 0, done.output
    checked, acme = check_tree(folder / "tree"), folder / "tree/closed/Acme"
    assert (str(checked.round), checked.accepted, checked.accepted_officially) == (of, 4, 4)
    for model in ("llama2-70b-99", "llama2-70b-99.9"):
        assert {each.name for each in (acme / "results/anvil" / model).iterdir()} == scenarios
        for file in files:
            assert all((acme / file.format(f"{model}/{each}", model=model)).exists() for each in scenarios)
    for file, text in written.items():
        assert text in (acme / "results/anvil/llama2-70b-99" / file).read_text()
    assert not list(acme.rglob("mlperf.conf")) and not list(acme.rglob("TEST05"))
    assert refused(folder, build(folder, "--category", "datacenter"), "of round ") is False  # the tree is there already
    shutil.rmtree(folder / "tree")
    assert refused(folder, build(folder, "--category", "datacenter"), f"of round {of}")


@pytest.mark.thorough("submission")
def test_runs_of_a_round_of_the_users_own_make_its_tree(place, tmp_path, monkeypatch):
    """The runs are v6.0's, with the seeds and the name of the other round in their logs and records."""
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "settings.toml"))
    changes = (("interactive_ttft_ms = 450", "interactive_ttft_ms = 449"), ('code = "src"', 'code = "sources"'))
    invent_round(tmp_path, *changes, without="bert")
    folder = place("llama2-70b@v6.0")
    seeds = {str(OF_V6_0[name]): str(seed) for name, seed in SEEDS.items()}
    for log in folder.rglob(DETAIL):
        replace_all(log, {**seeds, '"value": 450000000,': '"value": 449000000,'})
    for record in folder.rglob("record.json"):
        replace_all(record, {**seeds, "v6.0": "v9.9", " 450000000,": " 449000000,", " 450,": " 449,"})
        logs = {name: digest(record.parent / name) for name in json.loads(record.read_text())["logs"]}
        change(record, logs=logs)
    done = build(folder, "--category", "datacenter", "--round", "v9.9")
    assert done.exit_code == 0, done.output
    checked = check_tree(folder / "tree")
    assert (str(checked.round), checked.accepted, checked.accepted_officially) == ("v9.9", 4, 4)
    assert (folder / "tree/closed/Acme/sources").is_dir()


def replace_all(file, texts):
    text = file.read_text()
    for old, new in texts.items():
        text = text.replace(old, new)
    file.write_text(text)


@pytest.mark.thorough("submission")
def test_a_run_of_interactive_over_its_limit_is_refused_although_servers_would_allow_it(place):
    folder = place("llama2-70b@v6.0")
    log = run_in(folder, "Interactive") / "performance" / DETAIL
    log.write_text(with_values(log.read_text(), **{"result_first_token_99.00_percentile_latency_ns": 1_500_000_000}))
    assert refused(folder, build(folder, "--category", "datacenter", "--round", "v6.0"), "differs from its logs: ")


def runs(place):
    """Return the run folders."""
    return [each for each in (place / "results").iterdir() if not each.name.startswith(".")]


@pytest.mark.thorough("submission")
def test_another_result_in_a_log_is_refused(place):
    folder = place(IMAGES)
    log = run_in(folder) / "performance" / DETAIL
    rate = logged(log.read_text(), "result_samples_per_second")
    log.write_text(with_values(log.read_text(), result_samples_per_second=2 * rate))
    told = f"differs from its logs: result.value: the record says {rate}, the run folder {2 * rate}"
    assert refused(folder, build(folder), told)


@pytest.mark.thorough("submission")
def test_another_reply_in_a_log_is_refused(place):
    folder = place(IMAGES)
    log = run_in(folder) / "accuracy" / REPLIES
    log.write_text(log.read_text().replace('"data" : "00"', '"data" : "01"', 1))
    assert refused(folder, build(folder), f"run {run_in(folder).name} differs from its logs: ")


@pytest.mark.thorough("submission")
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


@pytest.mark.thorough("submission")
def test_a_log_of_replies_is_unpacked_as_loadgen_wrote_it():
    for name in sorted(STORED):
        for file in Path(unpack(name)).glob("*/record.json"):
            for mode in ("performance", "accuracy"):
                said = read(file.parent).logs[f"{mode}/{REPLIES}"]
                assert said == digest(file.parent / mode / REPLIES)


def digest(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()
