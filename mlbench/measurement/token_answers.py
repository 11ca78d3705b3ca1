"""Findings about a run's answers in its logs, if these are tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.load_pattern import LOAD_PATTERNS, Arrivals
from mlbench.contracts.metric import LoggedReply
from mlbench.contracts.model import Model
from mlbench.contracts.rules import Tokens
from mlbench.loadgen.logs import DETAIL, AccuracyLog, read_accuracy, read_detail
from mlbench.loadgen.settings import Mode
from mlbench.measurement.job import Job
from mlbench.rules.facts import TokenAnswers
from mlbench.rules.tiers import RunLimits
from mlbench.rules.token_compliance import TokenForm, faults_of, is_cut

LOG = "mlperf_log_accuracy.json"


def token_answers(job: Job, model: Model, limits: RunLimits) -> TokenAnswers | None:
    """Return what is found in the replies that both tests logged; None for a model that answers with none."""
    program = model.program
    if not isinstance(program, GenerationProgram) or program.reply.is_text:
        return None
    form = TokenForm(
        dtype=program.reply.dtype,
        end_tokens=program.decoding.end_tokens,
        most=program.decoding.max_new_tokens,
        is_counted=limits.tokens is Tokens.MEASURED,
        has_first=limits.tokens is Tokens.MEASURED and not job.scenario.sends_all_at_once,
        allows_two_ends=job.rules.round.compliance.allows_two_end_tokens,
    )
    kept = read_accuracy(job.folder / Mode.PERFORMANCE / LOG)
    accuracy_log = job.folder / Mode.ACCURACY / LOG
    if not accuracy_log.is_file():
        return found_in(kept, (), form, form)
    has_first = form.has_first and not _sent_all_at_once(accuracy_log.with_name(DETAIL))
    return found_in(kept, AccuracyLog(accuracy_log), form, replace(form, has_first=has_first))


def _sent_all_at_once(detail: Path) -> bool:
    """Return whether a test did: the accuracy test may be one of another scenario, which reports no first tokens."""
    pattern = LOAD_PATTERNS.get(str(read_detail(detail).values.get("effective_scenario")))
    return pattern is not None and pattern.arrivals is Arrivals.ALL_AT_ONCE


def found_in(
    kept: Iterable[LoggedReply], reference: Iterable[LoggedReply], form: TokenForm, reference_form: TokenForm
) -> TokenAnswers:
    """Return what is found in replies kept while measuring, and in the accuracy test's, each of its form."""
    faults: list[str] = []
    cut: list[int] = []
    lengths: dict[int, int] = {}
    lengths_kept: dict[int, list[int]] = {}
    checked = 0
    for is_reference, replies, its_form in ((False, kept, form), (True, reference, reference_form)):
        for reply in replies:
            checked += 1
            faults += [f"sample {reply.index}: {fault}" for fault in faults_of(reply, its_form).values()]
            if is_cut(reply, its_form):
                cut.append(reply.index)
            if is_reference:
                lengths.setdefault(reply.index, form.length(reply))
            else:
                lengths_kept.setdefault(reply.index, []).append(form.length(reply))
    pairs = [
        (ours, lengths[index]) for index, several in lengths_kept.items() for ours in several if lengths.get(index)
    ]
    return TokenAnswers(checked=checked, faults=faults, cut=cut, lengths=pairs)
