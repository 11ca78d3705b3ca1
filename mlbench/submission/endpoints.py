"""Results of the other tool, which measures an endpoint and leaves no LoadGen logs: they are named and left out.

Source: submission checker v6.1, ``endpoints_parser``.
"""

from __future__ import annotations

from mlbench.rules.official import round_named
from mlbench.rules.round_files import known_rounds
from mlbench.submission.tree import DETAIL, ResultEntry
from mlbench.system.documents import is_file


def endpoints_round(entry: ResultEntry) -> str | None:
    """Return the newest round whose other tool left a result's files; None: LoadGen's logs are there, or nothing."""
    if any(is_file(folder / DETAIL) for folder in (entry.performance, entry.accuracy)):
        return None
    for name in reversed(known_rounds()):
        files = [each for each in round_named(name).endpoints.files if "/" in each]
        if any(is_file(entry.root / entry.path / each) for each in files):
            return name
    return None


def explain_endpoints(entry: ResultEntry) -> str:
    """Return why a result of the other tool is left out; empty: it is one of LoadGen's."""
    if endpoints_round(entry) is None:
        return ""
    models = entry.round.endpoints.models
    also = "" if entry.model in models else f" The round takes such results of {', '.join(models)} only."
    return f"it was measured with the endpoints tool, without LoadGen, and is left out.{also}"
