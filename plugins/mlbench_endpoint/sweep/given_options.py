"""The options of ``mlbench bench-endpoint``, checked together and sorted into a request."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from mlbench import UsageError
from mlbench_endpoint.api import Api
from mlbench_endpoint.client.access import keep_headers
from mlbench_endpoint.loads.load import Load
from mlbench_endpoint.loads.prompt_lengths import inline_histogram
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.prompts import open_prompts
from mlbench_endpoint.loads.scenarios import LEAST_AT_A_RATE
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.sweep.request import SweepRequest

_Options = TypeVar("_Options", EndpointOptions, PromptOptions, SweepRequest)

_BEGIN_AT = 32
"""Concurrency that shows a rate to begin a search with."""
_DOCUMENTS = 8
_LONGEST_S = 86_400
_CHOSEN_BY_SEARCH = ("in_flight", "rates_per_s", "resume", "ramp", "trace")


def request_of(given: dict[str, Any], names: Mapping[str, str]) -> SweepRequest:
    """Return the request that the options describe.

    Args:
        given: values of all parameters of the command, by name; changed.
        names: options of the parameters that the user gave, by name.

    Raises:
        UsageError: an option has a wrong value, lacks another one, or has no effect beside others.
    """
    if "in_flight" not in names and any(given[name] for name in ("rates_per_s", "ramp", "trace", "good_share")):
        given["in_flight"] = ()
    _check_together(given)
    for parameter, reason in _needless(given):
        if reason and parameter in names:
            hint = "Leave it out." if reason.startswith("with ") else "Give both."
            raise UsageError(f"{names[parameter]} has no effect {reason}.", hint=hint)
    tag = given["tag"] = given["tag"] or f"sweep-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{token_hex(2)}"
    if not re.fullmatch(r"[\w.+-]{1,200}", tag) or not tag.strip("."):
        raise UsageError(f"--tag is {tag!r}.", hint="A tag has letters, digits, '_', '.', '+' and '-', not dots alone.")
    _complete(given)
    arrival = "" if given["pattern"] == "poisson" else given["pattern"]
    backend = _build(EndpointOptions, given)
    del given["count"]  # who counts tokens; the workload's is a number of prompts
    prompts = _build(PromptOptions, given)
    _check_file(prompts, names)
    given |= {"backend": backend, "prompts": prompts, "loads": _loads(given, arrival), "arrival": arrival}
    return _build(SweepRequest, given | {"folder": given["out"] or Path("sweeps") / tag})


def _complete(given: dict[str, Any]) -> None:
    """Replace values by those of the options of the backend and of the workload."""
    given["header_variables"] = keep_headers(given["headers"], given["header_variables"])
    given["api"] = Api(given["api"])
    given["documents"] = given["documents"] or (_DOCUMENTS if given["api"] is Api.RERANK else 1)
    for name in ("file", "trace", "ca"):
        given[name] = str(given[name].resolve()) if given[name] else ""
    for name in ("tokens_in", "tokens_out"):
        given[name] = inline_histogram(given[name], f"--{name.replace('_', '-')}")
    if given["ignore_eos"]:
        given["extra"] = _with_ignore_eos(given["extra"])


def _build(kind: type[_Options], given: Mapping[str, Any]) -> _Options:
    """Return an object whose fields have the values of these names."""
    return kind(**{each.name: given[each.name] for each in fields(kind) if each.name in given})


def _check_together(given: Mapping[str, Any]) -> None:
    """Raise `UsageError` for an option that needs or excludes another one."""
    if given["resume"] and not given["tag"]:
        raise UsageError("--resume needs the --tag to continue.", hint="Name the sweep with --tag.")
    if given["max_different"] is not None and not given["same_answers"]:
        raise UsageError("--max-different is a limit of --same-answers.", hint="Give both.")
    if given["same_answers"] and (given["good_share"] is not None or given["trace"]):
        raise UsageError("--same-answers is for given loads.", hint="Leave out --find-goodput and --trace.")
    if given["good_share"] is None:
        return
    if not given["slo"]:
        raise UsageError("--find-goodput needs the limits.", hint="Give them: --slo ttft=500ms,tpot=30ms.")
    if any(given[name] for name in _CHOSEN_BY_SEARCH) or given["repeats"] > 1:
        raise UsageError(
            "--find-goodput chooses the loads.",
            hint="Leave out --concurrency, --rate, --ramp, --trace, --repeat and --resume.",
        )


def _needless(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield parameters with the reason why they have no effect beside the others; empty: they have one."""
    api, trace, is_search = given["api"], given["trace"], given["good_share"] is not None
    numbers = f"with --api {api}" if api in ("embeddings", "rerank") else ""
    a_trace = "with --trace" if trace else ""
    a_rate = given["rates_per_s"] or is_search
    places = given["in_flight"] or is_search
    schedules = "with schedules alone, which send each request once"
    is_scheduled = given["ramp"] or given["pattern"] != "poisson"
    has_turns = given["turns"] > 1
    yield "trace", "with --concurrency, --rate or --ramp" if given["in_flight"] or a_rate or given["ramp"] else ""
    yield "tokens_in", "with --prompts" if given["file"] else a_trace
    yield "tokens_out", a_trace or numbers
    yield "think_ms", "" if has_turns or given["file"] else "without --turns or --prompts"
    yield "history", "" if given["file"] or (has_turns and given["history"] == "answers") else "without --prompts"
    yield "documents", "" if api == "rerank" else "without --api rerank"
    yield "image", "" if api == "chat" else "without --api chat"
    yield "images_per_request", "" if given["image"] else "without --image"
    yield "ignore_eos", numbers
    yield "same_answers", f"with --api {api}, whose numbers are not kept" if api == "embeddings" else ""
    yield "pattern", "" if a_rate else "without --rate"
    yield "speeds", "" if trace else "without --trace"
    yield "duration_s", a_trace
    yield "requests", a_trace or (schedules if is_scheduled and not places else "")
    yield "is_wide", "with --json, which has all quantities" if given["as_json"] else ""


def _check_file(prompts: PromptOptions, names: Mapping[str, str]) -> None:
    """Raise `UsageError` for an option that changes nothing about the prompts or sessions of a file."""
    default = PromptOptions()
    for name in ("tokens_out", "think_ms", "history") if prompts.file else ():
        usual = replace(prompts, **{name: getattr(default, name)})
        if usual != prompts and open_prompts(usual).fingerprint == open_prompts(prompts).fingerprint:
            raise UsageError(f"{names[name]} has no effect on what --prompts contains.", hint="Leave it out.")


def _loads(given: Mapping[str, Any], arrival: str) -> list[Load]:
    """Return the loads, the least first."""
    if given["good_share"] is not None:
        return [Load(in_flight=_BEGIN_AT)]
    if given["trace"]:
        return [Load(speed=each) for each in sorted(given["speeds"] or (1.0,))]
    if given["rates_per_s"] and not arrival:
        _check_number(min(given["rates_per_s"]), given["duration_s"], given["requests"])
    at_once = [Load(in_flight=each) for each in sorted(given["in_flight"])]
    rates = [Load(rate_per_s=each, arrival=arrival) for each in sorted(given["rates_per_s"])]
    return [*at_once, *rates, *([Load(arrival=f"ramp:{given['ramp']}")] if given["ramp"] else [])]


def _check_number(rate_per_s: float, duration_s: int, requests: int) -> None:
    """Raise `UsageError` for a rate that could not be valid."""
    if requests / rate_per_s > _LONGEST_S:
        raise UsageError(
            f"--rate {rate_per_s:g} takes more than a day for --requests {requests}.",
            hint="Raise the one, or lower the other.",
        )
    if max(rate_per_s * duration_s, requests) < LEAST_AT_A_RATE:
        raise UsageError(
            f"--rate {rate_per_s:g} for {duration_s} s with --requests {requests} is less than "
            f"{LEAST_AT_A_RATE} requests, too few for a percentile.",
            hint=f"Leave out --requests, or raise --seconds to {math.ceil(LEAST_AT_A_RATE / rate_per_s)}.",
        )


def _with_ignore_eos(extra: str) -> str:
    """Return the fields of ``--extra`` with one more; unchanged if they are invalid, which the backend reports."""
    try:
        found = json.loads(extra or "{}")
    except (ValueError, RecursionError):
        return extra
    return json.dumps({"ignore_eos": True, **found}) if isinstance(found, dict) else extra
