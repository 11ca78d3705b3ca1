"""What an engine does with content that it cannot know, on a clock that only computing moves."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from invoking import invoke

from mlbench import (
    BatchProgram,
    Capacity,
    Decoding,
    Engine,
    GenerationProgram,
    LoggedReply,
    Model,
    Prompt,
    ReplySpec,
)
from mlbench.execution.cores import physical_cores
from mlbench.execution.variations import VariedDataset
from mlbench.measurement import asking, spot_times
from mlbench.measurement.spot_contents import Asked, can_continue, contents
from mlbench.measurement.spot_times import Measured, times
from mlbench.records.run_record import read
from mlbench.toolkit import StoredSamples

PLUGIN = Path(__file__).parents[1] / "conformance" / "broken_plugin"
ATTACKS = Path(__file__).with_name("attacks")
needs_two_cores = pytest.mark.skipif(len(physical_cores()) < 2, reason="needs two cores")

VARIED = VariedDataset
COMPUTED_NS, REMEMBERED_NS = 50_000_000, 100_000
END, WORDS = 3, 97


def forty_rows():
    """Return rows of numbers."""
    return StoredSamples(np.random.default_rng(1).standard_normal((40, 12)).astype(np.float32), "rows")


class Cumulated(BatchProgram):
    reply = ReplySpec(dtype="float32", shape=(12,))

    def run(self, samples, graphs):
        raise AssertionError


def cumulated(row):
    return np.cumsum(row, dtype=np.float32)


def forty_questions():
    """Return prompts."""
    random = np.random.default_rng(2)
    prompts = [Prompt(tokens=random.integers(4, WORDS, 6 + index % 5)) for index in range(40)]
    return StoredSamples(prompts, "questions")


class Talk(GenerationProgram):
    reply = ReplySpec(dtype="int64", shape=(None,))
    decoding = Decoding(end_tokens=(END,), max_new_tokens=20, longest=100)

    def prompt(self, sample):
        return sample

    def answer(self, tokens):
        return np.array(tokens, np.int64)


def talked(prompt):
    """Twelve tokens in all after the first six, each decided by all before it, then an end token."""
    tokens = prompt.tokens.tolist()
    answer = []
    while len(tokens) < 22:
        tokens.append(4 + sum((place + 1) * token for place, token in enumerate(tokens)) % (WORDS - 4))
        answer.append(tokens[-1])
    return np.array([*answer, END], np.int64)


class Answering(Engine):
    """Computes each answer; a subclass does less. A token costs a tenth of a sample."""

    def __init__(self, clock, compute):
        self.clock, self.compute, self.known = clock, compute, {}

    def submit(self, samples, reply):
        for place, (index, sample) in enumerate(zip(samples.indices, samples.data(), strict=True)):
            one = samples[place : place + 1]
            answer = self.answer(index, sample)
            if answer.dtype == np.int64:
                self.clock.now_ns += self.cost_ns
                reply.first_token(one, answer[None, :1])
                self.clock.now_ns += self.cost_ns * (len(answer) - 1)
            else:
                self.clock.now_ns += self.cost_ns
            reply.complete(one, [answer])

    def answer(self, index, sample):
        self.cost_ns = COMPUTED_NS
        return self.compute(sample)

    def capacity(self):
        return Capacity(batch=4, in_flight=8)


class ByIndex(Answering):
    def key(self, index, sample):
        return index

    def answer(self, index, sample):
        key = self.key(index, sample)
        self.cost_ns = REMEMBERED_NS if key in self.known else COMPUTED_NS
        return self.known.setdefault(key, self.compute(sample))


class ByContent(ByIndex):
    def key(self, index, sample):
        return bytes(sample.tokens if isinstance(sample, Prompt) else sample)


class ByRoundedContent(ByIndex):
    def key(self, index, sample):
        return bytes(sample.tokens if isinstance(sample, Prompt) else sample.astype(np.float16))


class Guessing(ByContent):
    """Answers unseen content with its first answer."""

    def answer(self, index, sample):
        self.cost_ns = REMEMBERED_NS
        if len(self.known) < 40:
            return super().answer(index, sample)
        return self.known.get(self.key(index, sample), next(iter(self.known.values())))


class OnlyWhileMeasured(ByContent):
    """Remembers until it has answered every sample twice."""

    asked = 0

    def answer(self, index, sample):
        self.asked += 1
        if self.asked > 80:
            self.known.clear()
        return super().answer(index, sample)


class Forcing(Answering):
    """Says the same word first, whatever is asked."""

    def answer(self, index, sample):
        return np.concatenate([[7], super().answer(index, sample)])


class Hasty(Answering):
    """Says its first token before it has computed anything, and happens to be right."""

    def submit(self, samples, reply):
        for place, sample in enumerate(samples.data()):
            answer = self.compute(sample)
            reply.first_token(samples[place : place + 1], answer[None, :1])
            self.clock.now_ns += COMPUTED_NS * len(answer)
            reply.complete(samples[place : place + 1], [answer])


class Refusing(ByContent):
    """Fails on what it does not know."""

    def submit(self, samples, reply):
        if len(self.known) == 40 and any(self.key(0, sample) not in self.known for sample in samples.data()):
            raise ValueError("never seen")
        super().submit(samples, reply)


@pytest.fixture
def examined(clock):
    """Let an engine answer all samples twice, and return what is found out about it then."""

    def examined(kind, dataset, *, query=None, samples_per_s=None):
        is_talk = dataset.fingerprint == "questions"
        engine = kind(clock, talked if is_talk else cumulated)
        everything = list(range(dataset.count))
        for _ in range(2):
            began_ns = clock.now_ns
            outputs = asking.ask(engine, dataset, everything, timeout_s=60).outputs
        rate_per_s = samples_per_s or dataset.count * 1e9 / (clock.now_ns - began_ns)
        kept = {index: LoggedReply(index=index, data=outputs[index].tobytes()) for index in everything[:20]}
        asked = Asked(
            engine=engine,
            dataset=dataset,
            vary=lambda variations: VariedDataset(dataset, variations),
            look_at=dataset.sample,
            model=Model(name="m", graphs={}, program=Talk() if is_talk else Cumulated(), weights_fingerprint="w"),
            timeout_s=60,
            new_indices=itertools.count(dataset.count),
        )
        measured = Measured(samples_per_s=rate_per_s, query=query, budget_s=100)
        bases = [base for base in kept if not is_talk or can_continue(asked, kept[base])]
        found = contents(asked, kept, bases, most=8)
        return found, times(asked, measured, {base: kept[base] for base in bases}, bases)

    return examined


DATA = pytest.mark.parametrize("dataset", [forty_rows(), forty_questions()], ids=["rows", "questions"])
QUERIES = pytest.mark.parametrize("query", [None, 1, 4])


@DATA
@QUERIES
def test_an_engine_that_computes_is_found_to(examined, dataset, query):
    found, timed = examined(Answering, dataset, query=query)
    kinds = [found.continued] if dataset.fingerprint == "questions" else [found.moved, found.changed]
    assert all(kind.asked > 0 for kind in kinds)
    assert found.worst.share == 1
    assert found.is_good
    assert timed.repeated < 1.2
    assert timed.claimed < 1.2
    assert not timed.failed


@DATA
@QUERIES
@pytest.mark.parametrize("kind", [ByIndex, ByContent, ByRoundedContent])
def test_an_engine_that_remembers_is_faster_on_what_it_knows(examined, dataset, kind, query):
    _, timed = examined(kind, dataset, query=query)
    assert timed.repeated > 20
    assert timed.claimed > 20


def test_an_engine_that_goes_by_the_index_gives_the_answers_of_other_content(examined):
    found, _ = examined(ByIndex, forty_rows())
    assert not found.is_good
    assert found.worst is found.moved
    assert found.changed.share == 1


@DATA
def test_an_engine_that_guesses_what_it_does_not_know_gives_wrong_answers(examined, dataset):
    found, _ = examined(Guessing, dataset)
    assert not found.is_good


@DATA
@QUERIES
def test_an_engine_that_remembers_only_while_it_is_measured_is_slower_than_its_result(examined, dataset, query):
    _, timed = examined(OnlyWhileMeasured, dataset, query=query)
    assert timed.repeated < 1.2
    assert timed.claimed > 20


def test_an_engine_that_fails_on_new_content_has_not_answered_it(examined):
    found, timed = examined(Refusing, forty_rows())
    assert found.changed.share == 0
    assert len(timed.failed) > 8


def test_a_word_put_before_every_answer_is_found(examined):
    found, _ = examined(Forcing, forty_questions())
    assert not found.is_good


def test_a_first_token_that_comes_before_a_step_was_made_is_found(examined):
    found, _ = examined(Hasty, forty_questions())
    assert found.worst.share == 1
    assert max(found.steps) < 0.01
    assert not found.is_good


def test_a_first_token_takes_a_step(examined):
    found, _ = examined(Answering, forty_questions())
    assert found.steps == [pytest.approx(1)]


def test_answers_too_short_to_be_timed_accuse_no_engine(examined, clock, monkeypatch):
    monkeypatch.setattr(f"{__name__}.COMPUTED_NS", 100)
    monkeypatch.setattr(f"{__name__}.REMEMBERED_NS", 1)
    _, timed = examined(ByContent, forty_rows())
    assert (timed.repeated, timed.claimed, timed.reason) == (None, None, "answers come too fast to be timed")


def test_a_burst_that_does_not_fill_the_engine_is_not_compared_with_the_result(examined):
    _, timed = examined(OnlyWhileMeasured, forty_rows(), samples_per_s=0.05)
    assert timed.claimed is None


def test_varied_samples_take_no_more_memory_than_they_may(examined, monkeypatch):
    monkeypatch.setattr(f"{__name__}.COMPUTED_NS", 1000)
    monkeypatch.setattr(spot_times, "_MOST_BYTES", 100 * 12 * 4)
    made = []
    monkeypatch.setattr(
        f"{__name__}.VariedDataset",
        lambda dataset, variations: made.append(len(variations)) or VARIED(dataset, variations),
    )
    for query in (None, 1, 8):
        examined(Answering, forty_rows(), query=query)
    assert 24 <= max(made) <= 100


@pytest.fixture
def rules_of_run(tmp_path, monkeypatch):
    """Run resnet50 on a backend, right or cheating, and return the rules of its verdict by name."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))

    def rules_of_run(backend, scenario, *, results="results", **settings):
        settings = {"load.min_duration_ms": 100, **{f"execution.{key}": value for key, value in settings.items()}}
        given = [each for key, value in settings.items() for each in ("--set", f"{key}={value}")]
        words = ["--results", str(tmp_path / results), "--scenario", scenario, "--no-accuracy"]
        done = invoke("run", "resnet50", "--backend", backend, *words, *given)
        folders = list((tmp_path / results).glob("2*"))
        assert len(folders) == 1, done.output
        return {rule.rule: rule for rule in read(folders[0]).verdict.rules if rule.rule != "min_duration"}

    return rules_of_run


@pytest.mark.thorough("attacks")
@pytest.mark.parametrize("backend", ["caching-by-index", "caching-by-content", "caching-calls"])
def test_a_run_whose_answers_were_remembered_is_invalid(rules_of_run, backend):
    """Where other work takes the processor from it all the time, a remembered answer may take as long as a new one."""
    rules = (rules_of_run(backend, "SingleStream", results=f"results {number}")["no_caching"] for number in range(3))
    rule = next((each for each in rules if not each.passed), None)
    assert rule, "in none of three runs"
    assert "times as fast as new content" in rule.fix


@pytest.mark.thorough("engines")
@pytest.mark.parametrize(
    ("scenario", "instances"),
    [("SingleStream", 1), pytest.param("Offline", 2, marks=needs_two_cores)],
)
def test_a_run_whose_answers_were_computed_is_asked_and_passes(rules_of_run, scenario, instances):
    rules = rules_of_run("right", scenario, instances=instances)
    assert {"no_caching", "answers_follow_content"} <= rules.keys()
    assert [rule.fix for rule in rules.values() if not rule.passed] == []
    assert rules["answers_follow_content"].measured > 0.9


@pytest.fixture
def failed_rules(tmp_path, monkeypatch):
    """Run resnet50 in Offline with its accuracy test on a backend, and return the rules that it breaks."""
    for place in (PLUGIN, ATTACKS):
        monkeypatch.syspath_prepend(str(place))
    monkeypatch.setenv("PYTHONPATH", f"{ATTACKS}{os.pathsep}{PLUGIN}")
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))

    def failed_rules(backend):
        words = ["--results", str(tmp_path / "results"), "--scenario", "Offline", "--set", "load.min_duration_ms=3000"]
        done = invoke("run", "resnet50", "--backend", backend, *words)
        (folder,) = (tmp_path / "results").glob("2*")
        assert read(folder).verdict, done.output
        verdict = read(folder).verdict
        return {rule.rule for rule in verdict.rules if not rule.passed} - {"min_duration"}, verdict.not_applied

    return failed_rules


@pytest.mark.thorough("attacks")
@pytest.mark.parametrize(
    ("backend", "rule"),
    [
        ("nearest-known", "timed_answers"),
        ("frozen-clocks", "no_caching"),
        ("rewriting-logs", "logs_agree"),
        ("bribing-the-judge", "timed_answers"),
    ],
)
def test_a_run_that_does_something_about_the_checks_is_invalid(failed_rules, backend, rule):
    failed, not_applied = failed_rules(backend)
    assert rule in failed or (rule == "no_caching" and rule in not_applied)  # a short burst proves too little


@pytest.mark.thorough("attacks")
def test_a_run_that_computes_breaks_no_rule(failed_rules):
    assert failed_rules("right")[0] == set()
