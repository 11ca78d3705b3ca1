import threading
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from mlbench.contracts.engine import Samples
from mlbench.execution import batching
from mlbench.execution.batching import Backlog, BatchQueue, by_length, passes

DATASET = SimpleNamespace(sample=lambda index: "x" * index)
REPLY, OTHER_REPLY = object(), object()


def samples(*ids):
    return Samples(list(ids), list(ids), DATASET)


def taken(queue):
    return list(queue.take().samples.ids)


def test_a_large_query_is_cut_into_batches_in_order():
    queue = BatchQueue(batch=2, max_wait_us=0)
    queue.put(samples(1, 2, 3, 4, 5), REPLY)
    assert [taken(queue) for _ in range(3)] == [[1, 2], [3, 4], [5]]


def test_cutting_batches_costs_the_same_however_much_waits():
    """A list that counts what is copied out of it: each sample must be copied once."""
    copied = []

    class Counted(list):
        def __getitem__(self, part):
            found = super().__getitem__(part)
            copied.append(len(found))
            return found

    queue = BatchQueue(batch=10, max_wait_us=0)
    queue.put(Samples(Counted(range(1000)), Counted(range(1000)), DATASET), REPLY)
    for _ in range(100):
        queue.take()
    assert sum(copied) == 2 * 1000  # ids and indices


def test_small_queries_that_wait_together_leave_together():
    queue = BatchQueue(batch=4, max_wait_us=0)
    for i in range(3):
        queue.put(samples(i), REPLY)
    assert taken(queue) == [0, 1, 2]


def test_each_worker_gets_a_batch_of_what_came_before_it_woke():
    """Only the first sample and the one that fills a batch wake a worker; none may be left asleep over the rest."""
    queue, taken, found = BatchQueue(batch=2, max_wait_us=0), SimpleQueue(), []

    def work():
        while batch := queue.take():
            taken.put(list(batch.samples.ids))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for start in range(0, 60, 5):
        for number in range(start, start + 5):
            queue.put(samples(number), REPLY)
        while len(found) < start + 5:
            found += taken.get(timeout=30)  # then all are asleep again
    queue.close()
    for worker in workers:
        worker.join(10)
        assert not worker.is_alive()
    assert sorted(found) == list(range(60))


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
def test_what_is_cut_from_waiting_samples_is_all_of_them_in_order(most):
    backlog = Backlog()
    for ids in [(1,), (2, 3, 4), (5,), (6, 7), (8,)]:
        backlog.add(samples(*ids), REPLY)
    found = []
    while backlog:
        batch = backlog.cut(most)
        assert len(batch.samples) == min(most, 8 - len(found))
        assert list(batch.samples.ids) == list(batch.samples.indices)
        found += batch.samples.ids
        assert len(backlog) == 8 - len(found)
    assert found == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_batch_never_mixes_two_tests():
    queue = BatchQueue(batch=4, max_wait_us=0)
    queue.put(samples(1), REPLY)
    queue.put(samples(2), OTHER_REPLY)
    first, second = queue.take(), queue.take()
    assert (first.reply, second.reply) == (REPLY, OTHER_REPLY)


def test_a_batch_that_waits_for_others_leaves_when_full():
    queue = BatchQueue(batch=2, max_wait_us=60_000_000)
    queue.put(samples(1), REPLY)
    adder = threading.Timer(0.05, queue.put, (samples(2), REPLY))
    adder.start()
    assert taken(queue) == [1, 2]
    adder.join()


def test_a_batch_that_waits_for_others_leaves_when_flushed():
    queue = BatchQueue(batch=2, max_wait_us=60_000_000)
    queue.put(samples(1), REPLY)
    queue.flush()
    assert taken(queue) == [1]


def test_a_batch_that_waits_for_others_leaves_when_its_time_is_up():
    queue = BatchQueue(batch=2, max_wait_us=10_000)
    queue.put(samples(1), REPLY)
    assert taken(queue) == [1]


class WaitingClock:
    """A clock that only a worker's waiting moves, and the locks of a queue whose workers wait by it."""

    now_s = 100.0
    Lock = staticmethod(threading.Lock)

    def monotonic(self):
        return self.now_s

    def Condition(self):
        clock = self

        class Condition(threading.Condition):
            def wait(self, timeout=None):
                assert timeout is not None, "a worker waits for ever"
                clock.now_s += timeout

        return Condition()


@pytest.fixture
def clock(monkeypatch):
    clock = WaitingClock()
    monkeypatch.setattr(batching, "time", clock)
    monkeypatch.setattr(batching, "threading", clock)
    return clock


def test_a_flushed_batch_leaves_without_any_waiting(clock):
    queue = BatchQueue(batch=2, max_wait_us=60_000_000)
    queue.put(samples(1), REPLY)
    queue.flush()
    assert taken(queue) == [1]
    assert clock.now_s == 100


def test_a_flush_is_for_the_samples_before_it_and_not_for_those_that_come_later(clock):
    queue = BatchQueue(batch=2, max_wait_us=60_000_000)
    queue.put(samples(1), REPLY)
    queue.flush()
    queue.take()
    queue.put(samples(2), REPLY)
    assert taken(queue) == [2]
    assert clock.now_s == 160


def test_the_wait_for_others_is_counted_from_the_first_arrival(clock):
    queue = BatchQueue(batch=8, max_wait_us=60_000_000)
    queue.put(samples(1), REPLY)
    clock.now_s += 50
    queue.put(samples(2), REPLY)
    assert taken(queue) == [1, 2]
    assert clock.now_s == 160


def test_what_a_full_batch_leaves_behind_waits_its_own_time(clock):
    queue = BatchQueue(batch=2, max_wait_us=60_000_000)
    queue.put(samples(1), REPLY)
    clock.now_s += 50
    queue.put(samples(2, 3), REPLY)
    assert taken(queue) == [1, 2]
    assert taken(queue) == [3]
    assert clock.now_s == 210


def test_a_closed_queue_sends_workers_home():
    queue = BatchQueue(batch=2, max_wait_us=0)
    queue.close()
    assert queue.take() is None


def test_samples_of_like_length_are_put_together_longest_first():
    assert list(by_length(samples(1, 9, 2, 8), [1, 9, 2, 8]).ids) == [9, 8, 2, 1]


def test_samples_of_one_length_keep_their_order():
    one = samples(3, 3, 3)
    assert by_length(one, [2, 2, 2]) is one


def test_a_new_pass_over_the_dataset_begins_where_an_index_comes_again():
    assert passes([2, 0, 1, 1, 2, 0, 0]) == [range(3), range(3, 6), range(6, 7)]
    assert passes([5]) == [range(1)]


def test_samples_that_wait_apart_leave_without_others():
    backlog = Backlog()
    backlog.add(samples(1), REPLY)
    backlog.add(samples(2), REPLY)
    backlog.add(samples(3, 4, 5), REPLY, is_apart=True)
    backlog.add(samples(6, 7), REPLY, is_apart=True)
    backlog.add(samples(8), REPLY)
    assert [list(backlog.cut(2 if len(backlog) < 7 else 9).samples.ids) for _ in range(5)] == [
        [1, 2],
        [3, 4],
        [5],
        [6, 7],
        [8],
    ]
    assert len(backlog) == 0
