"""Whole runs of trained models on real runtimes, under real LoadGen."""

import pytest

from mlbench.records.run_record import read

pytestmark = pytest.mark.slow

SHORT = ["--set", "load.min_duration_ms=50"]
COUNTED = ["--set", "load.min_duration_ms=2000"]
"""As long as tier smoke wants: of a shorter one no processor time is counted."""
FEW = ["--set", "load.min_query_count=20", "--set", "execution.batch=8"]
"""With a given batch none is searched."""


@pytest.mark.thorough("workloads")
@pytest.mark.parametrize(
    ("workload", "backend", "scenario", "score", "least"),
    [
        ("resnet50", "onnxruntime", "Offline", "acc", 97),
        ("resnet50", "onnxruntime", "SingleStream", "acc", 97),
        ("retinanet", "pytorch", "MultiStream", "mAP", 74),
        ("bert", "pytorch", "Server", "F1", 85),
        ("3d-unet", "pytorch", "Offline", "DICE", 0.90),
        ("dlrm-v2", "onnxruntime", "Server", "AUC", 81),
        ("dlrm-v2", "pytorch", "Server", "AUC", 81),
        ("gptj", "pytorch", "Offline", "ROUGE1", 40),
        ("llama2-70b", "pytorch", "Offline", "ROUGE1", 90),
        ("mixtral-8x7b", "pytorch", "Offline", "ROUGE1", 92),
        ("stable-diffusion-xl", "pytorch", "Offline", "DIGIT_RATE", 87),
        ("resnet50", "pytorch", "SingleStream", "acc", 97),
        ("resnet50", "pytorch", "MultiStream", "acc", 97),
        ("resnet50", "onnxruntime", "MultiStream", "acc", 97),
        ("bert", "onnxruntime", "Server", "F1", 85),
    ],
)
def test_a_trained_model_on_a_real_runtime_meets_its_target_under_loadgen(  # noqa: PLR0917 - one per column
    mlbench, tmp_path, workload, backend, scenario, score, least
):
    # as many queries as the tier wants would take half a minute, and longer on a busy machine
    arguments = ["run", workload, "--backend", backend, "--scenario", scenario, "--json", *COUNTED, *FEW]
    if scenario == "Server":
        arguments += ["--set", "load.target_qps=10"]
    done = mlbench(*arguments)
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert record.accuracy.scores[score] >= least
    assert record.accuracy.is_met
    rules = {rule.rule: rule for rule in record.verdict.rules}
    # whether a busy machine keeps a latency limit is not for a test to say; that replies are right is
    for name in (
        "replies_sound",
        "replies_agree",
        "reply_difference",
        "loadgen_errors",
        "seeds",
        "performance_sample_count",
    ):
        assert rules[name].passed, rules[name]
    assert done.exit_code == (0 if record.verdict.is_valid else 1)
    assert not record.verdict.is_conformant
    assert record.other_work and 0 <= record.other_work.share <= 1
    # a machine too slow or too busy for a number says so instead
    assert record.processor_time or "on one processor" in record.not_measured["processor_time"]
    assert (record.overhead_ns_per_sample or 0) > 0 or record.not_measured["overhead"]


@pytest.mark.parametrize(
    ("workload", "scenario"),
    [
        ("retinanet", "MultiStream"),
        ("bert", "Server"),
        ("3d-unet", "SingleStream"),
        ("dlrm-v2", "Server"),
        ("gptj", "Server"),
        ("llama2-70b", "Server"),
        ("mixtral-8x7b", "Server"),
        ("stable-diffusion-xl", "Server"),
    ],
)
def test_a_trained_model_is_timed_and_answers_alike_under_loadgen(mlbench, tmp_path, workload, scenario):
    """Their scores take long, and the thorough session has these; `test_shared_accuracy` has ResNet-50's."""
    # where the rules ask for equal issue, each sample of the performance set is sent
    few = {"load.min_query_count": 2, "load.performance_sample_count": 2, "load.target_qps": 20, "execution.batch": 2}
    given = [word for key, value in few.items() for word in ("--set", f"{key}={value}")]
    asked = ("--scenario", scenario, "--no-accuracy", "--power", "none", *SHORT, *given)
    done = mlbench("run", workload, "--backend", "pytorch", *asked)
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert (record.status, record.failure) == ("completed", None), done.output
    assert record.result
    rules = {rule.rule: rule for rule in record.verdict.rules}
    assert all(rules[name].passed for name in ("replies_sound", "loadgen_errors", "seeds")), rules


@pytest.mark.thorough("workloads")
@pytest.mark.parametrize("workload", ["resnet50", "bert"])
def test_random_weights_make_no_claim_of_accuracy(mlbench, tmp_path, workload):
    done = mlbench("run", workload, "--backend", "pytorch", "--scenario", "Offline", "--weights", "random", *SHORT)
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert record.accuracy is None
    assert record.verdict.is_accurate is None
    assert "random weights have no accuracy to claim" in record.verdict.not_applied["accuracy"]
    assert done.exit_code == (0 if record.verdict.is_valid else 1)
