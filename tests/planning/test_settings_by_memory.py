"""Settings that depend on where a backend computes, which its own options decide."""

from dataclasses import dataclass

import pytest

from mlbench import Backend, Memory, Probe, UsageError
from mlbench.discovery import Plugins
from mlbench.planning.requests import RunRequest, settings_of


@dataclass(frozen=True, kw_only=True)
class Options:
    device: str = "auto"


class Elsewhere(Backend):
    """Computes where its option says."""

    name = "elsewhere"
    options = Options()
    devices: tuple[str, ...] = ("cpu", "cuda")

    def probe(self):
        return Probe(is_available=True, devices=self.devices)

    def engine(self, model, plan):
        raise NotImplementedError

    def memory(self):
        if self.options.device == "absent":
            raise UsageError("there is no such device.")
        return Memory.HOST if self.options.device == "cpu" else Memory.DEVICE


class OnCpu(Elsewhere):
    """Would say that it computes on a device, were its runtime asked in vain."""

    devices = ("cpu",)


@pytest.mark.parametrize(
    ("backend", "settings", "windows"),
    [
        (Elsewhere(), {}, 4),
        (Elsewhere(), {"backend.device": "cpu"}, 2),
        (Elsewhere(), {"backend.device": "absent"}, 2),
        (Elsewhere(), {"execution.nodes": "2"}, 2),
        (Elsewhere(), {"workload.windows_per_call": "7"}, 7),
        (OnCpu(), {}, 2),
    ],
    ids=["on a device", "on the host", "on an absent device", "on other machines", "as the user says", "on a CPU"],
)
def test_settings_depend_on_where_the_backend_computes(backend, settings, windows):
    plugins = Plugins.discover()
    plugins.backends[backend.name] = backend
    request = RunRequest(workload="3d-unet", backend=backend.name, scenario="Offline", overrides=settings)
    assert settings_of(request, plugins).by_key["workload.windows_per_call"].value == windows
