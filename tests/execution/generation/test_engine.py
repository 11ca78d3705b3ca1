"""The whole engine over a model whose answers are known from loops over lists."""

import json
import threading
import tracemalloc

import numpy as np
import pytest

from mlbench import DECODE, PREFILL, CacheCounts, Prompt, UsageError
from mlbench.execution.composed_engine import ComposedEngine
from mlbench.execution.generation.admission import Admission
from mlbench.execution.generation.engine import GenerationEngine
from mlbench.wire.engine_statistics import statistics_to_json


@pytest.mark.parametrize("batch", [1, 3, 4, 16, "auto"])
@pytest.mark.parametrize("prefill_tokens", [1, 7, 512])
def test_every_prompt_gets_its_own_answer_whatever_runs_beside_it(world, batch, prefill_tokens):
    made = world(30)
    with made.engine(batch=batch, prefill_tokens=prefill_tokens, largest_batch=8) as engine:
        engine.warm_up(made.samples())
        assert made.answered(engine).answers == made.compute_outputs()


@pytest.mark.parametrize("batching", ["in_flight", "static", "inline", "dynamic", "bucketed", "fixed"])
def test_any_way_of_batching_gives_the_same_answers(world, batching):
    made = world()
    with made.engine(batching=batching) as engine:
        assert made.answered(engine).answers == made.compute_outputs()
        assert engine.statistics().batching == ("static" if batching == "static" else "in_flight")


def test_a_backend_without_state_answers_too(world):
    made = world(plain=True)
    with made.engine(prefill_tokens=16) as engine:
        assert made.answered(engine).answers == made.compute_outputs()


def test_a_graph_backend_gives_generation_programs_this_engine(world):
    engine = world().engine()
    assert isinstance(engine, GenerationEngine)
    assert not isinstance(engine, ComposedEngine)


def test_first_tokens_are_reported_before_the_answers_that_begin_with_them(world):
    made = world()
    with made.engine() as engine:
        reply = made.answered(engine)
    assert reply.firsts == {id_: answer[:1] for id_, answer in made.compute_outputs().items()}
    assert reply.counts == {id_: len(answer) for id_, answer in made.compute_outputs().items()}


def test_a_first_token_comes_while_the_others_are_still_running(world, kept):
    made = world([Prompt(tokens=np.array([5, 6]))], min_new_tokens=24)
    running = threading.Event()
    made.backend.fails = lambda name, number: running.wait(60) if name == DECODE else None
    reply = kept(1)
    with made.engine(batch=1) as engine:
        engine.submit(made.samples(0), reply)
        reply.wait_until(lambda: reply.firsts)
        assert not reply.answers
        running.set()
        reply.wait()


def test_an_ended_answer_leaves_its_slot_to_the_next(world):
    made = world(60, max_new_tokens=40)
    with made.engine(batch=4) as engine:
        made.answered(engine)
        statistics = engine.statistics()
    tokens = sum(map(len, made.compute_outputs().values()))
    assert statistics.new_tokens == tokens
    assert statistics.decode.useful_tokens == tokens - 60  # the first of each comes from its prompt
    assert statistics.decode.useful_tokens > 0.9 * statistics.decode.computed_tokens
    with made.engine(batch=4, batching="static") as engine:
        made.answered(engine)
        assert engine.statistics().decode.steps > 1.3 * statistics.decode.steps


def test_a_step_has_few_rows_for_sequences_whose_prompts_wait_to_be_read(world):
    """A call reads one prompt, so that about as many run as an answer has tokens, and the other slots wait."""
    made = world([Prompt(tokens=np.array([5, *map(int, np.base_repr(512 + n, 2))])) for n in range(200)])
    with made.engine(batch=32, prefill_tokens=11) as engine:
        assert made.answered(engine).answers == made.compute_outputs()
        decode = engine.statistics().decode
    assert decode.useful_tokens / decode.steps < 12
    assert decode.computed_tokens < 1.35 * decode.useful_tokens


def test_samples_are_taken_while_others_run_and_each_goes_to_its_own_reply(world, kept):
    made = world(24)
    replies = [kept(1) for _ in made.prompts]
    with made.engine() as engine:
        for index, reply in enumerate(replies):
            engine.submit(made.samples(index, first=index), reply)
        for index, reply in enumerate(replies):
            assert reply.wait().answers == made.compute_outputs(made.samples(index, first=index))


def test_the_same_index_may_come_more_than_once(world):
    made = world()
    samples = made.samples(3, 3, 5, 3)
    with made.engine() as engine:
        assert made.answered(engine, samples).answers == made.compute_outputs(samples)


def test_all_calls_of_the_backend_come_from_one_thread_that_is_not_the_callers(world):
    made = world()
    with made.engine(batch="auto", largest_batch=4) as engine:
        engine.warm_up(made.samples())
        made.answered(engine)
    assert len(made.backend.threads) == 1
    assert threading.get_ident() not in made.backend.threads


def test_long_prompts_are_read_in_pieces_between_the_steps_of_those_that_run(world, kept):
    made = world([Prompt(tokens=np.full(length, 9)) for length in (2, 60)], min_new_tokens=24)
    reply = kept(2)

    def long_one_comes_while_the_short_one_runs(name, number):
        if name == DECODE:
            made.backend.fails = lambda name, number: None
            engine.submit(made.samples(1, first=1001), reply)

    made.backend.fails = long_one_comes_while_the_short_one_runs
    with made.engine(prefill_tokens=10) as engine:
        engine.submit(made.samples(0, first=1000), reply)
        assert reply.wait().answers == made.compute_outputs()
    calls = [name for name, _, _ in made.backend.calls]
    assert calls[:14] == [PREFILL, DECODE] * 7
    assert PREFILL not in calls[14:]
    assert [shape for name, shape, _ in made.backend.calls if name == PREFILL] == [(1, 2)] + [(1, 10)] * 6


def test_no_more_than_the_needed_part_of_the_cache_is_looked_at(world):
    made = world([Prompt(tokens=np.array([5, 6, 7]))])
    with made.engine() as engine:
        made.answered(engine)
    assert {columns for _, _, columns in made.backend.calls} == {32}


def test_few_sequences_are_decoded_in_few_rows(world):
    made = world(20, max_new_tokens=40)
    with made.engine(batch=16) as engine:
        made.answered(engine)
    rows = [shape[0] for name, shape, _ in made.backend.calls if name == DECODE]
    assert set(rows) <= {1, 2, 3, 4, 6, 8, 12, 16}
    assert rows[-1] <= 2  # the last that run have moved together


@pytest.mark.parametrize("batch", [3, "auto"])
def test_no_call_exceeds_what_the_graphs_take_though_the_model_has_more_positions(world, batch):
    lengths = (20, 26, 27, 5)
    made = world([Prompt(tokens=np.full(length, 5)) for length in lengths], rows=3, columns=50)
    with made.engine(batch=batch, largest_batch=8) as engine:
        engine.warm_up(made.samples())
        reply = made.answered(engine)
    reason = "a prompt of 27 tokens and 24 new ones exceed the 50 positions of its graphs here"
    assert reply.failures == {1002: reason}
    assert reply.answers == {id_: answer for id_, answer in made.compute_outputs().items() if id_ != 1002}
    assert max(rows for rows, _ in made.backend.sizes) <= 3
    assert max(columns for _, columns in made.backend.sizes) == 50
    assert max(columns for _, _, columns in made.backend.calls if isinstance(columns, int)) <= 50


def test_where_rows_cannot_be_added_fewer_run_at_a_time_and_all_are_answered(world):
    made = world(20)
    made.backend.room = 3 * 96
    with made.engine(batch=8) as engine:
        assert made.answered(engine).answers == made.compute_outputs()
        assert engine.statistics().cache.rows <= 3
    assert made.backend.refusals == 1  # it is not asked again and again


def test_a_request_for_which_the_cache_cannot_grow_fails_alone(world):
    short, long = (Prompt(tokens=np.full(length, 9)) for length in (5, 300))
    made = world([short, long, short], longest=400)
    made.backend.room = 4 * 128
    with made.engine(batch=4) as engine:
        made.answered(engine, made.samples(0, 2, 0, 2))
        reply = made.answered(engine)
    assert list(reply.failures) == [1001]
    assert reply.failures[1001].startswith("out of memory for a cache of 4 rows and 384 columns: MemoryError")


def test_the_cache_grows_in_steps_and_keeps_what_it_holds(world):
    made = world([Prompt(tokens=np.full(length, 9)) for length in (3, 200, 300, 5)], longest=400)
    with made.engine(batch=4) as engine:
        reply = made.answered(engine, made.samples(0, first=0))
        second = made.answered(engine, made.samples(1, 2, 3))
        assert engine.statistics().cache == CacheCounts(rows=3, columns=384, growths=4)
    assert reply.answers == made.compute_outputs(made.samples(0, first=0))
    assert second.answers == made.compute_outputs(made.samples(1, 2, 3))
    assert made.backend.sizes == [(1, 128), (1, 384), (2, 384), (3, 384)]


def test_warming_up_takes_memory_for_all_slots_or_says_why_not(world):
    made = world()
    with made.engine(batch=8) as engine:
        engine.warm_up(made.samples())
        assert made.backend.sizes == [(8, 96)]
    made.backend.room = 4 * 96
    with (
        made.engine(batch=8) as engine,
        pytest.raises(UsageError, match=r"execution.batch is 8: out of memory for .* 8 rows"),
    ):
        engine.warm_up(made.samples())


def test_a_number_of_slots_left_open_is_one_that_fits(world):
    made = world()
    made.backend.room = 5 * 96
    with made.engine(batch="auto", largest_batch=64) as engine:
        engine.warm_up(made.samples())
        statistics = engine.statistics()
        assert statistics.batch <= 4
        assert set(statistics.sweep_tokens_per_s) <= {1, 2, 4}
        assert made.answered(engine).answers == made.compute_outputs()


def test_each_number_of_slots_is_tried_with_a_cache_of_that_size(world):
    """A backend that keeps no state copies all of it in each call: a larger cache would be what is timed."""
    made = world()
    rows_of_cache = {}
    made.backend.fails = lambda name, number: rows_of_cache.setdefault(
        made.backend.calls[-1][1][0], made.backend.sizes[-1][0]
    )
    with made.engine(batch="auto", largest_batch=8) as engine:
        engine.warm_up(made.samples())
        tried = list(engine.statistics().sweep_tokens_per_s)
    assert tried[:2] == [1, 2]
    assert [rows_of_cache[slots] for slots in tried] == tried


def test_a_number_of_slots_is_timed_with_prompts_of_all_lengths(world):
    made = world(prompts=[Prompt(tokens=np.full(length, 5)) for length in (4, 4, 4, 4, 4, 4, 4, 40)])
    with made.engine(batch="auto", largest_batch=8) as engine:
        engine.warm_up(made.samples())
    columns = {rows[0]: columns for name, rows, columns in made.backend.calls if name == DECODE}
    assert (columns[1], columns[8]) == (32, 64)


def test_where_samples_come_one_at_a_time_there_is_one_slot_and_no_sweep(world):
    made = world()
    with made.engine(batch="auto", batching="inline", largest_batch=64) as engine:
        engine.warm_up(made.samples())
        statistics = engine.statistics()
        assert (statistics.batch, statistics.cache.rows, statistics.sweep_tokens_per_s) == (1, 1, {})
        assert made.answered(engine).answers == made.compute_outputs()


def test_requests_wait_for_others_until_a_flush(world, kept, monkeypatch):
    made = world(3)
    reply = kept(3)
    wait_s, waits = Admission.wait_s, threading.Event()

    def note(admission, now_ns):
        left_s = wait_s(admission, now_ns)
        if left_s and len(admission) == 3:
            waits.set()
        return left_s

    monkeypatch.setattr(Admission, "wait_s", note)
    with made.engine(max_wait_us=60_000_000) as engine:
        engine.submit(made.samples(0, 1, 2), reply)
        assert waits.wait(20), "they did not wait"
        assert not made.backend.calls
        engine.flush()
        reply.wait()


def test_requests_wait_for_others_no_longer_than_set(world, kept):
    made = world(3)
    with made.engine(max_wait_us=1000) as engine:
        reply = kept(3)
        engine.submit(made.samples(0, 1, 2), reply)
        assert reply.wait().answers == made.compute_outputs()


def test_leaving_the_engine_ends_its_thread_and_nothing_is_answered_afterwards(world, kept):
    made = world(200)
    reply = kept(200)
    with made.engine(batch=1) as engine:
        engine.submit(made.samples(), reply)
        reply.wait_until(lambda: reply.answers)
    answered = len(reply.answers)
    assert answered < 200
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("mlbench-generation")]
    assert len(reply.answers) == answered


def test_statistics_are_json_and_begin_anew_each_time(world):
    made = world()
    with made.engine() as engine:
        assert engine.statistics().samples == 0
        made.answered(engine)
        statistics = engine.statistics()
        json.dumps(statistics_to_json(statistics), allow_nan=False)
        assert engine.statistics().samples == 0
    assert statistics.samples == 12
    assert statistics.prefill.useful_tokens == sum(len(prompt.tokens) for prompt in made.prompts)
    assert sum(statistics.steps_by_size.values()) == statistics.decode.steps
    assert sum(size * steps for size, steps in statistics.steps_by_size.items()) == statistics.decode.useful_tokens
    assert statistics.busy_ns == statistics.prefill.busy_ns + statistics.decode.busy_ns
    assert 0 < statistics.host_ns
    assert statistics.longest_queue_ns <= statistics.queue_ns


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"batch": 0}, "execution.batch is 0"),
        ({"prefill_tokens": 0}, "execution.prefill_tokens is 0"),
        ({"workers": 2}, "execution.workers is 2"),
        ({"batching": "magic"}, "execution.batching is 'magic'"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(world, plan, message):
    with pytest.raises(UsageError, match=message):
        world().engine(**plan)


def test_more_slots_than_the_graphs_have_rows_for_are_refused(world):
    made = world(rows=16, beams=4)
    with made.engine(batch=5) as engine, pytest.raises(UsageError, match="4 sequences at most"):
        engine.warm_up(made.samples())


def test_a_thousand_requests_with_failures_here_and_there_are_answered_once_each_and_no_slot_is_lost(world, kept):
    random = np.random.default_rng(7)
    prompts = world(1000).prompts
    for index in random.choice(1000, 30, replace=False):
        prompts[index] = Prompt(tokens=np.full(random.choice([0, 90]), 5))
    made = world(prompts)

    def fails(name, number):
        if number % 97 == 0:
            raise RuntimeError("now and then")

    def spoils(name, number, outputs):
        if number % 131 == 0:
            outputs["log_probabilities"][-1] = np.nan
        return outputs

    made.backend.fails, made.backend.spoils = fails, spoils
    reply = kept(1000)
    with made.engine(batch=8, prefill_tokens=64) as engine:
        position = 0
        while position < 1000:
            size = int(random.integers(1, 40))
            engine.submit(made.samples(*range(position, min(1000, position + size)), first=position), reply)
            position += size
        reply.wait(60)
        slots = engine._flight.slots
        assert slots.taken == 0
        assert not slots.list_held()
        assert not slots.positions.any()
        statistics = engine.statistics()
    assert statistics.samples == len(reply.answers)
    assert statistics.samples + len(reply.failures) == 1000
    reasons = set(reply.failures.values())
    assert {"the prompt is empty", "RuntimeError: now and then", "NaN in log_probabilities"} <= reasons
    assert len(reply.answers) > 700
    assert statistics.cache.rows == 8
    expected = made.compute_outputs(made.samples(*sorted(reply.answers), first=0))
    assert list(reply.answers[id_] for id_ in sorted(reply.answers)) == list(expected.values())


def test_memory_stays_flat_over_many_requests(world):
    made = world(40)
    with made.engine(batch=8) as engine:
        made.answered(engine)
        made.backend.calls.clear()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(5):
                made.answered(engine)
                made.backend.calls.clear()
                engine.statistics()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert after - before < 20_000  # of 200 requests: less than the tokens of their prompts


def test_what_was_made_while_requests_waited_is_told_from_the_tail(world):
    """Sixty answers of forty tokens at most on four slots: the tail is the last few."""
    made = world(60, max_new_tokens=40)
    with made.engine(batch=4) as engine:
        made.answered(engine)
        statistics = engine.statistics()
    steady = statistics.steady
    assert statistics.new_tokens - 4 * 40 <= steady.new_tokens < statistics.new_tokens
    assert 0 < steady.busy_ns < steady.whole_ns == statistics.busy_ns + statistics.host_ns
    assert statistics.steady_tokens_per_s == pytest.approx(1e9 * steady.new_tokens / steady.busy_ns)
    assert steady.tail_share == pytest.approx(1 - steady.busy_ns / steady.whole_ns)
    per_answer = statistics.new_tokens / 60
    assert statistics.steady_samples_per_s == pytest.approx(statistics.steady_tokens_per_s / per_answer)


def test_where_there_are_slots_for_all_requests_everything_is_the_tail(world):
    made = world(4, max_new_tokens=40)
    with made.engine(batch=4) as engine:
        made.answered(engine)
        statistics = engine.statistics()
    assert (statistics.steady_tokens_per_s, statistics.steady.tail_share) == (None, 1.0)
