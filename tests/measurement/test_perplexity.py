"""Perplexity of the mini models: a plain loop over Hugging Face's network, worse models, odd texts."""

import math
from types import SimpleNamespace

import pytest
from invoking import invoke, refusal

torch = pytest.importorskip("torch")

from mlbench_gptj.workload import GptJ  # noqa: E402
from mlbench_llama2_70b.workload import Llama2  # noqa: E402
from mlbench_llama3_1_8b.workload import Llama31  # noqa: E402
from mlbench_mixtral_8x7b.workload import Mixtral  # noqa: E402
from mlbench_pruning.layers import PruneLayers  # noqa: E402
from mlbench_pruning.sparsity import Sparse  # noqa: E402
from mlbench_pytorch.backend import PyTorch  # noqa: E402

import mlbench  # noqa: E402
from mlbench import InvalidRunError, Precision, Transform  # noqa: E402
from mlbench.conformance.preparation import mini_variant  # noqa: E402
from mlbench.execution.transforming import apply_transforms  # noqa: E402
from mlbench.measurement import perplexity  # noqa: E402
from mlbench.toolkit import change_modules  # noqa: E402

TEXTS = 9
"""Enough for calls with several rows, and one that is not full."""


class Plus(Transform):
    """Adds a number to all weights of linear layers, as a file that was damaged may."""

    def __init__(self, number):
        self.name, self._number = "plus", number

    def apply(self, model, calibration):
        def change(part):
            if isinstance(part, torch.nn.Linear):
                part.weight += self._number

        return change_modules(model, self, change, says="weights are others")


class Mini:
    """A mini profile, whose perplexity is that of a few texts."""

    def __init__(self, workload):
        variant = mini_variant(workload, {})
        self.dataset = workload.dataset(variant)
        self.model, self.metric = workload.model(variant), workload.metric(variant, self.dataset)

    def perplexity(self, *transforms, precision=Precision.FP32):
        backend = PyTorch()
        backend = backend.with_options(backend.options.__class__(compile=False))
        job = SimpleNamespace(backend=backend, plan=SimpleNamespace(precision=precision))
        return perplexity.measure_perplexity(job, apply_transforms(self.model, transforms), self.dataset, self.metric)

    def of_a_loop(self, longest=None):
        """Return the perplexity of each answer's tokens by Hugging Face's own network, a text at a time."""
        from transformers import AutoModelForCausalLM

        network = AutoModelForCausalLM.from_pretrained(self.model.files, dtype=torch.float32).eval()
        losses = []
        indices = [number * self.dataset.count // TEXTS for number in range(TEXTS)]
        self.dataset.load(indices)
        for index in indices:
            prompt = self.dataset.sample(index).tokens.tolist()
            text = [*prompt, *self.metric.answer_tokens(index)][:longest]
            with torch.no_grad():
                found = torch.log_softmax(network(torch.tensor([text])).logits[0].double(), dim=-1)
            losses += [-found[place - 1, text[place]].item() for place in range(len(prompt), len(text))]
        return math.exp(sum(losses) / len(losses))


@pytest.fixture
def mini(monkeypatch):
    monkeypatch.setattr(perplexity, "MOST_TEXTS", TEXTS)
    return lambda workload=Llama2: Mini(workload())


@pytest.mark.slow
@pytest.mark.thorough("workloads", but=["mixtral-8x7b"])
@pytest.mark.parametrize("workload", [GptJ, Llama2, Llama31, Mixtral], ids=lambda each: each.name)
def test_it_is_that_of_a_plain_loop_over_the_network(mini, workload):
    model = mini(workload)
    assert model.perplexity() == pytest.approx(model.of_a_loop(), rel=1e-6)


@pytest.mark.slow
def test_a_model_with_less_in_it_or_with_other_weights_is_worse(mini):
    model = mini()
    whole = model.perplexity()
    assert model.perplexity(PruneLayers()) > 1.5 * whole
    assert model.perplexity(Sparse()) > 1.01 * whole
    assert model.perplexity(Plus(0.05)) > 1.01 * whole
    assert model.perplexity(precision=Precision.BF16) == pytest.approx(whole, rel=0.01)
    assert model.perplexity(precision=Precision.BF16) != whole


@pytest.mark.slow
def test_weights_that_are_no_numbers_have_none(mini):
    with pytest.raises(InvalidRunError, match=r"the perplexity of \d+ tokens is nan"):
        mini().perplexity(Plus(math.nan))


@pytest.mark.slow
def test_a_text_is_cut_to_the_models_positions(mini):
    model = mini()
    model.metric.references = [10 * each for each in model.metric.references]
    longest = model.model.program.decoding.longest
    assert model.perplexity() == pytest.approx(model.of_a_loop(longest), rel=1e-6)


def test_texts_without_an_answer_are_none(mini):
    model = mini()
    model.metric.references = [""] * model.dataset.count
    with pytest.raises(InvalidRunError, match="no right answer fits in the 512 positions of the model"):
        model.perplexity()


def test_sums_and_programs_of_mixtral_have_no_answer_as_text(mini):
    metric = mini(Mixtral).metric
    kinds = {task.dataset: metric.answer_tokens(index) for index, task in enumerate(metric._tasks)}
    assert {kind for kind, tokens in kinds.items() if tokens} == {"OpenOrca"}
    assert len(kinds) == 3


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("gptj", "--backend", "endpoint"), "endpoint compiles no graphs, so it has no logits"),
        (("gptj", "--backend", "null"), "null compiles no graphs, so it has no logits"),
        (("gptj", "--backend", "pytorch", "--weights", "random"), "perplexity is asked of random weights"),
        (("gptj", "--backend", "pytorch", "--set", "execution.nodes=2"), "perplexity is asked of nodes"),
        (("resnet50", "--backend", "pytorch"), "resnet50 has no perplexity to measure. Leave out --also perplexity."),
    ],
)
def test_where_there_is_none_a_run_is_refused_in_a_line(words, line, tmp_path):
    asked = ("--scenario", "Offline", "--also", "perplexity", "--results", tmp_path / "results")
    assert line in refusal(invoke("run", *words, *asked))
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_a_run_has_it_beside_the_scores_and_can_be_verified(tmp_path):
    quick = {"load.min_duration_ms": 50, "backend.compile": False, "execution.batch": 8}
    asked = {"backend": "pytorch", "scenario": "Offline", "results": tmp_path}
    (run,) = mlbench.run("gptj", settings={**quick, "workload.perplexity": True}, **asked)
    assert run.accuracy.perplexity == pytest.approx(1.008239, abs=1e-5)  # all 66 texts in a loop over the network
    assert "perplexity" not in run.accuracy.scores
    assert run.accuracy.is_met
    assert "perplexity 1.0082" in invoke("show", run.run_id, "--results", tmp_path).stdout
    verified = invoke("verify", run.run_id, "--results", tmp_path)
    assert (verified.exit_code, "accuracy.perplexity" in verified.stdout) == (0, True), verified.output
