"""The engine in front of a server: requests out, tokens in."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mlbench import Engine, EngineStatistics, GenerationProgram, Prompt, Reply, Samples, UnavailableError
from mlbench.toolkit import AwaitedReply
from mlbench_endpoint.client.lag import ClientLag, explain_free_places, explain_lateness
from mlbench_endpoint.client.messages import Answered, Begun, ClientPulse, Failed, Message, RequestMessage
from mlbench_endpoint.client.oddities import Oddities
from mlbench_endpoint.client.processes import ENDED, ClientProcesses
from mlbench_endpoint.client.request_times import RequestTimes
from mlbench_endpoint.client.settings import ClientSettings
from mlbench_endpoint.client.token_count import BY_SERVER
from mlbench_endpoint.loads.schedule import Schedule, new_salt, with_salt
from mlbench_endpoint.loads.text_program import TextPrompt
from mlbench_endpoint.request_format import RequestFormat
from mlbench_endpoint.sweep.same_answers import AnswerComparison
from mlbench_endpoint.sweep.service_limits import ServiceLimits
from mlbench_endpoint.text_format import TextRequestFormat

if TYPE_CHECKING:
    from pathlib import Path

    from mlbench_endpoint.servers.server_watch import ServerWatch
    from mlbench_endpoint.servers.started_server import StartedServer
    from mlbench_endpoint.sweep.same_answers import LoneAnswer

_FEW_SAMPLES = 8
_NO_COUNTS = ("times", "schedule")


@dataclass(slots=True)
class EndpointCounts:
    """Statistics of a run's requests, for the record."""

    answered: int = 0
    sessions: int = 0
    """Sessions of several turns that ended; each turn is an answer."""
    failed: int = 0
    retried: int = 0
    truncated_prompts: int = 0
    """Prompts for which the server counted fewer tokens than were sent; see `EngineStatistics`."""
    prompts_cut_otherwise: int = 0
    """Answers for which the server's count of prompt tokens differs from mlbench's, including the above."""
    answers_cut_otherwise: int = 0
    """Answers for which the server's count of tokens differs from mlbench's: text can be tokenised in many ways."""
    longest_way_ns: int = 0
    """The longest time from a token's arrival in the other process to its report to LoadGen."""
    oddities: Oddities = field(default_factory=Oddities)
    client: ClientLag = field(default_factory=ClientLag)
    times: RequestTimes = field(default_factory=RequestTimes)
    schedule: Schedule | None = None

    def statistics(self, served_model: str, limits: ServiceLimits, *, knows_prompts: bool) -> EngineStatistics:
        """Return the record's form, with the model's name on the servers.

        Args:
            served_model: its name.
            limits: of an answer that counts as good.
            knows_prompts: whether the number of tokens in a whole prompt is known; else truncation cannot be detected.
        """
        own = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name not in _NO_COUNTS}
        truncated_prompts, oddities, client = (own.pop(name) for name in ("truncated_prompts", "oddities", "client"))
        load = self.times.facts(limits)
        facts = dataclasses.asdict(load)
        ttft_ns = next((each.p50 for each in load.from_sending if each.of == "first token"), None)
        is_late = ttft_ns is not None and explain_lateness(client.facts(), ttft_ns)
        is_late = is_late or explain_free_places(facts["window"] or {})
        if self.schedule and (late := self.schedule.lateness()):
            facts["lateness"] = dataclasses.asdict(late)
        return EngineStatistics(
            batching="server",
            truncated_prompts=truncated_prompts if knows_prompts else None,
            late_clients=None if ttft_ns is None else int(bool(is_late)),
            extra={
                "served_model": served_model,
                **own,
                **{name: value for name, value in facts.items() if value is not None},
                "oddities": oddities.counts,
                "client": client.facts(),
            },
        )


@dataclass(slots=True)
class _Asked:
    samples: Samples
    reply: Reply
    prompt: Prompt
    schedule: Schedule | None
    due_ns: int
    """When it is due by the schedule, CLOCK_MONOTONIC; 0: at once."""
    is_session: bool
    first: Any = None
    """The part of the answer whose first token was reported."""
    tokens: list[int] = field(default_factory=list)
    """The tokens of all turns so far."""
    counted: int = 0
    """Their number by the server's count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSide:
    """The servers, besides their answers."""

    started: StartedServer | None
    """The server that the run starts itself."""
    watch: ServerWatch | None
    """Samples their metrics."""
    alone: Mapping[str, LoneAnswer] | None = None
    """Their answers to prompts alone, to compare with."""


class EndpointEngine(Engine):
    """Passes prompts to a process that talks HTTP, and completes samples from a thread that receives the tokens.

    Each sample is answered or failed, whatever a server sends: the other process keeps the time limits, and the thread
    fails a sample whose answer cannot be read.
    """

    def __init__(
        self,
        settings: ClientSettings,
        program: GenerationProgram,
        request_format: RequestFormat | TextRequestFormat,
        side: ServerSide | None = None,
        requests_file: Path | None = None,
    ) -> None:
        self._settings = settings
        self._program = program
        self._format = request_format
        self._server = side.started if side else None
        self._requests_file = requests_file
        self._watch = side.watch if side else None
        self._alone = side.alone if side else None
        self._comparison = AnswerComparison(self._alone or {})
        self._counts = EndpointCounts()
        self._asked: dict[int, _Asked] = {}
        self._requests = 0
        self._salt = new_salt()
        self._model = ""
        self._client = ClientProcesses(settings, self._take, self._lose)

    def __enter__(self) -> Self:
        """Start the server, if configured, and the processes, which ask every target for its models.

        Raises:
            UnavailableError: the server does not start, a target does not answer, or does not have the model.
        """
        if self._server:
            self._server.start()
        try:
            if self._watch:
                self._watch.start()  # their processes start together
            self._model = self._client.start()
            if self._watch:
                self._watch.expect_metrics()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the sockets, which ends the processes and the threads; open requests are dropped.

        A server that was started ends too.
        """
        self._client.close()
        if self._watch:
            self._watch.end()
        if self._server:
            self._server.end()

    def warm_up(self, samples: Samples) -> None:
        """Request these answers, and drop them; only a few of a server's own model, whose answers may take long.

        Raises:
            UnavailableError: one fails.
        """
        if isinstance(self._format, TextRequestFormat):
            samples = samples[: min(_FEW_SAMPLES, self._settings.options.most_requests)]
        reply = AwaitedReply(len(samples))
        self.submit(samples, reply)
        reply.wait()
        if reply.failure:
            hint = "" if self._format.is_text else " A server that accepts only text needs --set backend.prompt=text."
            raise UnavailableError(f"{reply.failure}.", hint=f"The server refused a prompt during warm-up.{hint}")
        self._counts = EndpointCounts()
        self._comparison = AnswerComparison(self._alone or {})
        if self._watch:
            self._watch.take()

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Send a request for each sample, or the first one of its session; at the times of their schedule, if any."""
        if schedule := Schedule.of(samples, reply):
            self._counts.schedule = schedule
        places = range(len(samples))
        is_at_once = len(samples) > 1 and not schedule
        self._counts.times.begin_query(self._settings.options.most_requests if is_at_once else 0)
        for place in sorted(places, key=samples.indices.__getitem__) if schedule else places:  # in order of due times
            part = samples if len(samples) == 1 else samples[place : place + 1]
            sample = with_salt(part.data()[0], self._salt)
            prompt = self._program.prompt(sample)
            if (limit := self._format.limit(prompt)) < 1:
                reply.fail(part, f"the prompt of {len(prompt.tokens)} tokens leaves no tokens for an answer")
                continue
            self._requests += 1
            due_ns = schedule.due_ns(sample) if schedule else 0
            turns = self._format.turns(prompt) if isinstance(self._format, TextRequestFormat) else ()
            if turns:
                self._counts.times.places = 0  # a turn comes when the one before is answered
            self._asked[self._requests] = _Asked(part, reply, prompt, schedule, due_ns, bool(turns))
            fields = self._format.fields(prompt)
            try:
                self._client.send(
                    RequestMessage(id=self._requests, fields=fields, limit=limit, due_ns=due_ns, turns=turns)
                )
            except OSError:  # the reader is gone
                self._fail(self._requests, ENDED)

    def statistics(self) -> EngineStatistics:
        """Return counts of requests since the last call, and the model's name on the servers.

        In a run the times of these requests are written beside the record.
        """
        counts, self._counts, self._salt = self._counts, EndpointCounts(), new_salt()
        if self._requests_file:
            with suppress(OSError):  # a full disk; the record has the summary
                counts.times.write(self._requests_file)
        limits = ServiceLimits.of_text(self._settings.options.slo)
        found = counts.statistics(self._model, limits, knows_prompts=isinstance(self._format, RequestFormat))
        extra, comparison = dict(found.extra), self._comparison
        if self._alone is not None:
            self._comparison = AnswerComparison(self._alone)
            extra["same_answers"] = dataclasses.asdict(comparison.result())
        if isinstance(self._format, TextRequestFormat) and self._format.counter.by != BY_SERVER:
            extra["counted_by"] = self._format.counter.by
        ends = 0 if isinstance(self._format, TextRequestFormat) else counts.answered  # mlbench adds those not sent
        if self._watch and (metrics := self._watch.report(counts.times, ends)):
            extra["server_metrics"] = dataclasses.asdict(metrics)
        if self._server:
            extra["server_versions"] = self._server.versions
        return dataclasses.replace(found, extra=extra)

    def _lose(self, is_lost: Callable[[int], bool]) -> None:
        """Fail the unanswered samples of a process that ended."""
        for number in filter(is_lost, list(self._asked)):
            self._fail(number, ENDED)

    def _take(self, message: Message) -> None:
        """Pass on a first token, an answer or a failure."""
        if isinstance(message, ClientPulse):
            self._counts.client.add(message)
            return
        number = message.id
        assert not isinstance(message, RequestMessage)  # that goes the other way
        if (asked := self._asked.get(number)) is None:
            return  # it failed while its first token was read
        try:
            match message:
                case Begun():
                    self._give_first(asked, message.first)
                    self._counts.client.add_report(time.monotonic_ns() - message.at_ns)
                case Failed():
                    self._counts.retried += message.attempts - 1
                    self._fail(number, message.reason)
                case Answered():
                    self._give(asked, message)
                    if not message.turns_left:
                        self._asked.pop(number)
        except Exception as error:  # an unforeseen answer must not end the thread, which serves all others
            self._fail(number, f"the answer cannot be read: {error or type(error).__name__}")
        self._counts.longest_way_ns = max(self._counts.longest_way_ns, time.monotonic_ns() - message.at_ns)

    def _fail(self, number: int, reason: str) -> None:
        """Fail a sample, unless it is finished."""
        if asked := self._asked.pop(number, None):
            self._counts.failed += 1
            self._counts.times.failed_ns.append(time.monotonic_ns())
            self._end_scheduled(asked)
            asked.reply.fail(asked.samples, reason)

    def _end_scheduled(self, asked: _Asked) -> None:
        """Count the end of a scheduled request; behind the last one, report whether the schedule was kept."""
        if schedule := asked.schedule:
            schedule.left -= 1
            if not schedule.left and (problem := schedule.problem(self._counts.times)):
                asked.reply.invalidate(problem)

    def _give_first(self, asked: _Asked, part: Any) -> None:
        if asked.first is not None:
            return  # a later turn of a session
        if tokens := self._format.tokens(part, is_finished=False)[:1]:  # text can be less than a token
            asked.first = part
            asked.reply.first_token(asked.samples, np.array([tokens], self._program.reply.dtype))

    def _give(self, asked: _Asked, message: Answered) -> None:
        is_finished = message.finish == "stop"
        tokens = self._format.tokens(message.answer, is_finished=is_finished, first=asked.first)
        if asked.schedule and not asked.tokens:
            asked.schedule.late_ns.append(message.sent_ns - asked.due_ns)
        asked.tokens += tokens
        answer = self._program.answer(asked.tokens)
        count = self._format.count(len(answer), message)
        asked.counted += count
        self._count(asked.prompt, count, message)
        if self._alone is not None and isinstance(asked.prompt, TextPrompt):
            self._comparison.add(asked.prompt.sample.text, str(message.answer), message.part_sizes)
        if message.turns_left:
            return
        if asked.first is None:
            asked.reply.first_token(asked.samples, answer[np.newaxis, :1])
        self._end_scheduled(asked)
        self._counts.sessions += asked.is_session
        asked.reply.complete(asked.samples, [answer], [asked.counted] if asked.counted else None)

    def _count(self, prompt: Prompt, tokens: int, message: Answered) -> None:
        """Count an answer, and compare the server's counts with mlbench's."""
        counts, seen, sent = self._counts, message.prompt_tokens, self._format.prompt_tokens(prompt)
        counts.retried += message.attempts - 1
        counts.answered += 1
        counts.times.add(message, tokens, self._format.counted_prompt(prompt, message))
        counts.oddities.add(message.oddities)
        if sent is not None and seen not in (None, sent):
            counts.prompts_cut_otherwise += 1
            counts.truncated_prompts += seen < self._format.fewest_tokens(prompt)
        may_stop = bool(prompt.stop)  # then mlbench puts the end token that no server counts
        counts.answers_cut_otherwise += message.answer_tokens not in (None, tokens, tokens - may_stop)
