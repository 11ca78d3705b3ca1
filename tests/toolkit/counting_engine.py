"""An engine of an outside author over numbers, and what tests ask of it."""

import asyncio
import time

import numpy as np

from mlbench import Decoding, Prompt
from mlbench.conformance.recording import RecordingReply, make_samples
from mlbench.conformance.text_model import KitPrompts
from mlbench.toolkit import AsyncGenerationEngine

END = 2
DECODING = Decoding(end_tokens=(END,), max_new_tokens=8, longest=64)
PATIENCE_S = 60.0
LEFT = "the engine was stopped before the answer was whole"


class Counting(AsyncGenerationEngine):
    """Answers with the three numbers that follow the prompt's first; ``odd`` generates for prompts that begin at 50."""

    name = "counting"

    def __init__(self, model, odd=None, patience_s=10.0):
        super().__init__(model)
        self.odd = odd
        self.patience_s = patience_s
        self.asked = 0
        self.events = []

    async def open(self):
        self.events.append("open")

    async def close(self):
        self.events.append("close")

    def generate(self, prompt):
        self.asked += 1
        first = int(prompt.tokens[0])
        return self.odd(self) if first >= 50 and self.odd else self.count(first)

    async def count(self, first):
        for place in (1, 2, 3):
            await asyncio.sleep(0)
            yield [first + place]
        yield [END]


def samples_of(*firsts, stop=()):
    prompts = KitPrompts([Prompt(tokens=np.array([first, 1]), stop=stop) for first in firsts])
    return make_samples(range(len(firsts)), prompts)


def wait_until(is_so):
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert is_so()


def asked(engine, samples):
    reply = RecordingReply()
    engine.submit(samples, reply)
    assert reply.wait(samples, PATIENCE_S)
    return reply


def given(reply, samples):
    """Return the one answer to each sample, or the one reason of its failure."""
    found = []
    for id_ in samples.ids:
        both = [*reply.answers.get(id_, []), *reply.failures.get(id_, [])]
        assert len(both) == 1
        found.append(both[0] if isinstance(both[0], str) else both[0].tolist())
    return found


def failure(model, odd, *, later=True):
    """Return why a sample failed; those beside it, and the next query, are answered."""
    samples = samples_of(10, 50, 20)
    with Counting(model, odd) as engine:
        before, reason, after = given(asked(engine, samples), samples)
        if later:
            assert given(asked(engine, samples_of(30)), samples_of(30)) == [[31, 32, 33, END]]
    assert (before, after) == ([11, 12, 13, END], [21, 22, 23, END])
    return reason
