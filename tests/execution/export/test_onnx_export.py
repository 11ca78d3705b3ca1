import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from mlbench import Dim, GraphError, TensorSpec
from mlbench.execution.export.onnx_export import export_onnx
from mlbench.toolkit import ModuleGraph

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.slow  # an export takes seconds

BATCH = Dim(name="batch", smallest=1, usual=8, largest=64)
LENGTH = Dim(name="length", smallest=1, usual=8, largest=64)


class WordMixer(torch.nn.Module):
    """Embeds ids, lets every position look at all others, and gives two numbers per position."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(50, 16)
        self.head = torch.nn.Linear(16, 2)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        words = self.words(ids) * mask.unsqueeze(-1)
        return self.head(torch.softmax(words @ words.transpose(1, 2), dim=-1) @ words)


class CountedBuild:
    """Builds a seeded module, and counts how often."""

    def __init__(self, module: Callable[[], torch.nn.Module]) -> None:
        self.count = 0
        self._module = module

    def __call__(self) -> torch.nn.Module:
        self.count += 1
        torch.manual_seed(7)
        return self._module()


def word_mixer(build: CountedBuild) -> ModuleGraph:
    return ModuleGraph(
        "mixer",
        inputs=(
            TensorSpec(name="ids", shape=(BATCH, LENGTH), dtype="int64"),
            TensorSpec(name="mask", shape=(BATCH, LENGTH), dtype="float32"),
        ),
        outputs=(TensorSpec(name="scores", shape=(BATCH, LENGTH, 2), dtype="float32"),),
        build=build,
        fingerprint="seed 7",
    )


def one_in_one_out(module: Callable[[], torch.nn.Module], dtype: str = "float32", fingerprint: str = "") -> ModuleGraph:
    return ModuleGraph(
        "probe",
        inputs=(TensorSpec(name="x", shape=(BATCH, 4), dtype="float32"),),
        outputs=(TensorSpec(name="y", shape=(BATCH, 4), dtype=dtype),),
        build=module,
        fingerprint=fingerprint or module.__name__,
    )


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The word mixer's file, exported once for the tests that only look at it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield export_onnx(word_mixer(CountedBuild(WordMixer)))


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 9), (5, 3), (3, 5), (64, 64)])
def test_the_file_computes_what_the_module_does_at_every_shape(shared: Path, batch: int, length: int):
    random = np.random.default_rng(3)
    ids = random.integers(0, 50, (batch, length))
    mask = random.integers(0, 2, (batch, length)).astype(np.float32)
    module = CountedBuild(WordMixer)().eval()
    with torch.inference_mode():
        expected = module(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
    session = onnxruntime.InferenceSession(shared, providers=["CPUExecutionProvider"])
    (found,) = session.run(["scores"], {"ids": ids, "mask": mask})
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_inputs_and_outputs_carry_the_names_and_dimensions_of_the_specs(shared: Path):
    graph = onnx.load(shared).graph
    found = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output)
    }
    assert found == {"ids": ["batch", "length"], "mask": ["batch", "length"], "scores": ["batch", "length", 2]}


def test_the_file_stands_alone_and_holds_no_annotations_that_trip_quantisers(shared: Path):
    model = onnx.load(shared, load_external_data=False)
    assert [file.name for file in shared.parent.glob("[!.]*")] == ["mixer.onnx"]
    assert not any(onnx.external_data_helper.uses_external_data(tensor) for tensor in model.graph.initializer)
    assert len(model.graph.value_info) == 0
    assert not any(node.metadata_props for node in model.graph.node)
    assert {domain.domain: domain.version for domain in model.opset_import} == {"": 18}


def test_a_second_call_exports_nothing_and_other_weights_or_libraries_of_networks_export_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    build = CountedBuild(lambda: torch.nn.Linear(4, 4))

    def export(fingerprint: str = "seed 7") -> Path:
        return export_onnx(one_in_one_out(build, fingerprint=fingerprint))

    first = export()
    before = first.stat()
    assert export() == first
    after = first.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert build.count == 1
    assert export("other weights") != first
    assert build.count == 2
    installed = tmp_path / "site" / "transformers-99.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: transformers\nVersion: 99.0\n")
    monkeypatch.syspath_prepend(str(installed.parent))
    assert export() != first
    assert build.count == 3


@pytest.mark.thorough("exports")
def test_exporting_prints_nothing_and_what_the_exporters_optimiser_does_is_not_in_the_log(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO):
        export_onnx(word_mixer(CountedBuild(WordMixer)))
    assert capfd.readouterr() == ("", "")
    assert {record.name for record in caplog.records} == {"mlbench.execution.export.onnx_export"}


@pytest.mark.thorough("exports")
def test_operators_are_read_once_for_all_graphs():
    from torch.onnx._internal._lazy_import import onnxscript_apis

    for module in (torch.nn.ReLU, torch.nn.Tanh):
        export_onnx(one_in_one_out(module))
    assert onnxscript_apis.get_torchlib_ops.cache_info().misses == 1


class Bessel(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x)


class FixedBatch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(8.0).reshape(2, 4)


class DataDependent(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


def test_an_operator_without_onnx_form_is_named():
    with pytest.raises(GraphError, match=r"graph probe cannot be exported to ONNX: .*bessel_j0"):
        export_onnx(one_in_one_out(Bessel))


@pytest.mark.thorough("exports", but=["FixedBatch"])
@pytest.mark.parametrize("module", [FixedBatch, DataDependent])
def test_a_graph_that_does_not_take_all_its_shapes_is_refused_in_one_line(
    module: type[torch.nn.Module], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    with pytest.raises(GraphError, match="graph probe") as caught:
        export_onnx(one_in_one_out(module))
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "onnx").iterdir()) == []
    assert capfd.readouterr() == ("", "")


class FirstRow(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:1]


def test_an_output_whose_size_does_not_vary_as_its_spec_says_is_refused():
    with pytest.raises(GraphError, match="y has batch fixed at 1"):
        export_onnx(one_in_one_out(FirstRow))


def test_a_spec_with_the_wrong_dtype_is_refused():
    with pytest.raises(GraphError, match="y is float32, not float64"):
        export_onnx(one_in_one_out(torch.nn.ReLU, dtype="float64"))


SLOTS = Dim(name="slots", smallest=1, usual=8, largest=64)


class Notebook(torch.nn.Module):
    """Adds words to the pages of each slot, in place, and sums what the first rows hold."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(50, 4)

    def forward(self, ids: torch.Tensor, columns: torch.Tensor, *pages: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = torch.arange(ids.shape[0])
        for page in pages:
            page.index_put_((rows, columns), self.words(ids))
        return (sum(page[: ids.shape[0]].sum(dim=1) for page in pages), *pages)


class NotebookOfTwo(Notebook):
    def forward(self, ids: torch.Tensor, columns: torch.Tensor, left: torch.Tensor, right: torch.Tensor):
        return super().forward(ids, columns, left, right)


def notebook(build: CountedBuild, state_names: tuple[str, ...] = ("page.0", "page.1")) -> ModuleGraph:
    return ModuleGraph(
        "notebook",
        inputs=tuple(TensorSpec(name=name, shape=(BATCH,), dtype="int64") for name in ("ids", "columns")),
        outputs=(TensorSpec(name="sums", shape=(BATCH, 4), dtype="float32"),),
        state=tuple(TensorSpec(name=name, shape=(SLOTS, LENGTH, 4), dtype="float32") for name in state_names),
        build=build,
        fingerprint="seed 7",
    )


@pytest.mark.thorough("exports")
@pytest.mark.parametrize("module", [Notebook, NotebookOfTwo])
def test_state_goes_in_by_its_name_and_comes_out_as_the_module_left_it(module: type[torch.nn.Module]):
    path = export_onnx(notebook(CountedBuild(module)))
    graph = onnx.load(path).graph
    assert [value.name for value in graph.input] == ["ids", "columns", "page.0", "page.1"]
    assert [value.name for value in graph.output] == ["sums", "page.0.next", "page.1.next"]
    for value in (*graph.input[2:], *graph.output[1:]):
        assert [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim] == ["slots", "length", 4]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(3)
    for rows, slots, length in ((1, 1, 1), (2, 5, 9), (5, 5, 3)):
        pages = [random.standard_normal((slots, length, 4), dtype=np.float32) for _ in range(2)]
        ids, columns = random.integers(0, 50, rows), random.integers(0, length, rows)
        feed = {"ids": ids, "columns": columns, "page.0": pages[0], "page.1": pages[1]}
        found = session.run(None, feed)
        with torch.inference_mode():
            expected = CountedBuild(module)()(*(torch.tensor(array) for array in feed.values()))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other.numpy(), atol=1e-5)


@pytest.mark.thorough("exports")
def test_a_graph_with_other_state_is_exported_again():
    build = CountedBuild(Notebook)
    assert export_onnx(notebook(build)) != export_onnx(notebook(build, state_names=("page.0", "page.2")))
    assert build.count == 2
