"""A language model without a network: what follows a token depends on all tokens before it, and on nothing else.

Its cache holds the tokens themselves, so that one token in the wrong place changes every answer after it. What the
right answers are is said by loops over lists that know nothing of slots, batches or caches.
"""

import threading
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from counted_reply import CountedReply

from mlbench import (
    DECODE,
    LENGTH,
    PREFILL,
    SLOTS,
    Decoding,
    Dim,
    EnginePlan,
    GenerationProgram,
    GraphBackend,
    Model,
    Probe,
    Prompt,
    ReplySpec,
    Samples,
    TensorSpec,
)
from mlbench.execution.engine_choice import engine_of

VOCABULARY = 24
END = 3
_PRIME = np.uint64(0x9E3779B97F4A7C15)


def log_probabilities_after(prefixes, lengths):
    """Return (rows, vocabulary) float32: what may follow each row's first tokens, (rows, length), so many of them."""
    powers = np.cumprod(np.full(prefixes.shape[1], _PRIME, np.uint64))
    counted = np.arange(prefixes.shape[1]) < np.asarray(lengths)[:, None]
    sums = ((prefixes.astype(np.uint64) + np.uint64(1)) * powers * counted).sum(axis=1, dtype=np.uint64)
    mixed = (sums[:, None] + np.arange(1, VOCABULARY + 1, dtype=np.uint64)) * _PRIME
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _PRIME
    logits = (mixed >> np.uint64(40)).astype(np.float64) / 2**24 * 6
    logits[:, END] += 1
    return (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32)


def best(log_probabilities, count):
    tokens = np.argsort(-log_probabilities, axis=1, kind="stable")[:, :count]
    return {"tokens": tokens, "log_probabilities": np.take_along_axis(log_probabilities, tokens, axis=1)}


def greedy_answer(prompt, decoding):
    """Answer as the rules of greedy search say, over lists."""
    answer = []
    while len(answer) < decoding.max_new_tokens and (not answer or answer[-1] not in decoding.end_tokens):
        so_far = [*prompt.tokens.tolist(), *answer]
        scores = log_probabilities_after(np.array([so_far]), [len(so_far)])[0]
        if len(answer) < decoding.min_new_tokens:
            scores[list(decoding.end_tokens)] = -np.inf
        stopped = prompt.stop and len(so_far) > len(prompt.stop) and so_far[-len(prompt.stop) :] == list(prompt.stop)
        answer.append(decoding.end_tokens[0] if stopped else int(scores.argmax()))
    return answer


class Tokens(GenerationProgram):
    reply = ReplySpec(dtype="int64", shape=(None,))

    def __init__(self, decoding):
        self.decoding = decoding

    def prompt(self, sample):
        if isinstance(sample, Exception):
            raise sample
        return sample

    def answer(self, tokens):
        return np.array(tokens, np.int64)


class Executable:
    """Prefill or decode over a cache of tokens."""

    def __init__(self, name, backend):
        self.name = name
        self.backend = backend

    def new_state(self, sizes):
        self.backend.grow(sizes)
        return np.zeros((sizes[SLOTS], sizes[LENGTH]), np.int64)

    def resize(self, state, sizes):
        grown = self.new_state(sizes)
        grown[: len(state), : state.shape[1]] = state
        return grown

    def copy_rows(self, state, sources, targets, columns):
        assert not set(sources) & set(targets)
        self.backend.called("copy", {"input_ids": np.array(sources), "columns": columns})
        state[np.array(targets), columns.start : columns.stop] = state[np.array(sources), columns.start : columns.stop]

    def __call__(self, inputs, state):
        self.backend.called(self.name, inputs)
        ids, columns = inputs["input_ids"], inputs["columns"]
        assert columns.tolist() == list(range(len(columns)))
        assert len(columns) <= state.shape[1], "columns beyond the cache"
        if self.name == PREFILL:
            rows, ends = inputs["slots"], inputs["positions"] + inputs["last"] + 1
            assert len(set(rows.tolist())) == len(rows)
            places = inputs["positions"][:, None] + np.arange(ids.shape[1])
            assert places.max() < len(columns), "written beyond the columns"
            state[rows[:, None], places] = ids
        else:
            rows, ends = np.arange(len(ids)), inputs["positions"] + 1
            assert inputs["positions"].max() < len(columns), "written beyond the columns"
            state[rows, inputs["positions"]] = ids
        logs = log_probabilities_after(state[rows, : len(columns)], ends)
        return self.backend.spoilt(self.name, best(logs, self.backend.choices))


class TokenBackend(GraphBackend):
    """Compiles to `Executable`; goes wrong as told, and remembers the calls."""

    name = "tokens"

    def __init__(self, choices, *, plain=False):
        self.choices = choices
        self.plain = plain
        self.calls = []
        self.rows_of_calls = Counter()
        self.sizes = []
        self.threads = set()
        self.room = 10**9
        self.refusals = 0
        self.fails = lambda name, number: None
        self.spoils = lambda name, number, outputs: outputs

    def probe(self):
        return Probe(is_available=True)

    def compile(self, graph, precision):
        stateful = Executable(graph.name, self)
        return self._plain(stateful) if self.plain else stateful

    def grow(self, sizes):
        if sizes[SLOTS] * sizes[LENGTH] > self.room:
            self.refusals += 1
            raise MemoryError(f"{sizes[SLOTS]} x {sizes[LENGTH]} tokens")
        self.sizes.append((sizes[SLOTS], sizes[LENGTH]))

    def called(self, name, inputs):
        self.threads.add(threading.get_ident())
        self.calls.append((name, inputs["input_ids"].shape, len(inputs["columns"])))
        self.fails(name, len(self.calls))

    def spoilt(self, name, outputs):
        return self.spoils(name, len(self.calls), outputs)

    def _plain(self, stateful):
        """Return the ONNX form: the state goes in and comes out."""

        def executable(inputs):
            inputs = dict(inputs)
            state = inputs.pop("cache").copy()
            outputs = stateful(inputs, state)
            state.flags.writeable = False
            return {**outputs, "cache.next": state}

        return executable


def graph(name, longest, rows):
    slots, length = (
        Dim(name=each, smallest=1, usual=1, largest=most) for each, most in ((SLOTS, rows), (LENGTH, longest))
    )
    row = Dim(name="rows", smallest=1, usual=1, largest=rows)
    ids = (row, Dim(name="tokens", smallest=1, usual=1, largest=longest)) if name == PREFILL else (row,)
    return SimpleNamespace(
        name=name,
        inputs=(TensorSpec(name="input_ids", shape=ids, dtype="int64"),),
        state=(TensorSpec(name="cache", shape=(slots, length), dtype="int64"),),
    )


class Kept(CountedReply):
    """Keeps all that is answered, and the order of it; a sample answered twice fails at once."""

    def __init__(self, count):
        super().__init__(count)
        self.firsts, self.counts = {}, {}
        self.calls = 0

    def complete(self, samples, outputs, token_counts=None):
        with self.changed:
            self.calls += 1
            self.counts.update(zip(samples.ids, token_counts, strict=True))
            super().complete(samples, [output.tolist() for output in outputs])

    def first_token(self, samples, tokens):
        with self.changed:
            for id_, token in zip(samples.ids, tokens.tolist(), strict=True):
                assert id_ not in self.firsts
                assert id_ not in self.answers, "first token after the answer"
                self.firsts[id_] = token
            self.changed.notify_all()

    def wait_until(self, condition):
        """Block until what was kept fulfils a condition."""
        with self.changed:
            assert self.changed.wait_for(condition, 60)

    def note(self, where, samples, values):
        assert not set(samples.ids) & (self.answers.keys() | self.failures.keys()), "answered twice"
        super().note(where, samples, values)


class World:
    """A model, a backend and a dataset of prompts that fit together."""

    def __init__(self, *, prompts, rows=64, columns=None, plain=False, **decoding):
        self.decoding = Decoding(**{"end_tokens": (END,), "max_new_tokens": 24, "longest": 96, **decoding})
        self.prompts = prompts
        self.backend = TokenBackend(self.decoding.choices, plain=plain)
        self.dataset = SimpleNamespace(sample=lambda index: self.prompts[index])
        graphs = {name: graph(name, columns or self.decoding.longest, rows) for name in (PREFILL, DECODE)}
        self.model = Model(name="tokens", graphs=graphs, program=Tokens(self.decoding), weights_fingerprint="none")

    def engine(self, **plan):
        return engine_of(self.backend, self.model, EnginePlan(**{"batching": "in_flight", "batch": 4, **plan}))

    def samples(self, *indices, first=1000):
        indices = list(indices) or list(range(len(self.prompts)))
        return Samples(list(range(first, first + len(indices))), indices, self.dataset)

    def answered(self, engine, samples=None):
        """Submit samples as one query, and return the reply once all are answered; by dataset index."""
        samples = samples or self.samples()
        reply = Kept(len(samples))
        engine.submit(samples, reply)
        engine.flush()
        reply.wait()
        return reply

    def compute_outputs(self, samples=None):
        samples = samples or self.samples()
        return {
            id_: greedy_answer(self.prompts[index], self.decoding)
            for id_, index in zip(samples.ids, samples.indices, strict=True)
        }


def prompts_of(count, *, seed=0, longest=40, **fields):
    random = np.random.default_rng(seed)
    return [
        Prompt(tokens=random.integers(4, VOCABULARY, random.integers(1, longest, endpoint=True)), **fields)
        for _ in range(count)
    ]


@pytest.fixture
def world():
    """Return a world of these prompts, or of so many random ones."""

    def made(prompts=12, **settings):
        return World(prompts=prompts_of(prompts) if isinstance(prompts, int) else prompts, **settings)

    return made


@pytest.fixture
def random_prompts():
    return prompts_of


@pytest.fixture
def kept():
    return Kept
