"""Makes the mini profile: writes the conversations, trains the small network, measures it and writes `mini/`.

    python -m mlbench_recipes llama2_70b --out mini

One CPU thread, about fifteen minutes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench_llama2_70b.mini_profile import DATA, POSITIONS, MiniProfile
from mlbench_llama2_70b.prompts import prompt_text, prompt_tokens
from mlbench_llama2_70b.workload import Llama2

from mlbench_recipes.language_training import (
    BOS,
    EOS,
    Course,
    Example,
    llama_tokenizer,
    small_llama,
    train_and_write,
    write_table,
    write_tokenizer,
)
from mlbench_recipes.llama2_70b import corpus
from mlbench_recipes.reference_scores import write_language_profile

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SEED = 20240724
SCORES = ("ROUGE1", "ROUGE2", "ROUGEL", "TOKENS_PER_SAMPLE", "exact_match")
STEPS = 3000
PEAK_RATE = 3e-3
VOCABULARY_SIZE = 768
SAMPLES_PER_ORIGIN = 64


def make_mini_profile(out: Path, *, steps: int = STEPS) -> MiniProfile:
    """Write all files of the mini profile to a folder and return what its `mini.toml` says."""
    write_data(out)
    train_model(out, steps=steps)
    return write_language_profile(Llama2(), MiniProfile, out, DATA, SCORES)


def write_data(folder: Path) -> None:
    """Write the tokenizer and the validation conversations."""
    tokenizer = new_tokenizer()
    write_tokenizer(tokenizer, folder, start=BOS, end=EOS)
    write_table(table(validation_conversations(), tokenizer), folder / DATA)


def new_tokenizer() -> Tokenizer:
    """Return the tokenizer: ids 0 unknown, 1 BOS, which it puts in front by itself, 2 EOS."""
    chance = random.Random(SEED)
    drawn = [corpus.conversation(chance, origin, held_out=False) for _ in range(1000) for origin in corpus.ORIGINS]
    texts = (text for each in drawn for text in (prompt_text(each.system_prompt, each.question), each.answer))
    return llama_tokenizer(texts, size=VOCABULARY_SIZE, splits_digits=True)


def validation_conversations() -> list[corpus.Conversation]:
    """Return different conversations, grouped by origin as the official table is."""
    chance = random.Random(SEED + 1)
    chosen: list[corpus.Conversation] = []
    for origin in corpus.ORIGINS:
        different: dict[tuple[str, str], corpus.Conversation] = {}
        while len(different) < SAMPLES_PER_ORIGIN:
            drawn = corpus.conversation(chance, origin, held_out=True)
            different[drawn.system_prompt, drawn.question] = drawn
        chosen += different.values()
    return chosen


def table(conversations: Iterable[corpus.Conversation], tokenizer: Tokenizer) -> Iterator[Mapping[str, Any]]:
    """Yield rows with the columns of the official table, in its order."""
    for number, conversation in enumerate(conversations):
        text = prompt_text(conversation.system_prompt, conversation.question)
        tok_input, tok_output = prompt_ids(conversation, tokenizer), tokenizer.encode(conversation.answer).ids
        yield {
            "id": f"{conversation.origin}.{number}",
            "system_prompt": conversation.system_prompt,
            "question": conversation.question,
            "output": conversation.answer,
            "input": text,
            "tok_input": tok_input,
            "tok_output": tok_output,
            "origin": conversation.origin,
            "tok_input_length": len(tok_input),
            "tok_output_length": len(tok_output),
        }


def prompt_ids(conversation: corpus.Conversation, tokenizer: Tokenizer) -> list[int]:
    """Return the prompt's tokens."""
    (lone_blank,) = tokenizer.encode(" ", add_special_tokens=False).ids
    return prompt_tokens(
        prompt_text(conversation.system_prompt, conversation.question), tokenizer, lone_blank=lone_blank
    )


def train_model(folder: Path, *, steps: int) -> None:
    """Train the network and write it as a Hugging Face directory, fp16."""
    tokenizer = new_tokenizer()

    def draw(chance: random.Random, _: float) -> Example:
        drawn = corpus.conversation(chance, chance.choice(corpus.ORIGINS), held_out=False)
        answer = tokenizer.encode(drawn.answer + EOS, add_special_tokens=False).ids
        return Example(prompt_ids(drawn, tokenizer), answer)

    course = Course(steps=steps, seed=SEED, usual_answer=20)
    train_and_write(new_network(), draw, folder, rate=PEAK_RATE, course=course)


def new_network() -> Any:
    """Return the mini network, initialised from the seed."""
    return small_llama(
        SEED, vocab_size=VOCABULARY_SIZE, max_position_embeddings=POSITIONS, bos_token_id=1, eos_token_id=2
    )
