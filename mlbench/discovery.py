"""Entry points become plugins. A broken one is a row with its reason, never a crash and never silence."""

from __future__ import annotations

import difflib
import importlib.metadata
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from mlbench.contracts import hookspecs
from mlbench.errors import PluginError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    import click

    from mlbench.contracts.backend import Backend
    from mlbench.contracts.graph import Precision
    from mlbench.contracts.power import PowerMeter
    from mlbench.contracts.scenario import Scenario
    from mlbench.contracts.workload import Workload

logger = logging.getLogger(__name__)

GROUP = "mlbench"
"""The entry point group."""

_Plugin = TypeVar("_Plugin")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPlugin:
    """A plugin that cannot be used, and why."""

    name: str
    distribution: str
    reason: str


@dataclass(slots=True)
class Plugins:
    """All that is installed, by name."""

    backends: dict[str, Backend] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    power_meters: dict[str, PowerMeter] = field(default_factory=dict)
    commands: dict[str, click.Command] = field(default_factory=dict)
    broken: list[BrokenPlugin] = field(default_factory=list)
    origins: dict[tuple[str, str], str] = field(default_factory=dict)
    """Hook and name of a thing to what brought it."""
    hooks: pluggy.PluginManager = field(default_factory=lambda: pluggy.PluginManager("mlbench"))

    @classmethod
    def discover(cls) -> Plugins:
        """Load every entry point of group ``mlbench``, each in its own ``try``."""
        plugins = cls()
        plugins.hooks.add_hookspecs(hookspecs)
        entries = importlib.metadata.entry_points(group=GROUP)
        for entry in sorted(set(entries), key=lambda entry: entry.name):
            plugins._load(entry)
        plugins._collect(hookspecs.mlbench_scenarios, plugins.scenarios)
        plugins._collect(hookspecs.mlbench_workloads, plugins.workloads)
        plugins._collect(hookspecs.mlbench_backends, plugins.backends)
        plugins._collect(hookspecs.mlbench_power_meters, plugins.power_meters)
        plugins._collect(hookspecs.mlbench_commands, plugins.commands)
        return plugins

    def backend(self, name: str) -> Backend:
        """Return a backend. Raises `UsageError` for an unknown name, `PluginError` for a broken plugin's."""
        return self._named(name, self.backends, "backend")

    def workload(self, name: str) -> Workload:
        """Return a workload; raises as `backend` does."""
        return self._named(name, self.workloads, "workload")

    def scenario(self, name: str) -> Scenario:
        """Return a scenario, in whatever case it is written; raises as `backend` does."""
        spelled = {known.lower(): known for known in self.scenarios}
        return self._named(spelled.get(name.lower(), name), self.scenarios, "scenario")

    def power_meter(self, name: str) -> PowerMeter:
        """Return a power meter; raises as `backend` does."""
        return self._named(name, self.power_meters, "power meter")

    def best_backend(self, precision: Precision | None = None) -> Backend:
        """Return the available backend with the highest rank, of those that offer a precision where one is named.

        Raises:
            PluginError: none is available, or none offers it.
        """
        ranked = [
            (probe.rank, backend)
            for backend in self.backends.values()
            if (probe := backend.probe()).is_available
            and probe.rank >= 0
            and (precision is None or precision in probe.precisions)
        ]
        if not ranked:
            lacking = f"offers {precision} here" if precision else "is available here"
            raise PluginError(f"no backend {lacking}.", hint="See `mlbench list` for what each one needs and offers.")
        return max(ranked, key=lambda pair: pair[0])[1]

    def origin(self, backend: str) -> str:
        """Return what brought a backend: its entry point, and the distribution that declares it."""
        return self.origins[hookspecs.mlbench_backends.__name__, backend]

    def tell_stored(self, folder: Path) -> None:
        """Call ``mlbench_run_stored`` of every plugin; one that raises is warned of, since the run is stored."""
        for implementation in self.hooks.hook.mlbench_run_stored.get_hookimpls():
            try:
                implementation.function(*[folder for _ in implementation.argnames])
            except Exception as error:  # a plugin's code
                logger.warning(
                    "plugin %s did not take %s: %s: %s",
                    implementation.plugin_name,
                    folder.name,
                    type(error).__name__,
                    error,
                )

    def _load(self, entry: importlib.metadata.EntryPoint) -> None:
        distribution = entry.dist.name if entry.dist else "?"
        try:
            module = entry.load()
            self.hooks.register(module, name=f"{entry.name} ({distribution})")
        except (Exception, SystemExit) as error:  # a plugin may do anything when imported
            self.broken.append(
                BrokenPlugin(name=entry.name, distribution=distribution, reason=f"{type(error).__name__}: {error}")
            )

    def _collect(self, hook: Callable[..., Any], into: dict[str, Any]) -> None:
        """Call a hook of each plugin by itself, and keep what it brings under its name."""
        owners: dict[str, str] = {}
        for implementation in getattr(self.hooks.hook, hook.__name__).get_hookimpls():
            plugin, _, distribution = implementation.plugin_name.rstrip(")").partition(" (")
            try:
                brought = list(implementation.function())
                names = [str(thing.name) for thing in brought]
            except Exception as error:  # a plugin's code
                reason = f"{hook.__name__} raised {type(error).__name__}: {error}"
                self.broken.append(BrokenPlugin(name=plugin, distribution=distribution, reason=reason))
                continue
            for name, thing in zip(names, brought, strict=True):
                if name in owners:
                    into.pop(name, None)
                    reason = f"two plugins bring {name!r}: {owners[name]} and {plugin}; uninstall one"
                    self.broken.append(BrokenPlugin(name=name, distribution=distribution, reason=reason))
                else:
                    owners[name] = plugin
                    into[name] = thing
                    self.origins[hook.__name__, name] = implementation.plugin_name

    def _named(self, name: str, known: Mapping[str, _Plugin], kind: str) -> _Plugin:
        if name in known:
            return known[name]
        for broken in self.broken:
            if broken.name == name:
                raise PluginError(f"{kind} {name!r} cannot be used: {broken.reason}.", hint="See `mlbench list`.")
        raise UsageError(f"unknown {kind} {name!r}.", hint=nearest(name, known))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint: the name that was probably meant, or all there are."""
    close = difflib.get_close_matches(name.lower(), {each.lower(): each for each in known}, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {next(each for each in known if each.lower() == close[0])!r}?"
    return f"There are: {', '.join(known) or 'none'}."
