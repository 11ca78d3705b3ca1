"""The in-flight engine over graphs that compute no more: all else is done, and answers are as long as before."""

import pytest


def test_an_in_flight_engine_answers_as_long_as_before_without_a_call_of_the_backend(world):
    made = world(12, min_new_tokens=3, max_new_tokens=24)
    with made.engine(batch=4) as engine:
        assert engine.replay_graphs() == "the engine has not answered anything yet"
        made.answered(engine, made.samples(*(list(range(12)) * 20)))
        before = engine.statistics()
        assert before.computed_calls is None
        assert engine.replay_graphs() == ""
        made.answered(engine)
        calls = len(made.backend.calls)
        assert engine.statistics().computed_calls == 2
        reply = made.answered(engine, made.samples(*(list(range(12)) * 40)))
        after = engine.statistics()
    assert len(made.backend.calls) == calls
    assert (after.computed_calls, after.samples, reply.failures) == (0, 480, {})
    means = [each.new_tokens / each.samples for each in (before, after)]
    assert means[1] == pytest.approx(means[0], rel=0.25)
    assert reply.firsts.keys() == reply.answers.keys()


def test_all_beams_of_an_answer_end_in_one_step(world):
    made = world(6, beams=3, min_new_tokens=2, max_new_tokens=40)
    with made.engine(batch=3) as engine:
        made.answered(engine, made.samples(*(list(range(6)) * 10)))
        before = engine.statistics()
        engine.replay_graphs()
        reply = made.answered(engine, made.samples(*(list(range(6)) * 20)))
        after = engine.statistics()
    assert reply.failures == {}
    assert after.new_tokens / after.samples == pytest.approx(before.new_tokens / before.samples, rel=0.4)
