"""Two backends for graphs of any model: one computes some answers otherwise, one takes longer than it has to."""

import os
import time
from dataclasses import dataclass

import numpy as np

from mlbench import GraphBackend, Probe, hookimpl


@dataclass(frozen=True)
class NoneToSet:
    """No options."""


class Session(GraphBackend):
    """ONNX Runtime, as it comes."""

    options = NoneToSet()

    def probe(self):
        """Say that it runs, and only when it is named."""
        return Probe(is_available=True, rank=-1000)

    def compile(self, graph, precision):
        """Return a call of the graph's file."""
        import onnxruntime

        session = onnxruntime.InferenceSession(graph.onnx(), providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_outputs()]

        def run(inputs):
            return self.change(dict(zip(names, session.run(None, dict(inputs)), strict=True)))

        return run

    def change(self, outputs):
        """Return what it answers."""
        return outputs


class Wrong(Session):
    """Mixes up the last row of a batch of eight."""

    name = "wrong"

    def change(self, outputs):
        """Return the last of eight rows mirrored."""
        return {name: self._mirror(array) for name, array in outputs.items()}

    def _mirror(self, array):
        changed = np.array(array)
        if len(changed) == 8:
            changed[7] = np.flip(changed[7])
        return changed


class Late(Session):
    """Waits after each call, as long as the environment says."""

    name = "late"

    def change(self, outputs):
        """Return the answers, later."""
        time.sleep(float(os.environ.get("LATE_S", "0")))
        return outputs


@hookimpl
def mlbench_backends():
    """Return both."""
    return [Wrong(), Late()]
