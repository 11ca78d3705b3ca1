"""Makes the official table from the public data set OpenOrca: prompts, filters, and the draw of the samples.

    python -m mlbench_llama2_70b.openorca --raw 1M-GPT4-Augmented.json --tokenizer Llama-2-70b-chat-hf --out data

writes `data/dataset.json` and `data/calibration.json`, which the full profile reads as it reads MLCommons' pickles.
The raw table is the data set's file of that name, as JSON or as a pickle of pandas.

Source: MLPerf Inference v4.1, language/llama2-70b/processorca.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench import DataError, MlbenchError
from mlbench.toolkit.language import read_table, read_tokenizer
from mlbench_llama2_70b.prompts import LONGEST_PROMPT, prompt_text, prompt_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ORIGINS = ("cot", "flan", "niv", "t0")
PER_ORIGIN = 6144
CALIBRATION = 1000

_BEYOND_ASCII = "\u2019\u2013\u201c\u201d\u2014"  # curly quotes and dashes
_LEAST_ANSWER = 3  # tokens, BOS among them
_PLAIN_ORIGINS = ("niv", "t0")  # whose tasks do not go with the system prompts below
_UNFIT_SYSTEM_PROMPTS = (
    "",
    "You are an AI assistant that follows instruction extremely well. Help as much as you can.",
    "You are an AI assistant. "
    "Provide a detailed answer so user don\u2019t need to search outside to understand the answer.",
    "You are an AI assistant. Provide a detailed answer so user don't need to search outside to understand the answer.",
    "User will you give you a task with some instruction. Your job is follow the instructions as faithfully as you "
    "can. While answering think step-by-step and justify your answer.",
    "Explain how you used the definition to come up with the answer.",
)
_DRAW_SEED = 1337
_CALIBRATION_SEED = 12345


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A row of the official table."""

    id: str
    system_prompt: str
    question: str
    output: str
    tok_input: Sequence[int]
    tok_output: Sequence[int]

    @property
    def input(self) -> str:
        """The prompt as text."""
        return prompt_text(self.system_prompt, self.question)

    @property
    def origin(self) -> str:
        """Its source collection: cot, flan, niv or t0."""
        return self.id.split(".")[0]

    @property
    def is_english(self) -> bool:
        """Return whether prompt and answer are ASCII, but for curly quotes and dashes."""
        return all(mark.isascii() or mark in _BEYOND_ASCII for mark in self.input + self.output)

    @property
    def has_answer(self) -> bool:
        """Return whether the answer has two tokens of its own."""
        return len(self.tok_output) >= _LEAST_ANSWER

    @property
    def is_fit(self) -> bool:
        """Return whether the system prompt goes with the task."""
        return self.origin not in _PLAIN_ORIGINS or self.system_prompt not in _UNFIT_SYSTEM_PROMPTS

    def is_shorter(self, tokens: int) -> bool:
        """Return whether prompt and answer are each shorter than a number of tokens."""
        return len(self.tok_input) < tokens and len(self.tok_output) < tokens

    def row(self) -> Mapping[str, Any]:
        """Return the columns, in the official order."""
        return {
            "id": self.id,
            "system_prompt": self.system_prompt,
            "question": self.question,
            "output": self.output,
            "input": self.input,
            "tok_input": list(self.tok_input),
            "tok_output": list(self.tok_output),
            "origin": self.origin,
            "tok_input_length": len(self.tok_input),
            "tok_output_length": len(self.tok_output),
        }


def conversations(raw: Path, tokenizer: Tokenizer) -> Iterator[Conversation]:
    """Yield every row of the public table, with its tokens.

    Raises:
        DataError: the file cannot be read, or lacks a column.
    """
    table = read_table(raw, texts=("id", "system_prompt", "question", "response")).texts
    for id_, system_prompt, question, response in zip(*table.values(), strict=True):
        yield Conversation(
            id=id_,
            system_prompt=system_prompt,
            question=question,
            output=response,
            tok_input=prompt_tokens(prompt_text(system_prompt, question), tokenizer),
            tok_output=tokenizer.encode(response).ids,
        )


def filter_conversations(rows: Iterable[Conversation], *, limit: int) -> list[Conversation]:
    """Return the conversations that pass all filters; prompt and answer have fewer than ``limit`` tokens each."""
    return [row for row in rows if row.is_english and row.is_shorter(limit) and row.has_answer and row.is_fit]


def draw_conversations(rows: Sequence[Conversation], *, per_origin: int) -> list[Conversation]:
    """Return a number of conversations of each origin, grouped by it, in the order of the draw.

    Raises:
        DataError: an origin has fewer.
    """
    chosen: list[Conversation] = []
    for origin in ORIGINS:
        of_origin = [row for row in rows if row.origin == origin]
        if len(of_origin) < per_origin:
            raise DataError(f"after the filters {origin} has {len(of_origin)} conversations, expected {per_origin}.")
        chosen += _sample(of_origin, per_origin, _DRAW_SEED)
    return chosen


def calibration(rows: Sequence[Conversation], *, count: int) -> list[Conversation]:
    """Return the conversations to calibrate with; they are drawn from those that are scored."""
    return _sample(rows, count, _CALIBRATION_SEED)


def _sample(rows: Sequence[Conversation], count: int, seed: int) -> list[Conversation]:
    """Draw rows without putting them back, as pandas' ``DataFrame.sample`` does."""
    import numpy as np

    return [rows[place] for place in np.random.RandomState(seed).choice(len(rows), size=count, replace=False)]


def write_tables(  # noqa: PLR0913 - the official numbers, which a test makes smaller
    raw: Path,
    tokenizer: Tokenizer,
    out: Path,
    *,
    limit: int = LONGEST_PROMPT,
    per_origin: int = PER_ORIGIN,
    calibrated: int = CALIBRATION,
) -> None:
    """Write ``dataset.json`` and ``calibration.json`` into a folder, which is made last.

    Args:
        raw: the public table.
        tokenizer: of Llama 2.
        out: the folder.
        limit: prompt and answer have fewer tokens each.
        per_origin: number of conversations of each origin.
        calibrated: number of these for calibration.

    Raises:
        DataError: the public table cannot be read, or holds too few conversations.
    """
    chosen = draw_conversations(filter_conversations(conversations(raw, tokenizer), limit=limit), per_origin=per_origin)
    tables = {"dataset": chosen, "calibration": calibration(chosen, count=calibrated)}
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        lines = ",\n".join(json.dumps(row.row()) for row in rows)
        (out / f"{name}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def main() -> None:
    """Write the official tables."""
    parser = argparse.ArgumentParser(prog="python -m mlbench_llama2_70b.openorca", description=__doc__)
    parser.add_argument("--raw", type=Path, required=True, help="the public table")
    parser.add_argument("--tokenizer", type=Path, required=True, help="Hugging Face folder of Llama 2")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    arguments = parser.parse_args()
    try:
        tokenizer = read_tokenizer(arguments.tokenizer, sizes=(32000,), end="</s>", end_id=2)
        write_tables(arguments.raw, tokenizer, arguments.out)
    except MlbenchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
