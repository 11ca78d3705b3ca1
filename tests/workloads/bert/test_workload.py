import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from mlbench_bert import full_profile
from mlbench_bert.workload import Bert
from workload_variants import variants_of

from mlbench import DataError, Weights

full, mini = variants_of("bert")

GOLDEN = Path(__file__).parents[2] / "data" / "bert" / "features"
DATA, VOCAB, WEIGHTS = Path("dev-v1.1.json"), Path("vocab.txt"), Path("model.pytorch")


def test_the_mini_profile_has_480_questions_and_targets_of_99_and_999_per_mille():
    workload, variant = Bert(), mini()
    dataset = workload.dataset(variant)
    assert len(dataset.questions) == 480
    assert dataset.count > 480
    required, stricter = workload.metric(variant, dataset).targets
    assert required.reference >= 85
    assert required.lower == pytest.approx(required.reference * 0.99)
    assert stricter.lower == pytest.approx(required.reference * 0.999)
    assert (required.required, stricter.required) == (True, False)


def test_without_files_random_weights_run_on_random_tokens_of_the_official_shape():
    workload, variant = Bert(), full(Weights.RANDOM)
    assert workload.dataset(variant).count == 10833
    graph = workload.model(variant).graphs["reader"]
    assert graph.inputs[0].shape[1].largest == 384
    assert list(graph.calibration()) == []


def test_the_official_onnx_file_is_fed_384_tokens_and_answers_under_its_own_names():
    model = Bert().model(full(data=DATA, vocab=VOCAB, weights=Path("model.onnx")))
    sample = Bert().dataset(full(Weights.RANDOM)).sample(0)
    assert len(sample.input_ids) < 384
    inputs = model.program.inputs([sample])
    assert {array.shape for array in inputs.values()} == {(1, 384)}
    logits = inputs["segment_ids"].astype("float32")
    outputs = {"output_start_logits": logits, "output_end_logits": -logits}
    (reply,) = model.program.run([sample], {"reader": lambda _: outputs})
    assert reply[-1].tolist() == [1, -1]


class TestFilesInTheOfficialForm:
    """The full profile on small files, whose checksums stand in for the official ones."""

    @pytest.fixture
    def paths(self, tmp_path, monkeypatch):
        data, vocab, calibration = GOLDEN / "dev.json", tmp_path / "vocab.txt", tmp_path / "calibration.txt"
        tokens = (GOLDEN / "vocab.txt").read_text().splitlines()
        vocab.write_text("\n".join([*tokens, *(f"[unused{number}]" for number in range(4, 30522 - 298 + 4))]) + "\n")
        calibration.write_text("3\n15\n")
        own = replace(
            full_profile.OFFICIAL,
            data_md5=hashlib.md5(data.read_bytes()).hexdigest(),
            vocabulary_md5=hashlib.md5(vocab.read_bytes()).hexdigest(),
            windows_in_data=16,
        )
        monkeypatch.setattr(full_profile.FullProfile, "official", own)
        return {"data": data, "vocab": vocab, "calibration": calibration}

    def test_questions_are_scored_against_the_official_reference(self, paths):
        workload, variant = Bert(), full(**paths, weights=WEIGHTS)
        dataset = workload.dataset(variant)
        assert dataset.count == 16
        assert [target.reference for target in workload.metric(variant, dataset).targets] == [90.874, 90.874]

    def test_calibration_windows_are_those_of_the_list(self, paths):
        graph = Bert().model(full(**paths, weights=WEIGHTS)).graphs["reader"]
        first, second = graph.calibration()
        samples = Bert().dataset(full(**paths, weights=WEIGHTS))
        assert [row["input_ids"][0][row["input_mask"][0] == 1].tolist() for row in (first, second)] == [
            samples.sample(index).input_ids.tolist() for index in (3, 15)
        ]

    def test_the_onnx_file_is_calibrated_at_its_own_length(self, paths):
        graph = Bert().model(full(**paths, weights=Path("model.onnx"))).graphs["reader"]
        assert {array.shape for inputs in graph.calibration() for array in inputs.values()} == {(1, 384)}


def test_another_data_file_than_the_official_one_is_refused():
    with pytest.raises(DataError, match=r"SQuAD file is corrupt or another version: .*dev\.json"):
        Bert().dataset(full(Weights.RANDOM, data=GOLDEN / "dev.json", vocab=GOLDEN / "vocab.txt"))


def test_missing_official_weights_are_named_when_a_backend_asks_for_them():
    graph = Bert().model(full(data=DATA, vocab=VOCAB, weights=Path("nowhere/model.pytorch"))).graphs["reader"]
    with pytest.raises(DataError, match=r"weights file not found: nowhere/model\.pytorch"):
        graph.module()
