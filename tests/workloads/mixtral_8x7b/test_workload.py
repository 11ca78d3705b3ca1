import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mlbench_mixtral_8x7b import full_profile, mlbench_workloads
from mlbench_mixtral_8x7b.graphs import OFFICIAL_CONFIG
from mlbench_mixtral_8x7b.workload import Mixtral, MixtralOptions
from safetensors.torch import save_file

from mlbench import DECODE, DataError, Profile, UsageError, Variant, Weights

DATA, FOLDER = Path("data.pkl"), Path("Mixtral-8x7B-Instruct-v0.1")


def full(kind=Weights.TRAINED, **options):
    return Variant(profile=Profile.FULL, weights=kind, options=MixtralOptions(**options))


def mini(kind=Weights.TRAINED, **options):
    return Variant(profile=Profile.MINI, weights=kind, options=MixtralOptions(**options))


def test_the_plugin_brings_mixtral():
    (workload,) = mlbench_workloads()
    assert (workload.name, workload.rules) == ("mixtral-8x7b", "mixtral-8x7b")


def test_random_weights_run_without_files_and_claim_no_accuracy():
    workload, variant = Mixtral(), full(Weights.RANDOM)
    dataset = workload.dataset(variant)
    assert dataset.count == 15000
    assert workload.metric(variant, dataset) is None
    model = workload.model(variant)
    assert model.files is None
    assert len(model.graphs[DECODE].state) == 2 * 32


def test_fewer_layers_are_another_model():
    model = Mixtral().model(full(Weights.RANDOM, layers=2))
    assert len(model.graphs[DECODE].state) == 2 * 2
    assert model.weights_fingerprint != Mixtral().model(full(Weights.RANDOM)).weights_fingerprint


class TestFilesInTheOfficialForm:
    """The full profile on small files, whose sizes stand in for the official ones."""

    @pytest.fixture
    def options(self, golden, tmp_path, monkeypatch):
        config = {**OFFICIAL_CONFIG, "vocab_size": 897, "hidden_size": 64}
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "mixtral", **config}))
        save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
        shutil.copy(golden / "tokenizer.json", tmp_path)
        monkeypatch.setattr(full_profile.FullProfile, "official_config", config)
        monkeypatch.setattr(full_profile.FullProfile, "official", replace(full_profile.FullProfile.official, samples=1))
        row = {"dataset": "GSM8K", "id": "train.1", "gt_output": "7", "tok_input": [1, 1], "tok_stop_sequence": [2]}
        (tmp_path / "data.json").write_text(json.dumps([row]))
        return {"data": tmp_path / "data.json", "weights": tmp_path, "run_unprotected": True}

    def test_answers_are_scored_against_the_official_reference(self, options):
        workload, variant = Mixtral(), full(**options)
        dataset = workload.dataset(variant)
        targets = workload.metric(variant, dataset).targets
        assert {target.score: target.reference for target in targets} == {
            "ROUGE1": 45.4911,
            "ROUGE2": 23.2829,
            "ROUGEL": 30.3615,
            "gsm8k_accuracy": 73.78,
            "mbxp_accuracy": 60.12,
            "TOKENS_PER_SAMPLE": 145.9,
        }

    def test_a_native_engine_gets_the_folder(self, options):
        model = Mixtral().model(full(**options))
        assert model.files == options["weights"]
        assert len(model.weights_fingerprint) == 64

    def test_another_architecture_is_refused(self, options):
        path = options["weights"] / "config.json"
        path.write_text(path.read_text().replace('"num_hidden_layers": 32', '"num_hidden_layers": 31'))
        with pytest.raises(DataError, match="has num_hidden_layers = 31, expected 32"):
            Mixtral().model(full(**options))

    def test_a_tokenizer_of_another_model_is_refused(self, options, golden):
        variant = full(**options)
        dataset = Mixtral().dataset(variant)
        shutil.copy(golden.parent / "llama2_70b" / "tokenizer.json", options["weights"])
        with pytest.raises(DataError, match="has 750 tokens, the model's tokenizer 897"):
            Mixtral().metric(variant, dataset)

    def test_another_pickle_than_the_official_one_is_refused(self, options, golden):
        with pytest.raises(DataError, match=r"data set is corrupt or another version: .*dataset\.pkl"):
            Mixtral().dataset(full(**{**options, "data": golden / "dataset.pkl"}))


@pytest.mark.parametrize(
    ("variant", "complaint"),
    [
        (full(), "profile of mixtral-8x7b needs data"),
        (full(data=DATA), "needs weights"),
        (full(data=DATA, weights=FOLDER, layers=3), "trained weights have all their layers"),
        (full(Weights.RANDOM, layers=33), "mixtral-8x7b has 32 layers"),
        (full(Weights.RANDOM, weights=FOLDER), "random weights do not come from a file"),
        (mini(data=DATA), "includes its files"),
    ],
)
def test_options_that_are_missing_or_would_not_be_read_are_refused(variant, complaint):
    with pytest.raises(UsageError, match=complaint):
        Mixtral().dataset(variant)
    with pytest.raises(UsageError, match=complaint):
        Mixtral().model(variant)
