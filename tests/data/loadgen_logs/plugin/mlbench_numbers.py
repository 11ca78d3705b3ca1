"""The nine workloads of v4.1 with numbers for samples: their rules, counts and targets, and no data, model or work.

A sample is its index, and its right answer is 0 or 1. A model that answers 0, as the null backend does, is right for
the share of the samples that is the reference score.
"""

import hashlib
import math
import struct
import zlib

import numpy as np

from mlbench import (
    BatchProgram,
    Dataset,
    Decoding,
    GenerationProgram,
    InvalidRunError,
    Metric,
    Model,
    Profile,
    Prompt,
    ReplySpec,
    UsageError,
    Workload,
    hookimpl,
)
from mlbench.rules.official import official_rules

CHARACTERS_PER_TOKEN = 3
"""What GPT-J's GEN_LEN counts is a text's characters."""
IMAGES = (4655, 2569, 1303, 109, 4509, 3009, 2179, 1826, 2094, 3340)
"""The samples of which a submission of Stable Diffusion XL has the images."""
COUNTED = ("GEN_LEN", "TOKENS_PER_SAMPLE")
"""Scores that are counts of tokens, not shares of right answers."""
END = 2

ROUGE = (
    "{{'rouge1': {ROUGE1:.4f}, 'rouge2': {ROUGE2:.4f}, 'rougeL': {ROUGEL:.4f}, 'rougeLsum': {ROUGEL:.4f}, "
    "'gen_len': {GEN_LEN:.0f}, 'gen_num': {total}, 'tokens_per_sample': {TOKENS_PER_SAMPLE:.1f}{others}}}"
)
LINES = {
    "resnet50": "accuracy={acc:.3f}%, good={good:.0f}, total={total}",
    "retinanet": "mAP={mAP:.3f}%",
    "bert": '{{"exact_match": {F1:.5f}, "f1": {F1:.5f}}}',
    "dlrm-v2": "AUC={AUC:.3f}%, accuracy={AUC:.3f}%, good={good:.0f}, total={total}",
    "3d-unet": "Accuracy: mean = {DICE:.5f}, kidney = {DICE:.5f}, tumor = {DICE:.5f}",
    "gptj": ROUGE.replace("{others}", ""),
    "llama2-70b": ROUGE.replace("{others}", ""),
    "mixtral-8x7b": ROUGE.replace("{others}", ", 'gsm8k': {gsm8k_accuracy:.2f}, 'mbxp': {mbxp_accuracy:.2f}"),
    "stable-diffusion-xl": "Accuracy Results: {{'FID_SCORE': {FID_SCORE:.4f}, 'CLIP_SCORE': {CLIP_SCORE:.4f}}}",
}
"""The last lines of the official scripts."""
DECODING = {
    "gptj": Decoding(end_tokens=(END,), min_new_tokens=30, max_new_tokens=128, beams=4, longest=2048),
    "llama2-70b": Decoding(end_tokens=(END,), max_new_tokens=1024, longest=4096),
    "mixtral-8x7b": Decoding(end_tokens=(END,), max_new_tokens=1024, longest=4096),
}


class Numbers(Workload):
    """One of the nine."""

    is_default = False

    def __init__(self, name):
        self.name = self.rules = name
        self.title = f"{name} with numbers for samples"

    def dataset(self, variant):
        if variant.profile is not Profile.FULL:
            raise UsageError(f"{self.name} has no mini profile here.")
        return Indices(official_rules(self.name))

    def model(self, variant):
        program = Answer(DECODING[self.name]) if self.name in DECODING else Label()
        return Model(name=self.name, graphs={}, program=program, weights_fingerprint="none")

    def metric(self, variant, dataset):
        return Shares(self.name, dataset.count)


class Indices(Dataset):
    """As many numbers as the official data set has samples."""

    def __init__(self, rules):
        self.count, self.performance_count = rules.samples, rules.performance_sample_count

    @property
    def fingerprint(self):
        return hashlib.sha256(f"numbers below {self.count}".encode()).hexdigest()

    def load(self, indices):
        pass

    def unload(self, indices):
        pass

    def sample(self, index):
        return index


class Label(BatchProgram):
    reply = ReplySpec(dtype="uint8", shape=(1,))

    def run(self, samples, graphs):
        raise NotImplementedError("only the null backend, which calls no program, answers these")


class Answer(GenerationProgram):
    reply = ReplySpec(dtype="uint8", shape=(None,))

    def __init__(self, decoding):
        self.decoding = decoding

    def prompt(self, sample):
        return Prompt(tokens=np.arange(1, 6 + sample % 32))

    def answer(self, tokens):
        return np.array(tokens, np.uint8)


class Shares(Metric):
    """Scores each answer's first element, and counts tokens."""

    def __init__(self, name, count):
        self.targets = official_rules(name).targets
        self._line, self._count = LINES[name], count
        self._name, self._has_images = name, name == "stable-diffusion-xl"
        references = {each.score: each.reference for each in self.targets if each.score not in COUNTED}
        self._whole = {score: 1.0 if score == "DICE" else 100.0 for score in references}
        self._zeros = {score: math.ceil(count * value / self._whole[score]) for score, value in references.items()}

    def score(self, replies):
        first = {}
        for reply in replies:
            if not reply.data:
                raise InvalidRunError(f"the reply to sample {reply.index} is empty.")
            first.setdefault(reply.index, reply.data)
        if not first:
            raise InvalidRunError("the accuracy log has no replies.")
        right = {score: sum(self.is_right(score, *each) for each in first.items()) for score in self._zeros}
        tokens = sum(map(len, first.values()))
        scores = {score: self._whole[score] * count / len(first) for score, count in right.items()}
        scores |= {"GEN_LEN": CHARACTERS_PER_TOKEN * tokens, "TOKENS_PER_SAMPLE": tokens / len(first)}
        return scores | {"good": next(iter(right.values())), "total": len(first)}

    def is_right(self, score, index, data):
        """Return whether a score counts an answer: 0 is right for as many samples as its reference, spread over all."""
        place = (index * 2654435761 + list(self._zeros).index(score) * 40503) % self._count
        return data[0] == int(place >= self._zeros[score])

    def line(self, scores):
        return self._line.format(**scores)

    def write_artifacts(self, replies, folder):
        if not self._has_images:
            return
        wanted = {reply.index: reply.data for reply in replies if reply.index in IMAGES}
        images = folder / "images"
        images.mkdir()
        for index, data in wanted.items():
            (images / f"{index}.png").write_bytes(png_of(data[0]))
        (images / "captions.txt").write_text("".join(f"{index}  the number {index}\n" for index in IMAGES))


def png_of(level):
    """Return a picture of one grey pixel."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(bytes((0, level)))), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


@hookimpl
def mlbench_workloads():
    return [Numbers(name) for name in LINES]
