"""What the recipes of the language workloads have in common."""

from importlib import import_module

import pytest


@pytest.mark.thorough("recipes", but=["llama2_70b"])
@pytest.mark.parametrize("workload", ["gptj", "llama2_70b", "llama3_1_8b", "mixtral_8x7b"])
def test_the_shipped_text_and_tokenizer_are_what_the_recipe_writes(workload, tmp_path):
    recipe, mini = (
        import_module(f"mlbench_recipes.{workload}.recipe"),
        import_module(f"mlbench_{workload}.mini_profile"),
    )
    recipe.write_data(tmp_path)
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {mini.DATA, "tokenizer.json", "tokenizer_config.json"}
    for name in names:
        assert (tmp_path / name).read_bytes() == (mini.MiniProfile.shipped().folder / name).read_bytes(), name
