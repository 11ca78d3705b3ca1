from pathlib import Path

import pytest
from mlbench_llama2_70b.full_profile import FullProfile
from mlbench_llama2_70b.workload import Llama2Options

from mlbench import UsageError, Weights

DATA, FOLDER = Path("data.pkl"), Path("model")


def check(kind=Weights.TRAINED, *, data=None, weights=None, layers=0):
    FullProfile(Llama2Options(data=data, weights=weights, layers=layers), kind).check()


def test_trained_weights_need_data_and_a_folder():
    check(data=DATA, weights=FOLDER)


def test_random_weights_need_nothing_and_may_have_fewer_layers():
    check(Weights.RANDOM)
    check(Weights.RANDOM, data=DATA, layers=80)


@pytest.mark.parametrize(
    ("kind", "options", "complaint"),
    [
        (Weights.TRAINED, {}, "profile of llama2-70b needs data"),
        (Weights.TRAINED, {"weights": FOLDER}, "needs data. Give it with --set workload.data=PATH"),
        (Weights.TRAINED, {"data": DATA}, "needs weights. Give it with --set workload.weights=PATH"),
        (Weights.TRAINED, {"data": DATA, "weights": FOLDER, "layers": 2}, "trained weights have all their layers"),
        (Weights.RANDOM, {"weights": FOLDER}, "random weights do not come from a file"),
        (Weights.RANDOM, {"layers": 81}, "workload.layers is 81, but llama2-70b has 80 layers"),
        (Weights.RANDOM, {"layers": -1}, "workload.layers is -1"),
    ],
)
def test_options_that_are_missing_or_would_not_be_read_are_refused(kind, options, complaint):
    with pytest.raises(UsageError, match=complaint):
        check(kind, **options)
