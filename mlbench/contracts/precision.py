"""Precisions: names of number formats. A backend may offer any name; the core has constants for those it knows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

_NAME = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*")
_LONGEST = 32
_FORM = "lower-case letters and digits, with - . or _ between them, 32 at most: int4-awq"


class Precision(str):
    """The number format that a backend computes in, by name; graph inputs and outputs keep their own dtype.

    Equal names are one object, so that ``is`` compares them. The core has tolerances and rules for those in `KNOWN`;
    for any other it uses the widest tolerance, and a rule without a bound says that it was not applied.

    Raises:
        ValueError: the text is not a name.
    """

    __slots__ = ()

    FP32: ClassVar[Precision]
    BF16: ClassVar[Precision]
    FP16: ClassVar[Precision]
    INT8: ClassVar[Precision]
    FP8: ClassVar[Precision]
    KNOWN: ClassVar[tuple[Precision, ...]]

    def __new__(cls, name: str) -> Precision:
        """Return the precision of this name."""
        if (known := _MADE.get(name)) is None:
            if len(name) > _LONGEST or not _NAME.fullmatch(name):
                raise ValueError(f"{name[:_LONGEST]!r} is not the name of a precision: {_FORM}")
            known = _MADE.setdefault(name, str.__new__(cls, name))
        return known

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Let pydantic read one from text, and write it as text."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(
            cls, core_schema.str_schema(), serialization=core_schema.to_string_ser_schema()
        )


_MADE: dict[str, Precision] = {}

Precision.FP32 = Precision("fp32")
Precision.BF16 = Precision("bf16")
Precision.FP16 = Precision("fp16")
Precision.INT8 = Precision("int8")
Precision.FP8 = Precision("fp8")
Precision.KNOWN = (Precision.FP32, Precision.BF16, Precision.FP16, Precision.INT8, Precision.FP8)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberFormat:
    """Number formats of a precision: int8 for both fields in ``w8a8``, int4 and fp16 in ``int4-awq``."""

    stores: Precision
    """Format of the stored weights of matrix products."""
    computes: Precision
    """Format in which matrix products are computed."""
