"""Official trees in small: real LoadGen logs, and descriptions as a submitter writes them."""

import json
import shutil
from pathlib import Path

import pytest
from tree_building import trust_logs
from tree_changes import SMALL
from whole_tree import EDGE, WholeTree

from mlbench.submission.importing import import_tree

LOGS = Path(__file__).parents[1] / "data" / "loadgen"
TREES = Path(__file__).parents[1] / "data" / "submission"

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
    "host_memory_capacity": "1.5TiB",
    "accelerators_per_node": "4",
    "accelerator_model_name": "Anvil A1",
    "accelerator_memory_capacity": "192 GB",
    "framework": "AnvilRT 2.1",
    "operating_system": "Ubuntu 22.04.4 LTS",
    "other_software_stack": "driver 5.5",
}
MLPERF_CONF = """# The format of this config file is 'key = value'.
*.*.qsl_rng_seed = 3066443479025735752
3d-unet.*.sample_concatenate_permutation = 1
gptj.*.sample_concatenate_permutation = 1
llama2-70b.*.sample_concatenate_permutation = 1
mixtral-8x7b.*.sample_concatenate_permutation = 1
*.Server.target_latency = 10
"""
IMPLEMENTATION = {
    "input_data_types": "int8",
    "retraining": "no",
    "starting_weights_filename": "resnet50_v1.onnx",
    "weight_data_types": "INT8",
    "weight_transformations": "none",
}


V4_0 = {1780908523862526354: 13281865557512327830, 14771362308971278857: 198141574272810017}
"""Two seeds of v5.1, each with one of a round without rules here."""


@pytest.fixture
def older(tmp_path):
    """A tree of two results whose logs have seeds of v4.0."""
    root = Path(shutil.copytree(TREES / "v5.1", tmp_path / "older"))
    for file in root.rglob("mlperf_log_detail.txt"):
        text = file.read_text()
        for found, other in V4_0.items():
            text = text.replace(str(found), str(other))
        file.write_text(text.replace("18209322760996052031", "7575108116881280410"))
    return root


@pytest.fixture
def unverified(tmp_path, monkeypatch):
    """Take made logs for what records and compliance tests say."""
    trust_logs(monkeypatch, tmp_path / "cache")


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "results"


@pytest.fixture
def one(root, results):
    """Import a tree with one result, and return its record."""

    def one():
        (record,) = import_tree(root, results).records
        return record

    return one


@pytest.fixture
def root(tmp_path):
    return tmp_path / "tree"


@pytest.fixture
def add(root):
    """Add a result to the tree: its log by name or folder, and the lines of its accuracy.txt."""

    def add(
        log,
        scenario,
        model="resnet50",
        *,
        accuracy="accuracy=76.078%, good=38039, total=50000",
        division="closed",
        system="anvil_8",
        edit=lambda text: text,
    ):
        submitter = root / division / "Acme"
        folder = submitter / "results" / system / model / scenario
        performance = folder / "performance" / "run_1"
        performance.mkdir(parents=True)
        for kind in ("detail", "summary"):
            file = LOGS / f"{log}.{kind}.txt" if isinstance(log, str) else log / f"mlperf_log_{kind}.txt"
            shutil.copy(file, performance / f"mlperf_log_{kind}.txt")
        detail = performance / "mlperf_log_detail.txt"
        detail.write_text(edit(detail.read_text()))
        if accuracy is not None:
            (folder / "accuracy").mkdir()
            (folder / "accuracy" / "accuracy.txt").write_text(f"{accuracy}\nhash={'0' * 64}\n")
            (folder / "accuracy" / "mlperf_log_accuracy.json").write_text("[\n]\n")
            (folder / "accuracy" / "mlperf_log_summary.txt").write_text("No errors encountered during test.\n")
            shutil.copy(LOGS / "offline_accuracy.detail.txt", folder / "accuracy" / "mlperf_log_detail.txt")
        (submitter / "systems").mkdir(exist_ok=True)
        (submitter / "systems" / f"{system}.json").write_text(json.dumps({**SYSTEM, "division": division}))
        measurements = submitter / "measurements" / system / model / scenario
        measurements.mkdir(parents=True)
        (measurements / f"{system}_anvilrt_{scenario}.json").write_text(json.dumps(IMPLEMENTATION))
        (measurements / "mlperf.conf").write_text(MLPERF_CONF)
        (measurements / "user.conf").write_text(f"*.{scenario}.target_qps = 100\n")
        return folder

    return add


def at_full_length(text):
    """Return a log as if its second had been ten minutes, and its 32 samples the official number."""
    for key, value in (("effective_min_duration_ms", 600000), ("effective_performance_sample_count", 24576)):
        lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in text.splitlines() if f'"{key}"' in line]
        for record in lines:
            text = text.replace(f'"key": "{key}", "value": {record["value"]}', f'"key": "{key}", "value": {value}')
    return text


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    root = tmp_path_factory.mktemp("pristine") / "tree"
    WholeTree(root).add("fixture_edge", "edge", {"resnet50": EDGE["resnet50"]}).add("fixture_dc", "datacenter", SMALL)
    return root


@pytest.fixture
def tree(pristine, tmp_path):
    """A tree of seven results, three of one edge system and four of one in a datacenter, to be changed."""
    return WholeTree(Path(shutil.copytree(pristine, tmp_path / "tree")))
