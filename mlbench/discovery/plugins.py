"""All installed plugins by name, and the broken ones."""

from __future__ import annotations

import functools
import logging
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import click
import pluggy

from mlbench.contracts import hookspecs
from mlbench.discovery.guard import call_plugin, note_threads
from mlbench.discovery.hook_results import check_command, check_list, demand, name_of
from mlbench.discovery.import_notes import note_import
from mlbench.errors import PluginError, UsageError
from mlbench.system.collection import paused_collection
from mlbench.system.folders import is_without_plugins
from mlbench.system.installed import UNNAMED, EntryPoint, find_installed
from mlbench.version import DISTRIBUTION

if TYPE_CHECKING:
    from mlbench.contracts.backend import Backend, Probe
    from mlbench.contracts.power import PowerMeter
    from mlbench.contracts.precision import Precision
    from mlbench.contracts.scenario import Scenario
    from mlbench.contracts.sensor import Sensor
    from mlbench.contracts.transform import Transform
    from mlbench.contracts.workload import Workload

logger = logging.getLogger(__name__)

_HEARS_WITHIN_S = 600.0
"""A plugin that is notified of a stored run may upload it."""

GROUP = "mlbench"
"""The entry point group."""

_Plugin = TypeVar("_Plugin")
_Answer = TypeVar("_Answer")


class BrokenPlugin(NamedTuple):
    """A plugin that cannot be used, and why."""

    name: str
    distribution: str
    reason: str


_DEVICES = {
    **dict.fromkeys(("cuda", "gpu", "nvidia"), "pytorch, onnxruntime, tensorrt and vllm use an NVIDIA GPU"),
    "amd": "rocm uses an AMD GPU",
    "cpu": "pytorch, onnxruntime, openvino and cpu_amx use the processor",
}
"""What is asked for as a backend and is a device, and which backends use it."""


@dataclass(slots=True)
class Plugins:
    """All that is installed, by name."""

    backends: dict[str, Backend] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    power_meters: dict[str, PowerMeter] = field(default_factory=dict)
    sensors: dict[str, Sensor] = field(default_factory=dict)
    transforms: dict[str, Transform] = field(default_factory=dict)
    commands: dict[str, click.Command] = field(default_factory=dict)
    broken: list[BrokenPlugin] = field(default_factory=list)
    origins: dict[tuple[str, str], str] = field(default_factory=dict)
    """From hook and name of an object to the plugin that provides it."""
    hooks: pluggy.PluginManager = field(default_factory=lambda: pluggy.PluginManager("mlbench"))
    _sources: dict[str, tuple[str, str]] = field(default_factory=dict)
    """From the hooks' name of a plugin to the names of its entry point and distribution."""
    _own_models: set[str] = field(default_factory=set)
    """Names of workloads that were made of a user's model."""
    _probes: dict[str, Probe] = field(default_factory=dict)

    @classmethod
    def discover(cls, without: str = "") -> Plugins:
        """Load every entry point of group ``mlbench``, each separately: an error in one does not affect the others.

        ``without`` is one that is not loaded, as `origin` names it.
        """
        from mlbench.contracts.backend import Backend
        from mlbench.contracts.power import PowerMeter
        from mlbench.contracts.scenario import Scenario
        from mlbench.contracts.sensor import Sensor
        from mlbench.contracts.transform import Transform
        from mlbench.contracts.workload import Workload
        from mlbench.discovery import validation

        with paused_collection():
            plugins = cls._load_all(without)
            plugins._collect(hookspecs.mlbench_scenarios, Scenario, validation.check_scenario, plugins.scenarios)
            plugins._collect(hookspecs.mlbench_workloads, Workload, validation.check_workload, plugins.workloads)
            plugins._collect(hookspecs.mlbench_backends, Backend, validation.check_backend, plugins.backends)
            meters, check_meter = plugins.power_meters, validation.check_power_meter
            plugins._collect(hookspecs.mlbench_power_meters, PowerMeter, check_meter, meters)
            plugins._collect(hookspecs.mlbench_sensors, Sensor, validation.check_sensor, plugins.sensors)
            transforms, check_transform = plugins.transforms, validation.check_transform
            plugins._collect(hookspecs.mlbench_transforms, Transform, check_transform, transforms)
            plugins._collect(hookspecs.mlbench_commands, click.Command, check_command, plugins.commands)
            return plugins

    @classmethod
    def discover_commands(cls) -> Plugins:
        """Load every entry point, and collect commands alone: what ``mlbench --help`` needs, without the contracts."""
        with paused_collection():
            plugins = cls._load_all()
            plugins._collect(hookspecs.mlbench_commands, click.Command, check_command, plugins.commands)
            return plugins

    @classmethod
    def _load_all(cls, without: str = "") -> Plugins:
        plugins = cls()
        plugins.hooks.add_hookspecs(hookspecs)
        seen = set[EntryPoint]()
        found: list[tuple[EntryPoint, str]] = []
        for installed in find_installed(GROUP):
            if installed.fault:
                plugins._add_broken(installed.name, installed.name, installed.fault)
            found += [(entry, installed.name) for entry in installed.entry_points if entry not in seen]
            seen.update(installed.entry_points)
        for entry, distribution in sorted(found, key=lambda each: each[0].name):
            if _plugin_name(entry, distribution) == without:
                continue
            if distribution == DISTRIBUTION:
                plugins._load(entry, distribution)
            elif is_without_plugins():
                plugins._add_broken(entry.name, distribution, "it is not loaded: --no-plugins, or MLBENCH_NO_PLUGINS")
            else:
                plugins._load_from_outside(entry, distribution)
        return plugins

    def backend(self, name: str) -> Backend:
        """Return a backend. Raises `UsageError` for an unknown name, `PluginError` for a broken plugin's."""
        return self._named(name, self.backends, "backend")

    def workload(self, name: str) -> Workload:
        """Return a workload; raises as `backend` does."""
        return self._named(name, self.workloads, "workload")

    def workload_of(self, name: str, settings: Mapping[str, object]) -> Workload:
        """Return the workload of a run with these settings: an installed one, or the user's own model among them.

        Raises:
            UsageError: the name is unknown, or no plugin takes the model.
            PluginError: the workload's plugin is broken.
        """
        model = settings.get(hookspecs.MODEL_FILE)
        is_installed = name in self.workloads and name not in self._own_models
        return self.workload(name) if is_installed or not model else self._take_model(Path(str(model)), name)

    def _take_model(self, file: Path, name: str) -> Workload:
        """Ask plugins for the workload of a user's model, which has its name here from then on."""
        from mlbench.contracts.workload import Workload
        from mlbench.discovery.validation import check_workload

        hook = hookspecs.mlbench_model_workload.__name__
        for implementation in getattr(self.hooks.hook, hook).get_hookimpls():
            made = call_plugin(functools.partial(implementation.function, file, name), hook)
            if made is not None:
                call_plugin(lambda made=made: demand(name_of(made, Workload) == name, f"{hook} changed the name"))  # type: ignore[misc]
                call_plugin(lambda made=made: check_workload(made))  # type: ignore[misc]
                self.workloads[name] = made
                self.origins[hookspecs.mlbench_workloads.__name__, name] = implementation.plugin_name
                self._own_models.add(name)
                return typing.cast("Workload", made)
        hint = "Give an ONNX file (.onnx), a torch exported program (.pt2), or the Hugging Face folder of a model."
        if file.suffix in {".bin", ".ckpt", ".pt", ".pth", ".safetensors"}:
            hint = f"Weights alone are no network: torch.export.save writes both to a .pt2 file. {hint}"
        raise UsageError(f"no plugin takes the model {str(file)!r}.", hint=hint)

    def scenario(self, name: str) -> Scenario:
        """Return a scenario, in whatever case it is written; raises as `backend` does."""
        spelled = {known.lower(): known for known in self.scenarios}
        return self._named(spelled.get(name.lower(), name), self.scenarios, "scenario")

    def power_meter(self, name: str) -> PowerMeter:
        """Return a power meter; raises as `backend` does."""
        return self._named(name, self.power_meters, "power meter")

    def transform(self, name: str) -> Transform:
        """Return a transform, with its own options; raises as `backend` does."""
        return self._named(name, self.transforms, "transform")

    def probe(self, name: str) -> Probe:
        """Return the backend's probe of this machine, cached; raises as `backend` does, also for a wrong answer."""
        from mlbench.discovery.validation import check_probe_result

        if name not in self._probes:
            self._probes[name] = self._ask(self.backend(name).probe, check_probe_result, name, self.backends)
        return self._probes[name]

    def probes(self) -> dict[str, Probe]:
        """Return each backend's probe; one that answers wrongly becomes a broken plugin."""
        return dict(_answers(self.probe, self.backends))

    def meter_fault(self, name: str) -> str:
        """Return the reason why a power meter cannot measure here; empty when it can. Raises as `probe` does."""
        from mlbench.discovery.validation import check_reason

        return self._ask(self.power_meter(name).probe, check_reason, name, self.power_meters)

    def meter_faults(self) -> dict[str, str]:
        """Return `meter_fault` of each power meter; one that answers wrongly becomes a broken plugin."""
        return dict(_answers(self.meter_fault, self.power_meters))

    def sensor_faults(self) -> dict[str, str]:
        """Return the reason why each sensor shows nothing here, as `meter_faults`; empty where it shows something."""
        from mlbench.discovery.validation import check_reason

        def ask(name: str) -> str:
            return self._ask(self.sensors[name].probe, check_reason, name, self.sensors)

        return dict(_answers(ask, self.sensors))

    def usable_sensors(self) -> list[Sensor]:
        """Return the sensors that show something of this machine."""
        return [self.sensors[name] for name, fault in self.sensor_faults().items() if not fault]

    def best_backend(self, precision: Precision | None = None) -> Backend:
        """Return the available backend with the highest rank, of those that offer a precision where one is named.

        Raises:
            PluginError: none is available, or none offers it.
        """
        ranked = [
            (probe.rank, self.backends[name])
            for name, probe in self.probes().items()
            if probe.is_available and probe.rank >= 0 and (precision is None or precision in probe.precisions)
        ]
        if not ranked:
            lacking = f"offers {precision} here" if precision else "is available here"
            raise PluginError(f"no backend {lacking}.", hint="See `mlbench list` for the needs and precisions of each.")
        return max(ranked, key=lambda pair: pair[0])[1]

    def origin(self, name: str, kind: Literal["backend", "workload", "scenario", "transform"] = "backend") -> str:
        """Return the origin of what a plugin brings: its entry point, and the distribution that declares it."""
        return self.origins[f"mlbench_{kind}s", name]

    def notify_stored(self, folder: Path) -> None:
        """Call ``mlbench_run_stored`` of every plugin, as `notify`."""
        self.notify(hookspecs.mlbench_run_stored, folder.name, folder=folder)

    def notify(self, hook: Callable[..., None], what: str, **facts: Any) -> None:
        """Call a hook of every plugin that listens; an error is only logged, and harms no run.

        Args:
            hook: of `hookspecs`.
            what: it is about; for the message.
            facts: the hook's arguments; a plugin may take fewer.
        """
        for implementation in getattr(self.hooks.hook, hook.__name__).get_hookimpls():
            call = functools.partial(implementation.function, *[facts[name] for name in implementation.argnames])
            try:
                call_plugin(call, within_s=_HEARS_WITHIN_S)
            except PluginError as error:
                logger.warning("plugin %s did not take %s: %s", implementation.plugin_name, what, error.message)

    def _load_from_outside(self, entry: EntryPoint, distribution: str) -> None:
        try:
            with note_import(entry, distribution), note_threads(f"{entry.name} (from {distribution})"):
                self._load(entry, distribution)
        except PluginError as error:
            self._add_broken(entry.name, distribution, error.message)

    def _load(self, entry: EntryPoint, distribution: str) -> None:
        name = _plugin_name(entry, distribution)
        self._sources[name] = (entry.name, distribution)
        try:
            module = call_plugin(entry.load)
            call_plugin(lambda: self.hooks.register(module, name=name))
        except PluginError as error:
            if self.hooks.has_plugin(name):  # pluggy keeps a half-registered plugin
                self.hooks.unregister(name=name)
            self._add_broken(entry.name, distribution, error.message)
            return
        hooks = self.hooks.get_hookcallers(module) or []
        unknown = [hook.name for hook in hooks if not hook.has_spec()]
        if not hooks:
            self._add_broken(entry.name, distribution, f"{entry.value} implements no hook of mlbench")
        elif unknown:
            self._add_broken(entry.name, distribution, f"mlbench has no hook {', '.join(unknown)}")

    def _collect(
        self, hook: Callable[..., Any], kind: type, check: Callable[[Any], None], into: dict[str, _Plugin]
    ) -> None:
        """Call a hook of each plugin separately, and keep what it returns by name, if it keeps its contract."""
        owners: dict[str, str] = {}
        for implementation in getattr(self.hooks.hook, hook.__name__).get_hookimpls():
            plugin, distribution = self._sources[implementation.plugin_name]
            try:
                things: Sequence[Any] = check_list(call_plugin(implementation.function, hook.__name__), hook.__name__)
            except PluginError as error:
                self._add_broken(plugin, distribution, error.message)
                continue
            for thing in things:
                name = self._name_of(thing, kind, check, implementation.plugin_name)
                if name is None:
                    continue
                if name in owners:
                    into.pop(name, None)
                    reason = f"two plugins bring {name!r}: {owners[name]} and {plugin}; uninstall one"
                    self._add_broken(name, distribution, reason)
                else:
                    owners[name] = plugin
                    into[name] = thing
                    self.origins[hook.__name__, name] = implementation.plugin_name

    def _name_of(self, thing: Any, kind: type, check: Callable[[Any], None], source: str) -> str | None:
        """Return the name of an object from a plugin; None where it breaks its contract, which is then listed."""
        plugin, distribution = self._sources[source]
        name = plugin
        try:
            name = call_plugin(lambda: name_of(thing, kind))
            call_plugin(lambda: check(thing))
        except PluginError as error:
            self._add_broken(name, distribution, error.message)
            return None
        return name

    def _ask(
        self,
        question: Callable[[], object],
        validated: Callable[[object], _Answer],
        name: str,
        known: dict[str, _Plugin],
    ) -> _Answer:
        """Return the answer of a plugin's ``probe``; one that raises or answers wrongly is broken from then on."""
        try:
            with note_threads(name):
                answer = call_plugin(question, "probe()")
            return call_plugin(lambda: validated(answer))
        except PluginError as error:
            del known[name]
            origin = next((each for (_, brought), each in self.origins.items() if brought == name), "")
            _, distribution = self._sources.get(origin, (name, UNNAMED))
            self._add_broken(name, distribution, error.message)
            raise PluginError(f"{name} cannot be used: {error.message}.", hint="See `mlbench list`.") from None

    def _add_broken(self, name: str, distribution: str, reason: str) -> None:
        self.broken.append(BrokenPlugin(name=name, distribution=distribution, reason=reason))

    def _named(self, name: str, known: Mapping[str, _Plugin], kind: str) -> _Plugin:
        if name in known:
            return known[name]
        for broken in self.broken:
            if broken.name == name:
                raise PluginError(f"{kind} {name!r} cannot be used: {broken.reason}.", hint="See `mlbench list`.")
        device = _DEVICES.get(name.lower()) if kind == "backend" else None
        hint = f"Name a backend, not a device: {device}." if device else nearest(name, known)
        raise UsageError(f"unknown {kind} {name!r}.", hint=hint)


def _plugin_name(entry: EntryPoint, distribution: str) -> str:
    """Return the hooks' name of a plugin."""
    return f"{entry.name} ({distribution})"


def _answers(ask: Callable[[str], _Answer], names: Iterable[str]) -> Iterator[tuple[str, _Answer]]:
    """Yield each name with its answer, without those that are broken."""
    for name in tuple(names):
        try:
            yield name, ask(name)
        except PluginError:
            continue  # it is a row among the broken ones now


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint: the most similar name, or all names; or that each is given by itself."""
    import difflib  # only for who mistyped

    several = name.split(",")
    if len(several) > 1 and {*several} <= {*known}:
        return f"Give each by itself: {', '.join(map(repr, several))}."
    close = difflib.get_close_matches(name.lower(), {each.lower(): each for each in known}, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {next(each for each in known if each.lower() == close[0])!r}?"
    return f"There are: {', '.join(known) or 'none'}."
