"""Trees of official results: whatever is wrong with one, the others are imported."""

import itertools
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import strategies as st
from whole_tree import WholeTree

from mlbench.submission.checking.whole_tree import check_tree
from mlbench.submission.importing import import_tree

LOGS = Path(__file__).parents[1] / "data" / "loadgen"

SYSTEM = {
    "division": "closed",
    "submitter": "Acme",
    "status": "available",
    "system_name": "Acme Anvil 8",
    "system_type": "datacenter,edge",
    "number_of_nodes": "2",
    "host_processor_model_name": "AMD EPYC 9374F",
    "host_processors_per_node": 2,
    "host_processor_core_count": 32,
    "accelerators_per_node": "4",
    "accelerator_model_name": "Anvil A1",
    "framework": "AnvilRT 2.1",
    "operating_system": "Ubuntu 22.04.4 LTS",
}
IMPLEMENTATION = {"weight_data_types": "INT8", "retraining": "no"}
CONFIGURATION = "*.*.qsl_rng_seed = 3066443479025735752\nresnet50.*.sample_concatenate_permutation = 1\n"
SCORES = f"accuracy=76.078%, good=38039, total=50000\nhash={'0' * 64}\n"
POWER = "Time,07-12-2024 12:00:00.000,Watts,100.5,Volts,230.0\n" * 3
MAPPING = {"mine": "resnet50", "other": "bert-99"}

_ONE = "fixture_edge/resnet50/SingleStream"
CHECKED = (
    f"results/{_ONE}/performance/run_1/mlperf_log_detail.txt",
    f"results/{_ONE}/accuracy/accuracy.txt",
    f"measurements/{_ONE}/mlperf.conf",
    f"compliance/{_ONE}/TEST01/performance/run_1/mlperf_log_detail.txt",
    f"compliance/{_ONE}/TEST01/verify_accuracy.txt",
    f"compliance/{_ONE}/TEST04/verify_performance.txt",
)

RESULT, SCENARIO = "closed/Acme/results/anvil/resnet50", "Offline"
DETAIL = f"{RESULT}/{SCENARIO}/performance/run_1/mlperf_log_detail.txt"
FILES = {
    DETAIL: None,
    f"{RESULT}/{SCENARIO}/performance/run_1/spl.txt": POWER,
    f"{RESULT}/{SCENARIO}/accuracy/accuracy.txt": SCORES,
    f"{RESULT}/{SCENARIO}/accuracy/mlperf_log_detail.txt": None,
    f"closed/Acme/measurements/anvil/resnet50/{SCENARIO}/mlperf.conf": CONFIGURATION,
    f"closed/Acme/measurements/anvil/resnet50/{SCENARIO}/user.conf": CONFIGURATION,
}
DESCRIPTIONS = {
    "closed/Acme/systems/anvil.json": SYSTEM,
    f"closed/Acme/measurements/anvil/resnet50/{SCENARIO}/anvil_Offline.json": IMPLEMENTATION,
    "open/Acme/model_mapping.json": MAPPING,
}


@pytest.fixture
def root(tmp_path):
    """Return a tree of three results: one to damage, one of the open division under a name of its own, one whole."""
    root = tmp_path / "tree"
    for result in (
        f"{RESULT}/{SCENARIO}",
        "open/Acme/results/anvil/mine/Offline",
        "closed/Best/results/b/resnet50/Offline",
    ):
        (root / result / "performance" / "run_1").mkdir(parents=True)
        (root / result / "accuracy").mkdir()
        shutil.copy(LOGS / "offline.detail.txt", root / result / "performance" / "run_1" / "mlperf_log_detail.txt")
        shutil.copy(LOGS / "offline_accuracy.detail.txt", root / result / "accuracy" / "mlperf_log_detail.txt")
    (root / RESULT / SCENARIO / "performance" / "power").mkdir()
    for path, content in (FILES | {name: json.dumps(fields) for name, fields in DESCRIPTIONS.items()}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            (root / path).write_text(content)
    return root


@pytest.fixture
def importing(root, tmp_path):
    """Return a function that imports the tree with another file in a place of it; what is whole is imported."""
    numbers = itertools.count()

    def importing(place):
        def run(file):
            (root / place).write_bytes(file.read_bytes())
            outcome = import_tree(root, tmp_path / f"results{next(numbers)}")
            whole = [record.imported.submitter for record in outcome.records]
            assert "Best" in whole
            for unread in outcome.unread:
                assert unread.reason.isprintable()

        return run

    return importing


@pytest.mark.parametrize("place", FILES, ids=lambda place: "/".join(place.split("/")[-2:]))
def test_logs_and_texts_of_a_tree(fuzz, root, importing, place):
    fuzz.bytes(importing(place), (root / place).read_bytes(), share=0.3)


@pytest.mark.parametrize("place", DESCRIPTIONS, ids=lambda place: place.split("/")[-1])
def test_descriptions_of_a_tree(fuzz, importing, place):
    fuzz.json(importing(place), DESCRIPTIONS[place], share=0.3)


def test_values_of_a_detail_log(fuzz, root, importing, values):
    """Each value of the log may be any."""
    lines = (root / DETAIL).read_text().splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith(":::MLLOG")]
    run = importing(DETAIL)

    def use(changes):
        changed = lines.copy()
        for place, value in changes:
            key = json.loads(lines[place].removeprefix(":::MLLOG "))["key"]
            changed[place] = f':::MLLOG {{"key": "{key}", "value": {value}}}'
        (fuzz.folder / "log").write_text("\n".join(changed), encoding="utf-8")
        fuzz.judge(run, fuzz.folder / "log")

    fuzz.draw(st.lists(st.tuples(st.sampled_from(places), values), min_size=1, max_size=3), use)


@pytest.mark.parametrize("depth", [101, 10_000])
def test_a_mapping_that_nests_deep_is_named_and_the_rest_imported(root, tmp_path, depth):
    (root / "open/Acme/model_mapping.json").write_text('{"mine": ' + "[" * depth + "]" * depth + "}")
    outcome = import_tree(root, tmp_path / "results")
    assert [record.imported.submitter for record in outcome.records] == ["Acme", "Best"]
    (reason,) = [each.reason for each in outcome.unread if (root / "open") in each.path.parents]
    assert "model_mapping.json is not JSON: it nests deeper than 100 levels" in reason


def test_names_of_folders_that_are_long_together_are_imported(root, tmp_path):
    long = root / "closed" / ("s" * 200)
    (root / "closed" / "Best").rename(long)
    (long / "results" / "b").rename(long / "results" / ("y" * 200))
    outcome = import_tree(root, tmp_path / "results")
    assert [record.imported.submitter for record in outcome.records][-2:] != []
    assert "s" * 200 in [record.imported.submitter for record in outcome.records]
    again = import_tree(root, tmp_path / "results")
    assert (len(again.records), again.known) == (0, 3)


def test_more_accelerators_than_any_system_has_are_not_believed(root, tmp_path):
    (root / "closed/Acme/systems/anvil.json").write_text(json.dumps(SYSTEM | {"accelerators_per_node": "1" + "0" * 12}))
    records = import_tree(root, tmp_path / "results").records
    (record,) = [each for each in records if each.imported.path.startswith("closed/Acme")]
    assert record.environment.accelerators == []


def test_a_rate_that_is_a_text_is_not_multiplied(root, tmp_path):
    """A text times a latency in nanoseconds would be gigabytes of text."""
    log = root / DETAIL
    log.write_text(
        log.read_text().replace(
            '"result_samples_per_second", "value": ', '"result_samples_per_second", "value": "x", "v": '
        )
    )
    outcome = import_tree(root, tmp_path / "results")
    assert any("a value is of the wrong kind" in each.reason for each in outcome.unread)


def test_paths_that_are_no_tree(fuzz, tmp_path):
    fuzz.paths(lambda path: import_tree(path, tmp_path / "results"))


@pytest.fixture
def checking(tmp_path):
    """Return a tree of one result with its tests, and a function that checks it with another file in a place of it."""
    tree = WholeTree(tmp_path / "whole").add("fixture_edge", "edge", {"resnet50": ("SingleStream",)})

    def checking(file):
        def run(other):
            file.write_bytes(other.read_bytes())
            check = check_tree(tree.root)
            assert len(check.entries) == 1
            assert check.accepted <= 1

        return run

    return tree, checking


@pytest.mark.parametrize("place", CHECKED)
def test_texts_of_a_tree_that_is_checked(fuzz, checking, place):
    tree, check = checking
    file = tree.submitter / place
    fuzz.bytes(check(file), file.read_bytes(), share=0.3)


@pytest.mark.parametrize(
    "place",
    ["systems/fixture_edge.json", f"measurements/{_ONE}/fixture_edge_fixture_SingleStream.json"],
    ids=["system", "implementation"],
)
def test_descriptions_of_a_tree_that_is_checked(fuzz, checking, place):
    tree, check = checking
    file = tree.submitter / place
    fuzz.json(check(file), json.loads(file.read_text()), share=0.3)


@pytest.mark.parametrize("place", [CHECKED[0], CHECKED[3]], ids=["run", "test"])
def test_values_of_the_logs_of_a_tree_that_is_checked(fuzz, checking, values, place):
    tree, check = checking
    file = tree.submitter / place
    lines = file.read_text().splitlines()
    run = check(file)

    def use(changes):
        changed = lines.copy()
        for at, value in changes:
            key = json.loads(lines[at].removeprefix(":::MLLOG "))["key"]
            changed[at] = f':::MLLOG {{"key": "{key}", "value": {value}}}'
        (fuzz.folder / "log").write_text("\n".join(changed), encoding="utf-8")
        fuzz.judge(run, fuzz.folder / "log")

    places = st.lists(st.tuples(st.sampled_from(range(len(lines))), values), min_size=1, max_size=3)
    fuzz.draw(places, use)


def test_paths_that_are_no_tree_to_check(fuzz):
    fuzz.paths(check_tree)
