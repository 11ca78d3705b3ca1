import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mlbench_gptj import full_profile, mlbench_workloads
from mlbench_gptj.graphs import OFFICIAL_CONFIG
from mlbench_gptj.workload import GptJ, GptJOptions
from safetensors.torch import save_file

from mlbench import DECODE, DataError, Profile, UsageError, Variant, Weights

DATA, FOLDER = Path("cnn_eval.json"), Path("checkpoint-final")


def full(kind=Weights.TRAINED, **options):
    return Variant(profile=Profile.FULL, weights=kind, options=GptJOptions(**options))


def mini(kind=Weights.TRAINED, **options):
    return Variant(profile=Profile.MINI, weights=kind, options=GptJOptions(**options))


def test_the_plugin_brings_gptj():
    (workload,) = mlbench_workloads()
    assert (workload.name, workload.rules) == ("gptj", "gptj")


def test_random_weights_run_without_files_and_claim_no_accuracy():
    workload, variant = GptJ(), full(Weights.RANDOM)
    dataset = workload.dataset(variant)
    assert dataset.count == 13368
    assert workload.metric(variant, dataset) is None
    model = workload.model(variant)
    assert (model.program.decoding.end_tokens, model.files) == ((50256,), None)
    assert len(model.graphs[DECODE].state) == 2 * 28


def test_fewer_layers_are_another_model():
    model = GptJ().model(full(Weights.RANDOM, layers=2))
    assert len(model.graphs[DECODE].state) == 2 * 2
    assert model.weights_fingerprint != GptJ().model(full(Weights.RANDOM)).weights_fingerprint


class TestFilesInTheOfficialForm:
    """The full profile on small files, whose sizes stand in for the official ones."""

    @pytest.fixture
    def options(self, golden, tmp_path, monkeypatch):
        config = {**OFFICIAL_CONFIG, "vocab_size": 629, "n_embd": 32, "eos_token_id": 628, "bos_token_id": 628}
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "gptj", **config}))
        save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
        shutil.copy(golden / "tokenizer.json", tmp_path)
        monkeypatch.setattr(full_profile.FullProfile, "official_config", config)
        monkeypatch.setattr(full_profile, "VOCABULARIES", (629,))
        monkeypatch.setattr(full_profile, "TOKENIZER_SIZES", (629,))
        monkeypatch.setattr(
            full_profile.FullProfile, "official", replace(full_profile.FullProfile.official, articles=12)
        )
        return {"data": golden / "cnn_eval.json", "weights": tmp_path}

    def test_summaries_are_scored_against_the_official_reference(self, options):
        workload, variant = GptJ(), full(**options)
        dataset = workload.dataset(variant)
        assert dataset.count == 12
        targets = workload.metric(variant, dataset).targets
        assert {target.score: target.reference for target in targets} == {
            "ROUGE1": 42.9865,
            "ROUGE2": 20.1235,
            "ROUGEL": 29.9881,
            "GEN_LEN": 4016878,
        }

    def test_a_native_engine_gets_the_folder(self, options):
        model = GptJ().model(full(**options))
        assert model.files == options["weights"]
        assert len(model.weights_fingerprint) == 64

    def test_the_tokenizer_may_lie_elsewhere(self, options, golden):
        (options["weights"] / "tokenizer.json").unlink()
        with pytest.raises(DataError, match="tokenizer not found"):
            GptJ().dataset(full(**options))
        assert GptJ().dataset(full(**options, tokenizer=golden)).count == 12
        assert GptJ().dataset(full(Weights.RANDOM, data=options["data"], tokenizer=golden)).count == 12

    def test_another_architecture_is_refused(self, options):
        path = options["weights"] / "config.json"
        path.write_text(path.read_text().replace('"n_layer": 28', '"n_layer": 27'))
        with pytest.raises(DataError, match="has n_layer = 27, expected 28"):
            GptJ().model(full(**options))


def test_a_tokenizer_of_another_model_is_refused(golden):
    with pytest.raises(DataError, match="has 629 tokens, the model's tokenizer 50257 or 50400 or 50401"):
        GptJ().dataset(full(Weights.RANDOM, data=golden / "cnn_eval.json", tokenizer=golden))


@pytest.mark.parametrize(
    ("variant", "complaint"),
    [
        (full(), "profile of gptj needs data"),
        (full(data=DATA), "needs weights"),
        (full(data=DATA, weights=FOLDER, layers=3), "trained weights have all their layers"),
        (full(Weights.RANDOM, layers=29), "gptj has 28 layers"),
        (full(Weights.RANDOM, weights=FOLDER), "random weights do not come from a file"),
        (full(Weights.RANDOM, tokenizer=FOLDER), "a tokenizer, but no articles"),
        (full(Weights.RANDOM, data=DATA), "gptj has no tokenizer"),
        (mini(data=DATA), "includes its files"),
    ],
)
def test_options_that_are_missing_or_would_not_be_read_are_refused(variant, complaint):
    with pytest.raises(UsageError, match=complaint):
        GptJ().dataset(variant)
    with pytest.raises(UsageError, match=complaint):
        GptJ().model(variant)
