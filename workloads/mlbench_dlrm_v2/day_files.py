"""The three files of a day of clicks in the official form, as memory maps: nothing is read until it is used.

Source of names, dtypes and shapes: MLPerf Inference v4.1, recommendation/dlrm_v2.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from mlbench import DataError
from mlbench.toolkit import first_line
from mlbench_dlrm_v2.architecture import DENSE_FEATURES

DENSE, LABELS, HOT = "day_23_dense.npy", "day_23_labels.npy", "day_23_sparse_multi_hot.npz"

HASHED_ROWS = 4096
"""At either end of every array; hashing all 81 GB would take minutes."""

_LOCAL_HEADER_BYTES = 30
_UNCOMPRESSED = "Save it with numpy.savez: its members are mapped into memory, which compressed ones cannot be."


@dataclass(frozen=True, slots=True)
class Day:
    """Rows of user-item pairs: one user shown one item each."""

    dense: np.ndarray
    """(N, 13) float32: ln(count + 3)."""
    hot: Sequence[np.ndarray]
    """(N, hot size) int32 for each categorical feature: indices into its table, which may repeat."""
    labels: np.ndarray
    """(N, 1) int32: 1 for a click."""

    def __len__(self) -> int:
        return len(self.dense)

    def __getitem__(self, rows: slice) -> Day:
        return Day(self.dense[rows], [part[rows] for part in self.hot], self.labels[rows])

    def fingerprint(self) -> str:
        """Return a hash of all shapes and of the first and the last rows."""
        digest = hashlib.sha256()
        for array in (self.dense, *self.hot, self.labels):
            digest.update(str(array.shape).encode())
            digest.update(array[:HASHED_ROWS].tobytes())
            digest.update(array[-HASHED_ROWS:].tobytes())
        return digest.hexdigest()


def open_day(folder: Path, hot_sizes: Sequence[int]) -> Day:
    """Map a day's files.

    Raises:
        DataError: one is missing, cut short, compressed, or of another dtype or shape.
    """
    dense = _array(folder / DENSE, "float32", DENSE_FEATURES)
    labels = _array(folder / LABELS, "int32", 1)
    hot = [_member(folder / HOT, str(number), size) for number, size in enumerate(hot_sizes)]
    for name, array in {LABELS: labels, **{f"{HOT}[{number}]": part for number, part in enumerate(hot)}}.items():
        if len(array) != len(dense):
            raise DataError(
                f"{folder}: {name} has {len(array)} rows, {DENSE} has {len(dense)}.",
                hint="All files must be of the same day, and whole.",
            )
    if not len(dense):
        raise DataError(f"{folder / DENSE} has no rows.")
    return Day(dense, hot, labels)


def write_day(folder: Path, day: Day) -> None:
    """Write a day's files, uncompressed."""
    np.save(folder / DENSE, day.dense)
    np.save(folder / LABELS, day.labels)
    arrays: dict[str, Any] = {str(number): part for number, part in enumerate(day.hot)}
    np.savez(folder / HOT, **arrays)


def _array(path: Path, dtype: str, columns: int) -> np.ndarray:
    if not os.path.isfile(path):
        raise DataError(f"data file not found: {path}.", hint="It belongs to the official data.")
    return _map_array(path, 0, what=str(path), dtype=dtype, columns=columns)


def _member(path: Path, name: str, columns: int) -> np.ndarray:
    """Map an array inside an npz archive, by its place in the file."""
    if not os.path.isfile(path):
        raise DataError(f"data file not found: {path}.", hint="It belongs to the official data.")
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            info = archive.getinfo(f"{name}.npy")
            file.seek(info.header_offset)
            header = file.read(_LOCAL_HEADER_BYTES)
    except KeyError:
        raise DataError(
            f"{path} has no array {name!r}.", hint="Expected one per categorical feature, '0' to '25'."
        ) from None
    except Exception as error:  # the reader raises anything for a damaged archive
        raise DataError(f"{path} is not an npz archive, or cut short: {first_line(error)}.") from None
    if info.compress_type != zipfile.ZIP_STORED:
        raise DataError(f"{path} is compressed.", hint="Write it with numpy.savez: only then can it be memory-mapped.")
    name_bytes, extra_bytes = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    start = info.header_offset + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes
    return _map_array(path, start, what=f"{path}[{name}]", dtype="int32", columns=columns)


def _map_array(path: Path, start: int, *, what: str, dtype: str, columns: int) -> np.ndarray:
    """Map the npy array that begins at a byte of a file."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            version = np.lib.format.read_magic(file)
            read_header = (
                np.lib.format.read_array_header_1_0 if version < (2, 0) else np.lib.format.read_array_header_2_0
            )
            shape, is_fortran, found = read_header(file)
            if found != dtype or len(shape) != 2 or shape[1] != columns or is_fortran:
                form = f"{found} {shape}" + (", column by column" if is_fortran else "")
                raise DataError(
                    f"{what} is {form}, not {dtype} (rows, {columns}).", hint="It is another file, or badly converted."
                )
            needed, held = file.tell() + prod(shape) * found.itemsize, os.fstat(file.fileno()).st_size
            if not all(0 <= size for size in shape) or needed > held:
                raise ValueError(f"{held} bytes, not {needed}")
            mapped = np.memmap(path, found, mode="r", offset=file.tell(), shape=shape)
    except DataError:
        raise
    except Exception as error:  # NumPy raises anything for a damaged header
        raise DataError(f"{what} is not an npy array, or cut short: {first_line(error)}.") from None
    return mapped.view(np.ndarray)  # slices of a memmap cost a microsecond each, of an array a tenth
