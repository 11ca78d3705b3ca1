"""The samples of the workload ``prompts``: text that is generated, or read from a file or a trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Self

from mlbench import UsageError
from mlbench.toolkit import StoredSamples
from mlbench_endpoint.loads.arrivals import parse_arrivals
from mlbench_endpoint.loads.generated_prompts import TracePrompts, generate_prompts
from mlbench_endpoint.loads.prompt_file import read_prompts
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.text_sample import TextSample
from mlbench_endpoint.loads.trace_file import read_trace

_MOST_ARRIVALS = 1_000_000

_NOT_OF_FILES = {"shared_prefix", "turns", "image"}
_NOT_OF_TRACES = _NOT_OF_FILES | {"file", "arrival", "history", "think_ms"}


class TextPrompts(StoredSamples[TextSample]):
    """Prompts or sessions; those of files and generated ones stay in memory."""

    @classmethod
    def of(cls, samples: Sequence[TextSample]) -> Self:
        """Return prompts with a hash of all that is sent of them."""
        return cls(samples, _hash_of(map(_identity, samples)))

    @property
    def longest_answer(self) -> int:
        """Tokens of the longest answer allowed; of a session, of all its turns."""
        return max(sample.all_answers for sample in self._samples)


def open_prompts(options: PromptOptions) -> TextPrompts:
    """Return the prompts that the options describe.

    Raises:
        UsageError: an option has no meaning, or two do not fit together.
        DataError: a file cannot be read, is not UTF-8, or has an invalid line; the message names it.
    """
    _check_together(options)
    if options.trace:
        requests = read_trace(Path(options.trace), options.speed)
        facts = (options.seed, options.tokens_per_word, options.template_tokens)
        return TextPrompts(TracePrompts(requests, options), _hash_of([repr(facts), *map(repr, requests)]))
    samples = read_prompts(Path(options.file), options) if options.file else generate_prompts(options)
    if options.arrival:
        samples = _scheduled(samples, options)
    return TextPrompts.of(samples)


def _check_together(options: PromptOptions) -> None:
    """Raise `UsageError` for an option that another one leaves without an effect."""
    default = PromptOptions()
    changed = {each.name for each in fields(default) if getattr(options, each.name) != getattr(default, each.name)}
    for by, without in (("trace", _NOT_OF_TRACES), ("file", _NOT_OF_FILES)):
        if by in changed and (lost := sorted(changed & without)):
            raise UsageError(f"workload.{lost[0]} has no effect with workload.{by}.", hint="Leave one of them out.")


def _scheduled(samples: Sequence[TextSample], options: PromptOptions) -> list[TextSample]:
    """Return a sample for each arrival, from the first again after the last one."""
    import numpy as np

    arrivals = parse_arrivals(options.arrival, options.rate_per_s)
    if arrivals.mean_per_s * options.seconds > _MOST_ARRIVALS:
        raise UsageError(
            f"{arrivals.mean_per_s:g} requests/s for {options.seconds:g} s are more than {_MOST_ARRIVALS:,} requests.",
            hint="Lower the rate or the duration.",
        )
    times_s = arrivals.draw(np.random.default_rng(options.seed), options.seconds)
    return [
        replace(samples[number % len(samples)], due_ns=round(1e9 * at_s))
        for number, at_s in enumerate(times_s.tolist())
    ]


def _identity(sample: TextSample) -> str:
    """Return a text that differs where samples differ."""
    usual = f"{sample.answer_tokens} {sample.new_words} {sample.text}\n"
    rest = replace(sample, text="", answer_tokens=0, new_words=0)
    return usual if rest == TextSample(text="", answer_tokens=0) else f"{usual}{rest!r}\n"


def _hash_of(texts: Iterable[str]) -> str:
    import hashlib  # loads OpenSSL

    content = hashlib.sha256()
    for text in texts:
        content.update(text.encode())
    return content.hexdigest()
