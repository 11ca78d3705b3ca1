"""Right answers: those of the folder's own class, whatever its settings for sampling say, computed once."""

import json
import shutil

import pytest
from mlbench_own_model import language_reference
from mlbench_own_model.language_folder import LanguageFolder
from mlbench_own_model.language_workload import OwnLanguageModel

from mlbench import DataError, LoggedReply

WORKLOAD = OwnLanguageModel("mine")


@pytest.fixture
def answers(language_variant):
    """Return a function that returns the reference's answers to two prompts."""

    def answers(folder, **options):
        variant = language_variant(folder, samples=2, **options)
        data, decoding = WORKLOAD.dataset(variant), WORKLOAD.model(variant).program.decoding
        prompts = [data.sample(index) for index in range(2)]
        return language_reference.reference_answers(LanguageFolder.read(folder), prompts, decoding)

    return answers


def test_settings_for_sampling_change_no_answer(language_folder, answers, tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "one"))
    folder = shutil.copytree(language_folder("llama"), tmp_path / "sampling")
    settings = {"do_sample": True, "temperature": 9.0, "repetition_penalty": 5.0, "eos_token_id": 2, "max_length": 3}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    found = answers(folder)
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "another"))  # the two have one model, and so one place in it
    assert found == answers(language_folder("llama"))
    assert [len(each) for each in found] == [32, 32]
    assert not {2} & {token for each in found for token in each}


def test_answers_are_computed_once_for_the_same_model_prompts_and_lengths(language_folder, answers, monkeypatch):
    found = answers(language_folder("llama"), dims="answer=5")
    monkeypatch.setattr(language_reference, "_network", lambda folder: pytest.fail("computed again"))
    assert answers(language_folder("llama"), dims="answer=5") == found
    with pytest.raises(pytest.fail.Exception):
        answers(language_folder("llama"), dims="answer=6")


def test_a_damaged_file_of_weights_is_named(language_folder, language_variant, tmp_path):
    folder = shutil.copytree(language_folder("llama"), tmp_path / "damaged")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    variant = language_variant(folder)
    with pytest.raises(DataError, match=r"^model cannot be read: .*/damaged: "):
        WORKLOAD.metric(variant, WORKLOAD.dataset(variant)).score([LoggedReply(index=0, data=bytes(8))])


def test_an_architecture_that_has_no_graphs_has_right_answers(language_folder, answers):
    assert [len(each) for each in answers(language_folder("mamba"), dims="answer=5")] == [5, 5]


def test_answers_without_a_reference_are_not_compared_and_the_log_says_why(
    language_folder, language_variant, monkeypatch, caplog
):
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("", (), {"available": 1000}))
    variant = language_variant(language_folder("llama"))
    assert WORKLOAD.metric(variant, WORKLOAD.dataset(variant)) is None
    assert "answers are not compared with the reference's" in caplog.text
    assert "billion weights, which are" in caplog.text
