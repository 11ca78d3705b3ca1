"""``mlbench settings``: list settings, their meaning, and the value that a run would use."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mlbench.cli.completions import offer_backends, offer_scenarios, offer_settings, offer_workloads
from mlbench.cli.options import overrides_option, profile_option, tier_option
from mlbench.cli.output import echo, echo_facts, echo_heading, echo_line, echo_wrapped
from mlbench.contracts.workload import Profile
from mlbench.discovery import Plugins, nearest
from mlbench.errors import UsageError
from mlbench.reports.settings import description_line, plain_words, settings_markdown
from mlbench.system.folders import system_settings_file

if TYPE_CHECKING:
    from mlbench.settings.descriptions import SettingGroup
    from mlbench.settings.layers import Setting

INDENT = 4


@click.command("settings")
@click.argument("workload", required=False, shell_complete=offer_workloads)
@click.argument("backend", required=False, shell_complete=offer_backends)
@click.option(
    "--scenario",
    default="Offline",
    show_default=True,
    metavar="SCENARIO",
    shell_complete=offer_scenarios,
    help="Scenario, from `mlbench list`.",
)
@profile_option
@tier_option
@overrides_option
@click.option("--explain", metavar="KEY", shell_complete=offer_settings, help="Print everything about one setting.")
@click.option("--markdown", is_flag=True, help="Print a Markdown page of all settings; without WORKLOAD and BACKEND.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    workload: str | None,
    backend: str | None,
    scenario: str,
    profile: str,
    tier: str,
    overrides: dict[str, str],
    explain: str | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Print each setting of WORKLOAD on BACKEND: its value, the layer it came from, its meaning and allowed values.

    A later layer overrides an earlier one; docs/running.md lists them. Without WORKLOAD and BACKEND: all settings of
    all installed plugins, with their defaults.
    """
    from mlbench.planning.requests import RunRequest, settings_of
    from mlbench.rules.tiers import Tier
    from mlbench.settings.descriptions import describe_all

    plugins = Plugins.discover()
    settings: Mapping[str, Setting] = {}
    backends, workloads = plugins.backends, plugins.workloads
    if workload and backend:
        if markdown:
            raise UsageError("--markdown is given together with WORKLOAD and BACKEND.", hint="Leave them out.")
        request = RunRequest(
            workload=workload,
            backend=backend,
            scenario=scenario,
            profile=Profile(profile),
            tier=Tier(tier),
            overrides=overrides,
        )
        settings = settings_of(request, plugins).by_key
        backends, workloads = {backend: plugins.backend(backend)}, {workload: plugins.workload(workload)}
    elif workload:
        raise UsageError(f"workload {workload} is given without a backend.", hint="Name both, or none.")
    groups = describe_all(backends, workloads)
    if explain:
        groups = list(_choose(groups, explain))
    if markdown:
        echo(settings_markdown(groups), newline=False)
    elif as_json:
        echo_facts(_json_of(groups, settings))
    elif explain:
        _explain(groups, settings)
    else:
        _list(groups, settings)


def _choose(groups: Sequence[SettingGroup], key: str) -> Iterator[SettingGroup]:
    """Yield each group that has a setting of this name, reduced to it."""
    known = dict.fromkeys(setting.key for group in groups for setting in group.settings)
    if key not in known:
        raise UsageError(f"unknown setting {key!r}.", hint=nearest(key, known))
    for group in groups:
        if chosen := tuple(setting for setting in group.settings if setting.key == key):
            yield dataclasses.replace(group, settings=chosen)


def _json_of(groups: Sequence[SettingGroup], settings: Mapping[str, Setting]) -> Any:
    """Return the facts about each setting of a run by key; without a run, by group."""
    from mlbench.settings.layers import Settings

    if not settings:
        return [dataclasses.asdict(group) for group in groups]
    values = Settings(settings).plain()
    return {
        each.key: {"value": values[each.key], "layer": settings[each.key].layer, **dataclasses.asdict(each)}
        for group in groups
        for each in group.settings
    }


def _list(groups: Sequence[SettingGroup], settings: Mapping[str, Setting]) -> None:
    from mlbench.settings.descriptions import format_value

    width = max(len(setting.key) for group in groups for setting in group.settings)
    for group in groups:
        if not settings:
            echo_heading(group.reader)
        for each in group.settings:
            now = settings.get(each.key)
            value, layer = (format_value(now.value), now.layer) if now else (each.default, "default")
            echo_line(f"{each.key:<{width}}  {value:<12}  {layer}")
            echo_wrapped(f"{' ' * INDENT}{description_line(each)}", INDENT)


def _explain(groups: Sequence[SettingGroup], settings: Mapping[str, Setting]) -> None:
    for group in groups:
        for each in group.settings:
            echo_line(each.key)
            rows = [
                ("does", plain_words(each.text)),
                ("takes", each.values),
                ("default", each.default),
                *([("guarded", f"it {each.does}: records and clients need --trust to set it")] if each.does else []),
                *_layers(settings.get(each.key)),
                ("read by", f"{group.reader} ({group.source})"),
                ("set it", f"--set {each.key}=VALUE, a suite file, or {system_settings_file()}"),
            ]
            for name, text in rows:
                echo_wrapped(f"  {name:<8}{text}", 10)


def _layers(setting: Setting | None) -> Iterator[tuple[str, str]]:
    """Yield the value in force with its layer, then the values that it replaced."""
    from mlbench.settings.descriptions import format_value

    name = "now"
    while setting:
        file = f", {setting.file}" if setting.file and str(setting.file) not in setting.layer else ""
        yield name, f"{format_value(setting.value)} ({setting.layer}{file})"
        name, setting = "before", setting.replaced
