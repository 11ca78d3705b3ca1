"""The result of a workload's preparation, in a separate process: ``python -m`` prints it as JSON."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256

from mlbench.contracts.model import Model
from mlbench.contracts.transform import Transform
from mlbench.contracts.workload import Profile, Variant, Weights, Workload
from mlbench.discovery import Plugins
from mlbench.errors import ConformanceError, one_line
from mlbench.execution.transforming import apply_transforms
from mlbench.settings.layers import fill_template
from mlbench.settings.transforms import choose_transforms

MOST_SAMPLES = 64
"""How many samples of a dataset are read, spread over all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What must be the same each time."""

    count: int
    performance_count: int
    data_fingerprint: str
    weights_fingerprint: str
    graph_fingerprints: Mapping[str, str]
    samples_sha256: str
    """A hash of some samples, as they are pickled."""
    changes: Sequence[str] = ()
    """Changes by transforms."""
    modules_sha256: str = ""
    """A hash of the modules that transforms changed, with their weights; empty without transforms."""

    def difference_from(self, other: Preparation) -> str:
        """Return the name of the first field in which two differ, and both values; empty where they are equal."""
        ours, theirs = asdict(self), asdict(other)
        return next((f"{name} is {ours[name]}, then {theirs[name]}" for name in ours if ours[name] != theirs[name]), "")


def prepare(workload: Workload, variant: Variant, transforms: Sequence[Transform] = ()) -> Preparation:
    """Open the data, read some samples and describe the model; nothing is computed."""
    dataset, model = workload.dataset(variant), apply_transforms(workload.model(variant), transforms)
    indices = range(0, dataset.count, -(-dataset.count // MOST_SAMPLES))
    dataset.load(indices)
    digest = sha256()
    for index in indices:
        digest.update(pickle.dumps(dataset.sample(index), protocol=5))
    dataset.unload(indices)
    return Preparation(
        count=dataset.count,
        performance_count=dataset.performance_count,
        data_fingerprint=dataset.fingerprint,
        weights_fingerprint=model.weights_fingerprint,
        graph_fingerprints={name: graph.fingerprint for name, graph in model.graphs.items()},
        samples_sha256=digest.hexdigest(),
        changes=model.changes,
        modules_sha256=_hash_modules(model) if transforms else "",
    )


def _hash_modules(model: Model) -> str:
    digest = sha256()
    for name, graph in model.graphs.items():
        module = graph.module()
        digest.update(f"{name} {module}".encode())
        for key, value in module.state_dict().items():
            digest.update(key.encode() + value.numpy().tobytes())
    return digest.hexdigest()


def prepare_elsewhere(
    workload: str, settings: Mapping[str, str], *, hash_seed: int, transform: str = ""
) -> Preparation:
    """Return the result of `prepare` in a fresh process, with a seed for the order of sets.

    Raises:
        ConformanceError: the process ended without an answer; the message has its last line.
    """
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "mlbench.conformance.preparation",
            workload,
            json.dumps(dict(settings)),
            transform,
        ],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode or not last.startswith("{"):
        said = one_line("\n".join(reversed(done.stderr.strip().splitlines())))
        raise ConformanceError(f"a process that prepares the workload ended with {done.returncode}: {said}")
    return Preparation(**json.loads(last))


def mini_variant(workload: Workload, settings: Mapping[str, str]) -> Variant:
    """Return the mini profile with its trained weights, and the options that settings give."""
    options = fill_template(workload.options, "workload", settings)
    return Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=options)


def _main(name: str, settings: str, transform: str) -> None:
    plugins = Plugins.discover()
    workload = plugins.workload(name)
    found = prepare(workload, mini_variant(workload, json.loads(settings)), choose_transforms(transform, plugins))
    sys.stdout.write(f"\n{json.dumps(asdict(found))}\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
