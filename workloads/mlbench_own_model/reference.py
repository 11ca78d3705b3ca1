"""The right answers to the samples of a user's model, and by how much a precision may change them."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench import Executable, Precision, UsageError
from mlbench.toolkit import build_once, find_versions, tracing_versions
from mlbench_own_model.answers import answer, differ, read_outputs, write_outputs

if TYPE_CHECKING:
    from mlbench_own_model.dataset import ModelInputs, Sample
    from mlbench_own_model.graphs import OpenModel
    from mlbench_own_model.options import OwnModelOptions
    from mlbench_own_model.signature import Signature

NOISE: Mapping[Precision, float] = {
    Precision.FP32: 2.0**-18,
    Precision.FP16: 2.0**-10,
    Precision.BF16: 2.0**-7,
    Precision.INT8: 2.0**-4,
    Precision.FP8: 2.0**-4,
}
"""By how much of itself each weight and input is changed at most, to find by how much a precision changes outputs: some
times its rounding, since what lies between is rounded as well."""

ROOM = 4
"""How many times the change that such noise makes is allowed."""
FLOOR = 1e-5
"""Least allowed difference, as a share of an output's largest value: another order of sums in fp32."""
LEAST_AGREEMENT = 0.99
MOST_SAMPLES, MOST_S = 8, 3.0
"""Samples that limits are found with; after so many seconds two are enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest honest differences of a precision, in shares of an output's largest value."""

    difference: float
    """The mean over an output's numbers and all samples."""
    largest: float
    """The difference of a single number."""
    agreement: float
    """Least share of samples whose largest score is at the same place, or of equal ids."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """Right answers."""

    outputs: Sequence[Sequence[np.ndarray]]
    """For each sample its outputs, flat."""
    limits: Mapping[Precision, Limits]

    @functools.cached_property
    def scales(self) -> list[float]:
        """The largest value of each output over all samples; 1 where all are 0."""
        return scales_of(self.outputs)


def scales_of(outputs: Sequence[Sequence[np.ndarray]]) -> list[float]:
    """Return the largest finite value of each output over all samples; 1 where all are 0."""
    found = []
    for of_one in zip(*outputs, strict=True):
        largest = max((np.abs(each[np.isfinite(each)]).max(initial=0) for each in of_one), default=0)
        found.append(float(largest) or 1.0)
    return found


def read_reference(opened: OpenModel, data: ModelInputs, options: OwnModelOptions) -> Reference:
    """Return the right answers, from the cache or computed now, sample by sample.

    Raises:
        UsageError: the reference backend is unknown, or compiles no graphs.
        MlbenchError: it cannot compute the model.
    """
    made_from = {
        "model": opened.file.fingerprint,
        "signature": repr(opened.signature),
        "inputs": data.fingerprint,
        "versions": {
            **tracing_versions(opened.file.graph(opened.signature, lambda: iter(())), __name__),
            **find_versions("onnxruntime", "onnxruntime-gpu", "numpy"),
        },
    }
    folder = build_once("own_model_reference", made_from, lambda fresh: _fill(fresh, opened, data))
    sizes = json.loads((folder / "limits.json").read_text(encoding="utf-8"))
    outputs: Sequence[Sequence[np.ndarray]] = read_outputs(folder / "outputs.npz")
    if options.reference and not data.answers:  # a plugin's code may change from run to run, so nothing of it is kept
        from mlbench_own_model.other_backend import answers_of_backend

        outputs = answers_of_backend(options)
    return Reference(
        outputs=outputs,
        limits={Precision(name): Limits(**each) for name, each in sizes.items()},
    )


def _fill(folder: Path, opened: OpenModel, data: ModelInputs) -> None:
    limits = {str(precision): asdict(each) for precision, each in find_limits(opened, data).items()}
    (folder / "limits.json").write_text(json.dumps(limits), encoding="utf-8")
    outputs: Sequence[Sequence[np.ndarray]]
    if data.answers:
        outputs = list(_given_answers(opened.signature, data))
    else:
        run = _compile(opened)
        outputs = [answer(opened.signature, run, data.sample(index)) for index in range(data.count)]
    if not any(np.isfinite(part).any() for each in outputs for part in each):
        raise UsageError(
            f"{opened.file.path.name} answers none of these samples with a finite number.", hint="Give --inputs FILE."
        )
    write_outputs(folder / "outputs.npz", outputs)


def _compile(opened: OpenModel, noise: float = 0.0) -> Executable:
    signature = opened.signature
    graph = opened.file.noisy_graph(signature, noise) if noise else opened.file.graph(signature, lambda: iter(()))
    return opened.file.compile_reference(graph)


def _given_answers(signature: Signature, data: ModelInputs) -> Iterator[list[np.ndarray]]:
    """Yield the user's own right answers.

    Raises:
        UsageError: they are not for all outputs.
    """
    from mlbench_own_model.program import reply_dtype, thin

    missing = [spec.name for spec in signature.outputs if spec.name not in data.answers]
    if missing:
        raise UsageError(
            f"the inputs come with right answers, but none for {missing[0]}.", hint="Give all outputs, or none."
        )
    arrays = [data.answers[spec.name].reshape(data.count, -1) for spec in signature.outputs]
    dtype = reply_dtype(signature)
    for index in range(data.count):
        yield [thin(each[index : index + 1])[0].astype(dtype) for each in arrays]


def find_limits(opened: OpenModel, data: ModelInputs) -> Mapping[Precision, Limits]:
    """Return the limits of each precision: some times the change that noise of its size in weights and inputs makes."""
    signature, run, started_s = opened.signature, _compile(opened), time.monotonic()
    right: list[list[np.ndarray]] = []
    for index in range(min(MOST_SAMPLES, data.count)):
        right.append(answer(signature, run, data.sample(index)))
        if len(right) > 1 and time.monotonic() - started_s > MOST_S:
            break
    changed: dict[float, list[list[np.ndarray]]] = {}
    for share in set(NOISE.values()):
        noisy, random = _compile(opened, share), np.random.default_rng(0)
        changed[share] = [answer(signature, noisy, _shake(data.sample(at), share, random)) for at in range(len(right))]
    scales, most = scales_of(right), max(changed)
    flips = _most_flips(right, changed[most]) / most
    return {precision: _limits_of(right, changed[share], scales, flips * share) for precision, share in NOISE.items()}


def _shake(sample: Sample, share: float, random: np.random.Generator) -> Sample:
    return {
        name: (array * (1 + share * random.uniform(-1, 1, array.shape))).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
        for name, array in sample.items()
    }


def _most_flips(right: Sequence[Sequence[np.ndarray]], changed: Sequence[Sequence[np.ndarray]]) -> float:
    """Return the share of answers that noise changes, as if one more was seen and changed: few samples show few."""
    found = []
    for wanted, noisy in zip(zip(*right, strict=True), zip(*changed, strict=True), strict=True):
        count = sum(each.size for each in wanted) if wanted[0].dtype.kind in "iu" else len(wanted)
        found.append((count * (1 - agreement(wanted, noisy)) + 1) / (count + 1))
    return max(found)


def _limits_of(
    right: Sequence[Sequence[np.ndarray]],
    changed: Sequence[Sequence[np.ndarray]],
    scales: Sequence[float],
    flips: float,
) -> Limits:
    means, largest, same = [0.0], [0.0], [1 - flips]
    for wanted, found, scale in zip(zip(*right, strict=True), zip(*changed, strict=True), scales, strict=True):
        apart = np.concatenate([differ(one, other) / scale for one, other in zip(found, wanted, strict=True)])
        apart = apart[np.isfinite(apart)]  # noise may make a number of what was none
        means.append(float(apart.mean()) if apart.size else 0.0)
        largest.append(float(apart.max(initial=0.0)))
        same.append(agreement(wanted, found))
    return Limits(
        difference=max(FLOOR, ROOM * max(means)),
        largest=max(10 * FLOOR, 2 * ROOM * max(largest)),
        agreement=min(LEAST_AGREEMENT, 1 - ROOM * (1 - min(same))),
    )


def agreement(wanted: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    """Return the share of samples whose largest number is at the same place; of ids the share of equal ones."""
    pairs = list(zip(wanted, found, strict=True))
    if wanted[0].dtype.kind in "iu":
        return float(np.mean(np.concatenate([one == other for one, other in pairs])))
    return float(np.mean([one.size == other.size > 0 and one.argmax() == other.argmax() for one, other in pairs]))
