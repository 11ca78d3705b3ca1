"""Graphs with state that lose it, mingle it, or show what was there before."""

import re

import numpy as np

from mlbench_broken.right import Plain, Right, Stateful


class BrokenState(Right):
    """Compiles graphs with state to another kind of executable."""

    def __init__(self, kind):
        self.name = re.sub("(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
        self._kind = kind

    def compile(self, graph, precision):
        executable = super().compile(graph, precision)
        return self._kind(executable.run, graph) if graph.state else executable


class Forgetful(Stateful):
    """Each call begins with zeros."""

    def __call__(self, inputs, state):
        return self.run(inputs, [tensor.clone().zero_() for tensor in state])


class Mingling(Stateful):
    """Reads into the slots in the order in which they come, whichever they are."""

    def __call__(self, inputs, state):
        if "slots" in inputs:
            inputs = {**inputs, "slots": np.arange(len(inputs["slots"]))}
        return self.run(inputs, state)


class Spilling(Stateful):
    """Writes what the first row is given into the last slot too."""

    def __call__(self, inputs, state):
        outputs = self.run(inputs, state)
        first = inputs["slots"][0] if "slots" in inputs else 0
        for tensor in state:
            tensor[-1] = tensor[first]
        return outputs


class SeeingTheLast(Stateful):
    """Continues each slot where the longest list that it ever held ended."""

    def __init__(self, run, graph):
        super().__init__(run, graph)
        self.ends = {}

    def __call__(self, inputs, state):
        if "slots" not in inputs:
            for slot, position in enumerate(inputs["positions"]):
                self.ends[slot] = max(self.ends.get(slot, 0), position)
            positions = np.array([self.ends[slot] for slot in range(len(inputs["positions"]))])
            inputs = {**inputs, "positions": np.minimum(positions, len(inputs["columns"]) - 1)}
        return self.run(inputs, state)


class Dirty(Stateful):
    """New state is whatever was in memory."""

    def new_state(self, sizes):
        return [tensor.fill_(3) for tensor in super().new_state(sizes)]


class Halving(Stateful):
    """Keeps state with half the digits."""

    def new_state(self, sizes):
        return [tensor.half() for tensor in super().new_state(sizes)]


class OneForAll(Stateful):
    """Hands out one state, however often a new one of these sizes is asked for."""

    made = None

    def new_state(self, sizes):
        fresh = super().new_state(sizes)
        if OneForAll.made is None or OneForAll.made[0].shape != fresh[0].shape:
            OneForAll.made = fresh
        for tensor in OneForAll.made:
            tensor.zero_()
        return OneForAll.made


class KeepingToItself(Stateful):
    """Keeps the state in the executable; what it hands out is a name for it."""

    def new_state(self, sizes):
        self.own = super().new_state(sizes)
        self.sizes = sizes
        return "state"

    def resize(self, state, sizes):
        self.own = super().resize(self._own(sizes), sizes)
        return "state"

    def copy_rows(self, state, sources, targets, columns):
        super().copy_rows(self._own({"slots": 8, "length": 32}), sources, targets, columns)

    def __call__(self, inputs, state):
        return self.run(inputs, self._own({"slots": 8, "length": 32}))

    def _own(self, sizes):
        if not hasattr(self, "own"):
            self.own = super().new_state(sizes)
        return self.own


class BindingOnce(Stateful):
    """Writes in place where a state lay in the first such call, also after arithmetic has made another of it."""

    def __init__(self, run, graph):
        super().__init__(run, graph)
        self.bound = {}

    def __call__(self, inputs, state):
        if self.graph.name in {"prefill", "decode"}:
            return self.run(inputs, self.bound.setdefault(id(state), list(state)))
        after = [tensor.clone() for tensor in state]
        outputs = self.run(inputs, after)
        state[:] = after
        return outputs


class ForgettingWhenGrown(Stateful):
    """Larger state is new state."""

    def resize(self, state, sizes):
        return self.new_state(sizes)


class ReshapingWhenGrown(Stateful):
    """Larger state begins with the bytes of the smaller one, wherever they belong."""

    def resize(self, state, sizes):
        grown = self.new_state(sizes)
        for new, old in zip(grown, state, strict=True):
            new.flatten()[: old.numel()] = old.flatten()
        return grown


class CopyingInTurn(Stateful):
    """Copies a row, then the next, which may be the one just written."""

    def copy_rows(self, state, sources, targets, columns):
        for source, target in zip(sources, targets, strict=True):
            super().copy_rows(state, [source], [target], columns)


class CopyingTheWrongWay(Stateful):
    """Takes the targets for the sources."""

    def copy_rows(self, state, sources, targets, columns):
        super().copy_rows(state, targets, sources, columns)


class CopyingFromTheStart(Stateful):
    """Copies as many columns as it was told, but the first ones."""

    def copy_rows(self, state, sources, targets, columns):
        super().copy_rows(state, sources, targets, range(len(columns)))


class HoldingOneOutput(Stateful):
    """Hands out the same memory in each call."""

    buffer = np.zeros(1000, np.float32)

    def __call__(self, inputs, state):
        scores = self.run(inputs, state)["scores"]
        self.buffer[: scores.size] = scores.ravel()
        return {"scores": self.buffer[: scores.size].reshape(scores.shape)}


STATES = (
    *(Forgetful, Mingling, Spilling, SeeingTheLast, Dirty, Halving, OneForAll, KeepingToItself),
    *(
        BindingOnce,
        ForgettingWhenGrown,
        ReshapingWhenGrown,
        CopyingInTurn,
        CopyingTheWrongWay,
        CopyingFromTheStart,
        HoldingOneOutput,
    ),
)


class Stateless(Plain):
    """Returns the outputs of a graph with state, and not what becomes of the state."""

    name = "stateless"

    def compile(self, graph, precision):
        executable = super().compile(graph, precision)
        if not graph.state:
            return executable
        return lambda inputs: {spec.name: executable(inputs)[spec.name] for spec in graph.outputs}


BACKENDS = [Stateless(), *(BrokenState(kind) for kind in STATES)]
