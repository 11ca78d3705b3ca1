"""The suite file of a sweep: a run for each load, with the settings that differ from the defaults."""

from __future__ import annotations

import json
import resource
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from mlbench import UsageError
from mlbench_endpoint.api import Api
from mlbench_endpoint.loads.load import Load, ScheduleFacts
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.sweep.request import SweepRequest
from mlbench_endpoint.sweep.server_trial import ServerTrial

SUITE_NAME = "sweep.toml"

_MOST_CONNECTIONS = 4096
_SPARE_FILES = 64
_STALL_TIMEOUT_S = 120.0
"""The default of ``load.stall_timeout_s``."""
_PER_PLACE = 10
"""Fewest requests per concurrent one, so that start and end are a small part of the time."""

_TIERS = ((600, "valid"), (60, "dev"), (0, "smoke"))
"""Tier by seconds of a load; it must not require more."""


def write_suite(request: SweepRequest, trial: ServerTrial) -> None:
    """Write the suite file of a sweep into its folder.

    Raises:
        UsageError: it cannot be written.
    """
    runs = [(load, _settings(request, trial, load)) for load in request.loads]
    shortest_ms = min(float(settings["load.min_duration_ms"]) for _, settings in runs)
    tier = next(tier for seconds, tier in _TIERS if shortest_ms >= 1000 * seconds)
    file = request.folder / SUITE_NAME
    try:
        request.folder.mkdir(parents=True, exist_ok=True)
        file.write_text(suite_text(request.tag, runs, tier=tier, repeats=request.repeats), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.", hint="Choose a folder with --out.") from None
    except UnicodeEncodeError:
        raise UsageError("the name of a file or folder is not UTF-8, as suites want it.", hint="Rename it.") from None


def _settings(request: SweepRequest, trial: ServerTrial, load: Load) -> Mapping[str, str | float]:
    """Return the settings of a load's run."""
    most_s = request.backend.total_timeout_s
    wait_s = EndpointOptions().wait_timeout_s if load.in_flight else most_s
    backend = replace(request.backend, model=trial.model, wait_timeout_s=wait_s)
    prompts = load.prompt_options(trial.prompts, request.duration_s)
    places = load.in_flight or 0
    chosen = {
        **_changed("backend", backend),
        "load.min_duration_ms": 1000 * request.duration_s,
        "load.min_query_count": max(request.requests, _PER_PLACE * places) + 2 * places,  # some are left out
        **load.settings(most_connections=most_connections()),
    }
    pause_s = 2 * trial.session_s
    if load.is_scheduled:
        schedule = ScheduleFacts.of(prompts)
        chosen |= schedule.settings
        pause_s += schedule.longest_gap_s
    if pause_s > _STALL_TIMEOUT_S / 2:  # so long no sample may be answered, though the server does all it should
        chosen["load.stall_timeout_s"] = _STALL_TIMEOUT_S + pause_s
    return {**chosen, **_changed("workload", prompts)}


def _changed(group: str, options: EndpointOptions | PromptOptions) -> dict[str, str | float]:
    """Return the options that differ from the defaults, as settings."""
    default = type(options)()
    values = {each.name: getattr(options, each.name) for each in fields(options)}
    return {f"{group}.{name}": value for name, value in values.items() if value != getattr(default, name)}


def most_connections() -> int:
    """Return the most concurrent requests: each has a connection, which is an open file."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(_MOST_CONNECTIONS, files - _SPARE_FILES)) if files > 0 else _MOST_CONNECTIONS


def suite_text(name: str, runs: Sequence[tuple[Load, Mapping[str, str | float]]], *, tier: str, repeats: int) -> str:
    """Return a suite file with a run for each load.

    Args:
        name: of the suite, the tag of its runs.
        runs: loads, each with all settings of its run.
        tier: of all runs.
        repeats: of each run.
    """
    lines = [f"name = {_to_toml(name)}", f"repeats = {repeats}"]
    for load, settings in runs:
        workload = Api(str(settings.get("backend.api", Api.COMPLETIONS))).workload
        lines += ["", "[[runs]]", f'workload = "{workload}"', 'backend = "endpoint"']
        lines += [f"scenario = {json.dumps(load.scenario)}", f"tier = {json.dumps(tier)}", 'profile = "full"']
        lines += ["accuracy = false", "", "[runs.settings]"]
        lines += [f"{_to_toml(key)} = {_to_toml(value)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def _to_toml(value: str | float) -> str:
    """Return a value as TOML, which has no escapes of halves of characters, and wants one of DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
