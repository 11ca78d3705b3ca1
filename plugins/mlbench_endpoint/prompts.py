"""The samples of the workload ``prompts``: text that is generated, or read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlbench import DataError, Dataset
from mlbench.toolkit import parse_json, printable, read_text
from mlbench_endpoint.prompt_lengths import parse_lengths
from mlbench_endpoint.prompt_options import PromptOptions
from mlbench_endpoint.text_sample import TextSample
from mlbench_endpoint.words import WORDS

_NEW_WORDS = 4
"""Number of new random words per sending: enough for 20 billion beginnings."""

_MOST_BYTES = 1 << 30
_SHOWN = 60


class TextPrompts(Dataset):
    """TextPrompts that all stay in memory."""

    def __init__(self, samples: Sequence[TextSample], fingerprint: str) -> None:
        """Store samples, and a hash of the data."""
        self.count = self.performance_count = len(samples)
        self._samples = samples
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        """A hash of the data."""
        return self._fingerprint

    @property
    def longest_answer(self) -> int:
        """Tokens of the longest answer allowed."""
        return max(sample.answer_tokens for sample in self._samples)

    def load(self, indices: Sequence[int]) -> None:
        """Do nothing: text takes little."""

    def unload(self, indices: Sequence[int]) -> None:
        """Do nothing."""

    def sample(self, index: int) -> TextSample:
        """Return a prompt."""
        return self._samples[index]


def open_prompts(options: PromptOptions) -> TextPrompts:
    """Return the prompts that the options describe.

    Raises:
        UsageError: a length is none.
        DataError: the file cannot be read, is not UTF-8, or has an invalid prompt; the message names the line.
    """
    samples = read_prompts(Path(options.file), options) if options.file else generate_prompts(options)
    import hashlib  # loads OpenSSL

    content = hashlib.sha256()
    for sample in samples:
        content.update(f"{sample.answer_tokens} {sample.new_words} {sample.text}\n".encode())
    return TextPrompts(samples, content.hexdigest())


def generate_prompts(options: PromptOptions) -> list[TextSample]:
    """Return prompts of words drawn at random; the first words of each are drawn when it is sent.

    Raises:
        UsageError: a length is none.
    """
    import numpy as np

    lengths_in = parse_lengths(options.tokens_in, "workload.tokens_in")
    lengths_out = parse_lengths(options.tokens_out, "workload.tokens_out")
    rng = np.random.default_rng(options.seed)
    words = np.array(WORDS)
    samples = []
    for tokens, answer in zip(lengths_in.draw(rng, options.count), lengths_out.draw(rng, options.count), strict=True):
        length = max(1, round((tokens - options.template_tokens) / options.tokens_per_word))
        new = min(_NEW_WORDS, length)
        text = " ".join(rng.choice(words, length - new))
        samples.append(TextSample(text=text, answer_tokens=int(answer), new_words=new))
    return samples


def read_prompts(file: Path, options: PromptOptions) -> list[TextSample]:
    """Return the prompts of a file, blank lines left out; those that name no length have one drawn.

    Raises:
        UsageError: ``workload.tokens_out`` is no length.
        DataError: the file cannot be read, is not UTF-8, or has an invalid prompt; the message names the line.
    """
    import numpy as np

    try:
        text = read_text(file, what="prompts file", limit_bytes=_MOST_BYTES)
    except ValueError:
        raise DataError(f"prompts file is not UTF-8: {file}.", hint="Convert it: iconv -t UTF-8.") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise DataError(f"prompts file has no prompt: {file}.", hint="Give a prompt on each line.")
    drawn = parse_lengths(options.tokens_out, "workload.tokens_out").draw(
        np.random.default_rng(options.seed), len(lines)
    )
    is_json = file.suffix == ".jsonl"
    return [
        _of_object(line, int(tokens), f"{file}, line {number}")
        if is_json
        else TextSample(text=line.strip(), answer_tokens=int(tokens))
        for (number, line), tokens in zip(lines, drawn, strict=True)
    ]


def _of_object(line: str, tokens: int, place: str) -> TextSample:
    """Return the prompt of a line of JSON; raises `DataError` for another one."""
    try:
        found = parse_json(line)
    except ValueError:
        found = None
    prompt = found.get("prompt") if isinstance(found, dict) else None
    if not isinstance(prompt, str) or not prompt.strip():
        raise DataError(
            f"{place}: {printable(line[:_SHOWN])!r} is not a prompt.", hint='Give a JSON object: {"prompt": "..."}.'
        )
    most = found.get("max_tokens", tokens)
    if type(most) is not int or most < 1:
        raise DataError(f"{place}: max_tokens is {printable(str(most)[:_SHOWN])}.", hint="Give a whole number above 0.")
    return TextSample(text=prompt, answer_tokens=most)
