"""The graphs of the three language models, against what Hugging Face's `generate` gave for tiny ones."""

import importlib
import json
import shutil
import weakref
from pathlib import Path

import numpy as np
import pytest

from mlbench import DECODE, PREFILL, DataError, Decoding, Precision
from mlbench.toolkit import file_sha256
from mlbench.toolkit.exported_program import export_program
from mlbench.toolkit.onnx_quantization import saturates

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

DATA = Path(__file__).parents[2] / "data"
WORKLOADS = ["gptj", "llama2_70b", "mixtral_8x7b"]
GREEDY = WORKLOADS[1:]
VOCABULARY = 96
LENGTH = 256
EVERYTHING = Decoding(end_tokens=tuple(range(VOCABULARY - 1)), max_new_tokens=64, longest=LENGTH)
"""Asks for the log-probabilities of all tokens."""
pytestmark = pytest.mark.usefixtures("one_torch_thread")


def network_of(workload):
    return importlib.import_module(f"mlbench_{workload}.graphs").NETWORK


def folder_of(workload):
    return DATA / workload / "tiny_generate"


def golden(workload, name):
    return json.loads((folder_of(workload) / f"{name}.json").read_text())


class Runner:
    """Both graphs of a model over one state, as the engine calls them."""

    def prefill(self, pieces, slots, positions=None):
        """Read pieces, filled up with a token that means something, and return (rows, vocabulary) log-probabilities."""
        tokens = max(map(len, pieces))
        positions = np.array(positions or [0] * len(pieces))
        inputs = {
            "input_ids": np.array([[*piece, *[7] * (tokens - len(piece))] for piece in pieces]),
            "positions": positions,
            "slots": np.array(slots),
            "last": np.array([len(piece) - 1 for piece in pieces]),
            "columns": np.arange(positions.max() + tokens),
        }
        return self._spread(*self.outputs(PREFILL, inputs))

    def decode(self, tokens, positions, span=0):
        """Take a token for each of the first slots, and return (rows, vocabulary) log-probabilities."""
        columns = np.arange(span or max(positions) + 1)
        inputs = {"input_ids": np.array(tokens), "positions": np.array(positions), "columns": columns}
        return self._spread(*self.outputs(DECODE, inputs))

    def _spread(self, tokens, log_probabilities):
        assert (np.diff(log_probabilities, axis=1) <= 0).all()
        spread = np.full((len(tokens), VOCABULARY), -np.inf, np.float32)
        np.put_along_axis(spread, tokens, log_probabilities, axis=1)
        return spread


class ModuleRunner(Runner):
    """Runs the torch modules."""

    def __init__(self, graphs, slots=6):
        self.modules = {name: graph.module() for name, graph in graphs.items()}
        self.state = [torch.zeros(shape_of(spec, slots)) for spec in graphs[PREFILL].state]

    def outputs(self, name, inputs):
        with torch.inference_mode():
            *outputs, _, _, _, _ = returned = self.modules[name](*map(torch.from_numpy, inputs.values()), *self.state)
        assert [each.data_ptr() for each in returned[2:]] == [each.data_ptr() for each in self.state]
        return [each.numpy() for each in outputs]


class CompiledRunner(Runner):
    """Runs what a backend compiled."""

    def __init__(self, graphs, backend, precision, slots=6):
        self.executables = {name: backend.compile(graph, precision) for name, graph in graphs.items()}
        self.state = self.executables[PREFILL].new_state({"slots": slots, "length": LENGTH})

    def outputs(self, name, inputs):
        outputs = self.executables[name](inputs, self.state)
        return outputs["tokens"], outputs["log_probabilities"]


def shape_of(spec, slots):
    sizes = {"slots": slots, "length": LENGTH}
    return [sizes.get(getattr(size, "name", None), size) for size in spec.shape]


@pytest.fixture(scope="module", params=WORKLOADS)
def workload(request):
    return request.param


@pytest.fixture(scope="module")
def graphs(workload):
    return network_of(workload).build_graphs(folder_of(workload), EVERYTHING, fingerprint="golden")


@pytest.fixture
def runner(graphs):
    return ModuleRunner(graphs)


@pytest.fixture(scope="module")
def traced_step(graphs):
    return export_program(graphs[DECODE], graphs[DECODE].module()).module()


def without_cache(graphs, sequence):
    """Return what Hugging Face's own forward says follows each token of a sequence."""
    network = graphs[PREFILL].module().network
    with torch.inference_mode():
        return network(torch.tensor([sequence]), use_cache=False).logits[0].log_softmax(-1).numpy()


def demand_close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


def golden_logits(workload):
    logits = torch.tensor(golden(workload, "expected")["last_position_logits"])
    return logits.log_softmax(-1).numpy()


def greedy_answers(runner, prompts, steps):
    found = [[token] for token in runner.prefill(prompts, slots=range(len(prompts))).argmax(1).tolist()]
    for step in range(1, steps):
        tokens = runner.decode([each[-1] for each in found], [len(prompt) + step - 1 for prompt in prompts])
        for each, token in zip(found, tokens.argmax(1).tolist(), strict=True):
            each.append(token)
    return found


def test_prompts_of_unequal_length_in_jumbled_slots_give_the_reference_logits(runner, workload):
    demand_close(runner.prefill(golden(workload, "prompts"), slots=[4, 0, 3, 1]), golden_logits(workload))


@pytest.mark.parametrize("workload", GREEDY, indirect=True)
def test_the_likeliest_token_each_time_is_the_references_answer(runner, workload):
    answers = golden(workload, "expected")["new_token_ids"]
    found = greedy_answers(runner, golden(workload, "prompts"), steps=64)
    assert [each[: len(answer)] for each, answer in zip(found, answers, strict=True)] == answers


def test_a_decoded_token_is_followed_by_what_a_run_over_the_whole_sequence_says(runner, graphs, workload):
    sequences = [
        prompt + answer
        for prompt, answer in zip(
            golden(workload, "prompts"), golden(workload, "expected")["new_token_ids"], strict=True
        )
    ]
    expected = [without_cache(graphs, sequence) for sequence in sequences]
    runner.prefill([sequence[:2] for sequence in sequences], slots=range(4))
    for position in range(2, 20):
        found = runner.decode([sequence[min(position, len(sequence) - 1)] for sequence in sequences], [position] * 4)
        for row, sequence in enumerate(sequences):
            if position < len(sequence):
                demand_close(found[row], expected[row][position])


def test_a_sequence_gets_the_same_next_tokens_among_many_as_among_few(graphs, workload):
    prompts = [*golden(workload, "prompts"), [9, 8, 7], [5] * 11] * 2
    many, few = ModuleRunner(graphs, slots=len(prompts)), ModuleRunner(graphs)
    many.prefill(prompts, slots=range(len(prompts)))
    few.prefill(prompts[:2], slots=range(2))
    positions = [len(prompt) for prompt in prompts]
    found = many.decode([11] * len(prompts), positions, span=LENGTH)
    demand_close(found[:2], few.decode([11] * 2, positions[:2]))
    demand_close(found[6:8], found[:2])


@pytest.mark.thorough("exports", but=[f"lengths{number}-llama2_70b" for number in range(5)])
@pytest.mark.parametrize("workload", GREEDY, indirect=True)
@pytest.mark.parametrize("lengths", [[4, 2], [2, 5, 3], [3, 40, 7], [20, 21, 22, 41], [40, 39]])
def test_a_traced_step_attends_as_a_run_over_the_whole_does_whichever_rows_are_long(graphs, traced_step, lengths):
    runner = ModuleRunner(graphs)
    runner.modules[DECODE] = traced_step
    sequences = [[(5 * row + 7 * place) % VOCABULARY for place in range(length)] for row, length in enumerate(lengths)]
    runner.prefill([sequence[:-1] or [0] for sequence in sequences], slots=range(len(lengths)))
    found = runner.decode([sequence[-1] for sequence in sequences], [length - 1 for length in lengths])
    for row, sequence in zip(found, sequences, strict=True):
        demand_close(row, without_cache(graphs, sequence)[-1])


def test_a_prompt_in_pieces_is_the_prompt_in_one(runner, workload):
    prompt, other = golden(workload, "prompts")[3], golden(workload, "prompts")[2]
    whole = runner.prefill([prompt], slots=[2])
    runner.prefill([prompt[:9], other[:3]], slots=[5, 1])  # the padding of the second is overwritten later
    found = runner.prefill([prompt[9:], other[3:]], slots=[5, 1], positions=[9, 3])
    demand_close(found[:1], whole)


def test_a_slot_that_was_used_answers_as_a_fresh_one(runner, workload):
    short, *_, long = golden(workload, "prompts")
    fresh = runner.prefill([short], slots=[0]), runner.decode([11], [len(short)])
    runner.prefill([long], slots=[0])
    again = runner.prefill([short], slots=[0]), runner.decode([11], [len(short)], span=LENGTH)
    for one, other in zip(again, fresh, strict=True):
        demand_close(one, other)


def test_a_call_writes_its_own_rows_and_columns_only(runner, workload):
    for tensor in runner.state:
        tensor.fill_(5)
    runner.prefill([[1, 2, 3], [4, 5, 6]], slots=[4, 1], positions=[0, 2])
    runner.decode([8, 9], [20, 21])
    written = torch.zeros(6, LENGTH, dtype=torch.bool)
    written[4, 0:3] = written[1, 2:5] = written[0, 20] = written[1, 21] = True
    for tensor in runner.state:
        assert torch.equal((tensor != 5).any(dim=3).all(dim=1), written)
        assert torch.equal((tensor != 5).any(dim=3).any(dim=1), written)


def test_of_equally_likely_tokens_the_lowest_ids_come_first(workload):
    decoding = Decoding(end_tokens=(2,), max_new_tokens=64, longest=LENGTH, beams=4)
    graphs = network_of(workload).random_graphs(golden(workload, "config"), decoding)
    module = graphs[PREFILL].module()
    head = module.network.get_output_embeddings()
    with torch.inference_mode():
        head.weight.zero_()
        if head.bias is None:
            head.bias = torch.nn.Parameter(torch.zeros(VOCABULARY))
        head.bias.zero_()[[5, 40, 17]] = 1.0
        tokens = module(*prefill_inputs([[3, 4]]), *ModuleRunner(graphs).state)[0]
    assert tokens.tolist() == [[5, 17, 40, 0, 1, 2, 3, 4, 6]]


def prefill_inputs(pieces):
    rows, tokens = len(pieces), len(pieces[0])
    zeros = torch.zeros(rows, dtype=torch.int64)
    return torch.tensor(pieces), zeros, torch.arange(rows), zeros + tokens - 1, torch.arange(tokens)


def test_the_modules_of_a_model_share_one_network_and_a_second_pair_another(graphs):
    prefill, decode = graphs[PREFILL].module(), graphs[DECODE].module()
    assert prefill.network is decode.network
    second_decode, second_prefill = graphs[DECODE].module(), graphs[PREFILL].module()
    assert second_prefill.network is second_decode.network
    assert second_prefill.network is not prefill.network


def test_a_network_that_is_unused_is_freed(graphs):
    prefill = graphs[PREFILL].module()
    watch = weakref.ref(prefill.network)
    del prefill
    assert watch() is None
    assert graphs[DECODE].module().network is not None


def test_state_is_keys_and_values_of_each_layer(graphs, workload):
    heads = {"gptj": 4}.get(workload, 2)
    for graph in graphs.values():
        shapes = {spec.name: [getattr(size, "name", size) for size in spec.shape] for spec in graph.state}
        assert shapes == {name: ["slots", heads, "length", 8] for name in ("keys.0", "values.0", "keys.1", "values.1")}


def test_random_weights_are_the_same_each_time_and_leave_the_generator_alone(workload):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    config = golden(workload, "config")
    one, other = (network_of(workload).random(config) for _ in range(2))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert one.dtype == torch.float32
    assert not one.training


@pytest.fixture
def copied(workload, tmp_path):
    """A folder whose files a test may spoil."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(folder_of(workload) / name, tmp_path)
    return tmp_path


def module_of(workload, folder, **checksums):
    return network_of(workload).build_graphs(folder, EVERYTHING, fingerprint="x", **checksums)[DECODE].module()


def test_a_folder_of_another_architecture_is_refused_at_once(workload, copied):
    (copied / "config.json").write_text('{"model_type": "opt"}')
    with pytest.raises(DataError, match=r"config.json has model_type = opt"):
        network_of(workload).build_graphs(copied, EVERYTHING, fingerprint="x")


def test_a_configuration_without_a_size_is_refused_at_once(workload, copied):
    network = network_of(workload)
    config = golden(workload, "config")
    (copied / "config.json").write_text(json.dumps({**config, network.layers: None}))
    with pytest.raises(DataError, match=rf"config.json has {network.layers} = None, expected a number above 0"):
        network.build_graphs(copied, EVERYTHING, fingerprint="x")


def test_files_with_their_checksums_are_taken(workload, copied):
    sha256 = {name: file_sha256(copied / name) for name in ("config.json", "model.safetensors")}
    assert module_of(workload, copied, sha256=sha256).network is not None


def test_a_file_with_another_checksum_is_refused(workload, copied):
    with pytest.raises(DataError, match=r"model file is corrupt or another version: .*model.safetensors"):
        module_of(workload, copied, sha256={"model.safetensors": "0" * 64})


def test_damaged_weights_are_refused_in_one_line(workload, copied, capfd):
    (copied / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(DataError, match=r"model cannot be read: ") as caught:
        module_of(workload, copied)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_weights_that_lack_a_tensor_are_refused_by_its_name(workload, copied, capfd):
    from safetensors.torch import load_file, save_file

    state = load_file(copied / "model.safetensors")
    del state["lm_head.weight"]
    save_file(state, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"missing keys: lm_head.weight \(1 in all\)"):
        module_of(workload, copied)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["weight_scale", "qweight"])
def test_a_quantised_checkpoint_is_not_read_without_its_scales(workload, copied, name):
    from safetensors.torch import load_file, save_file

    state = load_file(copied / "model.safetensors")
    scaled = f"model.layers.0.self_attn.q_proj.{name}"
    state[scaled] = torch.ones(1)
    save_file(state, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=rf"has unused tensors: {scaled} \(1 in all\)\. It may be quantised"):
        module_of(workload, copied)


def test_constants_that_official_checkpoints_hold_are_passed_over(workload, copied):
    from safetensors.torch import load_file, save_file

    is_gptj = json.loads((copied / "config.json").read_text())["model_type"] == "gptj"
    state = load_file(copied / "model.safetensors")
    state["transformer.h.0.attn.bias" if is_gptj else "model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(state, copied / "model.safetensors", metadata={"format": "pt"})
    module_of(workload, copied)


@pytest.fixture
def onnxruntime_backend(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    from mlbench_onnxruntime.backend import OnnxRuntime
    from mlbench_onnxruntime.options import OnnxRuntimeOptions

    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))  # the small models here share one fingerprint
    return OnnxRuntime().with_options(OnnxRuntimeOptions(threads=1))


# Llama 2 is Mixtral without experts; its ONNX form answers as `generate` does in the tests of the mini profiles
@pytest.mark.thorough("exports")
@pytest.mark.parametrize("workload", ["gptj", "mixtral_8x7b"], indirect=True)
def test_the_onnx_form_says_what_the_module_says_and_int8_is_close(graphs, runner, onnxruntime_backend, workload):
    exact = CompiledRunner(graphs, onnxruntime_backend, Precision.FP32)
    coarse = CompiledRunner(graphs, onnxruntime_backend, Precision.INT8)
    prompts, slots = golden(workload, "prompts"), [3, 0, 5, 1]
    demand_close(exact.prefill(prompts, slots), golden_logits(workload))
    runner.prefill(prompts, slots)
    coarse.prefill(prompts, slots)
    random = np.random.default_rng(1)
    pieces, positions = random.integers(0, VOCABULARY, (2, 5)), [20, 8]
    demand_close(exact.prefill(pieces, [0, 3], positions), runner.prefill(pieces, [0, 3], positions))
    coarse.prefill(pieces, [0, 3], positions)
    means = []
    for step in range(8):
        rows = 1 + step % 4
        tokens, places, span = random.integers(0, VOCABULARY, rows), [25 + step, 9, 3, 13][:rows], 40
        expected = runner.decode(tokens, places, span)
        demand_close(exact.decode(tokens, places, span), expected)
        differences = np.abs(coarse.decode(tokens, places, span) - expected)
        assert 1e-3 < differences.max()
        means.append(differences.mean())
    # log-probabilities spread by 1.4 here; a rounded router that chooses another expert moves a step's by a third;
    # where weights have seven bits, each step of theirs is twice as wide
    assert np.median(means) < (0.2 if saturates() else 0.1)
    assert max(means) < 0.5
