"""Engines for language models that are broken, each in one way, around one that is right; none takes batches."""

import threading

import numpy as np

from mlbench import Backend, Engine, GenerationProgram, Probe, Prompt, Reply, Samples, UsageError
from mlbench.toolkit import graph_engine
from mlbench_broken.right import Right

END = 2


class Texts(Backend):
    """Answers prompts with an engine of its own, and refuses all else."""

    title = "prompts alone"
    preload = ("torch", "transformers.modeling_utils")

    def __init__(self, name, wrap):
        self.name = name
        self._wrap = wrap

    def probe(self):
        return Probe(is_available=True)

    def engine(self, model, plan):
        if not isinstance(model.program, GenerationProgram):
            raise UsageError(f"{self.name} cannot run {model.name}: it has words alone.", hint="Give it prompts.")
        return self._wrap(graph_engine(Right(), model, plan))


class Fickle(Texts):
    """Refuses every second model that it is given."""

    given = 0

    def engine(self, model, plan):
        if isinstance(model.program, GenerationProgram):
            Fickle.given += 1
            if Fickle.given % 2 == 0:
                raise UsageError("not now.")
        return super().engine(model, plan)


class TextEngine(Engine):
    """Passes prompts on, and answers as they come."""

    def __init__(self, engine):
        self.engine = engine

    def __enter__(self):
        self.engine.__enter__()
        return self

    def __exit__(self, *error):
        self.engine.__exit__(*error)

    def warm_up(self, samples):
        self.engine.warm_up(samples)

    def flush(self):
        self.engine.flush()

    def submit(self, samples, reply):
        self.engine.submit(self.read(samples), Each(self, reply))

    def read(self, samples):
        """Return the samples as the right engine gets them."""
        return Samples(samples.ids, samples.indices, Reading(samples.dataset, self.prompt))

    def prompt(self, prompt):
        return prompt

    def first(self, sample, token, reply):
        reply.first_token(sample, np.array([[token]]))

    def answer(self, sample, tokens, reply):
        reply.complete(sample, [tokens], [len(tokens)])


class Each(Reply):
    """Gives the engine each first token and each answer by itself."""

    def __init__(self, engine, reply):
        self._engine, self._reply = engine, reply

    def first_token(self, samples, tokens):
        for place, token in enumerate(np.ravel(tokens).tolist()):
            self._engine.first(samples.at([place]), token, self._reply)

    def complete(self, samples, outputs, token_counts=None):
        for place, tokens in enumerate(outputs):
            self._engine.answer(samples.at([place]), tokens, self._reply)

    def fail(self, samples, reason):
        self._reply.fail(samples, reason)

    def invalidate(self, reason):
        self._reply.invalidate(reason)


class Reading:
    """A dataset whose prompts are changed as they are read."""

    def __init__(self, dataset, change):
        self._dataset, self._change = dataset, change

    def sample(self, index):
        return self._change(self._dataset.sample(index))


class WrongToken(TextEngine):
    """Says something else in the fourth place of each answer that gets there."""

    def answer(self, sample, tokens, reply):
        tokens[3:4] = tokens[3:4] % 90 + 3
        super().answer(sample, tokens, reply)


class ReadingTheEnd(TextEngine):
    """Reads the last 32 tokens of a prompt."""

    def prompt(self, prompt):
        return Prompt(tokens=prompt.tokens[-32:], stop=prompt.stop)


class IgnoringStops(TextEngine):
    def prompt(self, prompt):
        return Prompt(tokens=prompt.tokens)


class CuttingPrompts(TextEngine):
    """Cuts a prompt that is too long, and answers what is left."""

    def prompt(self, prompt):
        return Prompt(tokens=prompt.tokens[:200], stop=prompt.stop)


class FailingTogether(TextEngine):
    """Gives up a whole query for one prompt that is too long."""

    def submit(self, samples, reply):
        if any(len(prompt.tokens) > 256 for prompt in samples.data()):
            reply.fail(samples, "a prompt is too long")
        else:
            super().submit(samples, reply)


class Counting(TextEngine):
    """Counts the prompts at work."""

    working = 0

    def submit(self, samples, reply):
        self.working += len(samples)
        super().submit(samples, reply)

    def answer(self, sample, tokens, reply):
        self.working -= 1
        super().answer(sample, tokens, reply)


class Swapping(Counting):
    """Gives every second answer to the sample of the one before it, and the other way round; a last one is right."""

    held = None

    def first(self, sample, token, reply):
        pass

    def answer(self, sample, tokens, reply):
        if self.held is None and self.working > 1:
            self.held = sample, tokens
            self.working -= 1
            return
        if self.held:
            (other, others), self.held = self.held, None
            TextEngine.answer(self, other, tokens, reply)
            tokens = others
        super().answer(sample, tokens, reply)


class InOrder(TextEngine):
    """Takes the first answer for that to the first prompt, though a shorter one may be done before it."""

    def __init__(self, engine):
        super().__init__(engine)
        self.waiting = []

    def submit(self, samples, reply):
        self.waiting += [samples.at([place]) for place in range(len(samples))]
        super().submit(samples, reply)

    def first(self, sample, token, reply):
        pass

    def answer(self, sample, tokens, reply):
        super().answer(self.waiting.pop(0), tokens, reply)


class Crowded(Counting):
    """Mixes up the last token of what it answers while more than thirty prompts are at work."""

    def answer(self, sample, tokens, reply):
        if self.working > 30:
            tokens[-1] = tokens[-1] % 90 + 3
        super().answer(sample, tokens, reply)


class WearingOut(TextEngine):
    """Begins the answers of later queries with what is left of earlier ones."""

    queries = 0

    def submit(self, samples, reply):
        self.queries += 1
        super().submit(samples, reply)

    def answer(self, sample, tokens, reply):
        if self.queries > 1:
            tokens = np.roll(tokens, 1)
        super().answer(sample, tokens, reply)


class KnowingIndices(TextEngine):
    """Remembers answers by the index of a sample."""

    def __init__(self, engine):
        super().__init__(engine)
        self.known = {}

    def submit(self, samples, reply):
        for place, index in enumerate(samples.indices):
            sample = samples.at([place])
            if index in self.known:
                self.first(sample, self.known[index][0], reply)
                super().answer(sample, self.known[index], reply)
            else:
                super().submit(sample, reply)

    def answer(self, sample, tokens, reply):
        self.known[sample.indices[0]] = tokens.copy()
        super().answer(sample, tokens, reply)


class KnowingPrompts(TextEngine):
    """Remembers the first token of each prompt that it has answered, and computes the rest."""

    def __init__(self, engine):
        super().__init__(engine)
        self.known = {}
        self.told = set()

    def submit(self, samples, reply):
        for place, prompt in enumerate(samples.data()):
            if (token := self.known.get(prompt.tokens.tobytes())) is not None:
                self.told.add(samples.ids[place])
                reply.first_token(samples.at([place]), np.array([[token]]))
        super().submit(samples, reply)

    def first(self, sample, token, reply):
        (prompt,) = sample.data()
        self.known[prompt.tokens.tobytes()] = token
        if sample.ids[0] in self.told:
            self.told.remove(sample.ids[0])
        else:
            super().first(sample, token, reply)


class Guessing(TextEngine):
    """Says at once that an answer will begin as the prompt ends, and takes it back."""

    def submit(self, samples, reply):
        for place, prompt in enumerate(samples.data()):
            reply.first_token(samples.at([place]), prompt.tokens[None, -1:])
        super().submit(samples, reply)


class HoldingBack(TextEngine):
    """Reports the first token when the answer is done."""

    def first(self, sample, token, reply):
        pass

    def answer(self, sample, tokens, reply):
        super().first(sample, tokens[0], reply)
        super().answer(sample, tokens, reply)


class RunningOn(TextEngine):
    """Puts two more tokens behind an end token."""

    def answer(self, sample, tokens, reply):
        more = [tokens, [5, END]] if tokens[-1] == END else [tokens]
        super().answer(sample, np.concatenate(more), reply)


class CuttingShort(TextEngine):
    """Ends every answer after twelve tokens."""

    def answer(self, sample, tokens, reply):
        super().answer(sample, tokens[:12], reply)


class Overlong(TextEngine):
    """Says one word more than is allowed."""

    def answer(self, sample, tokens, reply):
        more = [tokens] if tokens[-1] == END else [tokens, [5]]
        super().answer(sample, np.concatenate(more), reply)


class Late(TextEngine):
    """Answers once more, well after it was stopped."""

    def __init__(self, engine):
        super().__init__(engine)
        self.kept = []

    def answer(self, sample, tokens, reply):
        self.kept.append((sample, tokens, reply))
        super().answer(sample, tokens, reply)

    def __exit__(self, *error):
        super().__exit__(*error)
        for kept in self.kept[:1]:
            threading.Timer(0.05, TextEngine.answer, (self, *kept)).start()


KINDS = {
    "honest-text": TextEngine,
    "wrong-token": WrongToken,
    "reading-the-end": ReadingTheEnd,
    "ignoring-stops": IgnoringStops,
    "cutting-prompts": CuttingPrompts,
    "failing-together": FailingTogether,
    "swapping-requests": Swapping,
    "in-order": InOrder,
    "crowded": Crowded,
    "wearing-out": WearingOut,
    "knowing-indices": KnowingIndices,
    "knowing-prompts": KnowingPrompts,
    "guessing": Guessing,
    "holding-back": HoldingBack,
    "running-on": RunningOn,
    "cutting-short": CuttingShort,
    "overlong": Overlong,
    "late-text": Late,
}

BACKENDS = [*(Texts(name, wrap) for name, wrap in KINDS.items()), Fickle("fickle", TextEngine)]
