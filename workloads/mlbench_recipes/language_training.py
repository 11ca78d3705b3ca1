"""Makes the small language models of mini profiles: tokenizer, batches of like length, training, files."""

from __future__ import annotations

import json
import logging
import math
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

logger = logging.getLogger(__name__)

HUGGING_FACE_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)
"""What `write_model` and `write_tokenizer` write."""

UNKNOWN, BOS, EOS = "<unk>", "<s>", "</s>"
"""The special tokens of `llama_tokenizer`: ids 0, 1 and 2."""

POOL = 512
"""Examples drawn at a time, sorted by length and cut into batches."""

LAST_RATE = 0.02
"""Where the learning rate ends, as a share of its peak."""

REPORTED_STEPS = 50

HELD_OUT_SHARE = 8
"""One text in so many is never trained on."""


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids of a prompt and of its answer, end token included."""

    prompt: Sequence[int]
    answer: Sequence[int]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How long a training is, and what counts in it."""

    steps: int
    seed: int
    warm_up_steps: int = 100
    batch_tokens: int = 2500
    """In a batch at most, padding included."""
    prompt_weight: float = 0.1
    """Weight of a prompt token in the loss; an answer token has weight 1."""
    in_bf16: bool = True
    """Whether products are taken in bf16; a processor without instructions for it is many times as fast in fp32."""
    usual_answer: int | None = None
    """An answer token weighs sqrt(this / tokens of the answer), so that long answers do not outweigh short ones."""


def is_held_out(text: str) -> bool:
    """Return whether a prompt belongs to the validation side; the split is by checksum, so it needs no list."""
    return zlib.crc32(text.encode()) % HELD_OUT_SHARE == 0


def byte_level_bpe(
    texts: Iterable[str], *, size: int, special_tokens: Sequence[str] = (), splits_digits: bool = False
) -> Tokenizer:
    """Return a byte-level BPE tokenizer of so many tokens, the special ones first."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    bytes_and_words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_and_words]) if splits_digits else bytes_and_words
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def llama_tokenizer(texts: Iterable[str], *, size: int, splits_digits: bool = False) -> Tokenizer:
    """Return a tokenizer as Llama's: ids 0 unknown, 1 BOS, which it puts in front by itself, 2 EOS."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = byte_level_bpe(texts, size=size, special_tokens=(UNKNOWN, BOS, EOS), splits_digits=splits_digits)
    tokenizer.post_processor = TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 1)])
    return tokenizer


def small_llama(seed: int, **config: Any) -> Any:
    """Return a network of Llama's kind with two query heads to each of keys, initialised from the seed.

    Args:
        seed: of the weights.
        config: what else its configuration says: vocabulary, positions, special tokens.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            initializer_range=0.08,  # the usual 0.02 suits wider networks
            tie_word_embeddings=False,
            **config,
        )
    )


def optimisers(network: torch.nn.Module, *, rate: float, in_bf16: bool = True) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices inside the layers, which learn to copy far sooner by it, and AdamW for the rest.

    Embeddings, the output and routers of experts are matrices too, but tables of vectors: they are AdamW's.

    Args:
        network: whose weights they move.
        rate: of learning.
        in_bf16: whether Muon computes in bf16; see `Course`.
    """
    import torch

    from mlbench_recipes.fp32_muon import Fp32Muon

    tables = {id(module.weight) for module in network.modules() if isinstance(module, torch.nn.Embedding)}
    inner: list[torch.nn.Parameter] = []
    tables_and_experts: list[torch.nn.Parameter] = []
    vectors: list[torch.nn.Parameter] = []
    for name, weight in network.named_parameters():
        is_table = id(weight) in tables or name.startswith("lm_head") or name.endswith("gate.weight")
        group = vectors if weight.ndim < 2 else tables_and_experts if is_table or weight.ndim > 2 else inner
        group.append(weight)
    groups = [{"params": tables_and_experts, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
    return [
        torch.optim.Muon(inner, lr=rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw")
        if in_bf16
        else Fp32Muon(inner, lr=rate, weight_decay=0.05),
        torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98)),
    ]


def train_and_write(
    network: Any, draw: Callable[[random.Random, float], Example], folder: Path, *, rate: float, course: Course
) -> None:
    """Train a network as `train` does, with `optimisers` of so high a rate, and write it with `write_model`."""
    train(network, draw, optimisers(network, rate=rate, in_bf16=course.in_bf16), course)
    write_model(network, folder)


def train(
    network: Any,
    draw: Callable[[random.Random, float], Example],
    optimisers: Sequence[torch.optim.Optimizer],
    course: Course,
) -> None:
    """Train a causal Hugging Face model in place, on one thread.

    Args:
        network: its auxiliary loss, where it returns one, is added with its own coefficient.
        draw: returns an example, given a source of chance and how much of the course is over, from 0 to 1.
        optimisers: each with its peak learning rate; all warm up and fall along a cosine together.
        course: how long, and what counts.
    """
    import torch

    torch.set_num_threads(1)
    schedules = [torch.optim.lr_scheduler.LambdaLR(optimiser, _rate(course)) for optimiser in optimisers]
    network.train()
    losses: list[float] = []
    for batch in batches(draw, course):
        loss = compute_loss(network, batch, course)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for optimiser, schedule in zip(optimisers, schedules, strict=True):
            optimiser.step()
            optimiser.zero_grad()
            schedule.step()
        losses.append(loss.item())
        if len(losses) % REPORTED_STEPS == 0:
            mean = sum(losses[-REPORTED_STEPS:]) / REPORTED_STEPS
            logger.info("step %d of %d, loss %.3f", len(losses), course.steps, mean)
    network.eval()


def _rate(course: Course) -> Callable[[int], float]:
    """Return the learning rate of a step, as a share of the peak."""

    def rate(step: int) -> float:
        if step < course.warm_up_steps:
            return (step + 1) / course.warm_up_steps
        share = (step - course.warm_up_steps) / max(course.steps - course.warm_up_steps, 1)
        return LAST_RATE + (1 - LAST_RATE) * (1 + math.cos(math.pi * min(share, 1.0))) / 2

    return rate


def batches(draw: Callable[[random.Random, float], Example], course: Course) -> Iterator[list[Example]]:
    """Yield a batch for each step: examples of like length, as many as fit."""
    chance, done = random.Random(course.seed), 0
    while done < course.steps:
        pool = sorted((draw(chance, done / course.steps) for _ in range(POOL)), key=len, reverse=True)
        groups = []
        while pool:
            fitting = max(course.batch_tokens // len(pool[0]), 1)
            groups.append(pool[:fitting])
            del pool[:fitting]
        chance.shuffle(groups)
        yield from groups[: course.steps - done]
        done += len(groups)


def compute_loss(network: Any, batch: Sequence[Example], course: Course) -> torch.Tensor:
    """Return the weighted mean loss of the next token, plus the network's auxiliary loss."""
    import torch
    from torch.nn import functional

    # padding stands behind the text, where a causal model needs no mask
    length = max(map(len, batch))
    ids, weights = torch.zeros(len(batch), length, dtype=torch.int64), torch.zeros(len(batch), length)
    for row, example in enumerate(batch):
        ids[row, : len(example)] = torch.tensor([*example.prompt, *example.answer])
        weights[row, : len(example.prompt)] = course.prompt_weight
        usual = course.usual_answer or len(example.answer)
        weights[row, len(example.prompt) : len(example)] = math.sqrt(usual / len(example.answer))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=course.in_bf16):
        output = network(input_ids=ids, use_cache=False)
    losses = functional.cross_entropy(
        output.logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none"
    )
    loss: torch.Tensor = (losses * weights[:, 1:].flatten()).sum() / weights[:, 1:].sum()
    if (auxiliary := getattr(output, "aux_loss", None)) is not None:
        loss = loss + network.config.router_aux_loss_coef * auxiliary
    return loss


def write_model(network: Any, folder: Path) -> None:
    """Write the network as a Hugging Face folder, its weights as fp16; it stays fp16."""
    if hasattr(network.config, "output_router_logits"):
        network.config.output_router_logits = False  # the balance of experts is for training, and fails in generate
    network.half().save_pretrained(folder)


def write_tokenizer(tokenizer: Tokenizer, folder: Path, *, start: str, end: str) -> None:
    """Write ``tokenizer.json``, and beside it what Hugging Face's libraries need to read it."""
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=start, eos_token=end).save_pretrained(folder)


def write_table(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write a table as a JSON list with a row a line."""
    path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")
