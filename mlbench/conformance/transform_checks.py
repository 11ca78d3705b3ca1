"""Requirements for a transform: it is reproducible, keeps the form of graphs, and sees calibration data alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.conformance.preparation import prepare_elsewhere
from mlbench.conformance.subject import demand
from mlbench.conformance.workload_subject import TrialSubject
from mlbench.contracts.graph import Dim, Graph, TensorSpec
from mlbench.contracts.metric import LoggedReply
from mlbench.contracts.model import Model
from mlbench.contracts.precision import Precision
from mlbench.contracts.transform import Transform
from mlbench.contracts.wrapped import WrappedGraph
from mlbench.errors import ConformanceError
from mlbench.execution.transforming import apply_transforms
from mlbench.rules.scoring import agreement
from mlbench.system.folders import data_folder

if TYPE_CHECKING:
    import torch

SAMPLES = 8
"""Samples that are answered."""

_PROCESS_EVENTS = ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "socket.connect")
"""Names of Python's audit events after which others may read files."""


@dataclass(frozen=True, kw_only=True)
class TransformSubject(TrialSubject):
    """What a check of a transform looks at: it, and the workload that it is checked on."""

    transform: Transform

    @property
    def plugin(self) -> Transform:
        """The transform."""
        return self.transform

    def untouched(self) -> Model:
        """Return the workload's model, made anew."""
        return self.trial.workload.model(self.trial.variant)

    def changed(self) -> Model:
        """Return the transformed model, made anew."""
        return apply_transforms(self.untouched(), [self.transform])

    def answers(self, model: Model) -> list[LoggedReply]:
        """Return a model's answers to some samples."""
        return self.trial.answer(model=model, samples=SAMPLES)


TransformCheck = Callable[[TransformSubject], None]
"""Returns when the transform does what the check's docstring demands; else raises `ConformanceError`."""


def sees_calibration_data_alone(subject: TransformSubject) -> None:
    """It opens no dataset, starts no process, and reads no file that the model and its calibration list do not."""
    workload = subject.trial.workload
    with _watch() as ours:
        _build_all(subject.untouched())
    untouched = subject.untouched()
    with _watch() as theirs, _forbid_dataset(type(workload)):
        _build_all(apply_transforms(untouched, [subject.transform]))
    module = sys.modules[type(workload).__module__.partition(".")[0]]
    places = [Path(str(module.__file__)).resolve().parent, data_folder().resolve()]
    for event, what in sorted(set(theirs) - set(ours)):
        place = Path(os.path.realpath(what))
        is_data = event == "open" and place.suffix not in (".py", ".pyc") and any(map(place.is_relative_to, places))
        demand(not is_data, f"the transform opens {what}, which is no calibration data.", "Use the given calibration.")
        demand(event == "open", f"the transform causes {event}: {what[:80]}.", "Compute in the model's process.")


def is_the_same_each_time(subject: TransformSubject) -> None:
    """Two processes make the same modules and weights, whatever the order of their sets."""
    trial, text = subject.trial, subject.transform.text
    one, other = (
        prepare_elsewhere(trial.workload.name, trial.settings, hash_seed=seed, transform=text) for seed in (1, 2)
    )
    demand(
        not (difference := one.difference_from(other)),
        f"a second process makes another model: {difference}.",
        "Seed random generators, and sort items of sets and folders.",
    )


def keeps_shapes_and_types(subject: TransformSubject) -> None:
    """Changed graphs return what their specs promise: the shapes and types of the untouched model."""
    faults: list[str] = []
    model = subject.changed()
    watched: Mapping[str, Graph] = {name: _WatchedGraph(each, faults) for name, each in model.graphs.items()}
    try:
        subject.answers(replace(model, graphs=watched))
    except ConformanceError:
        if not faults:
            raise
    demand(not faults, f"{next(iter(faults), '')}.", "Keep the outputs of each graph.")


def changes_answers_as_it_says(subject: TransformSubject) -> None:
    """Answers are those of the untouched model, unless `changes_answers` says otherwise; then some differ."""
    before, after = subject.answers(subject.untouched()), subject.answers(subject.changed())
    if subject.transform.changes_answers:
        advice = "Set changes_answers to False, or find out why nothing changes."
        demand(before != after, f"{len(before)} answers are those of the untouched model, bit by bit.", advice)
        return
    found = agreement(subject.trial.metric(), after, before, Precision.FP32)
    demand(
        not found.differing,
        f"{len(found.differing)} of {found.checked} answers differ from the untouched model's.",
        "Set changes_answers to True, or keep the answers.",
    )


def leaves_the_untouched_model_alone(subject: TransformSubject) -> None:
    """A model that is made after a transform was applied answers as one that was made before."""
    before = subject.answers(subject.untouched())
    _build_all(subject.changed())
    demand(
        subject.answers(subject.untouched()) == before,
        "the workload's own model answers otherwise once the transform was applied.",
        "Change the given model's modules, and nothing else in the process.",
    )


TRANSFORM_CHECKS: tuple[TransformCheck, ...] = (
    sees_calibration_data_alone,  # first: what another check has read would perhaps not be opened again
    is_the_same_each_time,
    keeps_shapes_and_types,
    changes_answers_as_it_says,
    leaves_the_untouched_model_alone,
)
"""The checks of any transform, in the order in which they are run."""


def _build_all(model: Model) -> None:
    """Build the modules of all graphs, and read all calibration inputs."""
    modules = [graph.module() for graph in model.graphs.values()]
    for graph in model.graphs.values():
        for _ in graph.calibration():
            pass
    del modules  # only now: graphs share networks as long as these live


class _Audit:
    """Notes what this process opens and starts; Python never removes an audit hook."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, str]] | None = None
        """Events with what they are about; None: none is noted."""
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.noted is not None and (event == "open" or event in _PROCESS_EVENTS):
            what = arguments[0]
            self.noted.append((event, os.fsdecode(what) if isinstance(what, str | bytes) else str(what)))


_audits: list[_Audit] = []


@contextmanager
def _watch() -> Iterator[list[tuple[str, str]]]:
    """Give the files that are opened and the processes that are started in this block."""
    audit = _audits[0] if _audits else _Audit()
    _audits[:] = [audit]
    noted: list[tuple[str, str]] = []
    audit.noted = noted
    try:
        yield noted
    finally:
        audit.noted = None


@contextmanager
def _forbid_dataset(kind: type) -> Iterator[None]:
    """Have a workload's dataset raise while the transform runs."""

    def refuse(*_: object, **__: object) -> None:
        raise ConformanceError(
            "the transform opens the workload's dataset, which has the validation samples.",
            hint="Use the given calibration.",
        )

    own = vars(kind).get("dataset")
    kind.dataset = refuse  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if own is None:
            del kind.dataset  # type: ignore[attr-defined]
        else:
            kind.dataset = own  # type: ignore[attr-defined]


class _WatchedGraph(WrappedGraph):
    """A graph whose module's outputs are compared with its specs."""

    is_used_once = True

    def __init__(self, graph: Graph, faults: list[str]) -> None:
        super().__init__(graph)
        self._faults = faults

    def module(self) -> torch.nn.Module:
        """Return the graph's module, watched."""
        module = self.wrapped.module()
        module.register_forward_hook(self._look)
        return module

    def _look(self, module: torch.nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        specs, given = (*self.outputs, *self.state), output if isinstance(output, tuple) else (output,)
        if len(given) != len(specs):
            self._faults.append(f"graph {self.name} returns {len(given)} tensors, not {len(specs)}")
            return
        for spec, tensor in zip(specs, given, strict=True):
            shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
            if not _fits(spec, shape) or dtype != spec.dtype:
                self._faults.append(f"graph {self.name} returns {spec.name} as {dtype} {shape}")


def _fits(spec: TensorSpec, shape: Sequence[int]) -> bool:
    """Return whether a tensor has a spec's fixed sizes; varying ones may be any in their range."""
    return len(shape) == len(spec.shape) and all(
        wanted.smallest <= found <= wanted.largest if isinstance(wanted, Dim) else found == wanted
        for wanted, found in zip(spec.shape, shape, strict=True)
    )
