import numpy as np
import pytest

from mlbench.conformance.known_state import LONGEST, Trial, reading_graph, scaling_graph, stepping_graph, token_list
from mlbench.contracts.graph import Dim
from mlbench.contracts.precision import Precision
from mlbench.errors import ConformanceError

torch = pytest.importorskip("torch")


def scores_after(*pieces, token=5, position=9):
    """Return the scores of a token in slot 0, after these pieces were read into slots at positions."""
    state = [torch.zeros(3, 2, LONGEST, 8) for _ in range(2)]
    with torch.inference_mode():
        for tokens, slot, first in pieces:
            inputs = [[tokens], [first], [slot], [len(tokens) - 1], list(range(first + len(tokens)))]
            reading_graph().module()(*map(torch.tensor, inputs), *state)
        inputs = [[token], [position], list(range(position + 1))]
        return stepping_graph().module()(*map(torch.tensor, inputs), *state)[0][0].numpy()


WRONG = {
    "nothing was read": [],
    "another list was read": [(token_list(9, seed=2), 0, 0)],
    "the list went into another slot": [(token_list(9, seed=1), 1, 0)],
    "its last half is missing": [(token_list(9, seed=1)[:4], 0, 0)],
    "it begins a column too late": [(token_list(9, seed=1), 0, 1)],
}


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16, Precision.FP16, Precision.INT8, Precision.FP8])
@pytest.mark.parametrize("pieces", WRONG.values(), ids=WRONG)
def test_what_a_slot_was_given_decides_the_scores_beyond_any_precision(precision, pieces):
    right, wrong = scores_after((token_list(9, seed=1), 0, 0)), scores_after(*pieces)
    allowed = stepping_graph().tolerance(precision)
    assert np.max(np.abs(wrong - right) / (allowed.absolute + allowed.relative * np.abs(right))) > 1.5


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16, Precision.FP16, Precision.INT8, Precision.FP8])
@pytest.mark.parametrize(("name", "changed"), [("scaling", [0, 1, 2]), ("scaling_rows", [0, 1]), ("looking", [])])
def test_which_part_of_a_state_was_made_anew_decides_the_scores_beyond_any_precision(precision, name, changed):
    state = [torch.zeros(3, 2, LONGEST, 8) for _ in range(2)]
    with torch.inference_mode():
        tokens = torch.tensor([token_list(9, seed=seed) for seed in (1, 2, 3)])
        inputs = [tokens, torch.zeros(3, dtype=torch.int64), torch.arange(3), torch.full((3,), 8), torch.arange(9)]
        reading_graph().module()(*inputs, *state)
        look, columns = scaling_graph("looking").module(), torch.arange(9)
        before = look(torch.tensor([8] * 3), columns, *state)[0].numpy()
        scaling_graph(name).module()(torch.tensor([8] * 2), columns, *state)
        after = look(torch.tensor([8] * 3), columns, *state)[0].numpy()
    allowed = scaling_graph(name).tolerance(precision)
    apart = np.max(np.abs(after - before) / (allowed.absolute + allowed.relative * np.abs(after)), axis=1)
    assert [row for row in range(3) if apart[row] > 1.5] == changed


def test_what_lies_behind_the_end_of_a_list_decides_nothing():
    right = scores_after((token_list(9, seed=1), 0, 0))
    assert scores_after((token_list(20, seed=3), 0, 0), (token_list(9, seed=1), 0, 0)) == pytest.approx(right, abs=1e-4)


def test_the_scores_are_the_same_in_every_process():
    # read off torch 2.15 on x86; a change of seed or of the networks shows here
    assert scores_after((token_list(9, seed=1), 0, 0))[:3] == pytest.approx([-1.0119, -2.6930, -2.3216], abs=1e-3)


def test_both_graphs_have_equal_state_of_slots_first():
    assert reading_graph().state == stepping_graph().state
    for spec in reading_graph().state:
        assert [size.name for size in spec.shape if isinstance(size, Dim)] == ["slots", "length"]


def test_a_trial_compares_with_the_module_and_says_where(on_trial):
    trial = Trial(on_trial("right"))
    trial.read([token_list(4, seed=1)], [2], "here")
    trial.state[0][2] += 1
    with pytest.raises(ConformanceError, match="graph prefill there: output 'scores' is"):
        trial.read([token_list(4, seed=1)], [2], "there", positions=[4])
