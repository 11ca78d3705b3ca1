import json
from pathlib import Path

import numpy as np
import pytest
from mlbench_mixtral_8x7b.program import answering

from mlbench import Prompt
from mlbench.execution.generation.cache import Choices
from mlbench.execution.generation.greedy import Greedy

EXPECTED = json.loads(
    (Path(__file__).parents[2] / "data" / "mixtral_8x7b" / "stop_sequence" / "expected.json").read_text()
)


@pytest.mark.parametrize("case", EXPECTED["cases"], ids=lambda case: case["name"])
def test_the_end_token_is_forced_where_the_reference_forces_it(case):
    search = Greedy(answering(positions=64).decoding, slots=1)
    prompt = Prompt(tokens=np.array(case["input_ids"]), stop=tuple(EXPECTED["stop_sequence"]))
    likeliest = Choices(tokens=np.array([[99, 98]]), log_probabilities=np.array([[-0.1, -3.0]]), lasted_ns=0)
    search.start([0], [prompt], likeliest)
    assert search.answer(0) == ([EXPECTED["eos_token_id"]] if case["forces_eos_next"] else [99])
