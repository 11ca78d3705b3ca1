"""The processor time of samples: what counts is work, on one thread, whatever process does it."""

import json
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from measured_parts import MODEL, Numbers

from mlbench import Engine, RuntimeFacts
from mlbench.loadgen.logs import DetailLog
from mlbench.loadgen.scenarios import OFFLINE
from mlbench.measurement import processor_time
from mlbench.measurement.processor_time import CountedSamples, UncountedError, make_reference_work

WORK_NS = 2_000_000
SAMPLES = list(range(4))


def burn(work_ns, clock=time.thread_time_ns):
    until_ns = clock() + work_ns
    while clock() < until_ns:
        pass


class Answering(Engine):
    """Does something for each query, and answers each sample with its number."""

    def __init__(self, work=lambda samples: None, answer=float):
        self.work, self.answer = work, answer

    def submit(self, samples, reply):
        self.work(len(samples))
        reply.complete(samples, np.array([[self.answer(index)] for index in samples.indices], np.float32))


@pytest.fixture
def count(tmp_path):
    """Count the processor time of four samples on an engine."""

    def count(engine, device="cpu"):
        facts = RuntimeFacts(device=device)
        return CountedSamples(engine, MODEL, Numbers(4), SAMPLES, lambda: facts, tmp_path, lambda: None).count()

    return count


def log_answers(folder, answers):
    """Write LoadGen's accuracy log of a run."""
    entries = [
        {"seq_id": number, "qsl_idx": index, "data": np.float32(answer).tobytes().hex(), "token_count": 0}
        for number, (index, answer) in enumerate(answers.items())
    ]
    (folder / "accuracy").mkdir()
    (folder / "accuracy" / "mlperf_log_accuracy.json").write_text(
        "[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n"
    )


def test_work_counts_for_each_sample(count):
    found = count(Answering(lambda samples: burn(samples * WORK_NS)))
    assert WORK_NS <= found.ns < 1.5 * WORK_NS
    assert (found.unit, found.covers, found.samples) == ("sample", "all", len(SAMPLES))
    assert found.relative_ns == pytest.approx(found.ns * 2e6 / found.reference_ns)


def test_long_samples_have_reference_work_in_proportion(count, monkeypatch):
    monkeypatch.setattr(processor_time, "_ENOUGH_NS", 0)
    done = []
    monkeypatch.setattr(processor_time, "make_reference_work", lambda: lambda: done.append(burn(WORK_NS)))
    found = count(Answering(lambda samples: burn(samples * 8 * WORK_NS)))
    assert len(done) >= 3 * found.rounds, "an eighth of the samples' time is four times the reference work"
    assert found.reference_ns == pytest.approx(WORK_NS, rel=0.5)


def test_work_that_is_done_now_and_then_counts(count):
    queries = iter(range(10**9))
    found = count(Answering(lambda samples: burn(samples * WORK_NS * (4 if next(queries) % 3 == 0 else 1))))
    assert 1.5 * WORK_NS <= found.ns < 2.5 * WORK_NS


def test_waiting_does_not_count(count, monkeypatch):
    monkeypatch.setattr(processor_time, "_ENOUGH_NS", 0)
    monkeypatch.setattr(processor_time, "_LONGEST_ROUND_NS", 2 * len(SAMPLES) * WORK_NS)
    asked = []

    def wait(samples):
        asked.append(samples)
        time.sleep(samples * WORK_NS / 1e9)

    found = count(Answering(wait))
    assert found.ns < WORK_NS / 2
    assert len(asked) <= 4 + 2 * found.rounds, "waiting makes a round no longer than its time"


def test_work_of_a_process_below_counts_too(count):
    code = """
import sys, time
for line in sys.stdin:
    until_ns = time.thread_time_ns() + int(line)
    while time.thread_time_ns() < until_ns: pass
    print(flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True, bufsize=1) as child:

        def work(samples):
            child.stdin.write(f"{samples * WORK_NS}\n")
            child.stdout.readline()

        assert WORK_NS <= count(Answering(work)).ns < 1.5 * WORK_NS
        child.stdin.close()


def test_threads_that_share_the_work_are_refused(count):
    with ThreadsThatStay() as threads, pytest.raises(UncountedError, match="several threads shared the work"):
        count(Answering(threads.work))


class ThreadsThatStay:
    """Two threads that burn for each query."""

    def __enter__(self):
        self.asked, self.done = threading.Barrier(3), threading.Barrier(3)
        self.is_over = False
        self.threads = [threading.Thread(target=self._serve) for _ in range(2)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.asked.wait()
        for thread in self.threads:
            thread.join()

    def work(self, samples):
        self.asked.wait()
        self.done.wait()

    def _serve(self):
        while self.asked.wait() >= 0 and not self.is_over:
            burn(WORK_NS)
            self.done.wait()


def test_an_engine_that_answers_otherwise_than_in_the_test_has_no_processor_time(count, tmp_path):
    log_answers(tmp_path, {index: index for index in SAMPLES})
    assert count(Answering()).ns > 0
    with pytest.raises(UncountedError, match="3 of 4 answers were not those of the test"):
        count(Answering(answer=lambda index: 0.0))


@pytest.mark.thorough("engines")
def test_an_accelerator_leaves_the_hosts_share(count):
    assert count(Answering(), device="NVIDIA H200").covers == "host"


def test_samples_that_take_long_are_computed_once(count, monkeypatch):
    monkeypatch.setattr(processor_time, "LONGEST_QUERY_S", 0.001)
    asked = []

    def work(samples):
        asked.append(samples)
        burn(samples * WORK_NS)

    with pytest.raises(UncountedError, match="4 samples take 0 s on one processor"):
        count(Answering(work))
    assert asked == [4]


@pytest.mark.parametrize(("rate_per_s", "is_quick"), [(8.3, False), (12.0, True), (0.0, True)])
def test_few_samples_are_counted_of_a_model_that_is_slow_on_all_processors(rate_per_s, is_quick, monkeypatch, tmp_path):
    """Eight samples at 8.3 a second on two processors take 1.9 s on one."""
    log = DetailLog(values={"result_samples_per_second": rate_per_s}, errors=(), warnings=())
    monkeypatch.setattr(processor_time, "read_detail", lambda path: log)
    assert processor_time._is_quick(SimpleNamespace(folder=tmp_path, scenario=OFFLINE), 2) is is_quick


def test_a_sample_without_an_answer_ends_the_pass(count):
    class Failing(Answering):
        def submit(self, samples, reply):
            reply.fail(samples, "no")

    with pytest.raises(UncountedError, match="not all samples were answered"):
        count(Failing())


def test_the_reference_work_is_of_one_thread():
    work, before, alone = make_reference_work(), time.process_time_ns(), time.thread_time_ns()
    work()
    assert time.thread_time_ns() - alone > 0.5 * (time.process_time_ns() - before)
