"""Engines for language models that say of their tokens what is not so, or stop in the midst of an answer."""

import threading

import numpy as np

from mlbench import Backend, GenerationProgram, Probe, Samples
from mlbench_broken.misuse import Endless, Raising
from mlbench_broken.right import NEVER, Zeros

LENGTH = 12


class Speaking(Backend):
    """Answers prompts with the engine that ``make`` returns, and all else with zeros."""

    title = "the same twelve tokens"
    computes_answers = False

    def __init__(self, name, make):
        self.name = name
        self._make = make

    def probe(self):
        return Probe(is_available=True)

    def engine(self, model, plan):
        return self._make() if isinstance(model.program, GenerationProgram) else Zeros()


class Speaker(Zeros):
    """Answers each prompt alike; ``first``, ``counts`` (of n prompts) and ``answers`` change what it says."""

    def __init__(self, first=None, counts=None, answers=None):
        self._first = first or (lambda tokens: tokens)
        self._counts = counts or (lambda n: [LENGTH] * n)
        self._answers = answers or (lambda answers: answers)

    def submit(self, samples, reply):
        self.speak_first(samples, reply)
        self.answer(samples, reply)

    def speak_first(self, samples, reply):
        reply.first_token(samples, self._first(np.ones((len(samples), 1), np.int64)))

    def answer(self, samples, reply):
        answers = [np.arange(1, LENGTH + 1) for _ in samples.ids]
        reply.complete(samples, self._answers(answers), self._counts(len(samples)))


class FirstLast(Speaker):
    """Reports the first token only with the answer."""

    def submit(self, samples, reply):
        self.answer(samples, reply)
        self.speak_first(samples, reply)


class FirstOfNobody(Speaker):
    """Reports first tokens of samples that nobody sent."""

    def speak_first(self, samples, reply):
        super().speak_first(Samples([id_ + 1_000_000 for id_ in samples.ids], samples.indices, samples.dataset), reply)


class FallingSilent(Speaker):
    """Reports a first token, and no answer."""

    def answer(self, samples, reply):
        pass


class ForgettingOne(Speaker):
    """Answers all prompts but one."""

    def answer(self, samples, reply):
        places = [place for place, index in enumerate(samples.indices) if index != 3]
        super().answer(samples.at(places), reply)


class DyingThread(Speaker):
    """Answers from a thread that does not survive its first prompt."""

    def submit(self, samples, reply):
        threading.Thread(target=self._run, args=(samples, reply), daemon=True).start()

    def _run(self, samples, reply):
        self.speak_first(samples, reply)
        raise SystemExit


class Leaving(Speaker):
    """Exits during an answer."""

    def answer(self, samples, reply):
        raise SystemExit(0)


class Decoding(Speaker):
    """Decodes for ever, on the thread that asks."""

    def answer(self, samples, reply):
        NEVER.wait()


class Dwelling(Speaker):
    """Answers, and does not return."""

    def submit(self, samples, reply):
        super().submit(samples, reply)
        NEVER.wait()


class Flushing(Speaker):
    """Never done with its last words."""

    def flush(self):
        NEVER.wait()


def counting(counts):
    return lambda: Speaker(counts=counts)


def beginning(first):
    return lambda: Speaker(first=first)


SPEAKERS = {
    "speaker": Speaker,
    "token-counts-as-floats": counting(lambda n: [float(LENGTH)] * n),
    "token-counts-in-a-float-array": counting(lambda n: np.full(n, LENGTH, np.float32)),
    "token-counts-beyond-64-bits": counting(lambda n: [2**63] * n),
    "token-counts-below-zero": counting(lambda n: [-LENGTH] * n),
    "token-counts-as-truths": counting(lambda n: [True] * n),
    "token-counts-as-texts": counting(lambda n: [str(LENGTH)] * n),
    "token-counts-that-raise": counting(lambda n: [Raising()] * n),
    "token-counts-without-end": counting(lambda n: Endless(LENGTH, n)),
    "token-counts-too-few": counting(lambda n: []),
    "no-token-counts": counting(lambda n: None),
    "first-token-as-a-float": beginning(lambda tokens: tokens.astype(np.float64)),
    "first-token-as-an-object": beginning(lambda tokens: tokens.astype(object)),
    "first-token-of-no-size": beginning(lambda tokens: tokens[:, :0]),
    "first-token-without-dimensions": beginning(lambda tokens: np.array(1)),
    "first-token-that-raises": beginning(lambda tokens: Raising()),
    "first-token-last": FirstLast,
    "first-token-of-nobody": FirstOfNobody,
    "tokens-as-floats": lambda: Speaker(answers=lambda answers: [answer.astype(np.float32) for answer in answers]),
    "tokens-as-lists": lambda: Speaker(answers=lambda answers: [answer.tolist() for answer in answers]),
    "tokens-in-rows": lambda: Speaker(answers=lambda answers: [answer[None] for answer in answers]),
    "falling-silent": FallingSilent,
    "forgetting-a-prompt": ForgettingOne,
    "thread-that-dies": DyingThread,
    "leaving-in-an-answer": Leaving,
    "decoding-for-ever": Decoding,
    "dwelling-on-an-answer": Dwelling,
    "flushing-for-ever": Flushing,
}

BACKENDS = [Speaking(name, make) for name, make in SPEAKERS.items()]
