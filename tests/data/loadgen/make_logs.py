"""Make the logs in this folder anew with the installed LoadGen: ``python make_logs.py [FOLDER]``, about 25 seconds.

Every system under test here answers after a fixed time, from one thread that outlives the tests. Times differ between
runs and machines, so the tests quote the numbers of the logs that are kept, as LoadGen's own summaries print them.
"""

import array
import queue
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import mlperf_loadgen as lg

COUNT = 32
SEEDS = (3066443479025735752, 10688027786191513374, 14962580496156340209)
MILLISECOND = 1_000_000


class Answerer:
    """Answers each sample with its index as int32 (and, for tokens, three of them), ``delay_s`` after it is taken."""

    def __init__(self, *, delay_s, tokens=False, answers=1):
        self.delay_s, self.tokens, self.answers = delay_s, tokens, answers
        self.inbox = queue.SimpleQueue()
        threading.Thread(target=self.work, daemon=True).start()

    def issue(self, samples):
        self.inbox.put([(sample.id, sample.index) for sample in samples])

    def work(self):
        while True:
            taken = self.inbox.get()
            if not self.tokens:
                time.sleep(self.delay_s)
            for sample, index in taken:
                self.answer(sample, index)

    def answer(self, sample, index):
        data = array.array("i", [index] * (3 if self.tokens else 1))
        address, length = data.buffer_info()
        if self.tokens:
            lg.FirstTokenComplete([lg.QuerySampleResponse(sample, address, data.itemsize)])
            time.sleep(self.delay_s)
        response = lg.QuerySampleResponse(sample, address, length * data.itemsize, length)
        for _ in range(self.answers):
            lg.QuerySamplesComplete([response])


def run(name, into, sut, *, scenario, mode="PerformanceOnly", **settings):
    """Run one test and keep its detail log, summary and, where it holds replies, accuracy log as ``into/name.*``."""
    wanted = lg.TestSettings()
    wanted.scenario, wanted.mode = getattr(lg.TestScenario, scenario), getattr(lg.TestMode, mode)
    wanted.qsl_rng_seed, wanted.sample_index_rng_seed, wanted.schedule_rng_seed = SEEDS
    wanted.min_duration_ms = 1000
    for key, value in settings.items():
        setattr(wanted, key, value)
    with tempfile.TemporaryDirectory() as folder:
        logs, output = lg.LogSettings(), lg.LogOutputSettings()
        output.outdir = folder
        logs.log_output, logs.enable_trace = output, False
        handle = lg.ConstructSUT(sut.issue, lambda: None)
        qsl = lg.ConstructQSL(COUNT, COUNT, lambda indices: None, lambda indices: None)
        lg.StartTestWithLogSettings(handle, qsl, wanted, logs, "no-audit.config")
        lg.DestroyQSL(qsl)
        lg.DestroySUT(handle)
        shutil.copy(Path(folder) / "mlperf_log_detail.txt", into / f"{name}.detail.txt")
        shutil.copy(Path(folder) / "mlperf_log_summary.txt", into / f"{name}.summary.txt")
        if mode == "AccuracyOnly" or "accuracy_log_sampling_target" in settings:
            shutil.copy(Path(folder) / "mlperf_log_accuracy.json", into / f"{name}.accuracy.json")


def main(into):
    """Make all logs."""
    fast, slow = Answerer(delay_s=0.002), Answerer(delay_s=0.02)
    stream = {"single_stream_expected_latency_ns": MILLISECOND, "multi_stream_expected_latency_ns": MILLISECOND}
    server = {"scenario": "Server", "server_target_qps": 200.0, "server_target_latency_ns": 100 * MILLISECOND}
    tokens = {"use_token_latencies": True, "ttft_latency": 2000 * MILLISECOND, "tpot_latency": 200 * MILLISECOND}
    once = {"scenario": "Offline", "offline_expected_qps": 100.0, "min_query_count": COUNT, "min_duration_ms": 1}
    sampled = {"accuracy_log_rng_seed": 720381539243781796, "accuracy_log_sampling_target": 8}

    run("single_stream", into, fast, scenario="SingleStream", **stream)
    hint = {"single_stream_expected_latency_ns": 10 * MILLISECOND}
    run("single_stream_ran_out", into, fast, scenario="SingleStream", **hint)
    few = {"min_query_count": 40, "min_duration_ms": 50}
    run("single_stream_too_few", into, fast, scenario="SingleStream", **stream, **few)
    run("multi_stream", into, fast, scenario="MultiStream", min_query_count=662, **stream)
    run("server", into, fast, min_query_count=459, **server, **sampled)
    run("server_overloaded", into, slow, min_query_count=459, **server)
    run("server_too_few", into, fast, min_query_count=100, **server)
    run("offline", into, Answerer(delay_s=1.2), scenario="Offline", offline_expected_qps=100.0, min_query_count=COUNT)
    run("offline_short", into, fast, scenario="Offline", offline_expected_qps=100.0, min_query_count=COUNT)
    run("offline_accuracy", into, fast, scenario="Offline", mode="AccuracyOnly")
    equal = {"min_query_count": COUNT + 1, "sample_concatenate_permutation": True}
    run("offline_equal_issue", into, fast, **once | equal)
    inferred = {"infer_token_latencies": True, "token_latency_scaling_factor": 69}
    run("offline_inferred_tokens", into, fast, **once, **inferred)
    talker = Answerer(delay_s=0.002, tokens=True)
    run("server_tokens", into, talker, **server | tokens | {"min_query_count": 459, "server_target_latency_ns": 0})
    run("server_tokens_accuracy", into, talker, mode="AccuracyOnly", **server | tokens)
    run("offline_tokens", into, talker, **once, **tokens)
    run("offline_answered_twice", into, Answerer(delay_s=0.002, answers=2), **once)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
