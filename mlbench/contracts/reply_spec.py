"""The form of replies: element type and shape."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySpec:
    """The form of a reply to one sample; a reply of another form makes the run INVALID."""

    dtype: str
    """NumPy's name of the element type; the accuracy log holds these bytes, little endian."""
    shape: tuple[int | None, ...]
    """Shape of one sample's reply, without a batch axis; None where it varies (and is at least 1)."""
    is_text: bool = False
    """Whether it is UTF-8 text, whose number of tokens only the engine knows."""
    may_be_empty: bool = False
    """Whether the varying size may be 0: by the rules an empty reply is an answer."""
