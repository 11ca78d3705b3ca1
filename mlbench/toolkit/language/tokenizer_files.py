"""A model's tokenizer, from the folder that a user or a recipe gives."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.errors import DataError, MlbenchError, first_line
from mlbench.system.documents import foreign

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER_FILE = "tokenizer.json"

_ANY_TEXT = "The river rose by 12 cm.\n\t\u00e9\u2603"
"""Words, digits, white space, and characters that a vocabulary may lack."""


def read_tokenizer(folder: Path, *, sizes: Collection[int], end: str, end_id: int) -> Tokenizer:
    """Return the tokenizer of a Hugging Face folder as `open_tokenizer`, if it is the model's own.

    Args:
        folder: holds ``tokenizer.json``.
        sizes: how many tokens it may have, added ones included.
        end: the token that ends an answer.
        end_id: which the weights know as this.

    Raises:
        DataError: the file is missing or damaged, or belongs to other weights.
    """
    tokenizer, path = open_tokenizer(folder), folder / TOKENIZER_FILE
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if size not in sizes:
        wanted = " or ".join(map(str, sorted(sizes)))
        raise DataError(f"{path} has {size} tokens, the model's tokenizer {wanted}.", hint="Use the model's own.")
    if tokenizer.token_to_id(end) != end_id:
        found = tokenizer.token_to_id(end)
        raise DataError(f"{path} has {end} as token {found}, the model as {end_id}.", hint="Use the model's own.")
    return tokenizer


def open_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a Hugging Face folder, without truncation or padding of its own.

    Raises:
        DataError: its file is missing or damaged, or it cannot encode.
    """
    from tokenizers import Tokenizer

    path = folder / TOKENIZER_FILE
    if not os.path.isfile(path):
        raise DataError(f"tokenizer not found: {path}.", hint="Name a Hugging Face folder with that file.")
    with foreign("tokenizer cannot be read:", str(path), path=path):
        tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with tokenizing(folder):
        tokenizer.encode(_ANY_TEXT)
    return tokenizer


@contextmanager
def tokenizing(folder: Path) -> Iterator[None]:
    """Let a folder's tokenizer encode and decode; whatever it raises becomes a `DataError` that names its file."""
    try:
        yield
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"  # of Rust; it is not an Exception
        if isinstance(error, MlbenchError) or not (isinstance(error, Exception) or is_panic):
            raise
        raise DataError(f"tokenizer cannot encode: {folder / TOKENIZER_FILE}: {first_line(error)}.") from None
