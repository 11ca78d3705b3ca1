"""Criteo's raw click logs to arrays: the first steps from the text files to the official data.

    python -m mlbench_dlrm_v2.criteo day_0 day_1 ... day_23 --out FOLDER

What is left then, indices modulo the rows of their tables and the synthetic multi-hot ones, is done by the script of
the training reference that materialises the data set.

Source of the steps: MLPerf Inference v4.1, recommendation/dlrm_v2, and torchrec's Criteo utilities, which it calls.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from mlbench import DataError, MlbenchError
from mlbench.toolkit import first_line, open_regular
from mlbench_dlrm_v2.architecture import DENSE_FEATURES

CATEGORICAL_FEATURES = 26
FIELDS = 1 + DENSE_FEATURES + CATEGORICAL_FEATURES
FIRST_NUMBER = 2
"""0 and 1 are kept for missing and rare values; with the official threshold no value is rare."""

_LEAST_COUNT = -2
"""Smallest count for which log(count + 3) is defined."""

LINES_TOGETHER = 100_000


@dataclass(frozen=True, slots=True)
class RawRows:
    """Lines of a click log."""

    dense: np.ndarray
    """(N, 13) float32: ln(count + 3)."""
    sparse: np.ndarray
    """(N, 26) int32: hexadecimal numbers of 32 bits, those from 2^31 on as negative ones."""
    labels: np.ndarray
    """(N, 1) int32: 1 for a click."""


class Renumbering:
    """Gives the values of each column consecutive numbers, from 2 on, in the order in which they first appear."""

    def __init__(self) -> None:
        self._numbers: list[dict[int, int]] = [{} for _ in range(CATEGORICAL_FEATURES)]

    def __call__(self, sparse: np.ndarray) -> np.ndarray:
        """Return (N, 26) int32: numbers for (N, 26) values; what was seen in earlier calls keeps its number."""
        columns = zip(sparse.T, self._numbers, strict=True)
        return np.stack([_renumber(column, numbers) for column, numbers in columns], axis=1)


def _renumber(column: np.ndarray, numbers: dict[int, int]) -> np.ndarray:
    values, first_places, places = np.unique(column, return_index=True, return_inverse=True)
    found = np.empty(len(values), dtype=np.int32)
    for place in first_places.argsort():
        found[place] = numbers.setdefault(int(values[place]), len(numbers) + FIRST_NUMBER)
    return found[places]


def read_raw(path: Path) -> Iterator[RawRows]:
    """Yield the rows of a raw day, up to 100,000 at a time; an empty field is 0.

    Raises:
        DataError: the file is missing, or a line has not 40 fields or one that is not a number.
    """
    try:
        with io.TextIOWrapper(open_regular(path), encoding="ascii", errors="replace") as file:
            start = 1
            while lines := list(islice(file, LINES_TOGETHER)):
                yield _rows([_fields(line, path, number) for number, line in enumerate(lines, start)])
                start += len(lines)
    except OSError as error:
        raise DataError(f"click log cannot be read: {path}: {error.strerror}.") from None


def _fields(line: str, path: Path, number: int) -> list[int]:
    """Return the label, the counts and the categorical values of a line."""
    words = line.rstrip("\n").split("\t")
    try:
        if len(words) != FIELDS:
            raise ValueError(f"{len(words)} fields, not {FIELDS}")
        decimal, hexadecimal = words[: 1 + DENSE_FEATURES], words[1 + DENSE_FEATURES :]
        counts, values = [int(word or "0") for word in decimal], [int(word or "0", 16) for word in hexadecimal]
        if not all(_LEAST_COUNT <= count < 2**31 for count in counts) or not all(0 <= each < 2**32 for each in values):
            raise ValueError("a number is out of range")
        return counts + values
    except ValueError as error:
        raise DataError(f"line {number} of {path} is not a line of a click log: {first_line(error)}.") from None


def _rows(fields: Sequence[Sequence[int]]) -> RawRows:
    table = np.array(fields, dtype=np.int64)
    labels, counts, values = np.split(table, [1, 1 + DENSE_FEATURES], axis=1)
    dense = np.log(counts.astype(np.float32) + 3)
    return RawRows(dense, values.astype(np.uint32).view(np.int32), labels.astype(np.int32))


def convert(days: Sequence[Path], out: Path) -> None:
    """Write ``<day>_dense.npy``, ``<day>_sparse.npy`` and ``<day>_labels.npy`` of raw days, numbered alike in all.

    Raises:
        DataError: as `read_raw`, or a day is empty; it gets no files.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"folder cannot be made: {out}: {error.strerror}.") from None
    renumber = Renumbering()
    for day in days:
        if not (count := _lines(day)):
            raise DataError(f"click log is empty: {day}.")
        parts = {name: out / f"{day.name}_{name}.npy" for name in ("dense", "sparse", "labels")}
        unfinished = {name: path.with_suffix(".partial") for name, path in parts.items()}
        try:
            _convert_day(day, count, renumber, unfinished)
            for name, path in parts.items():
                unfinished[name].replace(path)
        finally:
            for path in unfinished.values():
                path.unlink(missing_ok=True)


def _convert_day(day: Path, count: int, renumber: Renumbering, files: Mapping[str, Path]) -> None:
    shapes = {"dense": ("f4", DENSE_FEATURES), "sparse": ("i4", CATEGORICAL_FEATURES), "labels": ("i4", 1)}
    dense, sparse, labels = (
        np.lib.format.open_memmap(files[name], mode="w+", dtype=dtype, shape=(count, columns))
        for name, (dtype, columns) in shapes.items()
    )
    start = 0
    for rows in read_raw(day):
        part = slice(start, start + len(rows.labels))
        dense[part], sparse[part], labels[part] = rows.dense, renumber(rows.sparse), rows.labels
        start = part.stop


def _lines(path: Path) -> int:
    """Return how many lines a file has."""
    try:
        with open_regular(path) as file:
            return sum(1 for _ in file)
    except OSError as error:
        raise DataError(f"click log cannot be read: {path}: {error.strerror}.") from None


def main() -> int:
    """Convert the days of the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m mlbench_dlrm_v2.criteo", description=__doc__)
    parser.add_argument("days", type=Path, nargs="+", metavar="DAY", help="raw text files, unpacked, in order")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into; made if missing")
    arguments = parser.parse_args()
    try:
        convert(arguments.days, arguments.out)
    except MlbenchError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
