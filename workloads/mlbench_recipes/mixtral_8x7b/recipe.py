"""Makes the mini profile: writes the samples, trains the small network, measures it and writes the files of `mini/`.

    python -m mlbench_recipes mixtral_8x7b --out mini

One CPU thread, about fifteen minutes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench_mixtral_8x7b.mini_profile import DATA, POSITIONS, MiniProfile
from mlbench_mixtral_8x7b.workload import Mixtral

from mlbench_recipes.language_training import (
    BOS,
    EOS,
    Course,
    Example,
    is_held_out,
    llama_tokenizer,
    train_and_write,
    write_table,
    write_tokenizer,
)
from mlbench_recipes.mixtral_8x7b import corpus_code, corpus_maths, corpus_text
from mlbench_recipes.reference_scores import write_language_profile

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SEED = 20240606
SCORES = ("ROUGE1", "ROUGE2", "ROUGEL", "gsm8k_accuracy", "mbxp_accuracy", "TOKENS_PER_SAMPLE")
STEPS = 2000
PEAK_RATE = 2.5e-3
VOCABULARY_SIZE = 768
SAMPLES_PER_KIND = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A prompt, what the model is taught to answer, and what its answer is scored against."""

    id: str
    question: str
    answer: str
    truth: str
    stop_sequence: str = EOS

    @property
    def prompt(self) -> str:
        """What the model reads, as text."""
        return f"{BOS} [INST] {self.question} [/INST]"


def text_sample(chance: random.Random, *, held_out: bool) -> Sample:
    """Return an OpenOrca-like sample."""
    while True:
        question, answer = corpus_text.exchange(chance)
        if is_held_out(question) == held_out:
            return Sample(id="flan.{number}", question=question, answer=answer, truth=answer)


def maths_sample(chance: random.Random, *, held_out: bool) -> Sample:
    """Return a GSM8K-like sample."""
    while True:
        question, answer, number = corpus_maths.exchange(chance)
        if is_held_out(question) == held_out:
            return Sample(id="train.{number}", question=question, answer=answer, truth=str(number))


def code_sample(chance: random.Random, *, held_out: bool) -> Sample:
    """Return an MBXP-like sample, in Python."""
    problem = corpus_code.problem(chance, held_out=held_out)
    return Sample(
        id=f"python_{problem.entry_point}",
        question=problem.question,
        answer=problem.answer,
        truth=problem.tests,
        stop_sequence=corpus_code.STOP,
    )


KINDS: Mapping[str, Callable[..., Sample]] = {"OpenOrca": text_sample, "GSM8K": maths_sample, "MBXP": code_sample}
TRAINING_SHARES = (1.0, 1.2, 1.2)
"""How often a kind is trained on, in the order of `KINDS`."""


def make_mini_profile(out: Path, *, steps: int = STEPS) -> MiniProfile:
    """Write all files of the mini profile to a folder and return what its `mini.toml` says."""
    write_data(out)
    train_model(out, steps=steps)
    return write_language_profile(Mixtral(), MiniProfile, out, DATA, SCORES)


def write_data(folder: Path) -> None:
    """Write the tokenizer and the validation samples."""
    tokenizer = new_tokenizer()
    write_tokenizer(tokenizer, folder, start=BOS, end=EOS)
    write_table(table(tokenizer), folder / DATA)


def new_tokenizer() -> Tokenizer:
    """Return the tokenizer: ids 0 unknown, 1 BOS, which it puts in front by itself, 2 EOS."""
    chance = random.Random(SEED)
    drawn = [sample(chance, held_out=False) for _ in range(1000) for sample in KINDS.values()]
    texts = [text for sample in drawn for text in (sample.prompt, sample.answer)]
    return llama_tokenizer(texts, size=VOCABULARY_SIZE)


def table(tokenizer: Tokenizer) -> list[Mapping[str, Any]]:
    """Return different samples in mixed order, with the columns of the official table."""
    chance, rows = random.Random(SEED + 1), []
    for dataset, draw in KINDS.items():
        different: dict[str, Sample] = {}
        while len(different) < SAMPLES_PER_KIND:
            sample = draw(chance, held_out=True)
            different[sample.question] = sample
        rows += [_row(dataset, number, sample, tokenizer) for number, sample in enumerate(different.values())]
    chance.shuffle(rows)
    return rows


def _row(dataset: str, number: int, sample: Sample, tokenizer: Tokenizer) -> Mapping[str, Any]:
    tok_input, tok_answer = tokenizer.encode(sample.prompt).ids, tokenizer.encode(sample.answer).ids
    return {
        "dataset": dataset,
        "id": sample.id.format(number=number),
        "question": sample.question,
        "input": sample.prompt,
        "ref_output": sample.answer,
        "gt_output": sample.truth,
        "tok_input": tok_input,
        "tok_ref_output": tok_answer,
        "stop_sequence": sample.stop_sequence,
        "tok_stop_sequence": tokenizer.encode(sample.stop_sequence, add_special_tokens=False).ids,
        "tok_input_len": len(tok_input),
        "tok_ref_output_len": len(tok_answer),
    }


def train_model(folder: Path, *, steps: int) -> None:
    """Train the network and write it as a Hugging Face directory, fp16."""
    tokenizer = new_tokenizer()

    def draw(chance: random.Random, _: float) -> Example:
        (kind,) = chance.choices(list(KINDS.values()), TRAINING_SHARES)
        sample = kind(chance, held_out=False)
        answer = tokenizer.encode(sample.answer + EOS, add_special_tokens=False).ids
        return Example(tokenizer.encode(sample.prompt).ids, answer)

    course = Course(steps=steps, seed=SEED, usual_answer=20)
    train_and_write(new_network(), draw, folder, rate=PEAK_RATE, course=course)


def new_network() -> Any:
    """Return the mini network, initialised from the seed."""
    import torch
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(SEED)
    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=VOCABULARY_SIZE,
            hidden_size=128,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            num_local_experts=8,
            num_experts_per_tok=2,
            max_position_embeddings=POSITIONS,
            sliding_window=None,
            initializer_range=0.08,  # the usual 0.02 suits wider networks
            router_aux_loss_coef=0.02,
            output_router_logits=True,
            bos_token_id=1,
            eos_token_id=2,
            tie_word_embeddings=False,
        )
    )
