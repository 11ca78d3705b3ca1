"""The engine under the real LoadGen: tokens are counted, first tokens come first, and no reply is at fault."""

import dataclasses
from types import SimpleNamespace

import pytest

from mlbench import ReplySpec
from mlbench.contracts.scenario import LoadSettings
from mlbench.execution.pass_order import OrderedEngine
from mlbench.loadgen.drive import drive
from mlbench.loadgen.logs import read_accuracy, read_detail
from mlbench.loadgen.scenarios import OFFLINE, SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode, Seeds, Test, TokenRules
from mlbench.loadgen.watchdog import ProgressCallbacks


def asked(scenario, mode, tokens):
    load = LoadSettings(
        min_duration_ms=1,
        min_query_count=40,
        performance_sample_count=20,
        target_qps=2000,
        expected_latency_ns=1_000_000,
        reply_checks=0,
    )
    return Test(
        scenario=scenario,
        mode=mode,
        load=load,
        reply=ReplySpec(dtype="int64", shape=(None,)),
        seeds=Seeds(qsl=1, sample_index=2, schedule=3, accuracy_log=4),
        server_latency_ms=10_000,
        tokens=TokenRules(ttft_ms=10_000, tpot_ms=10_000) if tokens else None,
    )


@pytest.mark.thorough("engines", but=["1-True-Server"])
@pytest.mark.parametrize("scenario", [OFFLINE, SERVER, SINGLE_STREAM], ids=lambda scenario: scenario.name)
@pytest.mark.parametrize(("beams", "tokens"), [(1, True), (1, False), (2, False)])
def test_loadgen_finds_nothing_wrong(world, tmp_path, scenario, beams, tokens):
    made = world(20, beams=beams, min_new_tokens=2)
    dataset = SimpleNamespace(
        count=20, performance_count=20, sample=made.dataset.sample, load=lambda _: None, unload=lambda _: None
    )
    batching = scenario.settings["execution.batching"]
    with made.engine(batching=batching) as engine:
        alone = made.answered(engine).answers
        for mode in Mode:
            traffic = drive(asked(scenario, mode, tokens), engine, dataset, tmp_path / mode, ProgressCallbacks())
            assert (traffic.faults, traffic.answered) == ([], traffic.issued)
            assert read_detail(tmp_path / mode / "mlperf_log_detail.txt").errors == ()
    logged = read_accuracy(tmp_path / Mode.ACCURACY / "mlperf_log_accuracy.json")
    assert {reply.index: reply.data for reply in logged} == {
        id_ - 1000: b"".join(token.to_bytes(8, "little") for token in answer) for id_, answer in alone.items()
    }
    if tokens:
        assert all(reply.token_count == len(reply.data) // 8 for reply in logged)


def test_a_query_that_goes_over_the_dataset_several_times_is_answered_pass_by_pass(world, tmp_path):
    """The same engine under LoadGen, seen from outside: length decides nothing across passes."""
    made = world(80, max_new_tokens=2)
    dataset = SimpleNamespace(
        count=80, performance_count=80, sample=made.dataset.sample, load=lambda _: None, unload=lambda _: None
    )
    test = asked(OFFLINE, Mode.PERFORMANCE, tokens=True)
    load = dataclasses.replace(test.load, min_query_count=240, performance_sample_count=80)
    with made.engine() as engine:
        ordered = OrderedEngine(engine)
        traffic = drive(dataclasses.replace(test, load=load), ordered, dataset, tmp_path, ProgressCallbacks())
        assert (traffic.faults, traffic.answered) == ([], 240)
        found = ordered.influence_of_length(lambda indices: [len(made.prompts[index].tokens) for index in indices])
    assert found is not None
    assert found < 0.2
