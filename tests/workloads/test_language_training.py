import json
import logging
import math
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from mlbench_recipes.fp32_muon import Fp32Muon  # noqa: E402
from mlbench_recipes.language_reference import answers  # noqa: E402
from mlbench_recipes.language_training import (  # noqa: E402
    HUGGING_FACE_FILES,
    Course,
    Example,
    batches,
    byte_level_bpe,
    compute_loss,
    is_held_out,
    optimisers,
    train,
    write_model,
    write_table,
    write_tokenizer,
)

from mlbench import Decoding, Prompt  # noqa: E402

END = 2


def a_network(vocabulary=16):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=vocabulary, **sizes))


def an_example(chance, share=0.0):
    """One to six tokens, and the last of them as the answer."""
    prompt = [1, *(chance.randrange(3, 16) for _ in range(chance.randint(1, 6)))]
    return Example(prompt, [prompt[-1], END])


def test_one_prompt_in_eight_is_held_out_and_always_the_same_ones():
    held_out = [number for number in range(8000) if is_held_out(f"prompt {number}")]
    assert 900 < len(held_out) < 1100
    assert not is_held_out("123456789")  # CRC-32 is specified with this example: cbf43926, 6 more than a multiple of 8


def test_a_tokenizer_gives_back_any_text_and_has_its_special_tokens_first():
    tokenizer = byte_level_bpe(["the cat sat on the mat"] * 9, size=270, special_tokens=("<unk>", "<s>"))
    assert tokenizer.get_vocab_size() == 270
    assert [tokenizer.token_to_id(token) for token in ("<unk>", "<s>")] == [0, 1]
    text = "the cat costs 12 €,\n\n  naïvely"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert "Ġthe" in tokenizer.encode("on the mat").tokens


def test_digits_are_split_where_that_is_asked_for():
    texts = ["2024 2024 2024"] * 9
    assert byte_level_bpe(texts, size=262).encode("2024").tokens == ["2024"]
    assert byte_level_bpe(texts, size=262, splits_digits=True).encode("2024").tokens == list("2024")


def test_there_is_a_batch_for_each_step_and_none_is_larger_than_allowed():
    course = Course(steps=90, seed=1, batch_tokens=100)
    drawn = list(batches(an_example, course))
    assert len(drawn) == 90
    sizes = [len(batch) * max(map(len, batch)) for batch in drawn]
    assert max(sizes) <= 100
    assert sorted(sizes)[45] > 90
    assert list(batches(an_example, course)) == drawn


def test_an_example_longer_than_a_batch_is_a_batch_alone():
    course = Course(steps=3, seed=1, batch_tokens=4)
    assert [len(batch) for batch in batches(lambda *_: Example([1] * 9, [END]), course)] == [1, 1, 1]


def test_examples_know_how_much_of_the_course_is_over():
    shares = []

    def draw(chance, share):
        shares.append(share)
        return an_example(chance)

    list(batches(draw, Course(steps=120, seed=1, batch_tokens=100)))
    assert shares[0] == 0
    assert sorted(shares) == shares
    assert 0.5 < shares[-1] < 1


class Unigram(torch.nn.Module):
    """Gives each token one probability, whatever stands before it."""

    def __init__(self, probabilities):
        super().__init__()
        self.logits = torch.tensor(probabilities).log()

    def forward(self, input_ids, use_cache):
        return transformers.modeling_outputs.CausalLMOutput(logits=self.logits.expand(*input_ids.shape, -1))


def test_the_loss_weighs_prompt_answer_and_long_answers_as_the_course_says():
    network = Unigram([0.5, 0.25, 0.25])
    short, long = Example([0, 0, 0], [1]), Example([0], [1, 2, 1, 2])
    log2 = math.log(2)  # token 0 costs this, tokens 1 and 2 twice as much; the first token of a text is not predicted
    even = compute_loss(network, [short, long], Course(steps=1, seed=1, prompt_weight=0.5))
    assert even.item() == pytest.approx((2 * 0.5 * 1 + 5 * 2) / (2 * 0.5 + 5) * log2)
    scaled = compute_loss(network, [short, long], Course(steps=1, seed=1, prompt_weight=0.5, usual_answer=1))
    assert scaled.item() == pytest.approx((2 * 0.5 * 1 + 1 * 2 + 4 * 0.5 * 2) / (2 * 0.5 + 1 + 4 * 0.5) * log2)


def test_matrices_inside_the_layers_are_muons_and_only_matrices_decay():
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    experts = {"num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 4}
    network = transformers.MixtralForCausalLM(transformers.MixtralConfig(vocab_size=16, **sizes, **experts))
    muon, adamw = optimisers(network, rate=1e-3)
    assert type(muon) is torch.optim.Muon
    assert type(optimisers(network, rate=1e-3, in_bf16=False)[0]) is Fp32Muon
    names = {id(weight): name for name, weight in network.named_parameters()}
    (attention,) = muon.param_groups
    parts = {names[id(weight)].split(".")[-2] for weight in attention["params"]}
    assert parts == {"q_proj", "k_proj", "v_proj", "o_proj"}
    decaying, others = adamw.param_groups
    parts = {names[id(weight)].split(".")[-1] for weight in decaying["params"]}
    assert parts == {"weight", "gate_up_proj", "down_proj"}
    assert all("norm" in names[id(weight)] for weight in others["params"])
    assert (decaying["weight_decay"], others["weight_decay"]) == (0.05, 0.0)
    assert sum(len(group["params"]) for group in (attention, decaying, others)) == len(names)


def test_muon_in_fp32_steps_as_torchs_in_bf16():
    torch.manual_seed(0)
    first = [torch.nn.Parameter(torch.randn(shape)) for shape in ((16, 16), (8, 16), (24, 8))]
    second = [torch.nn.Parameter(each.detach().clone()) for each in first]
    theirs = torch.optim.Muon(first, lr=0.1, weight_decay=0.05, adjust_lr_fn="match_rms_adamw")
    ours = Fp32Muon(second, lr=0.1, weight_decay=0.05)
    for _ in range(3):
        before = [each.detach().clone() for each in first]
        for one, other in zip(first, second, strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        theirs.step()
        ours.step()
        for start, one, other in zip(before, first, second, strict=True):
            assert (one - other).abs().max() < 0.15 * (one - start).abs().max()


@pytest.mark.thorough("recipes")
def test_a_network_learns_to_answer_with_the_last_token_and_to_end(caplog):
    caplog.set_level(logging.INFO)
    network = a_network()
    course = Course(steps=300, seed=1, warm_up_steps=10, batch_tokens=200)
    both = optimisers(network, rate=1e-2)
    train(network, an_example, both, course)
    assert all(group["lr"] == pytest.approx(0.02 * 1e-2) for each in both for group in each.param_groups)
    chance = random.Random(7)
    wanted = [an_example(chance) for _ in range(40)]
    prompts = [Prompt(tokens=np.array(example.prompt)) for example in wanted]
    found = answers(network, prompts, Decoding(end_tokens=(END,), max_new_tokens=4, longest=20))
    assert found == [list(example.answer) for example in wanted]
    steps = [record.message.split(",")[0] for record in caplog.records]
    assert steps == [f"step {step} of 300" for step in range(50, 301, 50)]


def test_what_is_written_is_a_folder_that_hugging_face_reads(tmp_path):
    tokenizer = byte_level_bpe(["the cat sat on the mat"] * 9, size=270, special_tokens=("<unk>", "<s>", "</s>"))
    network = a_network(vocabulary=270)
    write_tokenizer(tokenizer, tmp_path, start="<s>", end="</s>")
    write_model(network, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == set(HUGGING_FACE_FILES)
    text = "the cat's 12 mats"
    read = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert read(text)["input_ids"] == tokenizer.encode(text).ids
    assert read.eos_token_id == END
    weights = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in network.state_dict().items())
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}


def test_a_table_is_json_with_a_row_a_line(tmp_path):
    rows = [{"id": "a", "tok_input": [1, 2]}, {"id": "b", "tok_input": []}]
    write_table(iter(rows), tmp_path / "table.json")
    text = (tmp_path / "table.json").read_text()
    assert json.loads(text) == rows
    assert text.count("\n") == 4
