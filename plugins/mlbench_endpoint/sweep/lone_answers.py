"""Requests prompts one at a time, before a sweep compares the answers under load with theirs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlbench import Engine, Samples, UnavailableError, UsageError
from mlbench.toolkit import AwaitedReply
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.prompts import TextPrompts, open_prompts
from mlbench_endpoint.loads.text_sample import TextSample
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.sweep.server_trial import open_engine
from mlbench_endpoint.text_format import text_to_send

ALONE_NAME = "alone.jsonl"
"""File of a sweep with the prompts and their answers; the workload reads the prompts of it."""


class _KeptAnswers(AwaitedReply):
    """Waits for one answer, and keeps it."""

    text = ""

    def complete(self, samples: Samples, outputs: Any, token_counts: Any = None) -> None:
        self.text = bytes(outputs[0]).decode()
        super().complete(samples, outputs, token_counts)


def ask_alone(options: EndpointOptions, prompts: PromptOptions, count: int, file: Path) -> PromptOptions:
    """Request answers one at a time, twice each, write a line of JSON for each prompt, and return the prompts' options.

    Args:
        options: of the endpoint.
        prompts: options of the prompts, of which the first ones are taken, with fixed words.
        count: most prompts.
        file: the file.

    Raises:
        UsageError: a prompt is more than a text, or the file cannot be written.
        UnavailableError: one is not answered.
    """
    given, lines = open_prompts(prompts), []
    with open_engine(options, given.longest_answer) as engine:
        for sample in (given.sample(index) for index in range(min(count, given.count))):
            if sample.turns or sample.images or sample.system:
                raise UsageError("--same-answers is for prompts without turns and images.", hint="Leave it out.")
            prompt = TextSample(text=text_to_send(sample), answer_tokens=sample.answer_tokens)
            first, again = (_ask(engine, prompt) for _ in range(2))
            lines.append({"prompt": prompt.text, "max_tokens": prompt.answer_tokens, "answer": first, "again": again})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.", hint="Choose a folder with --out.") from None
    return replace(PromptOptions(), file=str(file.resolve()))


def _ask(engine: Engine, sample: TextSample) -> str:
    reply = _KeptAnswers(1)
    engine.submit(Samples([0], [0], TextPrompts([sample], "")), reply)
    reply.wait()
    if reply.failure:
        raise UnavailableError(f"{reply.failure}.", hint="Nothing was measured under load.")
    return reply.text
