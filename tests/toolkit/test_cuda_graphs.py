"""Recorded calls, with a recorder that runs on the CPU: it writes down torch's operators, and carries them out again.

As on a GPU, a replay reads and writes the tensors that were there when the call was recorded.
"""

import pytest

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from mlbench import Dim, TensorSpec  # noqa: E402
from mlbench.toolkit import ModuleGraph, TorchOptions  # noqa: E402
from mlbench.toolkit.batch_sizes import has_batches  # noqa: E402
from mlbench.toolkit.torch_backend import cuda_graphs  # noqa: E402
from mlbench.toolkit.torch_backend.cuda_graphs import ReplayedBatches, ReplayedCalls  # noqa: E402
from mlbench.toolkit.torch_backend.executable import place_module  # noqa: E402


class Tape(TorchDispatchMode):
    """A recording."""

    def __init__(self):
        super().__init__()
        self.calls, self.outputs = [], ()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, made))
        return made

    def replay(self):
        for func, args, kwargs, made in self.calls:
            again = func(*args, **kwargs)
            if again is not made:  # else it wrote in place
                made.copy_(again)


class TapeRecorder:
    def __init__(self):
        self.tapes, self.beside = [], []

    def __call__(self, compute, beside):
        tape = Tape()
        before = [tensor.clone() for tensor in self.state]
        with tape:
            tape.outputs = compute()
        for tensor, kept in zip(self.state, before, strict=True):
            tensor.copy_(kept)  # recording is not running
        self.tapes.append(tape)
        self.beside.append(beside)
        return tape

    state = ()


def add_up(tensors):
    """Add the input to the state's first numbers, and return twice those: (n,) and (4,) -> (n,)."""
    given, total = tensors
    total[: len(given)] += given
    return [total[: len(given)] * 2]


def numbers(*values):
    return torch.tensor(values, dtype=torch.float32)


@pytest.fixture
def recorder():
    return TapeRecorder()


def test_calls_of_many_shapes_see_their_own_inputs_and_the_state_as_it_is(recorder):
    calls, state = ReplayedCalls(add_up, recorder), [torch.zeros(4)]
    recorder.state, expected = state, [0.0] * 4
    for turn in range(6):
        for size in (1, 3, 2):
            given = [turn + each + 1.0 for each in range(size)]
            expected = [old + (given[place] if place < size else 0) for place, old in enumerate(expected)]
            (found,) = calls([numbers(*given)], state)
            assert found.tolist() == [2 * value for value in expected[:size]]
    assert state[0].tolist() == expected
    assert len(recorder.tapes) == 3


def test_another_state_is_another_beginning(recorder):
    calls, first, second = ReplayedCalls(add_up, recorder), [torch.zeros(4)], [torch.zeros(4)]
    for recorder.state in (first, second):
        for _ in range(5):
            calls([numbers(1)], recorder.state)
    assert (first[0][0].item(), second[0][0].item()) == (5, 5)
    assert len(recorder.tapes) == 2
    assert recorder.beside == [None, None]  # the first one's memory is given back: nothing may share it any more


def test_recordings_share_memory_with_one_that_is_still_kept(recorder):
    calls, state = ReplayedCalls(add_up, recorder), [torch.zeros(4)]
    recorder.state = state
    for size in (1, 2, 3):
        for _ in range(3):
            calls([torch.ones(size)], state)
    assert recorder.beside == [None, recorder.tapes[0], recorder.tapes[1]]


def test_what_was_used_longest_ago_makes_room_and_is_recorded_again_when_it_comes_again(recorder, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "MOST_RECORDED", 2)
    calls, state = ReplayedCalls(add_up, recorder), [torch.zeros(4)]
    recorder.state = state

    def recorded(*sizes):
        before = len(recorder.tapes)
        for size in sizes:
            calls([torch.ones(size)], state)
        return len(recorder.tapes) - before

    assert recorded(1, 1, 1, 2, 2, 2) == 2
    assert recorded(1) == 0  # used again, so that 2 is the one that goes
    assert recorded(3, 3, 3) == 1
    assert recorded(1, 3) == 0
    assert recorded(2, 2) == 0  # its calls are counted anew
    assert recorded(2) == 1
    assert state[0].tolist() == [15, 10, 4, 0]  # a one for each call of that size or more: none was lost or made twice


def test_what_cannot_be_recorded_runs_as_usual(recorder):
    def refuse(compute, beside):
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    calls, state = ReplayedCalls(add_up, refuse), [torch.zeros(4)]
    assert [calls([numbers(1)], state)[0].item() for _ in range(5)] == [2, 4, 6, 8, 10]


def test_a_module_that_cannot_be_recorded_is_given_up_after_three_combinations_of_shapes():
    tried = []

    def refuse(compute, beside):
        tried.append(compute)
        raise RuntimeError("operation not permitted when stream is capturing")

    calls, state = ReplayedCalls(add_up, refuse), [torch.zeros(9)]
    for size in range(1, 9):
        for _ in range(4):
            calls([torch.ones(size)], state)
    assert len(tried) == 3
    assert state[0].tolist() == [32, 28, 24, 20, 16, 12, 8, 4, 0]


class Rows:
    """Computes twice each row, and notes how many rows it was given."""

    def __init__(self):
        self.sizes = []

    def __call__(self, tensors):
        self.sizes.append(len(tensors[0]))
        return [tensors[0] * 2, tensors[0].sum(1)]


@pytest.fixture
def warm(recorder):
    """Batches of 1, 2, 4 and 8 rows that came twice, as in warming up, and what computed them."""
    rows = Rows()
    calls = ReplayedBatches(rows, recorder)
    for size in (1, 2, 4, 8):
        for _ in range(2):
            calls([torch.full((size, 3), 7.0)])
    rows.sizes.clear()
    return calls, rows


def test_a_batch_is_computed_by_the_recording_of_its_size_or_of_the_next_larger_one(warm, recorder):
    calls, rows = warm
    for size in (5, 8, 1, 3, 2, 7, 6, 4):
        given = torch.arange(3.0 * size).view(size, 3) + size
        doubled, sums = calls([given])
        assert doubled.tolist() == (given * 2).tolist()
        assert sums.tolist() == given.sum(1).tolist()
    assert rows.sizes == []
    assert len(recorder.tapes) == 4


def test_a_batch_that_would_fill_no_more_than_half_of_a_recording_or_none_runs_as_usual_until_it_comes_again(recorder):
    rows = Rows()
    calls = ReplayedBatches(rows, recorder)
    for _ in range(2):
        calls([torch.ones(8, 3)])
    rows.sizes.clear()
    for size in (4, 9, 5):
        (doubled, _) = calls([torch.full((size, 3), float(size))])
        assert doubled.tolist() == [[2.0 * size] * 3] * size
    assert rows.sizes == [4, 9]
    calls([torch.ones(4, 3)])
    calls([torch.ones(3, 3)])
    assert rows.sizes == [4, 9, 4]  # the last was the recording's
    assert recorder.beside == [None, recorder.tapes[0]]


def test_batches_that_cannot_be_recorded_run_as_usual_and_no_other_size_is_tried():
    tried, rows = [], Rows()

    def refuse(compute, beside):
        tried.append(compute)
        raise RuntimeError("operation not permitted when stream is capturing")

    calls = ReplayedBatches(rows, refuse)
    for size in (2, 2, 2, 4, 4, 3):
        assert calls([torch.ones(size, 3)])[1].tolist() == [3.0] * size
    assert len(tried) == 1
    assert rows.sizes == [2, 2, 2, 4, 4, 3]


BATCH = Dim(name="batch", smallest=1, usual=2, largest=8)
TOKENS = Dim(name="tokens", smallest=1, usual=2, largest=8)
MANY = Dim(name="batch", smallest=1, usual=2048, largest=16_384)


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ([(BATCH, 3, 224)], [(BATCH, 10)], True),
        ([(BATCH, 3), (BATCH,)], [(BATCH, 10), (BATCH, 4)], True),
        ([(BATCH, TOKENS)], [(BATCH, 2)], False),  # each length would be recorded for itself
        ([(BATCH, 3)], [(BATCH, TOKENS)], False),
        ([(BATCH, 3), (1,)], [(BATCH, 10)], False),  # a tensor of all rows
        ([(BATCH, 3)], [(10,)], False),  # of all rows, too: a sum
        ([(2, 3)], [(2, 3)], False),
        ([()], [(BATCH, 3)], False),
        ([(MANY, 3)], [(MANY, 1)], False),  # large batches take longer than starting them
    ],
)
def test_batches_are_recorded_where_calls_differ_in_nothing_but_a_small_number_of_rows(inputs, outputs, expected):
    def specs(shapes):
        return tuple(TensorSpec(name=f"t{number}", shape=shape, dtype="float32") for number, shape in enumerate(shapes))

    graph = ModuleGraph("graph", inputs=specs(inputs), outputs=specs(outputs), build=Experts, fingerprint="graph")
    assert has_batches(graph) is expected


class Machine:
    """Computes for the shapes it was last given, as an execution context does: a recording of it holds those."""

    def __init__(self):
        self.shapes = set()

    def __call__(self, tensors):
        self.shapes.add(len(tensors[0]))
        return add_up(tensors)


def test_each_recorded_call_has_a_machine_of_its_own_that_ran_before_and_sees_no_other_shapes(recorder):
    made = []

    def separate():
        made.append(Machine())
        return made[-1]

    shared, state = Machine(), [torch.zeros(4)]
    calls, recorder.state = ReplayedCalls(shared, recorder, separate), state
    for turn in range(1, 6):
        for size in (1, 2, 3):
            (found,) = calls([torch.ones(size)], state)
            assert found.tolist() == [2.0 * ((turn - 1) * (3 - place) + max(0, size - place)) for place in range(size)]
    assert [machine.shapes for machine in made] == [{1}, {2}, {3}]
    assert shared.shapes == {1, 2, 3}  # in their first calls


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 5)
        self.matrices = torch.nn.Parameter(torch.ones(2, 7, 3))
        self.norm = torch.nn.LayerNorm(3)

    def forward(self, x):
        return self.norm(x) @ self.matrices[0].T + self.layer(x).sum()


class Arrivals(TorchDispatchMode):
    """Notes the shape and type of each tensor that arrives on the device ``meta``."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made.device.type == "meta":
            self.seen.append((tuple(made.shape), made.dtype))
        return made


def test_weights_arrive_on_the_device_in_the_precision_that_they_are_kept_in():
    rows = Dim(name="rows", smallest=1, usual=2, largest=8)
    graph = ModuleGraph(
        "experts",
        inputs=(TensorSpec(name="x", shape=(rows, 3), dtype="float32"),),
        outputs=(TensorSpec(name="y", shape=(rows, 7), dtype="float32"),),
        build=Experts,
        fingerprint="experts",
    )
    with Arrivals() as arrivals:
        place_module(graph.module(), graph, torch.device("meta"), torch.bfloat16, TorchOptions())
    kept = {((5, 3), torch.bfloat16), ((5,), torch.bfloat16), ((2, 7, 3), torch.bfloat16), ((3,), torch.float32)}
    assert set(arrivals.seen) == kept
