import threading
from types import SimpleNamespace

from mlbench.contracts.engine import Samples
from mlbench.execution.batching import BatchQueue, by_length

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


def test_a_batch_never_mixes_two_tests():
    queue = BatchQueue(batch=4, max_wait_us=0)
    queue.put(samples(1), REPLY)
    queue.put(samples(2), OTHER_REPLY)
    first, second = queue.take(), queue.take()
    assert (first.reply, second.reply) == (REPLY, OTHER_REPLY)


def test_a_batch_that_waits_for_company_leaves_when_full():
    queue = BatchQueue(batch=2, max_wait_us=60_000_000)
    queue.put(samples(1), REPLY)
    adder = threading.Timer(0.05, queue.put, (samples(2), REPLY))
    adder.start()
    assert taken(queue) == [1, 2]
    adder.join()


def test_a_batch_that_waits_for_company_leaves_when_flushed():
    queue = BatchQueue(batch=2, max_wait_us=60_000_000)
    queue.put(samples(1), REPLY)
    queue.flush()
    assert taken(queue) == [1]


def test_a_batch_that_waits_for_company_leaves_when_its_time_is_up():
    queue = BatchQueue(batch=2, max_wait_us=10_000)
    queue.put(samples(1), REPLY)
    assert taken(queue) == [1]


def test_a_closed_queue_sends_workers_home():
    queue = BatchQueue(batch=2, max_wait_us=0)
    queue.close()
    assert queue.take() is None


def test_samples_of_like_length_are_put_together_longest_first():
    assert list(by_length(samples(1, 9, 2, 8), [1, 9, 2, 8]).ids) == [9, 8, 2, 1]


def test_samples_of_one_length_keep_their_order():
    one = samples(3, 3, 3)
    assert by_length(one, [2, 2, 2]) is one
