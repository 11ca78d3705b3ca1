"""What the recipes of the three language workloads have in common."""

from importlib import import_module

import pytest


@pytest.mark.parametrize("package", ["mlbench_gptj", "mlbench_llama2_70b", "mlbench_mixtral_8x7b"])
def test_the_shipped_text_and_tokenizer_are_what_the_recipe_writes(package, tmp_path):
    recipe, mini = import_module(f"{package}.recipe"), import_module(f"{package}.mini_profile")
    recipe.write_data(tmp_path)
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {mini.DATA, "tokenizer.json", "tokenizer_config.json"}
    for name in names:
        assert (tmp_path / name).read_bytes() == (mini.load_mini_profile().folder / name).read_bytes(), name
