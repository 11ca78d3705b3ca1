"""Backends that are broken, each in one way, around one that is right: what the kit must catch.

Installed for a test by putting this folder on the path; discovered like any stranger's plugin.
"""

import os
import re
import signal
import threading

import numpy as np

from mlbench import Backend, Engine, GenerationProgram, GraphBackend, Probe, Reply, UsageError, hookimpl

POISONED_INDEX = 3
NEVER = threading.Event()


class Right(GraphBackend):
    """Runs the torch module as it is."""

    name = "right"
    title = "torch, eagerly"

    def probe(self):
        return Probe(is_available=True)

    def compile(self, graph, precision):
        import torch

        torch.set_num_threads(1)  # others may use the cores
        module = graph.module()

        def run(inputs, state=()):
            with torch.inference_mode():
                outputs = module(*(torch.tensor(inputs[spec.name]) for spec in graph.inputs), *state)
            several = outputs if isinstance(outputs, tuple) else (outputs,)
            return {spec.name: output.numpy() for spec, output in zip(graph.outputs, several, strict=False)}

        return Stateful(run, graph) if graph.state else run


class Stateful:
    """Runs the torch module of a graph with state."""

    def __init__(self, run, graph):
        self.run = run
        self.graph = graph

    def new_state(self, sizes):
        import torch

        return [
            torch.zeros([sizes.get(getattr(size, "name", 0), size) for size in spec.shape]) for spec in self.graph.state
        ]

    def resized(self, state, sizes):
        grown = self.new_state(sizes)
        for new, old in zip(grown, state, strict=True):
            new[: old.shape[0], :, : old.shape[2]] = old
        return grown

    def copy_rows(self, state, sources, targets, columns):
        for tensor in state:
            part = tensor[:, :, columns.start : columns.stop]
            part[list(targets)] = part[list(sources)]

    def __call__(self, inputs, state):
        return self.run(inputs, state)


class BrokenCompile(Right):
    """Compiles graphs, and passes each executable through ``damage(run, graph)``."""

    def __init__(self, name, damage):
        self.name = name
        self._damage = damage

    def compile(self, graph, precision):
        executable = super().compile(graph, precision)
        return executable if graph.state else self._damage(executable, graph)


def stale_buffer(run, graph):
    held = {}

    def damaged(inputs):
        for name, output in run(inputs).items():
            buffer = held.setdefault(name, np.zeros(1000, np.float32))
            buffer[: output.size] = output.ravel()
            held[name + "'"] = buffer[: output.size].reshape(output.shape)
        return {name: held[name + "'"] for name in (spec.name for spec in graph.outputs)}

    return damaged


def swapped_rows(run, graph):
    return lambda inputs: {name: np.roll(output, 1, axis=0) for name, output in run(inputs).items()}


def noisy(run, graph):
    random = np.random.default_rng(1)
    return lambda inputs: {
        name: output + random.standard_normal(output.shape, np.float32) for name, output in run(inputs).items()
    }


def remembering(run, graph):
    last = [0.0]

    def damaged(inputs):
        outputs = {name: output + np.float32(last[0]) for name, output in run(inputs).items()}
        last[0] = float(outputs[graph.outputs[0].name].size)
        return outputs

    return damaged


def overwriting_inputs(run, graph):
    def damaged(inputs):
        outputs = run(inputs)
        inputs[graph.inputs[0].name][:] = 0
        return outputs

    return damaged


def misnamed(run, graph):
    return lambda inputs: {f"{name}_0": output for name, output in run(inputs).items()}


def doubles(run, graph):
    return lambda inputs: {name: output.astype(np.float64) for name, output in run(inputs).items()}


def transposed(run, graph):
    return lambda inputs: {name: output.T for name, output in run(inputs).items()}


def blank_last_row(run, graph):
    return lambda inputs: {
        name: np.concatenate([output[:-1], np.full_like(output[-1:], np.nan)]) for name, output in run(inputs).items()
    }


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

    def resized(self, state, sizes):
        self.own = super().resized(self._own(sizes), sizes)
        return "state"

    def copy_rows(self, state, sources, targets, columns):
        super().copy_rows(self._own({"slots": 8, "length": 32}), sources, targets, columns)

    def __call__(self, inputs, state):
        return self.run(inputs, self._own({"slots": 8, "length": 32}))

    def _own(self, sizes):
        if not hasattr(self, "own"):
            self.own = super().new_state(sizes)
        return self.own


class ForgettingWhenGrown(Stateful):
    """Larger state is new state."""

    def resized(self, state, sizes):
        return self.new_state(sizes)


class ReshapingWhenGrown(Stateful):
    """Larger state begins with the bytes of the smaller one, wherever they belong."""

    def resized(self, state, sizes):
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
    *(Forgetful, Mingling, Spilling, SeeingTheLast, Dirty, OneForAll, KeepingToItself),
    *(
        ForgettingWhenGrown,
        ReshapingWhenGrown,
        CopyingInTurn,
        CopyingTheWrongWay,
        CopyingFromTheStart,
        HoldingOneOutput,
    ),
)


class Plain(Right):
    """Knows nothing of state but that it goes in and comes out, as in the ONNX form of a graph."""

    name = "plain"

    def compile(self, graph, precision):
        executable = super().compile(graph, precision)
        if not graph.state:
            return executable
        import torch

        def run(inputs):
            state = [torch.tensor(inputs[spec.name]) for spec in graph.state]
            outputs = executable.run(inputs, state)
            after = zip(graph.state, state, strict=True)
            return {**outputs, **{f"{spec.name}.next": tensor.numpy() for spec, tensor in after}}

        return run


class Stateless(Plain):
    """Returns the outputs of a graph with state, and not what becomes of the state."""

    name = "stateless"

    def compile(self, graph, precision):
        executable = super().compile(graph, precision)
        if not graph.state:
            return executable
        return lambda inputs: {spec.name: executable(inputs)[spec.name] for spec in graph.outputs}


class LeakyBetweenRuns(Right):
    """What one run left behind shifts the answers of the next."""

    name = "leaks-between-runs"

    def __init__(self):
        self._engines = 0

    def engine(self, model, plan):
        self._engines += 1
        return super().engine(model, plan)

    def compile(self, graph, precision):
        run, shift = super().compile(graph, precision), np.float32(max(0, self._engines - 1))
        return lambda inputs: {name: output + shift for name, output in run(inputs).items()}


class BrokenReplies(Right):
    """Has the right engine answer through ``tamper(samples, outputs, reply)``."""

    def __init__(self, name, tamper):
        self.name = name
        self._tamper = tamper

    def engine(self, model, plan):
        return Tampering(super().engine(model, plan), self._tamper)


class Tampering(Engine):
    def __init__(self, engine, tamper):
        self._engine = engine
        self._tamper = tamper

    def __enter__(self):
        self._engine.__enter__()
        return self

    def __exit__(self, *error):
        self._engine.__exit__(*error)

    def warm_up(self, samples):
        self._engine.warm_up(samples)

    def flush(self):
        self._engine.flush()

    def appetite(self):
        return self._engine.appetite()

    def submit(self, samples, reply):
        self._engine.submit(samples, TamperedReply(reply, self._tamper))


class TamperedReply(Reply):
    def __init__(self, reply, tamper):
        self._reply = reply
        self._tamper = tamper

    def complete(self, samples, outputs, token_counts=None):
        self._tamper(samples, outputs, self._reply)

    def first_token(self, samples, tokens):
        self._reply.first_token(samples, tokens)

    def fail(self, samples, reason):
        self._reply.fail(samples, reason)


def poisoned_places(samples):
    return [place for place, index in enumerate(samples.indices) if index == POISONED_INDEX]


def sound_places(samples):
    return [place for place, index in enumerate(samples.indices) if index != POISONED_INDEX]


def with_another_reply(change):
    """Answer the poisoned sample with ``change(its row)`` and all others as they are."""

    def tamper(samples, outputs, reply):
        rows = [
            change(row) if index == POISONED_INDEX else row for index, row in zip(samples.indices, outputs, strict=True)
        ]
        reply.complete(samples, rows)

    return tamper


def twice(samples, outputs, reply):
    reply.complete(samples, outputs)
    if places := poisoned_places(samples):
        reply.complete(samples.at(places), outputs[places])


def losing(samples, outputs, reply):
    places = sound_places(samples)
    reply.complete(samples.at(places), outputs[places])


def given_up(samples, outputs, reply):
    losing(samples, outputs, reply)
    reply.fail(samples.at(poisoned_places(samples)), "no luck with this one")


def rows_in_another_order(samples, outputs, reply):
    reply.complete(samples, outputs[::-1].copy())


def one_row_too_few(samples, outputs, reply):
    reply.complete(samples, outputs[1:] if poisoned_places(samples) else outputs)


def indices_for_ids(samples, outputs, reply):
    reply.complete(type(samples)(samples.indices, samples.indices, samples.dataset), outputs)


class Unflushed(Tampering):
    def flush(self):
        pass


class Late(Tampering):
    """Answers every query again, well after it was stopped."""

    def __init__(self, engine):
        super().__init__(engine, self._keep)
        self._kept = []

    def _keep(self, samples, outputs, reply):
        reply.complete(samples, outputs)
        self._kept.append((samples, outputs.copy(), reply))

    def __exit__(self, *error):
        super().__exit__(*error)
        threading.Timer(0.05, self._answer_again).start()

    def _answer_again(self):
        for samples, outputs, reply in self._kept:
            reply.complete(samples, outputs)


class AtExit(Late):
    """Answers the poisoned sample again while it is being stopped."""

    def __exit__(self, *error):
        Tampering.__exit__(self, *error)
        for samples, outputs, reply in self._kept:
            places = poisoned_places(samples)
            reply.complete(samples.at(places), outputs[places])


class Raising(Tampering):
    def submit(self, samples, reply):
        if poisoned_places(samples):
            raise RuntimeError("cannot digest this sample")
        super().submit(samples, reply)


class BrokenEngine(Right):
    """Wraps the right engine in another class."""

    def __init__(self, name, wrap):
        self.name = name
        self._wrap = wrap

    def engine(self, model, plan):
        return self._wrap(super().engine(model, plan))


def untampered(samples, outputs, reply):
    reply.complete(samples, outputs)


class Zeros(Engine):
    """Computes nothing."""

    def submit(self, samples, reply):
        reply.complete(samples, np.zeros((len(samples), 10), np.float32))


def refuse_generation(model):
    if isinstance(model.program, GenerationProgram):
        raise UsageError("it has no words.")


class Secretive(Backend):
    """Keeps statistics that no record can hold."""

    name = "secretive"
    title = "zeros"

    def probe(self):
        return Probe(is_available=True)

    def engine(self, model, plan):
        refuse_generation(model)
        engine = Zeros()
        engine.statistics = lambda: {"lock": threading.Lock()}
        return engine


class Shortening(Secretive):
    """Answers with too few numbers once its graphs are to cost nothing."""

    name = "shortening"

    def engine(self, model, plan):
        engine = Zeros()

        def shorten():
            engine.submit = lambda samples, reply: reply.complete(samples, np.zeros((len(samples), 9), np.float32))
            return ""

        engine.replay_graphs = shorten
        return engine


class Ending(Backend):
    """Answers zeros, and in the one check with a batch of 8 ends the process, or never returns."""

    title = "ends the process"

    def __init__(self, name, end):
        self.name = name
        self._end = end

    def probe(self):
        return Probe(is_available=True)

    def engine(self, model, plan):
        refuse_generation(model)
        return EndingEngine(self._end) if plan.batch == 8 else Zeros()


class EndingEngine(Zeros):
    def __init__(self, end):
        self._end = end

    def submit(self, samples, reply):
        self._end()


class Absent(Right):
    name = "absent"

    def probe(self):
        return Probe(is_available=False, reason="its runtime is not installed", install="pip install runtime")


@hookimpl
def mlbench_backends():
    return [
        Right(),
        LeakyBetweenRuns(),
        Absent(),
        Plain(),
        Stateless(),
        *(BrokenState(kind) for kind in STATES),
        BrokenCompile("stale-buffer", stale_buffer),
        BrokenCompile("swapped-rows", swapped_rows),
        BrokenCompile("noisy", noisy),
        BrokenCompile("remembering", remembering),
        BrokenCompile("overwriting-inputs", overwriting_inputs),
        BrokenCompile("misnamed-output", misnamed),
        BrokenCompile("double-output", doubles),
        BrokenCompile("transposed-output", transposed),
        BrokenCompile("nan-in-a-row", blank_last_row),
        BrokenReplies("empty-reply", with_another_reply(lambda row: row[:0])),
        BrokenReplies("wrong-shape", with_another_reply(lambda row: row[:-1])),
        BrokenReplies("wrong-dtype", with_another_reply(lambda row: row.astype(np.float16))),
        BrokenReplies("nan-reply", with_another_reply(lambda row: row * np.float32("nan"))),
        BrokenReplies("duplicated-reply", twice),
        BrokenReplies("lost-reply", losing),
        BrokenReplies("failed-reply", given_up),
        BrokenReplies("too-few-rows", one_row_too_few),
        BrokenReplies("swapped-replies", rows_in_another_order),
        BrokenReplies("indices-for-ids", indices_for_ids),
        BrokenEngine("no-flush", lambda engine: Unflushed(engine, untampered)),
        BrokenEngine("late-reply", Late),
        BrokenEngine("reply-at-exit", AtExit),
        BrokenEngine("raising-submit", lambda engine: Raising(engine, untampered)),
        Secretive(),
        Shortening(),
        Ending("crashing", lambda: os.kill(os.getpid(), signal.SIGSEGV)),
        Ending("leaving", lambda: os._exit(0)),
        Ending("hanging", NEVER.wait),
    ]
