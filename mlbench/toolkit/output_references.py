"""The fp32 model's outputs that a mini profile ships: what an accuracy run is compared with, besides its scores.

One file, `reference_outputs.npz`, beside `mini.toml`, which has its checksum: which samples, how long the output to
each is, and all outputs one after the other. It is compressed: labels and tokens become a fraction of their size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from mlbench.contracts.metric import OutputReference
from mlbench.contracts.precision import Precision
from mlbench.toolkit.mini_folder import MiniFolder, MiniProfile, write_mini

if TYPE_CHECKING:
    import numpy as np

OUTPUTS_FILE = "reference_outputs.npz"


def read_output_reference(files: MiniFolder, *, bounds: Mapping[Precision, float], unit: str) -> OutputReference | None:
    """Return the references in a mini folder; None if there are none.

    Args:
        files: of the mini profile.
        bounds: the largest mean difference of a run of each precision.
        unit: of what the difference is, as in `OutputReference`.

    Raises:
        DataError: the file is missing, or another than was written.
    """
    import numpy as np

    if OUTPUTS_FILE not in files.sha256:
        return None
    with np.load(files.file(OUTPUTS_FILE), allow_pickle=False) as archive:
        indices, lengths, values = (archive[name] for name in ("indices", "lengths", "values"))
    places = pairwise(accumulate(lengths.tolist(), initial=0))
    outputs = {index: values[start:end] for index, (start, end) in zip(indices.tolist(), places, strict=True)}
    return OutputReference(outputs=outputs, bounds=bounds, unit=unit)


def write_output_reference(profile: MiniProfile, outputs: Mapping[int, np.ndarray], *, recipe: str) -> None:
    """Write outputs beside a mini profile's files, and their checksum into its `mini.toml`.

    Args:
        profile: as it was read.
        outputs: by sample index, one axis each.
        recipe: the module that made the other files.
    """
    import numpy as np

    files, kept = profile.files, sorted(outputs)
    np.savez_compressed(
        files.path / OUTPUTS_FILE,
        indices=np.array(kept, dtype=np.int32),
        lengths=np.array([len(outputs[index]) for index in kept], dtype=np.int32),
        values=_smallest(np.concatenate([outputs[index] for index in kept])),
    )
    known: Any = profile  # a dataclass, which a protocol cannot say
    names = dict.fromkeys([*files.sha256, OUTPUTS_FILE])
    write_mini(replace(known, files=MiniFolder.of(files.path, names)), recipe=recipe)


def _smallest(values: np.ndarray) -> np.ndarray:
    """Return values in a smaller type where one of these holds all of them exactly."""
    for dtype in ("uint8", "int16", "int32"):
        if (values == (cast := values.astype(dtype))).all():
            return cast
    return values
