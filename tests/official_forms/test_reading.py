"""Official forms that `nox -s tests` does not run in full: fetched, and read as a dataset and a model."""

import importlib

import pytest

from mlbench import Variant
from mlbench.contracts.workload import Profile, Weights
from mlbench.fetching.fetched_settings import fetched_settings
from mlbench.settings.layers import fill_template

FORMS = ["bert", "dlrm_v2", "gptj", "llama2_70b", "mixtral_8x7b", "retinanet", "unet3d"]


@pytest.mark.thorough("official forms", but=["bert", "gptj", "llama2_70b"])
@pytest.mark.parametrize("form", FORMS)
def test_what_was_fetched_is_a_dataset_and_a_model(form, fetch, data, tmp_path_factory):
    small_set = importlib.import_module(f"test_{form}_form").make_small_set(tmp_path_factory.mktemp(form))
    assert "complete" in fetch(small_set)
    workload = small_set.workload
    filled = fill_template(workload.options, "workload", fetched_settings(workload, data))
    variant = Variant(profile=Profile.FULL, weights=Weights.TRAINED, options=filled)
    dataset, model = workload.dataset(variant), workload.model(variant)
    dataset.load([0])
    assert dataset.sample(0) is not None
    assert all(list(graph.module().parameters()) for graph in model.graphs.values())
    assert model.deviations  # it is smaller than the official one
