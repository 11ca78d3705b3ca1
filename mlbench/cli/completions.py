"""Completions at the Tab key: names of installed plugins and stored runs. See ``mlbench completion``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlbench.contracts.precision import Precision
from mlbench.discovery import Plugins
from mlbench.errors import MlbenchError
from mlbench.records.store.run_names import has_record, names_in
from mlbench.system.folders import results_folder

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def offer(named: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin with the typed text, each with its description."""
    from click.shell_completion import CompletionItem

    fitting = [(name, text.replace("``", "") or None) for name, text in named if name.startswith(incomplete)]
    return [CompletionItem(name, help=text) for name, text in fitting]


def offer_workloads(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the installed workloads."""
    return offer(((each.name, each.title) for each in _plugins().workloads.values()), incomplete)


def offer_backends(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the installed backends, also those that cannot run here: probing takes time."""
    return offer(((each.name, each.title) for each in _plugins().backends.values()), incomplete)


def offer_precisions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the precisions of the backends on the command line; without one, the known precisions."""
    named = context.params.get("backends") or (context.params.get("backend") or context.params.get("name"),)
    plugins, found = _plugins(), dict.fromkeys(() if any(named) else Precision.KNOWN)
    for name in filter(None, named):
        with suppress(MlbenchError):
            found |= dict.fromkeys(plugins.probe(name).precisions)
    return offer(((each, "") for each in found or Precision.KNOWN), incomplete)


def offer_checked(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer names for the conformance kit: backends, then workloads and transforms."""
    given = (context, parameter, incomplete)
    return [*offer_backends(*given), *offer_workloads(*given), *offer_transforms(*given)]


def offer_transforms(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer all transforms, with the options that they have by default."""
    return offer(((each.text, each.title) for each in _plugins().transforms.values()), incomplete)


def offer_scenarios(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer all scenarios; the typed text may be in lower case."""
    named = {each.name.lower(): (each.name, each.title) for each in _plugins().scenarios.values()}
    return offer((pair for lower, pair in named.items() if lower.startswith(incomplete.lower())), "")


def offer_rounds(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the rounds whose rules are known."""
    from mlbench.rules.round_files import known_rounds

    return offer(((name, "") for name in known_rounds()), incomplete)


def offer_published_rounds(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the rounds of which published results are here."""
    from mlbench.records.published import list_published_rounds

    return offer(((name, "") for name in list_published_rounds()), incomplete)


def offer_limits(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the latencies that can be limited."""
    limits = {"latency=": "of a query", "ttft=": "time to the first token", "tpot=": "time per output token"}
    return offer(limits.items(), incomplete)


def offer_measures(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the kinds of numbers by which versions can be compared."""
    from mlbench.comparison.kinds import KINDS

    return offer(((name, "") for name in (*KINDS, "accuracy", "energy")), incomplete)


def offer_runs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the ids of stored runs, newest first; the random end of an id completes to the whole id."""
    results = _results(context)
    try:
        names = sorted((name for name in names_in(results) if has_record(results / name)), reverse=True)
    except MlbenchError:  # a folder that cannot be read
        return []
    ending = [name for name in names if incomplete and name.endswith(f"-{incomplete}")]
    return offer(((name, "") for name in names), incomplete) or offer(((name, "") for name in ending[:1]), "")


def offer_baselines(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the names of stored baselines."""
    from mlbench.records.store.baselines import baseline_names

    try:
        names = baseline_names(_results(context))
    except MlbenchError:  # a folder that cannot be read
        return []
    return offer(((name, "") for name in names), incomplete)


def offer_settings(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the keys of the workloads and backends named so far, or of all; after ``KEY=``, its values."""
    key, is_value, _ = incomplete.partition("=")
    if is_value:
        return offer(((f"{key}={word}", "") for word in _words(context, key)), incomplete)
    ending = "=" if parameter.name == "overrides" else ""
    return offer(((f"{name}{ending}", text) for name, text in _keys(context)), incomplete)


def _results(context: click.Context) -> Path:
    return Path(context.params.get("results") or results_folder())


def _keys(context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield each key once, with the first sentence of its description."""
    from mlbench.settings.descriptions import first_sentence
    from mlbench.settings.layers import fields_of
    from mlbench.system.field_docs import read_field_docs

    seen = set()
    for prefix, template in _templates(context):
        texts = read_field_docs(type(template))
        for key, _ in fields_of({prefix: template}):
            if key not in seen:
                seen.add(key)
                yield key, first_sentence(texts.get(key.removeprefix(f"{prefix}."), ""))


def _words(context: click.Context, key: str) -> Iterator[str]:
    from mlbench.settings.descriptions import describe_group

    prefixed = [(prefix, template) for prefix, template in _templates(context) if key.startswith(f"{prefix}.")]
    groups = [describe_group(prefix, template, "") for prefix, template in prefixed]
    yield from dict.fromkeys(
        word for group in groups for each in group.settings if each.key == key for word in each.choices
    )


def _templates(context: click.Context) -> Iterator[tuple[str, Any]]:
    """Yield the option dataclasses that settings fill: the core's, and those of the named plugins, else of all."""
    from mlbench.settings.layers import CORE_TEMPLATES

    yield from CORE_TEMPLATES.items()
    plugins = _plugins()
    for prefix, known in (("backend", plugins.backends), ("workload", plugins.workloads)):
        given = context.params.get(f"{prefix}s") or context.params.get(prefix) or ()
        typed = (given, *context.args) if isinstance(given, str) else (*given, *context.args)
        for name in [name for name in typed if name in known] or known:
            yield prefix, known[name].options


def _plugins() -> Plugins:
    return Plugins.discover()
