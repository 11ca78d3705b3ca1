"""A reply that waits for a number of samples; engines are tested with it, or with a subclass that keeps more."""

import threading

from mlbench import Reply


class CountedReply(Reply):
    """Keeps answers and failures by sample id; tokens, or a run made invalid, fail at once."""

    def __init__(self, count):
        self.answers, self.failures = {}, {}
        self.left = count
        self.changed = threading.Condition()

    def complete(self, samples, outputs, token_counts=None):
        assert len(samples) == len(outputs)
        self.note(self.answers, samples, outputs)

    def fail(self, samples, reason):
        self.note(self.failures, samples, [reason] * len(samples))

    def first_token(self, samples, tokens):
        raise AssertionError("no tokens here")

    def invalidate(self, reason):
        raise AssertionError(reason)

    def note(self, where, samples, values):
        """Keep a value for each of these samples, which are then done."""
        with self.changed:
            where.update(zip(samples.ids, values, strict=True))
            self.left -= len(samples)
            self.changed.notify_all()

    def wait(self, seconds=60):
        """Return itself once all samples are done."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.left <= 0, seconds), f"{self.left} unanswered"
        return self
