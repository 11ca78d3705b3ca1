"""Models that mlbench did not export, written anew, each in a way that users have."""

import warnings

import numpy as np
import onnx
import pytest
import torch
import transformers
from mlbench_own_model.options import LanguageModelOptions
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from mlbench import Precision, Profile, Variant, Weights
from mlbench.toolkit import build_once

RANDOM = np.random.default_rng(0)


class Cnn(torch.nn.Module):
    """Convolutions, and ten scores."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, 2, 1),
            torch.nn.BatchNorm2d(16),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, 2, 1),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(32, 10),
        )

    def forward(self, image):
        return self.layers(image)


class Text(torch.nn.Module):
    """Attention over tokens that a mask does not hide, and four scores."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(100, 32)
        self.query, self.key, self.value = (torch.nn.Linear(32, 32) for _ in range(3))
        self.norm, self.scores = torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)

    def forward(self, ids, attention_mask):
        tokens, mask = self.table(ids), attention_mask[:, None, :].float()
        weights = torch.softmax(self.query(tokens) @ self.key(tokens).transpose(1, 2) / 5.6 - (1 - mask) * 1e9, -1)
        mixed = self.norm(tokens + torch.nn.functional.gelu(weights @ self.value(tokens)))
        return self.scores(mixed[:, 0])


@pytest.fixture(scope="session")
def models(cache):
    """Return the folder of all models, written once for all processes."""

    def write(folder):
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_torch_models(folder)
            write_scikit_learn_model(folder)
        write_by_hand(folder)
        write_with_weights_beside(folder)

    return build_once("models_of_users", "", write)


def write_torch_models(folder):
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("seq", min=4, max=512)
    cnn, text = Cnn().eval(), Text().eval()
    arguments = (torch.randint(0, 100, (2, 12)), torch.ones(2, 12, dtype=torch.long))
    torch.onnx.export(
        cnn,
        (torch.rand(2, 3, 32, 32),),
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        input_names=["image"],
        output_names=["logits"],
        verbose=False,
    ).save(folder / "cnn.onnx")
    torch.onnx.export(
        text,
        arguments,
        folder / "text.onnx",
        dynamo=False,
        opset_version=17,
        input_names=["ids", "attention_mask"],
        output_names=["logits"],
        dynamic_axes={
            "ids": {0: "batch", 1: "seq"},
            "attention_mask": {0: "batch", 1: "seq"},
            "logits": {0: "batch"},
        },
    )
    torch.export.save(
        torch.export.export(text, arguments, dynamic_shapes=({0: batch, 1: length},) * 2), folder / "text.pt2"
    )


def write_scikit_learn_model(folder):
    """Write a classifier twice: with its probabilities as a tensor, and as dictionaries."""
    from skl2onnx import to_onnx  # not in each process that collects tests
    from sklearn.linear_model import LogisticRegression

    points = RANDOM.random((200, 4)).astype("f")
    classifier = LogisticRegression().fit(points, (2 * points.sum(1)).astype(int))
    for name, options in (("points", {"zipmap": False}), ("dictionaries", {})):
        written = to_onnx(classifier, points[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3})
        (folder / f"{name}.onnx").write_bytes(written.SerializeToString())


def tensor(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def save(graph, file, opset, **how):
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), file, **how)


def write_by_hand(folder):
    """Write ids that are looked up in a table of 50 rows; scores and a label come out."""
    table, weights = (RANDOM.standard_normal(shape).astype("f") for shape in ((50, 8), (8, 3)))
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("MatMul", ["mean", "weights"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    outputs = [tensor("scores", TensorProto.FLOAT, ["n", 3]), tensor("label", TensorProto.INT64, ["n"])]
    constants = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(weights, "weights")]
    graph = helper.make_graph(nodes, "hand", [tensor("ids", TensorProto.INT64, ["n", 6])], outputs, constants)
    save(graph, folder / "hand.onnx", 13)
    foreign = helper.make_graph(
        [helper.make_node("Foo", ["x"], ["y"], domain="my.ops")],
        "foreign",
        [tensor("x", TensorProto.FLOAT, [1, 4])],
        [tensor("y", TensorProto.FLOAT, [1, 4])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    onnx.save(helper.make_model(foreign, opset_imports=opsets, ir_version=8), folder / "foreign.onnx")


def write_with_weights_beside(folder):
    weights = numpy_helper.from_array(RANDOM.standard_normal((64, 256)).astype("f"), "weights")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weights"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "beside",
        [tensor("x", TensorProto.FLOAT, ["rows", "columns", 64])],
        [tensor("y", TensorProto.FLOAT, ["rows", "columns", 256])],
        [weights],
    )
    save(
        graph,
        folder / "beside.onnx",
        17,
        save_as_external_data=True,
        location="beside.bin",
        size_threshold=16,
    )


WORDS = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(200))]
SIZES = {"vocab_size": len(WORDS), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
MORE = {"num_attention_heads": 4, "max_position_embeddings": 128, "initializer_range": 0.2}
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(num_key_value_heads=2, **SIZES, **MORE, **ENDS),
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**SIZES, **MORE, **ENDS),
    "mamba": lambda: transformers.MambaConfig(vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, **ENDS),
}


def write_tokenizer(folder):
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.add_special_tokens(WORDS[:3])
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="session")
def language_folder(cache):
    """Return a function that returns the Hugging Face folder of an architecture, made once for all processes."""

    def language_folder(name):
        def write(place):
            folder = place / name
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                transformers.AutoModelForCausalLM.from_config(CONFIGS[name]()).save_pretrained(folder)
            write_tokenizer(folder)

        return build_once("language_folder", name, write) / name

    return language_folder


@pytest.fixture
def language_variant():
    """Return a function that returns the variant of a run of a language model."""

    def language_variant(folder, precision=Precision.FP32, weights=Weights.TRAINED, **options):
        own = LanguageModelOptions(model=folder, **options)
        return Variant(profile=Profile.FULL, weights=weights, options=own, precision=precision)

    return language_variant
