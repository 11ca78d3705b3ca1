"""Makes the mini profile: writes the articles, trains the small network, measures it and writes the files of `mini/`.

    python -m mlbench_recipes gptj --out mini

One CPU thread, about fifteen minutes.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench_gptj.mini_profile import DATA, END_TOKEN, POSITIONS, MiniProfile
from mlbench_gptj.prompts import INSTRUCTION, prompt_text, prompt_tokens
from mlbench_gptj.workload import GptJ

from mlbench_recipes.corpus_news import article_of_course, full_article
from mlbench_recipes.language_training import (
    Course,
    Example,
    byte_level_bpe,
    train_and_write,
    write_tokenizer,
)
from mlbench_recipes.reference_scores import write_language_profile

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SEED = 20240724
SCORES = ("ROUGE1", "ROUGE2", "ROUGEL", "GEN_LEN")
STEPS = 1600
PEAK_RATE = 2.5e-3
VOCABULARY_SIZE = 1024
VALIDATION_ARTICLES = 66
"""LoadGen asks for each equally often: so few just suffice for the 64 queries of SingleStream and the 459 of Server."""
END_OF_TEXT = "<|endoftext|>"


def make_mini_profile(out: Path, *, steps: int = STEPS) -> MiniProfile:
    """Write all files of the mini profile to a folder and return what its `mini.toml` says."""
    write_data(out)
    train_model(out, steps=steps)
    return write_language_profile(GptJ(), MiniProfile, out, DATA, SCORES)


def write_data(folder: Path) -> None:
    """Write the tokenizer and the validation articles."""
    write_tokenizer(new_tokenizer(), folder, start=END_OF_TEXT, end=END_OF_TEXT)
    chance = random.Random(SEED + 1)
    articles = [full_article(chance, held_out=True) for _ in range(VALIDATION_ARTICLES)]
    rows = [{"instruction": INSTRUCTION, "input": article.text, "output": article.highlights} for article in articles]
    content = json.dumps(rows, indent=4, ensure_ascii=False)
    (folder / DATA).write_text(content + "\n", encoding="utf-8")


def new_tokenizer() -> Tokenizer:
    """Return the tokenizer; its one special token, which starts, ends and pads, comes last, as in GPT-J's."""
    chance = random.Random(SEED)
    articles = [full_article(chance, held_out=False) for _ in range(1500)]
    texts = [text for article in articles for text in (prompt_text(INSTRUCTION, article.text), article.highlights)]
    tokenizer = byte_level_bpe(texts, size=VOCABULARY_SIZE - 1, splits_digits=True)
    tokenizer.add_special_tokens([END_OF_TEXT])
    return tokenizer


def train_model(folder: Path, *, steps: int) -> None:
    """Train the network and write it as a Hugging Face directory, fp16."""
    tokenizer = new_tokenizer()

    def draw(chance: random.Random, share: float) -> Example:
        article = article_of_course(chance, share)
        answer = tokenizer.encode(article.highlights + END_OF_TEXT).ids
        return Example(prompt_tokens(prompt_text(INSTRUCTION, article.text), tokenizer), answer)

    train_and_write(new_network(), draw, folder, rate=PEAK_RATE, course=Course(steps=steps, seed=SEED))


def new_network() -> Any:
    """Return the mini network, initialised from the seed."""
    import torch
    from transformers import GPTJConfig, GPTJForCausalLM

    torch.manual_seed(SEED)
    return GPTJForCausalLM(
        GPTJConfig(
            vocab_size=VOCABULARY_SIZE,
            n_embd=128,
            n_layer=3,
            n_head=4,
            rotary_dim=16,
            n_positions=POSITIONS,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            initializer_range=0.08,  # the usual 0.02 suits wider networks
            bos_token_id=END_TOKEN,
            eos_token_id=END_TOKEN,
            tie_word_embeddings=False,
        )
    )
