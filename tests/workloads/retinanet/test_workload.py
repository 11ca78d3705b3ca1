import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from mlbench_retinanet import full_profile
from mlbench_retinanet.workload import RetinaNet
from PIL import Image
from workload_variants import variants_of

from mlbench import DataError, GraphError, Profile, Weights
from mlbench.discovery import Plugins
from mlbench.rules.early_stopping import queries_needed
from mlbench.rules.tiers import Tier
from mlbench.settings.layers import RunConditions, resolve_settings

full, mini = variants_of("retinanet")

TORCHSCRIPT = Path("resnext50_32x4d_fpn.pth")
ONNX = Path("resnext50_32x4d_fpn.onnx")
TRAINING = Path("retinanet_model_10.zip")


@pytest.fixture
def openimages(tmp_path):
    """Two images in the official layout, one red, one blue; a list of one calibration image, which is green."""
    for folder in ("annotations", "validation/data", "train/data"):
        (tmp_path / folder).mkdir(parents=True)
    files = {
        "validation/data/0a.jpg": (255, 0, 0),
        "validation/data/0b.jpg": (0, 0, 255),
        "train/data/1a.jpg": (0, 255, 0),
    }
    for name, colour in files.items():
        Image.new("RGB", (300, 260), colour).save(tmp_path / name, quality=100)
    document = {
        "categories": [{"id": number, "name": str(number)} for number in range(264)],
        "images": [
            {"id": number, "file_name": name, "height": 260, "width": 300}
            for number, name in enumerate(("0a.jpg", "0b.jpg"), start=1)
        ],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 5, "bbox": [0, 0, 30, 26], "area": 780, "iscrowd": 0}],
    }
    (tmp_path / "annotations" / "openimages-mlperf.json").write_text(json.dumps(document))
    (tmp_path / "list.txt").write_text("1a.jpg\n")
    return tmp_path


def test_without_files_random_weights_run_on_noise_of_the_official_shape_and_claim_no_accuracy():
    workload, variant = RetinaNet(), full(Weights.RANDOM)
    dataset = workload.dataset(variant)
    assert dataset.count == 64
    dataset.load([5])
    assert dataset.sample(5).pixels.shape == (3, 800, 800)
    assert workload.metric(variant, dataset) is None
    assert list(workload.model(variant).graphs["detector"].calibration()) == []


def test_images_are_of_the_official_size_red_first_and_not_normalised(openimages):
    dataset = RetinaNet().dataset(full(data=openimages, weights=TORCHSCRIPT))
    dataset.load([0, 1])
    np.testing.assert_allclose(dataset.sample(0).pixels[:, 400, 400], [1, 0, 0], atol=0.02)
    np.testing.assert_allclose(dataset.sample(1).pixels[:, 400, 400], [0, 0, 1], atol=0.02)


@pytest.mark.parametrize("weights", [TORCHSCRIPT, TRAINING])
def test_weights_for_the_module_go_with_a_graph_for_batches(openimages, weights):
    variant = full(data=openimages, weights=weights, calibration=openimages / "list.txt", calibration_data=openimages)
    model = RetinaNet().model(variant)
    graph = model.graphs["detector"]
    assert graph.outputs[0].shape[1:] == (120_087, 264)
    assert graph.inputs[0].shape[0].largest > 1
    assert model.weights_fingerprint.startswith(full_profile.OFFICIAL.weights_md5(weights.suffix))
    (calibration,) = graph.calibration()
    np.testing.assert_allclose(calibration["images"][0, :, 400, 400], [0, 1, 0], atol=0.02)


def detections_file(path):
    """An ONNX file in the form of the official one: it finds the brightest red to be the score of one box."""
    from onnx import TensorProto, helper, save

    box = helper.make_tensor("box", TensorProto.FLOAT, (1, 4), [80.0, 160.0, 400.0, 800.0])
    label = helper.make_tensor("label", TensorProto.INT64, (1,), [263])
    nodes = [
        helper.make_node("ReduceMax", ["images"], ["score"], axes=[0, 1, 2, 3], keepdims=0),
        helper.make_node("Reshape", ["score", "one"], ["scores"]),
        helper.make_node("Identity", ["box"], ["boxes"]),
        helper.make_node("Identity", ["label"], ["labels"]),
    ]
    outputs = [
        ("boxes", TensorProto.FLOAT, ["n", 4]),
        ("scores", TensorProto.FLOAT, ["n"]),
        ("labels", TensorProto.INT64, ["n"]),
    ]
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, (1, 3, 800, 800))],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [box, label, helper.make_tensor("one", TensorProto.INT64, (1,), [1])],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return hashlib.md5(path.read_bytes()).hexdigest()


def test_the_onnx_weights_run_as_they_are_an_image_at_a_time(openimages, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    file, smaller = openimages / ONNX, tmp_path / "smaller.toml"
    smaller.write_text(f'onnx_md5 = "{detections_file(file)}"')
    variant = full(data=openimages, weights=file, smaller=smaller)
    dataset, model = RetinaNet().dataset(variant), RetinaNet().model(variant)
    graph = model.graphs["detector"]
    assert graph.onnx() == file
    assert graph.inputs[0].shape == (1, 3, 800, 800)
    with pytest.raises(GraphError, match=r"no torch module\. Give it resnext50_32x4d_fpn\.pth"):
        graph.module()
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])

    def detector(inputs):
        names = [spec.name for spec in graph.outputs]
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))

    dataset.load([0, 1])
    for index, rows in enumerate(model.program.run([dataset.sample(0), dataset.sample(1)], {"detector": detector})):
        np.testing.assert_allclose(rows, [[index, 0.2, 0.1, 1, 0.5, 1, 263]], atol=0.02)


def test_the_official_metric_compares_with_the_official_reference(openimages):
    variant = full(data=openimages, weights=TORCHSCRIPT)
    metric = RetinaNet().metric(variant, RetinaNet().dataset(variant))
    assert metric is not None
    assert metric.targets[0].reference == 37.55


@pytest.mark.parametrize("weights", [TORCHSCRIPT, TRAINING, ONNX])
def test_missing_official_weights_are_named_when_a_backend_asks_for_them(openimages, weights):
    graph = RetinaNet().model(full(data=openimages, weights=openimages / weights)).graphs["detector"]
    with pytest.raises(DataError, match=rf"weights file not found: .*{weights}"):
        graph.onnx() if weights is ONNX else graph.module()


def test_the_mini_profile_has_200_images_10_classes_and_its_own_target():
    workload, variant = RetinaNet(), mini()
    dataset = workload.dataset(variant)
    assert (dataset.count, dataset.performance_count) == (200, 64)
    dataset.load([199])
    assert dataset.sample(199).pixels.shape == (3, 128, 128)
    metric = workload.metric(variant, dataset)
    assert metric is not None
    (target,) = metric.targets
    assert target.reference >= 62
    assert target.lower == pytest.approx(target.reference * 0.99)


@pytest.mark.parametrize(
    ("profile", "memory", "largest_batch"),
    [("mini", "host", 128), ("mini", "device", 128), ("full", "host", 16), ("full", "device", 32)],
)
def test_the_batch_sweep_stops_before_the_logits_of_official_images_fill_the_memory(profile, memory, largest_batch):
    from mlbench.discovery import Plugins
    from mlbench.settings.layers import RunConditions, resolve_settings

    plugins = Plugins.discover()
    run_conditions = RunConditions(
        workload=RetinaNet(),
        backend=plugins.backend("null"),
        scenario=plugins.scenario("Offline"),
        profile=profile,
        tier="smoke",
        precision="fp32",
        memory=memory,
    )
    assert resolve_settings(run_conditions).by_key["execution.largest_batch"].value == largest_batch


@pytest.mark.parametrize("tier", Tier)
def test_no_tier_takes_the_slowest_query_of_multi_stream_for_its_99th_percentile(tier):
    plugins = Plugins.discover()
    run_conditions = RunConditions(
        workload=plugins.workload("retinanet"),
        backend=plugins.backend("null"),
        scenario=plugins.scenario("MultiStream"),
        profile=Profile.MINI,
        tier=tier,
        precision="fp32",
    )
    queries = resolve_settings(run_conditions).by_key["load.min_query_count"].value
    assert queries == (838 if tier is Tier.SMOKE else 1157)
    assert queries >= queries_needed(2, 0.99), "the slowest query is discarded"
