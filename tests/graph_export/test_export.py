"""A workload's graphs as ONNX files: what lies in the folder, what is printed, and what is refused."""

import dataclasses
import json
import os

import pytest
from invoking import invoke

from mlbench import Model, TensorSpec, Workload
from mlbench.discovery import Plugins
from mlbench.errors import GraphError, PluginError, UsageError
from mlbench.graph_export.export import ExportRequest, export_graphs
from mlbench.graph_export.exported import Layout

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
np = pytest.importorskip("numpy")

EDGE = TensorSpec(name="x", shape=(2,), dtype="float32")
SUM = TensorSpec(name="y", shape=(2,), dtype="float32")


class Stored:
    """A graph that is an ONNX file already, with its weights beside it: x + (1, 2)."""

    state = ()

    def __init__(self, folder, name="adder", dtype="float32", location="weights/adder.bin"):
        self.name = name
        self.inputs, self.outputs = (dataclasses.replace(EDGE, dtype=dtype),), (SUM,)
        self._file, self._location = folder / "some.onnx", location

    def onnx(self):
        weight = onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "w")
        edges = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "y")]
        node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
        model = onnx.helper.make_model(
            onnx.helper.make_graph([node], "adder", edges[:1], edges[1:], [weight]),
            opset_imports=[onnx.helper.make_opsetid("", 18)],
            ir_version=10,
        )
        (self._file.parent / self._location).parent.mkdir(parents=True, exist_ok=True)
        (self._file.parent / self._location).write_bytes(b"")
        onnx.save(model, self._file, save_as_external_data=True, location=self._location, size_threshold=0)
        return self._file


class Adding(Workload):
    """A workload of such graphs."""

    name = "adding"
    title = "adds"
    rules = "resnet50"

    def __init__(self, *graphs):
        self._graphs = graphs

    def dataset(self, variant):
        raise AssertionError("an export reads no data")

    def model(self, variant):
        graphs = {graph.name: graph for graph in self._graphs}
        return Model(name="adding", graphs=graphs, program=None, weights_fingerprint="f")

    def metric(self, variant, dataset):
        return None


def export(workload, folder, layout=Layout.FILES):
    plugins = Plugins.discover()
    plugins.workloads[workload.name] = workload
    return export_graphs(ExportRequest(workload=workload.name, layout=layout, overrides={}), plugins, folder)


def names(folder):
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


@pytest.fixture
def mlbench(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return lambda *arguments: invoke("onnx", *arguments)


def test_the_command_says_what_it_wrote_and_how_it_is_measured(mlbench):
    done = mlbench("resnet50", "-o", "served")
    assert done.exit_code == 0, done.output
    first, file, image, logits, batch, document, last = done.stdout.splitlines()
    assert first == "served: resnet50, profile mini, weights trained, fp32"
    assert file.startswith("classifier.onnx: 1.")
    assert image.split() == ["in", "image", "float32", "[batch,", "3,", "64,", "64]"]
    assert logits.split() == ["out", "logits", "float32", "[batch,", "20]"]
    assert batch == "  batch: 1 to 256, usually 32"
    assert document.startswith("graphs.json: ")
    assert last.startswith("Measure a server with it: mlbench run resnet50 --backend endpoint ")
    assert sorted(os.listdir("served")) == ["classifier.onnx", "graphs.json"]
    assert os.listdir() == ["served"]


def test_the_document_names_the_files_tensors_and_checksums(mlbench, tmp_path):
    import hashlib

    printed = json.loads(mlbench("resnet50", "-o", "served", "--json").stdout)
    folder = tmp_path / "here/served"
    assert printed.pop("folder") == str(folder)
    assert json.loads((folder / "graphs.json").read_text()) == printed
    (graph,) = printed["graphs"]
    file = folder / graph["file"]
    assert graph["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert graph["size_bytes"] == file.stat().st_size
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert [(each["name"], each["shape"]) for each in graph["inputs"]] == [
        (each.name, each.shape) for each in session.get_inputs()
    ]
    assert [each["name"] for each in graph["outputs"]] == [each.name for each in session.get_outputs()]


def test_a_repository_of_triton_has_a_folder_a_configuration_and_a_version_of_each_graph(mlbench, tmp_path):
    """The form is that of the example in Triton's documentation of configurations."""
    done = mlbench("resnet50", "-o", "repository", "--layout", "triton")
    assert done.exit_code == 0, done.output
    folder = tmp_path / "here/repository"
    assert names(folder) == ["classifier/1/model.onnx", "classifier/config.pbtxt"]
    comment, *lines = (folder / "classifier/config.pbtxt").read_text().splitlines()
    assert comment.startswith("# Written by mlbench ")
    assert lines == [
        'backend: "onnxruntime"',
        "max_batch_size: 256",
        "input [",
        "  {",
        '    name: "image"',
        "    data_type: TYPE_FP32",
        "    dims: [ 3, 64, 64 ]",
        "  }",
        "]",
        "output [",
        "  {",
        '    name: "logits"',
        "    data_type: TYPE_FP32",
        "    dims: [ 20 ]",
        "  }",
        "]",
    ]
    assert f"tritonserver --model-repository={folder}" in done.stdout


@pytest.mark.parametrize(
    ("layout", "file", "weights"),
    [
        (Layout.FILES, "adder.onnx", "weights/adder.bin"),
        (Layout.TRITON, "adder/1/model.onnx/model.onnx", "adder/1/model.onnx/weights/adder.bin"),
    ],
)
def test_weights_beside_a_file_go_with_it(layout, file, weights, tmp_path):
    (tmp_path / "cache").mkdir()
    exported = export(Adding(Stored(tmp_path / "cache")), tmp_path / "out", layout)
    (graph,) = exported.graphs
    assert graph.file == file
    assert weights in graph.more_files
    assert graph.size_bytes == sum((tmp_path / "out" / each).stat().st_size for each in (file, weights))
    (tmp_path / "cache").rename(tmp_path / "gone")
    session = onnxruntime.InferenceSession(tmp_path / "out" / file, providers=["CPUExecutionProvider"])
    assert session.run(["y"], {"x": np.array([10, 20], np.float32)})[0].tolist() == [11, 22]


def test_a_copy_is_no_link_to_the_cache(mlbench, tmp_path):
    for name in ("one", "other"):
        assert mlbench("resnet50", "-o", name).exit_code == 0
    (tmp_path / "here/one/classifier.onnx").write_bytes(b"changed")
    assert (tmp_path / "here/other/classifier.onnx").stat().st_size > 1_000_000


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([{"name": "../adder"}], r"graph '\.\./adder' cannot name a file\."),
        ([{"dtype": "bfloat16"}], r"tensor x is bfloat16, which Triton does not support\."),
        ([{}, {"name": "second", "dtype": "complex64"}], r"tensor x is complex64, which"),
    ],
)
def test_of_a_graph_that_cannot_be_written_nothing_is_left(graphs, message, tmp_path):
    (tmp_path / "cache").mkdir()
    workload = Adding(*(Stored(tmp_path / "cache", **each) for each in graphs))
    with pytest.raises((GraphError, PluginError), match=message):
        export(workload, tmp_path / "out", Layout.TRITON)
    assert os.listdir(tmp_path) == ["cache"]


def test_weights_outside_the_files_folder_are_not_followed(tmp_path):
    (tmp_path / "cache").mkdir()
    graph = Stored(tmp_path / "cache")
    model = onnx.load(graph.onnx(), load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../secret.bin"
    (tmp_path / "cache/some.onnx").write_bytes(model.SerializeToString())
    graph.onnx = lambda: tmp_path / "cache/some.onnx"
    with pytest.raises(GraphError, match=r"some\.onnx keeps weights in '\.\./secret\.bin', outside its folder\."):
        export(Adding(graph), tmp_path / "out")
    assert os.listdir(tmp_path) == ["cache"]


def test_what_a_workload_raises_is_a_line_of_its_own(tmp_path):
    workload = Adding()
    workload.model = lambda variant: {}["weights"]
    with pytest.raises(PluginError, match=r"workload adding: model\(\) raised KeyError: 'weights'\."):
        export(workload, tmp_path / "out")


def test_a_folder_that_appears_meanwhile_is_left_alone(tmp_path):
    (tmp_path / "cache").mkdir()
    graph = Stored(tmp_path / "cache")
    write = graph.onnx

    def write_slowly():
        (tmp_path / "out").mkdir()
        (tmp_path / "out/mine.txt").write_text("mine")
        return write()

    graph.onnx = write_slowly
    with pytest.raises(UsageError, match=r"out exists\."):
        export(Adding(graph), tmp_path / "out")
    assert names(tmp_path / "out") == ["mine.txt"]
    assert sorted(os.listdir(tmp_path)) == ["cache", "out"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resnet50", "-o", "folder"], "folder exists."),
        (["resnet50", "-o", "file"], "file exists."),
        (["resnet50", "-o", "dangling"], "dangling exists."),
        (["resnet50", "-o", "missing/new"], "missing is not a folder."),
        (["resnet50", "-o", "file/new"], "file/new cannot be written: Not a directory."),
        (["resnet50", "-o", "n" * 300], "File name too long."),
        (["resnet50"], "Missing option '-o'."),
        (["resnet51", "-o", "new"], "resnet51"),
        (["prompts", "-o", "new"], "workload prompts has no graphs."),
        (["resnet50", "-o", "new", "--layout", "torch"], "'torch' is not one of 'files', 'triton'."),
        (["resnet50", "-o", "new", "--set", "backend.threads=1"], "'backend.threads' is not a setting of a workload."),
        (["resnet50", "-o", "new", "--set", "workload.wieghts=a"], "unknown setting 'workload.wieghts'"),
        (["resnet50", "-o", "new", "--profile", "full"], "the full profile of resnet50 needs"),
    ],
)
def test_a_wrong_request_is_one_line_and_leaves_nothing(arguments, message, mlbench, tmp_path):
    here = tmp_path / "here"
    (here / "folder").mkdir()
    (here / "file").write_text("mine")
    (here / "dangling").symlink_to("nowhere")
    done = mlbench(*arguments)
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.splitlines()
    assert message in line
    assert sorted(os.listdir(here)) == ["dangling", "file", "folder"]
    assert not os.listdir(here / "folder")
