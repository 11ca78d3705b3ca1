"""OpenOrca, GSM8K and MBXP as prompts, with the references of replies; or random prompts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from mlbench import DataError, Prompt
from mlbench.toolkit import DATA_BYTES, read_bytes
from mlbench.toolkit.language import RandomPrompts, StoredPrompts, read_table

OFFICIAL_SAMPLES = 15000
LONGEST_PROMPT = 2048
"""Tokens. Source: the rules document v4.1; the reference pads to 1,024, which all prompts are said to fit."""

OPENORCA, GSM8K, MBXP = "OpenOrca", "GSM8K", "MBXP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The reference of an answer."""

    dataset: str
    """OpenOrca, GSM8K or MBXP."""
    id: str
    truth: str
    """A right answer, the right number, or the test that an answer's program must pass."""


class MixedPrompts(StoredPrompts):
    """A row of the official table is a sample."""

    def __init__(self, data: Path, *, longest: int = LONGEST_PROMPT, count: int | None = None) -> None:
        """Read the prompts and their references.

        Args:
            data: the official table, as a pickle or as JSON.
            longest: tokens that a prompt may have.
            count: how many rows there must be; None for any number.

        Raises:
            DataError: the file is missing, corrupt or of another format, holds another number of rows or a row of an
                unknown data set, or a prompt is empty or too long.
        """
        table = read_table(data, texts=("dataset", "id", "gt_output"), tokens=("tok_input", "tok_stop_sequence"))
        names, stops = table.texts["dataset"], table.tokens["tok_stop_sequence"]
        if unknown := next((name for name in names if name not in (OPENORCA, GSM8K, MBXP)), None):
            raise DataError(f"{data} has a row of the unknown data set {unknown!r}.")
        prompts = [
            Prompt(tokens=tokens, stop=tuple(stop.tolist()) if name == MBXP else ())  # the others end by themselves
            for name, tokens, stop in zip(names, table.tokens["tok_input"], stops, strict=True)
        ]
        fingerprint = hashlib.sha256(read_bytes(data, what="table", limit_bytes=DATA_BYTES)).hexdigest()
        super().__init__(prompts, longest=longest, count=count, fingerprint=fingerprint)
        self.tasks = [
            Task(dataset=name, id=id_, truth=truth)
            for name, id_, truth in zip(names, table.texts["id"], table.texts["gt_output"], strict=True)
        ]


def random_mixture(*, vocabulary: int) -> RandomPrompts:
    """Return as many random prompts as the official table has rows."""
    return RandomPrompts(count=OFFICIAL_SAMPLES, median=250, shortest=20, longest=1024, vocabulary=vocabulary)
