"""Traces, files of prompts and sessions, and histograms for a load on a server."""

import json

import pytest
from mlbench_endpoint.loads.prompt_lengths import inline_histogram
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.prompts import open_prompts

MOONCAKE = {"timestamp": 5, "input_length": 700, "output_length": 9, "hash_ids": [1, 2]}
OWN = {"at_s": 0.5, "prompt": "why?", "tokens_out": 9}
MESSAGES = {"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "uno"}], "max_tokens": 4}
SHAREGPT = [{"id": "a", "conversations": [{"from": "human", "value": "one"}, {"from": "gpt", "value": "uno"}]}]
AZURE = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,48,10\n2023-11-16 18:15:47,3,8\n"
BURSTGPT = b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,log\n"


def read_trace(file):
    prompts = open_prompts(PromptOptions(trace=str(file)))
    prompts.sample(prompts.count - 1)


def read_prompts(file):
    open_prompts(PromptOptions(file=str(file)))


@pytest.mark.parametrize("entry", [MOONCAKE, OWN], ids=["Mooncake", "own"])
def test_traces_of_json_lines(fuzz, entry):
    fuzz.json(read_trace, entry, "trace.jsonl")
    fuzz.bytes(read_trace, b"\n".join(2 * [json.dumps(entry).encode()]), "trace.jsonl")


@pytest.mark.parametrize("content", [AZURE, BURSTGPT], ids=["Azure", "BurstGPT"])
def test_traces_of_cells(fuzz, content):
    fuzz.bytes(read_trace, content, "trace.csv")


def test_sessions(fuzz):
    fuzz.json(read_prompts, MESSAGES, "sessions.jsonl")
    fuzz.json(read_prompts, SHAREGPT, "sessions.json")
    fuzz.bytes(read_prompts, json.dumps(SHAREGPT).encode(), "sessions.json")


def test_histograms(fuzz):
    fuzz.bytes(lambda file: inline_histogram(f"hist:{file}", "--tokens-in"), b"128,0.5\n1024=0.3\n", "shares.csv")
