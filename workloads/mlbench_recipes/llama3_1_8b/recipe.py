"""Makes the mini profile: writes the articles, trains the small network, measures it and writes the files of `mini/`.

    python -m mlbench_recipes llama3_1_8b --out mini

One CPU thread; it took 21 minutes on two cores that other work shared.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench_llama3_1_8b.graphs import ROPE
from mlbench_llama3_1_8b.mini_profile import DATA, END_TOKENS, START_TOKEN, MiniProfile
from mlbench_llama3_1_8b.prompts import INSTRUCTION, prompt_text, prompt_tokens
from mlbench_llama3_1_8b.workload import Llama31

from mlbench_recipes.corpus_news import article_of_course, full_article
from mlbench_recipes.language_training import (
    Course,
    Example,
    byte_level_bpe,
    small_llama,
    train_and_write,
    write_table,
    write_tokenizer,
)
from mlbench_recipes.reference_scores import write_language_profile

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SEED = 20250801
SCORES = ("ROUGE1", "ROUGE2", "ROUGEL", "ROUGELSUM", "GEN_LEN")
STEPS = 2000
PEAK_RATE = 3e-3
VOCABULARY_SIZE = 1024
VALIDATION_ARTICLES = 66
"""LoadGen asks for each equally often: so few just suffice for the 64 queries of SingleStream and the 459 of Server."""
START, END_OF_TURN = "<|begin_of_text|>", "<|eot_id|>"
SPECIAL_TOKENS = (START, "<|end_of_text|>", "<|eom_id|>", END_OF_TURN)


def make_mini_profile(out: Path, *, steps: int = STEPS) -> MiniProfile:
    """Write all files of the mini profile to a folder and return what its `mini.toml` says."""
    write_data(out)
    train_model(out, steps=steps)
    return write_language_profile(Llama31(), MiniProfile, out, DATA, SCORES)


def write_data(folder: Path) -> None:
    """Write the tokenizer and the validation articles."""
    tokenizer = new_tokenizer()
    write_tokenizer(tokenizer, folder, start=START, end=END_OF_TURN)
    write_table(table(tokenizer), folder / DATA)


def table(tokenizer: Tokenizer) -> Iterator[Mapping[str, Any]]:
    """Yield rows with the entries of the official table, in its order."""
    chance = random.Random(SEED + 1)
    for _ in range(VALIDATION_ARTICLES):
        article = full_article(chance, held_out=True)
        yield {
            "instruction": {"llama": INSTRUCTION},
            "input": article.text,
            "tok_input": prompt_tokens(prompt_text(article.text), tokenizer),
            "output": article.highlights,
        }


def new_tokenizer() -> Tokenizer:
    """Return the tokenizer: special tokens last, the first of which it puts in front by itself, as Llama 3.1's does."""
    from tokenizers.processors import TemplateProcessing

    chance = random.Random(SEED)
    articles = [full_article(chance, held_out=False) for _ in range(1500)]
    texts = [text for article in articles for text in (prompt_text(article.text), article.highlights)]
    tokenizer = byte_level_bpe(texts, size=VOCABULARY_SIZE - len(SPECIAL_TOKENS), splits_digits=True)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = TemplateProcessing(single=f"{START} $A", special_tokens=[(START, START_TOKEN)])
    return tokenizer


def train_model(folder: Path, *, steps: int) -> None:
    """Train the network and write it as a Hugging Face directory, fp16."""
    tokenizer = new_tokenizer()

    def draw(chance: random.Random, share: float) -> Example:
        article = article_of_course(chance, share)
        answer = tokenizer.encode(article.highlights + END_OF_TURN, add_special_tokens=False).ids
        return Example(prompt_tokens(prompt_text(article.text), tokenizer), answer)

    course = Course(steps=steps, seed=SEED, in_bf16=False)
    train_and_write(new_network(), draw, folder, rate=PEAK_RATE, course=course)


def new_network() -> Any:
    """Return the mini network, initialised from the seed."""
    return small_llama(
        SEED,
        vocab_size=VOCABULARY_SIZE,
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        rope_parameters=dict(ROPE),
        bos_token_id=START_TOKEN,
        eos_token_id=list(END_TOKENS),
    )
