"""Traces in the forms of others, arrival patterns, and the prompts that are generated for them."""

import numpy as np
import pytest
from mlbench_endpoint.loads.arrivals import parse_arrivals
from mlbench_endpoint.loads.prompt_lengths import inline_histogram, parse_lengths
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.prompts import open_prompts
from mlbench_endpoint.loads.trace_file import read_trace
from mlbench_endpoint.text_format import text_to_send

from mlbench import DataError, UsageError

MOONCAKE = """\
{"timestamp": 1000, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 48]}
{"timestamp": 1500, "input_length": 1030, "output_length": 1, "hash_ids": [46, 47, 49]}
"""
AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,4808,10
2023-11-16 18:15:50.9951690,3180,8
"""
AZURE_OF_2024 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01+00:00,2399,6
"""
BURSTGPT = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,"Conversation, failed"
"""
OWN = """\
{"at_s": 0.25, "prompt": "why?", "tokens_out": 5}

{"at_s": 0, "tokens_in": 7, "tokens_out": 9}
"""


def read(tmp_path, content, speed=1.0):
    file = tmp_path / "trace"
    file.write_text(content)
    return [(each.at_ns / 1e9, each.tokens_in, each.tokens_out) for each in read_trace(file, speed)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (MOONCAKE, [(0, 1100, 52), (0.5, 1030, 2)]),
        (AZURE, [(0, 4808, 10), (4.314579, 3180, 8)]),
        (AZURE_OF_2024, [(0, 2162, 5), (0.99007, 2399, 6)]),
        (BURSTGPT, [(0, 472, 18), (40, 1087, 2)]),
        (OWN, [(0, 7, 9), (0.25, 0, 5)]),
    ],
    ids=["Mooncake", "Azure 2023", "Azure 2024", "BurstGPT", "own"],
)
def test_each_form_of_a_trace_is_known_by_its_content(tmp_path, content, expected):
    for found, wanted in zip(read(tmp_path, content), expected, strict=True):
        assert found == pytest.approx(wanted, abs=1e-6)
    for found, wanted in zip(read(tmp_path, content, speed=2.0), expected, strict=True):
        assert found[0] == pytest.approx(wanted[0] / 2, abs=1e-6)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "trace has no request"),
        ("hello\n", "begins with 'hello'"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "trace has 0 requests"),
        (AZURE + "2023-11-16 18:15:51,x,8\n", "line 4: 'x' is not a number"),
        (AZURE + "yesterday,1,8\n", "line 4: 'yesterday' is not a date and time"),
        (AZURE + "2023-11-16 18:15:51,1\n", "line 4: '2023-11-16 18:15:51,1' has too few columns"),
        (BURSTGPT + "1e400,a,1,1,1,a\n", "line 4: '1e400' is not a time"),
        (BURSTGPT + "1,a,1.5,1,1,a\n", "line 4: the prompt is 1.5, not a number of tokens"),
        (BURSTGPT + "1,a,nan,1,1,a\n", "line 4: the prompt is nan, not a number of tokens"),
        (BURSTGPT + "999999999,a,1,1,1,a\n", "more than a day"),
        (MOONCAKE + '{"timestamp": 1}\n', "line 3: input_length is None"),
        (MOONCAKE + '{"timestamp": "1", "input_length": 1, "output_length": 1}\n', "line 3: '1' is not a time"),
        (MOONCAKE + '{"timestamp": 1, "input_length": true, "output_length": 1}\n', "line 3: input_length is True"),
        (MOONCAKE + '{"timestamp": 1, "input_length": 99999999999, "output_length": 1}\n', "is 99999999999, not"),
        (
            MOONCAKE + '{"timestamp": 1, "input_length": 9, "output_length": 1, "hash_ids": [1, 2]}\n',
            "2 hash_ids are more",
        ),
        (
            MOONCAKE + '{"timestamp": 1, "input_length": 9, "output_length": 1, "hash_ids": ["a"]}\n',
            "line 3: hash_ids is",
        ),
        (MOONCAKE + "[1\n", "line 3: '[1' is not a JSON object"),
        (MOONCAKE + "[" * 100_000 + "\n", "line 3: "),
        ('{"at_s": 1, "tokens_out": 2}', "line 1: tokens_in is None"),
        ('{"at_s": 1, "prompt": 7, "tokens_out": 2}', "line 1: prompt is '7', not a text"),
        ('{"at_s": 1e3, "tokens_in": 9000000, "tokens_out": 2}\n' * 40, "have 360,000,000 tokens"),
    ],
)
def test_what_is_no_trace_is_one_line_with_the_number_of_the_line(tmp_path, content, reason):
    with pytest.raises(DataError) as caught:
        read(tmp_path, content)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 900


def test_a_speed_at_which_a_trace_never_ends_is_one_line(tmp_path):
    with pytest.raises(DataError, match="lasts inf s at speed 1e-309, more than a day"):
        read(tmp_path, BURSTGPT + "99,a,1,1,1,a\n", 1e-309)


def blocks_of(text, length=512):
    words = text.split()
    return [words[start : start + length] for start in range(0, len(words), length)]


def test_equal_hash_ids_are_equal_text_and_others_other_text(tmp_path):
    """1,100 and 1,030 tokens of one word each: two blocks are the same, the third differs."""
    (tmp_path / "trace").write_text(MOONCAKE)
    prompts = open_prompts(PromptOptions(trace=str(tmp_path / "trace")))
    one, two = (blocks_of(text_to_send(prompts.sample(index))) for index in range(2))
    assert [list(map(len, blocks)) for blocks in (one, two)] == [[512, 512, 76], [512, 512, 6]]
    assert one[:2] == two[:2]
    assert one[2][:4] != two[2][:4]


def test_prompts_of_a_trace_have_its_lengths_by_the_servers_count(tmp_path):
    """At 1.5 tokens a word and 12 for the template, 4,808 tokens are 3,197 words."""
    (tmp_path / "trace").write_text(AZURE)
    prompts = open_prompts(PromptOptions(trace=str(tmp_path / "trace"), tokens_per_word=1.5, template_tokens=12))
    assert len(text_to_send(prompts.sample(0)).split()) == 3197


def test_a_faster_trace_is_other_data(tmp_path):
    (tmp_path / "trace").write_text(AZURE)
    options = [PromptOptions(trace=str(tmp_path / "trace"), speed=speed) for speed in (1.0, 1.0, 2.0)]
    one, again, fast = (open_prompts(each).fingerprint for each in options)
    assert one == again != fast


def times(text, rate_per_s, seconds):
    return parse_arrivals(text, rate_per_s).draw(np.random.default_rng(0), seconds)


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0])
def test_gamma_arrivals_have_the_rate_and_the_coefficient_of_variation_of_the_shape(shape):
    found = times(f"gamma:{shape}", 50.0, 2000.0)
    gaps = np.diff(found)
    assert len(found) == 100_000
    assert gaps.mean() == pytest.approx(0.02, rel=0.01)
    assert gaps.std() / gaps.mean() == pytest.approx(1 / np.sqrt(shape), rel=0.02)


def test_constant_arrivals_are_equally_far_apart():
    assert times("constant", 4.0, 2.0) == pytest.approx([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75])


@pytest.mark.parametrize(("first", "last"), [(1, 20), (20, 0), (5, 5)])
def test_a_ramp_has_as_many_arrivals_in_each_part_as_the_area_under_its_line(first, last):
    found = times(f"ramp:{first}:{last}", 0.0, 1000.0)
    middle = (first + last) / 2
    assert len(found) == 1000 * middle
    assert (found < 500).sum() == pytest.approx(500 * (first + middle) / 2, rel=0.03)
    assert (np.diff(found) >= 0).all()
    assert found.max() <= 1000


@pytest.mark.parametrize(
    "text", ["gamma", "gamma:0", "gamma:x", "gamma:nan", "ramp:1", "ramp:0:0", "ramp:-1:2", "burst", ""]
)
def test_what_is_no_arrival_is_refused_with_the_forms(text):
    with pytest.raises(UsageError, match=r"gamma:0\.5"):
        parse_arrivals(text, 1.0)


def test_a_schedule_has_a_prompt_for_each_arrival_from_the_first_again_after_the_last():
    prompts = open_prompts(PromptOptions(arrival="constant", rate_per_s=2.0, seconds=5.0, count=3, tokens_in="20"))
    samples = [prompts.sample(index) for index in range(prompts.count)]
    assert [sample.due_ns / 1e9 for sample in samples] == pytest.approx([number / 2 for number in range(10)])
    assert samples[0].text == samples[3].text != samples[1].text


def test_lengths_of_a_histogram_have_its_shares(tmp_path):
    found = parse_lengths("hist:128=5,1024=3,4096=2,9=0", "x").draw(np.random.default_rng(0), 100_000)
    lengths, counts = np.unique(found, return_counts=True)
    assert dict(zip(lengths.tolist(), (counts / 1000).round(), strict=True)) == pytest.approx(
        {128: 50, 1024: 30, 4096: 20}, abs=1
    )
    (tmp_path / "shares.csv").write_text("# length,share\n128,0.5\n1024 0.3\n\n4096=0.2\n")
    assert inline_histogram(f"hist:{tmp_path}/shares.csv", "x") == "hist:128=0.5,1024=0.3,4096=0.2"
    assert inline_histogram("uniform:1:2", "x") == "uniform:1:2"


@pytest.mark.parametrize(
    "text",
    [
        "hist:",
        "hist:1",
        "hist:0=1",
        "hist:1=nan",
        "hist:1=-1",
        "hist:1=0",
        "hist:1=inf",
        "hist:a=1",
        "hist:1=1e308,2=1e308",
    ],
)
def test_what_is_no_histogram_is_refused(text):
    with pytest.raises(UsageError, match="hist:128"):
        parse_lengths(text, "x")


def test_a_wrong_line_of_a_histogram_is_named(tmp_path):
    (tmp_path / "shares.csv").write_text("128,0.5\n1024,many\n")
    with pytest.raises(UsageError, match=r"shares\.csv, line 2, is '1024=many'"):
        inline_histogram(f"hist:{tmp_path}/shares.csv", "x")
