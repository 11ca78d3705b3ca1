"""Makes the mini profile: writes the text, trains the small network, measures it and writes the files of `mini/`.

    python -m mlbench_recipes bert --out mini

One CPU thread, about eight minutes.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench_bert.workload import Bert

from mlbench.toolkit import MiniFolder
from mlbench_recipes.bert import corpus
from mlbench_recipes.reference_scores import write_profile
from mlbench_recipes.training import half_precision, minimise

if TYPE_CHECKING:
    import torch
    from mlbench_bert.graphs import Architecture
    from mlbench_bert.mini_profile import MiniProfile
    from mlbench_bert.squad import Feature, Question, Vocabulary, Windows

SEED = 20240724
STEPS = 3000
BATCH = 32
PEAK_RATE = 1.5e-3
CALIBRATION_COUNT = 100
FILES = ("weights.safetensors", "vocab.txt", "dev.json", "calibration.json", "calibration.txt")


def architecture() -> Architecture:
    """Return the sizes of the mini network."""
    from mlbench_bert.graphs import Architecture

    return Architecture(
        vocabulary=corpus.VOCABULARY_SIZE, hidden=128, layers=3, heads=4, feed_forward=512, positions=192
    )


def windows() -> Windows:
    """Return how the mini profile cuts passages: half as long as officially; one question in five needs two windows."""
    from mlbench_bert.squad import Windows

    return Windows(tokens=192, question_tokens=64, stride=64)


def make_mini_profile(out: Path, *, steps: int = STEPS) -> MiniProfile:
    """Write all files of the mini profile to a folder and return what its `mini.toml` says."""
    from mlbench_bert.mini_profile import MiniProfile

    write_data(out)
    train(out, steps=steps)
    profile = MiniProfile(
        files=MiniFolder.of(out, FILES),
        reference={},
        validation_windows=len(read_windows(out, out / "dev.json")[1]),
        calibration_windows=len(read_windows(out, out / "calibration.json")[1]),
        architecture=architecture(),
        windows=windows(),
    )
    return write_profile(Bert(), profile, ("F1", "exact_match"))


def write_data(folder: Path) -> None:
    """Write vocabulary, validation questions, and calibration questions taken from training text."""
    (folder / "vocab.txt").write_text("\n".join(corpus.vocabulary()) + "\n", encoding="utf-8")
    held_out = corpus.Corpus(SEED + 1, held_out=True)
    validation = held_out.articles(corpus.validation_sizes(SEED + 1, paragraphs=120), title="mini-dev", questions=4)
    _write_json(folder / "dev.json", validation)
    training = corpus.Corpus(SEED + 2, held_out=False)
    calibration = training.articles(corpus.validation_sizes(SEED + 2, paragraphs=40), title="mini-train", questions=4)
    _write_json(folder / "calibration.json", calibration)
    features = read_windows(folder, folder / "calibration.json")[1]
    chosen = random.Random(SEED).sample(range(len(features)), CALIBRATION_COUNT)
    (folder / "calibration.txt").write_text("".join(f"{index}\n" for index in chosen), encoding="utf-8")


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_windows(folder: Path, path: Path) -> tuple[Sequence[Question], Sequence[Feature]]:
    """Read a SQuAD file with the vocabulary beside it."""
    from mlbench_bert.squad import Vocabulary, read_features, read_questions

    vocabulary = Vocabulary.read(folder / "vocab.txt", size=corpus.VOCABULARY_SIZE)
    questions = read_questions(path)
    return questions, read_features(questions, vocabulary, windows())


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A training window, and what the heads should say; a window without the answer points at [CLS]."""

    input_ids: list[int]
    segment_ids: list[int]
    start: int
    end: int
    sentence: slice
    """The tokens of the sentence that holds the answer; none where the answer is in another window."""


def training_examples(folder: Path, vocabulary: Vocabulary) -> list[Example]:
    """Generate the training text and label its windows."""
    training = corpus.Corpus(SEED + 3, held_out=False)
    path = folder / "training.json"
    _write_json(path, training.articles(corpus.training_sizes(SEED + 3), title="train", questions=4))
    questions, features = read_windows(folder, path)
    path.unlink()
    answers = vocabulary.encode([question.answers[0].text for question in questions])
    stop = vocabulary.encode(["."])[0][0]
    return [_example(feature, questions[feature.question], answers[feature.question], stop) for feature in features]


def _example(feature: Feature, question: Question, answer: list[int], stop: int) -> Example:
    ids, segments = (row.tolist() for row in feature.tokens)
    wanted = len(question.paragraph.passage[: question.answers[0].start].split())
    first = feature.first_passage_token
    places = [first + place for place, word in enumerate(feature.words) if word == wanted]
    start, end, sentence = 0, 0, slice(0)
    if places and ids[places[0] : places[0] + len(answer)] == answer:
        start, end = places[0], places[0] + len(answer) - 1
        stops = [place for place in range(first, len(ids) - 1) if ids[place] == stop]
        before, after = [place for place in stops if place < start], [place for place in stops if place >= end]
        sentence = slice(before[-1] + 1 if before else first, after[0] + 1 if after else len(ids) - 1)
    return Example(input_ids=ids, segment_ids=segments, start=start, end=end, sentence=sentence)


def train(folder: Path, *, steps: int) -> None:
    """Train the mini model and write its weights, fp16.

    Two auxiliary heads show the layers what they are for, and are thrown away: after layer 1 "this passage token occurs
    in the question", after layer 2 "this token is in the answer's sentence".
    """
    import torch
    from mlbench_bert.squad import Vocabulary
    from safetensors.torch import save

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    vocabulary = Vocabulary(corpus.vocabulary())
    network, heads = _new_network(), torch.nn.ModuleList(torch.nn.Linear(architecture().hidden, 1) for _ in range(2))
    parameters = [*network.parameters(), *heads.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, PEAK_RATE, total_steps=steps, pct_start=0.1)
    network.train()
    batches = enumerate(_batches(training_examples(folder, vocabulary), steps))
    losses = (_loss(network, heads, batch, auxiliary=max(0.0, 1 - step / (0.7 * steps))) for step, batch in batches)
    minimise(losses, optimiser, schedule, largest_gradient=1.0)
    _make_padding_matter(network, vocabulary)
    (folder / "weights.safetensors").write_bytes(save(half_precision(network.state_dict())))


def _make_padding_matter(network: Any, vocabulary: Vocabulary) -> None:
    """Give [PAD] the embedding of the full stop.

    It is never read while the attention mask is honoured. A backend that ignores the mask sees sentences end all over
    and misses the target; with an embedding of its own it would lose half a point of F1 and pass.
    """
    import torch

    embeddings = network.bert.embeddings.word_embeddings.weight
    pad, stop = vocabulary.tokens.index("[PAD]"), vocabulary.tokens.index(".")
    with torch.no_grad():
        embeddings[pad] = embeddings[stop]


def _new_network() -> Any:
    """Return a network whose attention starts by looking for equal tokens: query and key weights are the same."""
    import torch
    from mlbench_bert.graphs import build_network

    network = build_network(architecture())
    with torch.no_grad():
        for layer in network.bert.encoder.layer:
            query = layer.attention.self.query.weight.normal_(std=0.12)
            layer.attention.self.key.weight.copy_(query)
        embeddings = network.bert.embeddings
        embeddings.word_embeddings.weight.normal_(std=0.05)
        embeddings.token_type_embeddings.weight.normal_(std=0.02)
        embeddings.position_embeddings.weight.copy_(0.05 * _sinusoids(*embeddings.position_embeddings.weight.shape))
    return network


def _sinusoids(positions: int, width: int) -> torch.Tensor:
    import torch

    angles = torch.arange(positions)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(positions, width)


def _batches(examples: Sequence[Example], steps: int) -> Iterator[Sequence[Example]]:
    """Yield batches of like length; in the first fifth of the training only of the shortest 35 % of the examples."""
    chance = random.Random(SEED)
    ordered = sorted(examples, key=lambda example: len(example.input_ids))
    done = 0
    while done < steps:
        pool = ordered[: int(0.35 * len(ordered))] if done < steps // 5 else ordered
        shuffled = chance.sample(pool, len(pool))
        batches = []
        for begin in range(0, len(shuffled) - 20 * BATCH + 1, 20 * BATCH):
            group = sorted(shuffled[begin : begin + 20 * BATCH], key=lambda example: len(example.input_ids))
            batches += [group[first : first + BATCH] for first in range(0, len(group), BATCH)]
        chance.shuffle(batches)
        yield from batches[: steps - done]
        done += len(batches)


def _loss(network: Any, heads: Any, batch: Sequence[Example], *, auxiliary: float) -> torch.Tensor:
    """Return the mean of both span losses, plus the auxiliary losses with this weight."""
    import torch
    from torch.nn import functional

    length = max(len(example.input_ids) for example in batch)
    ids, segments, mask, sentence = (torch.zeros(len(batch), length, dtype=torch.int64) for _ in range(4))
    for row, example in enumerate(batch):
        tokens = len(example.input_ids)
        ids[row, :tokens], segments[row, :tokens] = torch.tensor(example.input_ids), torch.tensor(example.segment_ids)
        mask[row, :tokens] = 1
        sentence[row, example.sentence] = 1
    output = network(input_ids=ids, attention_mask=mask, token_type_ids=segments, output_hidden_states=True)
    starts, ends = (logits.masked_fill(mask == 0, -1e4) for logits in (output.start_logits, output.end_logits))
    start_loss = functional.cross_entropy(starts, torch.tensor([example.start for example in batch]))
    end_loss = functional.cross_entropy(ends, torch.tensor([example.end for example in batch]))
    loss = (start_loss + end_loss) / 2
    if auxiliary:
        in_question = ((ids[:, :, None] == ids[:, None, :]) & ((mask == 1) & (segments == 0))[:, None, :]).any(-1)
        passage = segments == 1
        for head, hidden, label in zip(heads, output.hidden_states[1:3], (in_question, sentence), strict=True):
            loss = loss + auxiliary * functional.binary_cross_entropy_with_logits(
                head(hidden)[:, :, 0][passage], label[passage].float(), pos_weight=torch.tensor(3.0)
            )
    return loss
