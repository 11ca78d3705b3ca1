"""What shipped weights reach in torch, fp32, on one thread: the reference of a mini profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mlbench import BatchProgram, LoggedReply, Profile, Variant, Weights
from mlbench.toolkit import MiniFolder, ProfiledWorkload, ShippedProfile, in_torch, write_mini
from mlbench.toolkit.language import ShippedLanguageProfile
from mlbench_recipes.language_reference import reference_replies
from mlbench_recipes.language_training import HUGGING_FACE_FILES

if TYPE_CHECKING:
    from mlbench import Dataset, Graph

P = TypeVar("P", bound=ShippedProfile)
L = TypeVar("L", bound=ShippedLanguageProfile)


def write_profile(workload: ProfiledWorkload, profile: P, names: Sequence[str], *, batch: int = 1) -> P:
    """Measure what a profile's weights reach, write its `mini.toml`, and return the profile with its reference.

    Args:
        workload: whose program and metric are measured with.
        profile: all files are in its folder; its reference is not known yet.
        names: of the scores that are the reference.
        batch: samples at a time; language models are measured by Hugging Face's ``generate``.
    """
    scores = measure(workload, profile, batch=batch)
    described: Any = profile  # a dataclass, which the type does not say
    found: P = replace(described, reference={name: scores[name] for name in names})
    write_mini(found, recipe=recipe_of(workload))
    return found


def write_language_profile(
    workload: ProfiledWorkload, kind: type[L], folder: Path, data: str, names: Sequence[str]
) -> L:
    """Return `write_profile` of a language model, whose Hugging Face files are in a folder with a file of data."""
    profile = kind(files=MiniFolder.of(folder, (*HUGGING_FACE_FILES, data)), reference={})
    return write_profile(workload, profile, names)


def recipe_of(workload: ProfiledWorkload) -> str:
    """Return the module that makes a workload's mini profile."""
    package = type(workload).__module__.split(".")[0]
    return f"mlbench_recipes.{package.removeprefix('mlbench_')}.recipe"


def measure(workload: ProfiledWorkload, profile: ShippedProfile, *, batch: int = 1) -> Mapping[str, float]:
    """Return the official scores of a profile's weights."""
    import torch

    torch.set_num_threads(1)
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
    dataset, graphs = profile.dataset(), profile.graphs(Weights.TRAINED)
    program = workload.build_program(variant, profile, graphs)
    if isinstance(profile, ShippedLanguageProfile):
        network = profile.network.trained(profile.folder)
        replies = reference_replies(network, dataset, profile.program)
    else:
        assert isinstance(program, BatchProgram)
        replies = program_replies(program, graphs, dataset, batch=batch)
    return workload.build_metric(variant, profile, dataset, ()).score(replies)


def program_replies(
    program: BatchProgram, graphs: Mapping[str, Graph], dataset: Dataset, *, batch: int = 1
) -> list[LoggedReply]:
    """Return the replies to all samples, as an accuracy log would hold them.

    Args:
        program: calls the graphs.
        graphs: by name.
        dataset: of which all samples are loaded.
        batch: samples at a time.
    """
    modules = {name: in_torch(graph) for name, graph in graphs.items()}
    dataset.load(range(dataset.count))
    replies = []
    for first in range(0, dataset.count, batch):
        indices = range(first, min(first + batch, dataset.count))
        found = program.run([dataset.sample(index) for index in indices], modules)
        replies += [LoggedReply(index=index, data=each.tobytes()) for index, each in zip(indices, found, strict=True)]
    return replies
