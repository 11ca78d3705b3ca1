"""The kit for transforms passes sound ones, and names what a broken one does."""

import copy
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import mlbench_bert  # noqa: E402 - torch may be missing
from mlbench_bert.workload import Bert  # noqa: E402

from mlbench import TensorSpec, Transform  # noqa: E402
from mlbench.conformance.transform_checks import (  # noqa: E402
    changes_answers_as_it_says,
    is_the_same_each_time,
    keeps_shapes_and_types,
    leaves_the_untouched_model_alone,
    sees_calibration_data_alone,
)
from mlbench.conformance.transform_kit import TransformCheckRequest  # noqa: E402
from mlbench.discovery import Plugins  # noqa: E402
from mlbench.errors import ConformanceError, PluginError, UsageError  # noqa: E402
from mlbench.execution.transforming import apply_transforms  # noqa: E402
from mlbench.toolkit import TransformedGraph, change_modules  # noqa: E402

pytestmark = pytest.mark.slow
MINI = Path(mlbench_bert.__file__).parent / "mini"


class Transforms(Transform):
    """Changes modules by a function that a test gives."""

    name = "of-a-test"
    change = staticmethod(lambda part: None)
    says = "nothing"

    def apply(self, model, calibration):
        self.look(model, calibration)
        return change_modules(model, self, self.change, says=self.says)

    def look(self, model, calibration):
        pass


@pytest.fixture(scope="module")
def subject():
    return TransformCheckRequest(transform="sparse").subject()


@pytest.fixture
def reason(subject):
    """Return a function that gives why a transform of these parts fails a check; empty where it passes."""

    def run(check, base=Transforms, **parts):
        transform = type("Made", (base,), {"__module__": __name__, **parts})()
        try:
            check(dataclasses.replace(subject, transform=transform))
        except (ConformanceError, PluginError) as error:
            return str(error)
        return ""

    return run


def halve(part):
    if isinstance(part, torch.nn.Linear):
        part.weight.mul_(0.5)


def read_all_calibration_inputs(self, model, calibration):
    assert [sum(1 for _ in calibration.inputs(name)) for name in model.graphs] == [100]


def test_reading_the_calibration_list_is_allowed(reason):
    assert len((MINI / "calibration.txt").read_text().split()) == 100
    assert reason(sees_calibration_data_alone, look=read_all_calibration_inputs) == ""


def open_dataset(self, model, calibration):
    from mlbench.conformance.preparation import mini_variant

    workload = Plugins.discover().workload("bert")
    workload.dataset(mini_variant(workload, {}))


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (open_dataset, "opens the workload's dataset"),
        (lambda *_: (MINI / "dev.json").read_text(), "dev.json, which is no calibration data"),
        (lambda *_: (MINI / "reference_outputs.npz").read_bytes(), "reference_outputs.npz, which is no calibration"),
        (lambda *_: subprocess.run([sys.executable, "-c", ""], check=True), "causes subprocess.Popen"),
    ],
)
def test_a_look_at_validation_data_is_caught_while_describing(reason, look, words):
    assert words in reason(sees_calibration_data_alone, look=look)


def test_a_look_at_validation_data_is_caught_when_weights_load(reason):
    def peek(part):
        (MINI / "dev.json").read_text()

    assert "dev.json" in reason(sees_calibration_data_alone, change=staticmethod(peek))
    assert Bert.dataset is not None  # the kit put it back


def test_a_module_that_returns_another_shape_or_type_is_caught(reason, subject):
    (graph,) = subject.untouched().graphs.values()
    name_of_whole = type(graph.module()).__name__

    def cut(part):
        if type(part).__name__ == name_of_whole:
            part.register_forward_hook(lambda module, inputs, output: tuple(each.double() for each in output))

    assert "float64" in reason(keeps_shapes_and_types, change=staticmethod(cut))
    assert reason(keeps_shapes_and_types, change=staticmethod(halve)) == ""


def test_answers_change_exactly_if_the_transform_says_so(reason):
    assert reason(changes_answers_as_it_says, change=staticmethod(halve)) == ""
    assert "differ from the untouched" in reason(
        changes_answers_as_it_says, change=staticmethod(halve), changes_answers=False
    )
    assert "bit by bit" in reason(changes_answers_as_it_says)
    assert reason(changes_answers_as_it_says, changes_answers=False) == ""


def test_a_change_of_more_than_the_given_model_is_caught(reason, monkeypatch):
    whole = torch.nn.Linear.forward
    monkeypatch.setattr(torch.nn.Linear, "forward", whole)  # restored after the test

    def patch_class(part):
        torch.nn.Linear.forward = lambda self, given: whole(self, given) * 0.5

    assert "answers otherwise once" in reason(leaves_the_untouched_model_alone, change=staticmethod(patch_class))


UNSEEDED = """
from mlbench import Transform, hookimpl
from mlbench.toolkit import change_modules

class Unseeded(Transform):
    name = "unseeded"

    def apply(self, model, calibration):
        return change_modules(model, self, self.change, says="weights moved by the hash of a text")

    def change(self, part):
        if type(part).__name__ == "Linear":
            part.weight.add_(hash("a") % 1000 * 1e-6)

@hookimpl
def mlbench_transforms():
    return [Unseeded()]
"""


@pytest.fixture
def unseeded(tmp_path, monkeypatch):
    """Install a transform that is another one with each seed of hashes, for this process and for children."""
    (tmp_path / "mlb_unseeded.py").write_text(UNSEEDED)
    installed = tmp_path / "mlb_unseeded-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mlb-unseeded\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[mlbench]\nunseeded = mlb_unseeded\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    yield TransformCheckRequest(transform="unseeded").subject()
    del sys.modules["mlb_unseeded"]


@pytest.mark.thorough("kit")
def test_a_second_process_that_makes_another_model_is_caught(unseeded):
    with pytest.raises(ConformanceError, match="a second process makes another model: modules_sha256 is"):
        is_the_same_each_time(unseeded)


def changed_graph(**fields):
    """Return an ``apply`` whose graphs have other fields."""

    def apply(self, model, calibration):
        changed = change_modules(model, self, lambda part: None, says="x")
        for graph in changed.graphs.values():
            for name, value in fields.items():
                setattr(graph, name, value(graph))
        return changed

    return apply


class Reverting(TransformedGraph):
    fingerprint = property(lambda self: self.wrapped.fingerprint)


@pytest.mark.parametrize(
    ("apply", "words"),
    [
        (lambda self, model, calibration: None, "returned a NoneType, not a Model"),
        (lambda self, model, calibration: model, "does not say what it changed"),
        (lambda self, model, _: dataclasses.replace(model, graphs={}, changes=("x",)), "leaves out graph"),
        (changed_graph(outputs=lambda graph: graph.outputs[:0]), "changes the outputs of graph"),
        (changed_graph(inputs=lambda graph: graph.inputs[::-1]), "changes the inputs of graph"),
        (
            lambda self, model, _: dataclasses.replace(
                model, graphs={k: Reverting(g, self, print) for k, g in model.graphs.items()}, changes=("x",)
            ),
            "keeps its fingerprint",
        ),
    ],
)
def test_a_model_that_breaks_the_contract_is_refused_before_it_runs(subject, apply, words):
    transform = type("Made", (Transforms,), {"__module__": __name__, "apply": apply})()
    with pytest.raises(PluginError, match=words):
        apply_transforms(subject.untouched(), [transform])


def test_what_calls_itself_quantisation_keeps_program_and_state(subject):
    state = (TensorSpec(name="keys.0", shape=(1,), dtype="float32"),)
    parts = {"__module__": __name__, "is_closed": True}
    with_state = type("Made", (Transforms,), parts | {"apply": changed_graph(state=lambda graph: state)})()
    with pytest.raises(PluginError, match="state of graphs or adds some, which the closed division forbids"):
        apply_transforms(subject.untouched(), [with_state])

    def apply(self, model, calibration):
        return dataclasses.replace(model, program=copy.copy(model.program), changes=("x",))

    other_program = type("Made", (Transforms,), parts | {"apply": apply})()
    with pytest.raises(PluginError, match="changes the program, which the closed division forbids"):
        apply_transforms(subject.untouched(), [other_program])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"graphs": {}, "why_no_graphs": "x"}, "writes no files"),
        ({"files": Path("folder")}, "returns graphs, or does not say why there are none"),
        ({"graphs": {}, "files": Path("folder")}, "returns graphs, or does not say why there are none"),
        ({"graphs": {}, "why_no_graphs": "x", "files": Path("folder"), "program": None}, "changes the program"),
    ],
)
def test_what_writes_files_writes_some_and_keeps_no_graphs(subject, changed, words):
    class Writing(Transforms):
        writes_files = True

        def apply(self, model, calibration):
            other = {"program": copy.copy(model.program)} if "program" in changed else {}
            return dataclasses.replace(model, **changed | other, changes=("x",))

    with pytest.raises(PluginError, match=words):
        apply_transforms(subject.untouched(), [Writing()])


def test_the_kit_refuses_what_writes_files():
    with pytest.raises(UsageError, match="gptq writes files for engines that load them"):
        TransformCheckRequest(transform="gptq").subject()


def test_no_engine_can_read_the_files_of_the_untouched_model():
    gptj = TransformCheckRequest(transform="prune-layers").subject()
    assert gptj.untouched().files is not None
    assert gptj.changed().files is None
    assert gptj.changed().weights_fingerprint.endswith("prune-layers:0.25:0")
