"""What keeping sequences in flight gains: mlbench's engine against Hugging Face's own ways to batch, in one run.

    python benchmarks/generation.py                     # the lengths of the mini Llama's answers
    python benchmarks/generation.py --lengths drawn     # 4 to 128 tokens, evenly
    python benchmarks/generation.py --compile           # mlbench's networks compiled ahead of time

All ways share the network, its weights, the threads and the number of sequences at a time, and give the same tokens,
which is checked. ``generate`` gets batches of prompts as they come, and again sorted by length; ``generate_batch`` is
transformers' continuous batching. Rounds alternate, and the median of the rounds' ratios is reported. On a machine that
others use, ``--clock cpu`` counts this process's processor time instead of what passed.

Then prompts arrive at random, at a share of what static batching can do, and the time to the first token is compared:
static batching answers those that wait when the last batch is over.
"""

from __future__ import annotations

import dataclasses
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np
import torch
from mini_replies import mini_variant
from rich.console import Console
from rich.table import Table

from mlbench import Decoding, Engine, EnginePlan, Graph, Model, Prompt, Reply, Samples
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of
from mlbench.toolkit import StoredSamples
from mlbench.toolkit.language import CacheShape, TokenProgram, language_graphs

Clock = Callable[[], float]
CLOCKS: Mapping[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}

OURS = "mlbench, in flight"

DRAWN_PROMPTS = 384
SHORTEST, LONGEST = 4, 128
"""Tokens of the drawn answers."""


@dataclass(frozen=True)
class Case:
    """A network, prompts, and mlbench's view of both."""

    network: Any
    prompts: Sequence[Prompt]
    model: Model
    slots: int
    """Sequences at a time."""

    @property
    def decoding(self) -> Decoding:
        """How the answers are made."""
        decoding: Decoding = self.model.program.decoding  # type: ignore[union-attr]
        return decoding


def mini_case(slots: int) -> Case:
    """Return the mini profile of Llama 2."""
    from mlbench_llama2_70b.graphs import NETWORK

    workload = Plugins.discover().workload("llama2-70b")
    variant = mini_variant(workload)
    dataset, model = workload.dataset(variant), workload.model(variant)
    assert model.files
    dataset.load(range(dataset.count))
    prompts = [dataset.sample(index) for index in range(dataset.count)]
    return Case(NETWORK.trained(model.files), prompts, model, slots)


def drawn_case(slots: int) -> Case:
    """Return a network of the mini Llama's size that counts down, and prompts that end with where it starts."""
    network = countdown_network()
    random = np.random.default_rng(1)
    prompts = []
    for length in random.integers(SHORTEST, LONGEST, DRAWN_PROMPTS, endpoint=True):
        words = random.integers(200, 700, random.integers(10, 100))
        prompts.append(Prompt(tokens=np.append(words, length)))
    config = network.config
    decoding = Decoding(end_tokens=(0,), max_new_tokens=LONGEST, longest=config.max_position_embeddings)
    cache = CacheShape(
        layers=config.num_hidden_layers,
        heads=config.num_key_value_heads,
        head_size=config.hidden_size // config.num_attention_heads,
    )
    graphs: Mapping[str, Graph] = language_graphs(
        lambda precision: countdown_network(), cache, decoding=decoding, fingerprint="countdown seed 0"
    )
    program = TokenProgram(decoding)
    model = Model(name="countdown", graphs=graphs, program=program, weights_fingerprint="none")
    return Case(network, prompts, model, slots)


def countdown_network() -> Any:
    """Return a Llama that says n - 1 after n: each token's likeliest successor is the one whose row it nearly is."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=768,
                hidden_size=128,
                intermediate_size=384,
                num_hidden_layers=3,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=512,
                bos_token_id=1,
                eos_token_id=0,
                pad_token_id=0,
            )
        ).eval()
        rows = torch.nn.functional.normalize(torch.randn(768, 128), dim=1) * 10
    with torch.no_grad():
        network.model.embed_tokens.weight.copy_(rows)
        network.lm_head.weight.copy_(rows.roll(-1, 0))
        for layer in network.model.layers:  # they work, but are hardly heard
            layer.self_attn.o_proj.weight.mul_(0.05)
            layer.mlp.down_proj.weight.mul_(0.05)
    return network


@dataclass
class Heard(Reply):
    """Keeps answers and when first tokens came, by sample id."""

    count: int
    answers: dict[int, list[int]] = field(default_factory=dict)
    firsts_s: dict[int, float] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)

    def complete(self, samples: Samples, outputs: Any, token_counts: Sequence[int] | None = None) -> None:
        """Keep answers."""
        self.answers.update(zip(samples.ids, (output.tolist() for output in outputs), strict=True))
        if len(self.answers) == self.count:
            self.done.set()

    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Keep the time."""
        self.firsts_s.update(dict.fromkeys(samples.ids, time.perf_counter()))

    def fail(self, samples: Samples, reason: str) -> None:
        """End the benchmark."""
        raise RuntimeError(reason)

    def invalidate(self, reason: str) -> None:
        """End the benchmark."""
        raise RuntimeError(reason)


def in_flight(engine: Engine, prompts: Sequence[Prompt]) -> list[list[int]]:
    """Answer all prompts, given at once."""
    reply, everything = Heard(len(prompts)), list(range(len(prompts)))
    engine.submit(Samples(everything, everything, StoredSamples(prompts, "listed")), reply)
    engine.flush()
    reply.done.wait()
    return [reply.answers[index] for index in everything]


def generated(
    case: Case, prompts: Sequence[Prompt], at_first_token: Callable[[], None] | None = None
) -> list[list[int]]:
    """Answer one batch by ``generate``; padding on the left, as the official reference has it."""
    decoding, end = case.decoding, case.decoding.end_tokens[0]
    length = max(len(prompt.tokens) for prompt in prompts)
    ids, mask = np.full((len(prompts), length), end), np.zeros((len(prompts), length), np.int64)
    for row, prompt in enumerate(prompts):
        ids[row, length - len(prompt.tokens) :] = prompt.tokens
        mask[row, length - len(prompt.tokens) :] = 1

    def tell(*_: Any, **__: Any) -> torch.Tensor:
        nonlocal at_first_token
        if at_first_token:
            at_first_token()
            at_first_token = None
        return torch.zeros(len(prompts), dtype=torch.bool)

    with torch.inference_mode():
        output = case.network.generate(
            input_ids=torch.from_numpy(ids),
            attention_mask=torch.from_numpy(mask),
            do_sample=False,
            min_new_tokens=decoding.min_new_tokens,
            max_new_tokens=decoding.max_new_tokens,
            pad_token_id=end,
            eos_token_id=end,
            stopping_criteria=[tell] if at_first_token else [],
        )
    rows = output[:, length:].tolist()
    return [row[: row.index(end) + 1] if end in row else row for row in rows]


def static(case: Case, prompts: Sequence[Prompt]) -> list[list[int]]:
    """Answer all prompts by ``generate``, as many at a time as there are slots."""
    parts = (prompts[start : start + case.slots] for start in range(0, len(prompts), case.slots))
    return [answer for part in parts for answer in generated(case, part)]


def sorted_static(case: Case, prompts: Sequence[Prompt]) -> list[list[int]]:
    """Answer them sorted by length, so that less is padding."""
    order = sorted(range(len(prompts)), key=lambda index: -len(prompts[index].tokens))
    found = dict(zip(order, static(case, [prompts[index] for index in order]), strict=True))
    return [found[index] for index in range(len(prompts))]


def continuous(case: Case, prompts: Sequence[Prompt]) -> list[list[int]]:
    """Answer all prompts by transformers' continuous batching."""
    from transformers import ContinuousBatchingConfig, GenerationConfig

    end = case.decoding.end_tokens[0]
    settings = GenerationConfig(
        do_sample=False, max_new_tokens=case.decoding.max_new_tokens, eos_token_id=end, pad_token_id=end
    )
    # left alone, it takes nearly all of the memory for its cache; a block holds 256 tokens
    blocks = case.slots * -(-case.decoding.longest // 256)
    batching = ContinuousBatchingConfig(max_requests_per_batch=case.slots, num_blocks=blocks, max_batch_tokens=512)
    found = case.network.generate_batch(
        [prompt.tokens.tolist() for prompt in prompts], generation_config=settings, continuous_batching_config=batching
    )
    in_order = sorted(found.items(), key=lambda item: int(item[0].rpartition("_")[2]))
    return [output.generated_tokens for _, output in in_order]


def timed(clock: Clock, run: Callable[[], list[list[int]]]) -> tuple[float, list[list[int]]]:
    """Return tokens per second, and the answers."""
    started = clock()
    answers = run()
    return sum(map(len, answers)) / (clock() - started), answers


def compared(case: Case, engine: Engine, rounds: int, clock: Clock) -> dict[str, list[float]]:
    """Return tokens per second of each way, a number per round."""
    prompts = case.prompts
    ways: dict[str, Callable[[], list[list[int]]]] = {
        OURS: lambda: in_flight(engine, prompts),
        "generate, static": lambda: static(case, prompts),
        "generate, static, sorted": lambda: sorted_static(case, prompts),
        "generate_batch": lambda: continuous(case, prompts),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        answers: dict[str, list[list[int]]] = {}
        for name, run in ways.items():
            rate, answers[name] = timed(clock, run)
            found[name].append(rate)
        expected = answers["generate, static"]
        for name, each in answers.items():
            differing = [
                index for index, answer in enumerate(each) if answer[: len(expected[index])] != expected[index]
            ]
            assert not differing, f"{name} answers {len(differing)} prompts otherwise, the first is {differing[0]}"
    return found


def first_token_times(case: Case, engine: Engine, load: float, count: int) -> tuple[float, list[float], list[float]]:
    """Return the rate of arrivals, and the times to the first token, sorted: in flight, then static."""
    prompts = [case.prompts[index % len(case.prompts)] for index in range(count)]
    started_s = time.perf_counter()
    static(case, prompts[: 4 * case.slots])
    rate_per_s = load * 4 * case.slots / (time.perf_counter() - started_s)
    arrivals_s = np.cumsum(np.random.default_rng(2).exponential(1 / rate_per_s, count)).tolist()
    reply, dataset = Heard(count), StoredSamples(prompts, "listed")
    began_s = time.perf_counter()
    for index, arrival_s in enumerate(arrivals_s):
        time.sleep(max(0.0, began_s + arrival_s - time.perf_counter()))
        engine.submit(Samples([index], [index], dataset), reply)
    reply.done.wait()
    flown = sorted(reply.firsts_s[index] - began_s - arrival_s for index, arrival_s in enumerate(arrivals_s))
    return rate_per_s, flown, sorted(static_first_tokens(case, prompts, arrivals_s))


def static_first_tokens(case: Case, prompts: Sequence[Prompt], arrivals_s: Sequence[float]) -> list[float]:
    """Return times to the first token where a batch of all that wait starts when the last one is over."""
    found: list[float] = []
    began_s, answered = time.perf_counter(), 0
    while answered < len(prompts):
        time.sleep(max(0.0, began_s + arrivals_s[answered] - time.perf_counter()))
        now_s = time.perf_counter() - began_s
        waiting = [at_s for at_s in arrivals_s[answered : answered + case.slots] if at_s <= now_s]
        batch = prompts[answered : answered + len(waiting)]
        first_s: list[float] = []
        generated(case, batch, lambda first_s=first_s: first_s.append(time.perf_counter() - began_s))  # type: ignore[misc]
        found += [first_s[0] - at_s for at_s in waiting]
        answered += len(waiting)
    return found


def print_rates(console: Console, title: str, clock: str, found: Mapping[str, Sequence[float]]) -> None:
    """Print tokens per second, and how many times mlbench's that is."""
    table = Table(title=title)
    table.add_column("way")
    table.add_column(f"tokens/s ({clock})", justify="right")
    table.add_column("mlbench / this one", justify="right")
    ours = found[OURS]
    for name, rates in found.items():
        ratio = statistics.median(our / its for our, its in zip(ours, rates, strict=True))
        table.add_row(name, f"{statistics.median(rates):,.0f}", f"{ratio:.2f}")
    console.print(table)


def print_first_tokens(console: Console, title: str, found: Mapping[str, Sequence[float]]) -> None:
    """Print percentiles of times in seconds, which are sorted."""
    table = Table(title=title)
    table.add_column("way")
    for heading in ("median", "p99", "mlbench / this one, p99"):
        table.add_column(heading, justify="right")
    last = {name: times[int(0.99 * len(times))] for name, times in found.items()}
    for name, times in found.items():
        row = (f"{1e3 * statistics.median(times):,.0f} ms", f"{1e3 * last[name]:,.0f} ms")
        table.add_row(name, *row, f"{last[OURS] / last[name]:.2f}")
    console.print(table)


@click.command()
@click.option("--lengths", type=click.Choice(["mini", "drawn"]), default="mini", show_default=True)
@click.option("--backend", "backend_name", default="pytorch", show_default=True, help="Of mlbench.")
@click.option("--compile", "is_compiled", is_flag=True, help="mlbench's networks, with --backend pytorch.")
@click.option("--slots", default=16, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--clock", type=click.Choice(list(CLOCKS)), default="wall", show_default=True)
@click.option("--load", default=0.7, show_default=True, help="Share of static batching's rate at which prompts arrive.")
@click.option("--arrivals", default=300, show_default=True, help="Prompts that arrive; 0: leave this part out.")
def main(  # noqa: PLR0913, PLR0917 - one per option
    lengths: str,
    backend_name: str,
    is_compiled: bool,
    slots: int,
    rounds: int,
    threads: int,
    clock: str,
    load: float,
    arrivals: int,
) -> None:
    """Print rates, their ratios, and the times to the first token."""
    torch.set_num_threads(threads)
    case = mini_case(slots) if lengths == "mini" else drawn_case(slots)
    backend = Plugins.discover().backend(backend_name)
    options = {"device": "cpu", "compile": is_compiled} if backend_name == "pytorch" else {}
    backend = backend.with_options(dataclasses.replace(backend.options, threads=threads, **options))
    console, everything = Console(width=120), list(range(len(case.prompts)))
    with engine_of(backend, case.model, EnginePlan(batching="in_flight", batch=slots)) as engine:
        engine.warm_up(Samples(everything[:64], everything[:64], StoredSamples(case.prompts, "listed")))
        in_flight(engine, case.prompts[: 2 * slots])
        found = compared(case, engine, rounds, CLOCKS[clock])
        how = f"{backend_name}, compiled" if is_compiled else backend_name
        title = f"{lengths} lengths, {slots} sequences, {how}, fp32, {threads} thread(s), {rounds} rounds"
        print_rates(console, title, clock, found)
        if arrivals:
            rate_per_s, *times = first_token_times(case, engine, load, arrivals)
            title = f"time to the first token, {arrivals} prompts at {rate_per_s:.1f}/s"
            print_first_tokens(console, title, dict(zip((OURS, "generate, static"), times, strict=True)))


if __name__ == "__main__":
    main()
