"""Answers of a user's model: how they are computed, and compared with the right ones."""

from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from mlbench_own_model.accuracy import OutputDifferences
from mlbench_own_model.dataset import open_inputs
from mlbench_own_model.graphs import open_model
from mlbench_own_model.options import OwnModelOptions
from mlbench_own_model.plain_torch import compile_in_torch
from mlbench_own_model.program import LARGEST_REPLY, TensorProgram, thin, thin_size

from mlbench import InvalidRunError, LoggedReply, Precision, Profile, UsageError, Variant, Weights


@pytest.fixture
def user_model(models):
    """Open a model with all that a run has of it."""

    def user_model(name, precision=Precision.FP32, **chosen):
        options = OwnModelOptions(model=models / name, **chosen)
        opened = open_model(options)
        data = open_inputs(opened, options)
        variant = Variant(profile=Profile.FULL, weights=Weights.TRAINED, options=options, precision=precision)
        return SimpleNamespace(
            opened=opened,
            data=data,
            program=TensorProgram(opened.signature),
            metric=OutputDifferences.for_run(variant, data),
            graph=opened.file.graph(opened.signature, lambda: iter(())),
        )

    return user_model


def session_of(graph):
    """Run a graph's file in ONNX Runtime, as somebody else would."""
    session = onnxruntime.InferenceSession(graph.onnx(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, dict(inputs)), strict=True))


def replies_of(model, change=lambda reply: reply):
    run = {"model": session_of(model.graph)}
    samples = [model.data.sample(index) for index in range(model.data.count)]
    return [
        LoggedReply(index=index, data=change(np.array(reply)).tobytes())
        for index, reply in enumerate(model.program.run(samples, run))
    ]


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("cnn.onnx", {}),
        ("cnn.onnx", {"shapes": "image=24x3x32x32"}),
        ("hand.onnx", {}),
        ("points.onnx", {}),
        ("text.onnx", {"dims": "seq=8..32"}),
        ("beside.onnx", {"dims": "columns=5"}),
    ],
)
def test_a_batch_gives_the_answers_that_single_samples_have(user_model, name, chosen):
    model = user_model(name, **chosen)
    scores = model.metric.score(replies_of(model))
    assert scores["difference"] < 1e-6
    assert scores["largest_difference"] < 1e-5
    assert model.metric.first_wrong() == ""
    assert all(target.is_met_by(scores[target.score]) for target in model.metric.targets)


def test_a_torch_module_of_an_onnx_file_computes_what_the_file_says(user_model):
    for name, chosen in (("cnn.onnx", {}), ("hand.onnx", {}), ("text.onnx", {"dims": "seq=8"})):
        model = user_model(name, **chosen)
        inputs = {each: np.stack([array] * 3) for each, array in model.data.sample(0).items()}
        (wanted, *_), (found, *_) = (
            list(run(inputs).values()) for run in (session_of(model.graph), compile_in_torch(model.graph))
        )
        assert np.asarray(found) == pytest.approx(wanted, abs=1e-5), name


@pytest.mark.thorough("exports")
def test_an_exported_program_computes_the_same_in_torch_and_as_an_onnx_file(user_model):
    model = user_model("text.pt2", dims="s27=8")
    inputs = {each: np.stack([array] * 3) for each, array in model.data.sample(0).items()}
    (wanted,), (found,) = (
        list(run(inputs).values()) for run in (compile_in_torch(model.graph), session_of(model.graph))
    )
    assert found == pytest.approx(np.asarray(wanted), abs=1e-5)


def test_the_first_wrong_answer_is_named(user_model):
    model = user_model("cnn.onnx")

    def damage(reply, seen=[]):  # noqa: B006 - counts the replies
        seen.append(0)
        return reply + (len(seen) > 5) * np.abs(reply).max() / 100

    scores = model.metric.score(replies_of(model, damage))
    assert scores["largest_difference"] > model.metric.limits.largest
    assert model.metric.first_wrong().startswith("The first answer that differs is to sample 5: output logits by 0.0")


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP16, Precision.BF16])
def test_rounding_to_a_precision_is_within_its_limits_and_to_the_next_is_not(user_model, precision):
    import torch

    model = user_model("cnn.onnx", precision=precision)
    kinds = {Precision.FP32: None, Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}
    coarser = {Precision.FP32: torch.float16, Precision.FP16: torch.bfloat16, Precision.BF16: torch.float8_e5m2}

    def scores(kind):
        module = model.graph.module()
        with torch.no_grad():
            for weight in module.parameters() if kind else ():
                weight.copy_(weight.to(kind).to(weight.dtype))
        images = torch.from_numpy(np.stack([model.data.sample(index)["image"] for index in range(64)]))
        with torch.no_grad():
            logits = module(images).numpy()
        return model.metric.score([LoggedReply(index=at, data=row.tobytes()) for at, row in enumerate(logits)])

    limit = model.metric.limits.difference
    assert scores(kinds[precision])["difference"] <= limit
    assert scores(coarser[precision])["difference"] > limit / 4


@pytest.mark.parametrize(("precision", "least"), [(Precision.INT8, 5 / 9), (Precision.BF16, 17 / 18)])
def test_eight_samples_without_a_changed_answer_prove_no_more_than_eight_samples_can(user_model, precision, least):
    model = user_model("cnn.onnx", precision)
    assert model.metric.limits.agreement == pytest.approx(least)


def test_noise_of_a_tenth_in_the_weights_is_noticed(user_model):
    model = user_model("cnn.onnx")
    noisy = SimpleNamespace(**{**vars(model), "graph": model.opened.file.noisy_graph(model.opened.signature, 0.1)})
    scores = model.metric.score(replies_of(noisy))
    assert scores["difference"] > 100 * model.metric.limits.difference


def test_an_answer_that_is_no_number_is_infinitely_far(user_model):
    model = user_model("cnn.onnx")
    scores = model.metric.score(replies_of(model, lambda reply: reply * np.float32("nan")))
    assert scores["difference"] == np.inf
    assert "sample 0" in model.metric.first_wrong()


def test_a_reply_of_another_size_is_named(user_model):
    model = user_model("cnn.onnx")
    with pytest.raises(InvalidRunError, match="the reply to sample 0 has 9 numbers, and the reference 10"):
        model.metric.score(replies_of(model, lambda reply: reply[1:]))


def test_a_users_own_answers_are_the_reference(user_model, tmp_path):
    ids = np.arange(18).reshape(3, 6)
    answers = {"scores": np.ones((3, 3), "f"), "label": np.zeros(3, np.int64)}
    np.savez(tmp_path / "own.npz", ids=ids, **answers)
    model = user_model("hand.onnx", inputs=tmp_path / "own.npz")
    assert [part.tolist() for part in model.metric.reference.outputs[1]] == [[1, 1, 1], [0]]
    np.savez(tmp_path / "half.npz", ids=ids, label=answers["label"])
    with pytest.raises(UsageError, match="right answers, but none for scores"):
        assert user_model("hand.onnx", inputs=tmp_path / "half.npz").metric.reference


@pytest.mark.thorough("workloads")
def test_another_backend_can_be_the_reference(user_model):
    one, other = (user_model("cnn.onnx", reference=name).metric.reference.outputs for name in ("pytorch", ""))
    assert np.concatenate(one[3]) == pytest.approx(np.concatenate(other[3]), abs=1e-5)
    assert not all(np.array_equal(*pair) for pair in zip(one[3], other[3], strict=True))


def test_large_outputs_are_thinned_evenly():
    rows = np.arange(2 * 3 * LARGEST_REPLY).reshape(2, -1)
    assert thin(rows).shape == (2, thin_size(rows.shape[1])) == (2, LARGEST_REPLY)
    assert np.array_equal(thin(rows)[0, :3], [0, 3, 6])
