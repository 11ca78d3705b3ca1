"""Checks of what `mlbench list` needs: a name, options and a fast probe."""

from __future__ import annotations

import dataclasses
import time

from mlbench.conformance.subject import Check, Subject, demand
from mlbench.system.field_docs import read_field_docs

_AT_ONCE_S = 1.0


def has_a_name_and_options(subject: Subject) -> None:
    """A backend has a name to type, a title of one line, and options in a frozen dataclass with default values.

    Each option has a docstring below it, which `mlbench settings` prints.
    """
    backend = subject.backend
    demand(
        backend.name == backend.name.strip().lower() and " " not in backend.name and backend.name != "",
        f"the name {backend.name!r} is not one lower-case word.",
        "It is what users type: `--backend <name>`.",
    )
    demand(
        bool(backend.title) and "\n" not in backend.title,
        f"the title is {backend.title!r}.",
        "Describe it in one line, for `mlbench list`.",
    )
    options = type(backend.options)
    is_frozen = dataclasses.is_dataclass(options) and options.__dataclass_params__.frozen  # type: ignore[attr-defined]
    demand(
        is_frozen, f"the options are a {options.__name__}.", "Use @dataclass(frozen=True, slots=True, kw_only=True)."
    )
    needed = [
        field.name
        for field in dataclasses.fields(options)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    demand(not needed, f"the options {needed} have no default.", "A backend must run without any setting.")
    texts = read_field_docs(options)
    silent = [field.name for field in dataclasses.fields(options) if not texts.get(field.name)]
    demand(
        not silent,
        f"the options {silent} are not described.",
        "Write a docstring below each field; `mlbench settings` prints it.",
    )


def probes_at_once(subject: Subject) -> None:
    """`Backend.probe` answers within a second, offers the precision under test, and names devices and versions."""
    started_s = time.monotonic()
    probe = subject.backend.probe()
    took_s = time.monotonic() - started_s
    demand(
        took_s < _AT_ONCE_S,
        f"probe() took {took_s:.1f} s.",
        "Import no runtime there: importlib.metadata.version and files suffice.",
    )
    demand(
        subject.precision in probe.precisions,
        f"probe() offers {', '.join(probe.precisions)}, but not {subject.precision}.",
        "List every precision that compile() takes, best supported first.",
    )


DESCRIPTION_CHECKS: tuple[Check, ...] = (has_a_name_and_options, probes_at_once)
