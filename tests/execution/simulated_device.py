"""A device in virtual time: torch computes on the CPU; bytes, waits and memory are counted, and nobody waits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from mlbench import GraphBackend, Memory, Probe
from mlbench.toolkit import TorchOptions
from mlbench.toolkit.torch_backend.executable import TorchExecutable, place_module
from mlbench.toolkit.torch_backend.stateful import StatefulTorchExecutable

GRANULE = 2 << 20
"""Bytes in which memory is taken, as torch's pools do on GPUs."""


class Remote:
    """Tensors on the device: without ``__array__`` and ``__dlpack__``, so that the host cannot look into them."""

    __slots__ = ("_tensors",)
    __array_ufunc__ = None

    def __init__(self, tensors):
        self._tensors = tensors


@dataclass
class Counts:
    """Since the last `Device.take_counts`."""

    sent_bytes: int = 0
    fetched_bytes: int = 0
    waits: int = 0
    allocations: int = 0
    seconds: float = 0.0
    """Of the program, by the device's clock, in which the host's own work takes no time."""

    @property
    def bytes(self):
        return self.sent_bytes + self.fetched_bytes


class Device:
    """A link in each direction, a queue of launches, and memory. One thread uses it."""

    def __init__(self, *, bytes_per_s=25e9, latency_s=1e-5, launch_s=5e-6):
        self.bytes_per_s, self.latency_s, self.launch_s = bytes_per_s, latency_s, launch_s
        self._held = {}
        self.take_counts()

    def take_counts(self):
        """Return the counts, and begin anew with an idle device."""
        counts, self._counts = getattr(self, "_counts", None), Counts()
        self._link_s = self._arrived_s = self._computed_s = 0.0
        return counts

    def send(self, place, array):
        """Copy an array to its place on the device, behind what is on the way; the host goes on."""
        counts = self._counts
        counts.sent_bytes += array.nbytes
        self._link_s = max(self._link_s, counts.seconds) + array.nbytes / self.bytes_per_s
        self._arrived_s = self._link_s + self.latency_s
        self.hold(place, array.nbytes)
        return torch.from_numpy(np.array(array))

    def launch(self, compute, tensors):
        """Compute when all that was sent is there and all that was launched is done; the host goes on."""
        self._computed_s = max(self._arrived_s, self._computed_s, self._counts.seconds) + self.launch_s
        return compute(tensors)

    def fetch(self, tensors, place):
        """Wait until all is computed, and copy tensors to the host by name."""
        arrays = {name: tensor.numpy().copy() for name, tensor in tensors.items()}
        size = sum(array.nbytes for array in arrays.values())
        for name, array in arrays.items():
            self.hold((place, name), array.nbytes)
        counts = self._counts
        counts.fetched_bytes += size
        counts.waits += 1
        counts.seconds = max(counts.seconds, self._computed_s) + self.latency_s + size / self.bytes_per_s
        return arrays

    def hold(self, place, size):
        """Take memory for a place where it has not enough."""
        if size > self._held.get(place, 0):
            self._held[place] = -(-size // GRANULE) * GRANULE
            self._counts.allocations += 1


class Simulated(GraphBackend):
    """Runs the torch modules of graphs on such a device."""

    name = "simulated"

    def __init__(self, device=None):
        self.device = device or Device()

    def probe(self):
        return Probe(is_available=True, devices=("simulated",))

    def memory(self):
        return Memory.DEVICE

    def compile(self, graph, precision):
        kind = OnDeviceWithState if graph.state else OnDevice
        return kind(graph, self.device)


class OnDevice:
    """A graph without state."""

    kind = TorchExecutable

    def __init__(self, graph, device):
        self.graph, self.device = graph, device
        place = (graph, torch.device("cpu"), torch.float32, TorchOptions())
        self.module = self.kind(place_module(graph.module(), *place), *place)

    def __call__(self, inputs, state=None):
        graph, device = self.graph, self.device
        sent = [device.send((graph.name, spec.name), inputs[spec.name]) for spec in graph.inputs]
        outputs = device.launch(self.module.compute, [*sent, *(state._tensors if state else ())])
        return device.fetch({spec.name: each for spec, each in zip(graph.outputs, outputs, strict=False)}, graph.name)


class OnDeviceWithState(OnDevice):
    """A graph whose state stays on the device."""

    kind = StatefulTorchExecutable

    def new_state(self, sizes):
        return self._held(self.module.new_state(sizes))

    def resize(self, state, sizes):
        return self._held(self.module.resize(state._tensors, sizes))

    def copy_rows(self, state, *rows_and_columns):
        self.module.copy_rows(state._tensors, *rows_and_columns)

    def _held(self, tensors):
        self.device.hold("state", sum(tensor.nbytes for tensor in tensors))
        return Remote(tensors)
