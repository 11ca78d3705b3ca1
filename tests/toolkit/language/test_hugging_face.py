import json
import math

import pytest
import torch
from safetensors.torch import save_file

from mlbench import DataError
from mlbench.toolkit.language import LanguageNetwork, check_config, weight_files, weights_fingerprint
from mlbench.toolkit.language.hugging_face import check_memory


@pytest.fixture
def folder(tmp_path):
    """A model of two tensors."""
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 8, "rope_parameters": {"rope_theta": 1e6}}))
    save_file({"a": torch.zeros(2), "b": torch.zeros(3)}, tmp_path / "model.safetensors")
    return tmp_path


@pytest.fixture
def sharded(folder):
    """The same in two files."""
    (folder / "model.safetensors").unlink()
    for number, (name, size) in enumerate([("a", 2), ("b", 3)], 1):
        save_file({name: torch.zeros(size)}, folder / f"model-{number}.safetensors")
    index = {"weight_map": {"b": "model-2.safetensors", "a": "model-1.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def claim(path, shape, dtype="BF16", value_bytes=2):
    """Write a file of weights that are all zero, as large as it says and almost without a block on the disk."""
    size = math.prod(shape) * value_bytes
    header = json.dumps({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)


class TestMemory:
    def test_a_model_that_has_no_room_as_fp32_is_refused_before_it_is_read(self, folder):
        claim(folder / "model.safetensors", [70_000, 1_000_000])
        said = r"contains 70\.0 billion weights, which are 261 GiB as float32, and 64 GiB of memory are free"
        with pytest.raises(DataError, match=said):
            check_memory(folder, 64 * 2**30)

    def test_all_files_count_whatever_they_are_stored_in(self, sharded):
        check_memory(sharded, 5 * 4)
        with pytest.raises(DataError, match="0 GiB of memory are free"):
            check_memory(sharded, 5 * 4 - 1)

    def test_the_network_is_not_built_where_it_has_no_room(self, folder):
        claim(folder / "model.safetensors", [1000, 1_000_000_000])
        with pytest.raises(DataError, match=r"contains 1,000\.0 billion weights"):
            LanguageNetwork(kind="LlamaForCausalLM", model_type="llama").trained(folder)

    @pytest.mark.parametrize("header", [b"{", b"[]", b'{"w": {}}', b'{"w": {"shape": "x"}}'])
    def test_a_damaged_header_is_named(self, folder, header):
        (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
        with pytest.raises(DataError, match=r"model cannot be read: .*model\.safetensors: its header is damaged"):
            check_memory(folder, 2**40)


class TestConfig:
    def test_the_wanted_numbers_pass(self, folder):
        check_config(folder, {"hidden_size": (8, 16), "rope_theta": (1e6,)})

    def test_scaled_angles_are_the_same_in_the_older_form_of_two_entries(self, folder):
        scaling = {"rope_type": "llama3", "factor": 8.0}
        wanted = {"rope_parameters": ({"rope_theta": 5e5, **scaling},)}
        for form in ({"rope_parameters": {"rope_theta": 5e5, **scaling}}, {"rope_theta": 5e5, "rope_scaling": scaling}):
            (folder / "config.json").write_text(json.dumps(form))
            check_config(folder, wanted)
        (folder / "config.json").write_text(json.dumps({"rope_theta": 5e5, "rope_scaling": None}))
        with pytest.raises(DataError, match=r"has rope_parameters = .*, expected .*llama3"):
            check_config(folder, wanted)

    @pytest.mark.parametrize(
        ("wanted", "complaint"),
        [
            ({"hidden_size": (16,)}, "has hidden_size = 8, expected 16"),
            ({"num_layers": (2, 3)}, "has num_layers = None, expected 2 or 3"),
            ({"rope_theta": (1e4,)}, "has rope_theta = 1000000.0, expected 10000.0"),
        ],
    )
    def test_another_architecture_is_named(self, folder, wanted, complaint):
        with pytest.raises(DataError, match=complaint):
            check_config(folder, wanted)

    @pytest.mark.parametrize(("content", "complaint"), [("{", "is not JSON"), ("[]", "is not a JSON object")])
    def test_a_damaged_description_is_refused(self, folder, content, complaint):
        (folder / "config.json").write_text(content)
        with pytest.raises(DataError, match=complaint):
            check_config(folder, {})

    def test_a_missing_description_is_named(self, tmp_path):
        with pytest.raises(DataError, match=r"model description cannot be read: .*config\.json: No such file"):
            check_config(tmp_path, {})


class TestWeights:
    def test_there_is_one_file_or_those_of_the_index(self, folder):
        assert [path.name for path in weight_files(folder)] == ["model.safetensors"]

    def test_the_index_lists_the_files(self, sharded):
        assert [path.name for path in weight_files(sharded)] == ["model-1.safetensors", "model-2.safetensors"]

    def test_weights_of_another_format_are_refused_with_the_way_to_convert_them(self, folder):
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        with pytest.raises(DataError, match=r"contains no model\.safetensors .* Save it again as safetensors"):
            weight_files(folder)

    def test_a_missing_part_is_named(self, sharded):
        (sharded / "model-2.safetensors").unlink()
        with pytest.raises(DataError, match=r"weights file not found: .*model-2\.safetensors"):
            weight_files(sharded)

    @pytest.mark.parametrize("content", ["{", "[]", "{}", '{"weight_map": 3}'])
    def test_a_damaged_index_is_refused(self, sharded, content):
        (sharded / "model.safetensors.index.json").write_text(content)
        with pytest.raises(DataError, match="is not an index of weights"):
            weight_files(sharded)


class TestFingerprint:
    def test_it_stays_while_the_model_does(self, folder):
        assert weights_fingerprint(folder) == weights_fingerprint(folder)
        assert len(weights_fingerprint(folder)) == 64

    def test_another_description_is_another_model(self, folder):
        before = weights_fingerprint(folder)
        (folder / "config.json").write_text("{}")
        assert weights_fingerprint(folder) != before

    def test_other_tensors_are_another_model(self, sharded):
        before = weights_fingerprint(sharded)
        save_file({"c": torch.zeros(3)}, sharded / "model-2.safetensors")
        assert weights_fingerprint(sharded) != before

    def test_other_numbers_in_the_same_tensors_are_another_model(self, folder):
        before = weights_fingerprint(folder)
        save_file({"a": torch.zeros(2), "b": torch.ones(3)}, folder / "model.safetensors")
        assert weights_fingerprint(folder) != before
        save_file({"a": torch.zeros(2), "b": torch.zeros(3)}, folder / "model.safetensors")
        assert weights_fingerprint(folder) == before

    def test_numbers_all_over_a_large_file_are_looked_at(self, folder):
        tensor = torch.zeros(8 << 20)  # 32 MiB: half a megabyte from piece to piece
        save_file({"a": tensor}, folder / "model.safetensors")
        before = weights_fingerprint(folder)
        tensor[6_000_000:6_200_000] = 1
        save_file({"a": tensor}, folder / "model.safetensors")
        assert weights_fingerprint(folder) != before
