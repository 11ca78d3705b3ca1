"""What a user can get wrong with the files of a language model: one line that says what, and exit status 2."""

import collections
import json
import pickle
from pathlib import Path

import pytest
from invoking import invoke

pytestmark = pytest.mark.slow

GPTJ = Path(__file__).parents[1] / "data" / "gptj"


@pytest.fixture
def refused(tmp_path):
    """Run the full profile of a workload with these files, and return the line it is refused with."""

    def refused(workload, **paths):
        settings = [part for name, path in paths.items() for part in ("--set", f"workload.{name}={path}")]
        results = tmp_path / "results"
        common = ["--backend", "null", "--scenario", "Offline", "--profile", "full", "--results", str(results)]
        done = invoke("run", workload, *common, *settings)
        assert done.exit_code == 2, done.output
        assert not list(results.iterdir())
        (line,) = done.stderr.strip().splitlines()
        return line

    return refused


def written(path, rows):
    path.write_text(json.dumps(rows))
    return path


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"output": "Yes."}, "has no column 'tok_input' in row 0"),
        ({"output": "Yes.", "tok_input": []}, "has an empty token list in column 'tok_input', row 0"),
        ({"output": "Yes.", "tok_input": [1, 5]}, "the data has 1 samples, the official data set 24576"),
    ],
)
def test_a_table_with_a_wrong_row_is_refused(refused, tmp_path, row, told):
    assert told in refused("llama2-70b", data=written(tmp_path / "data.json", [row]), weights=tmp_path)


def test_a_prompt_longer_than_the_model_takes_is_refused_by_its_number(refused, tmp_path):
    rows = [{"output": "Yes.", "tok_input": [1, 5]}] * 24575 + [{"output": "Yes.", "tok_input": [1] * 1025}]
    line = refused("llama2-70b", data=written(tmp_path / "data.json", rows), weights=tmp_path)
    assert "the prompt of sample 24575 has 1025 tokens, more than 1024" in line


def test_a_pickle_that_wants_a_class_no_table_has_is_refused_by_its_name(refused, tmp_path):
    path = tmp_path / "data.pkl"
    path.write_bytes(pickle.dumps(collections.Counter("abc")))
    assert "it wants collections.Counter" in refused("llama2-70b", data=path, weights=tmp_path)


def test_a_tokenizer_of_other_weights_is_refused_by_its_size(refused):
    line = refused("gptj", data=GPTJ / "cnn_eval.json", weights=GPTJ)
    assert "has 629 tokens, the model's tokenizer 50257 or 50400 or 50401" in line
    assert "Use the model's own." in line
