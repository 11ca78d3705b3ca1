import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mlbench_llama2_70b import full_profile, mlbench_workloads
from mlbench_llama2_70b.graphs import OFFICIAL_CONFIG
from mlbench_llama2_70b.workload import Llama2, Llama2Options
from safetensors.torch import save_file

from mlbench import DECODE, DataError, Profile, UsageError, Variant, Weights

DATA, FOLDER = Path("data.pkl"), Path("Llama-2-70b-chat-hf")


def full(kind=Weights.TRAINED, **options):
    return Variant(profile=Profile.FULL, weights=kind, options=Llama2Options(**options))


def mini(kind=Weights.TRAINED, **options):
    return Variant(profile=Profile.MINI, weights=kind, options=Llama2Options(**options))


def test_the_plugin_brings_llama2():
    (workload,) = mlbench_workloads()
    assert (workload.name, workload.rules) == ("llama2-70b", "llama2-70b")


def test_random_weights_run_without_files_and_claim_no_accuracy():
    workload, variant = Llama2(), full(Weights.RANDOM)
    dataset = workload.dataset(variant)
    assert dataset.count == 24576
    assert workload.metric(variant, dataset) is None
    model = workload.model(variant)
    assert model.files is None
    assert len(model.graphs[DECODE].state) == 2 * 80


def test_fewer_layers_are_another_model():
    model = Llama2().model(full(Weights.RANDOM, layers=2))
    assert len(model.graphs[DECODE].state) == 2 * 2
    assert model.weights_fingerprint != Llama2().model(full(Weights.RANDOM)).weights_fingerprint


class TestFilesInTheOfficialForm:
    """The full profile on small files, whose sizes stand in for the official ones."""

    @pytest.fixture
    def options(self, golden, tmp_path, monkeypatch):
        config = {**OFFICIAL_CONFIG, "vocab_size": 750, "hidden_size": 64}
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
        save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
        shutil.copy(golden / "tokenizer.json", tmp_path)
        monkeypatch.setattr(full_profile.FullProfile, "official_config", config)
        monkeypatch.setattr(
            full_profile.FullProfile, "official", replace(full_profile.FullProfile.official, conversations=4)
        )
        return {"data": golden / "pandas_2.2_numpy_2.pkl", "weights": tmp_path}

    def test_answers_are_scored_against_the_official_reference(self, options):
        workload, variant = Llama2(), full(**options)
        dataset = workload.dataset(variant)
        targets = workload.metric(variant, dataset).targets
        assert {target.score: target.reference for target in targets} == {
            "ROUGE1": 44.4312,
            "ROUGE2": 22.0352,
            "ROUGEL": 28.6162,
            "TOKENS_PER_SAMPLE": 294.45,
        }

    def test_a_native_engine_gets_the_folder(self, options):
        model = Llama2().model(full(**options))
        assert model.files == options["weights"]
        assert len(model.weights_fingerprint) == 64

    def test_another_architecture_is_refused(self, options):
        path = options["weights"] / "config.json"
        path.write_text(path.read_text().replace('"num_hidden_layers": 80', '"num_hidden_layers": 40'))
        with pytest.raises(DataError, match="has num_hidden_layers = 40, expected 80"):
            Llama2().model(full(**options))

    def test_a_tokenizer_of_another_model_is_refused(self, options, golden):
        variant = full(**options)
        dataset = Llama2().dataset(variant)
        shutil.copy(golden / "openorca_filter" / "tokenizer.json", options["weights"])
        with pytest.raises(DataError, match="the model's tokenizer 750"):
            Llama2().metric(variant, dataset)


@pytest.mark.parametrize(
    ("variant", "complaint"),
    [
        (full(), "profile of llama2-70b needs data"),
        (full(data=DATA), "needs weights"),
        (full(data=DATA, weights=FOLDER, layers=3), "trained weights have all their layers"),
        (full(Weights.RANDOM, layers=81), "llama2-70b has 80 layers"),
        (full(Weights.RANDOM, weights=FOLDER), "random weights do not come from a file"),
        (mini(data=DATA), "includes its files"),
    ],
)
def test_options_that_are_missing_or_would_not_be_read_are_refused(variant, complaint):
    with pytest.raises(UsageError, match=complaint):
        Llama2().dataset(variant)
    with pytest.raises(UsageError, match=complaint):
        Llama2().model(variant)
