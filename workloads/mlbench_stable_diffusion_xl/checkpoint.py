"""A folder as diffusers writes it: a configuration and weights for each part, two tokenizers, the scheduler.

Only safetensors files are read: they hold tensors, and nothing that runs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench import DataError
from mlbench.toolkit import file_sha256, first_line, fit_state, load_weights, read_json_object
from mlbench.toolkit.language import listed_weights

if TYPE_CHECKING:
    import numpy as np
    import torch
    from transformers import CLIPTokenizer

    from mlbench_stable_diffusion_xl.schedule import Schedule

PIPELINE = "StableDiffusionXLPipeline"
TEXT_ENCODERS = ("text_encoder", "text_encoder_2")
TOKENIZERS = ("tokenizer", "tokenizer_2")
MODELS = (*TEXT_ENCODERS, "unet", "vae")

MLCOMMONS_FOLDER = "checkpoint_pipe"
"""Where the folder lies in MLCommons' archive."""

_MOST_POSITIONS = 100_000
EXTRAS = r".*\.embeddings\.position_ids"
"""Unused tensors in checkpoints of older versions: numbered positions."""

_FILES = ("model", "diffusion_pytorch_model")
_ENDINGS = (".safetensors", ".fp16.safetensors")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that `opened` has looked at."""

    path: Path

    @classmethod
    def opened(cls, path: Path) -> Checkpoint:
        """Return the folder, or the one inside it that MLCommons' archive has.

        Raises:
            DataError: it is missing, no Stable Diffusion XL, or lacks a part.
        """
        path = inner if (inner := path / MLCOMMONS_FOLDER).is_dir() else path
        checkpoint = cls(path)
        found = checkpoint._json("model_index.json").get("_class_name")
        if found != PIPELINE:
            raise DataError(
                f"{path} contains a {found}, not a {PIPELINE}.", hint="Expected the base model, without refiner."
            )
        for part in (*MODELS, *TOKENIZERS, "scheduler"):
            if not (path / part).is_dir():
                raise DataError(f"{path} has no folder {part}.", hint="Fetch the model again.")
        return checkpoint

    def config(self, part: str) -> Mapping[str, Any]:
        """Return the configuration of a model.

        Raises:
            DataError: it is missing or no JSON object.
        """
        return self._json(f"{part}/config.json")

    def check(self, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise `DataError` where a model's configuration has another value than wanted."""
        for part, values in wanted.items():
            config = self.config(part)
            for key, value in values.items():
                if key in config and config[key] != value:
                    raise DataError(f"{self.path / part} has {key} = {config[key]}, expected {value}.")

    def schedule(self, steps: int) -> Schedule:
        """Return the noise levels of a number of steps.

        Raises:
            DataError: the scheduler's configuration is missing or damaged, or it is another than Euler's.
        """
        from mlbench_stable_diffusion_xl.schedule import euler_schedule

        config = self._json("scheduler/scheduler_config.json")
        if config.get("_class_name") != "EulerDiscreteScheduler":
            raise DataError(
                f"{self.path} has the scheduler {config.get('_class_name')}, expected EulerDiscreteScheduler."
            )
        try:
            return euler_schedule(config, steps)
        except Exception as error:  # diffusers raises anything for odd values
            raise DataError(f"{self.path} has a scheduler that cannot be made: {first_line(error)}.") from None

    def token_ids(self, texts: Sequence[str]) -> np.ndarray:
        """Return the tokens of texts for both encoders, filled up and cut off: (len(texts), 2, positions) int64.

        Raises:
            DataError: a tokenizer is missing or damaged.
        """
        import numpy as np

        rows = []
        for name, encoder in zip(TOKENIZERS, TEXT_ENCODERS, strict=True):
            config, tokenizer = self.config(encoder), _tokenizer(self.path / name)
            size, positions = config.get("vocab_size"), config.get("max_position_embeddings")
            if len(tokenizer) != size:
                raise DataError(f"{self.path / name} has {len(tokenizer)} tokens, {encoder} {size}.")
            if type(positions) is not int or not 1 <= positions <= _MOST_POSITIONS:
                raise DataError(f"{self.path / encoder} has max_position_embeddings = {positions}.")
            encoded = tokenizer(list(texts), padding="max_length", truncation=True, max_length=positions)
            rows.append(np.array(encoded["input_ids"], dtype=np.int64))
        return np.stack(rows, axis=1)

    def module(self, part: str) -> torch.nn.Module:
        """Return a model with its weights, fp32, of diffusers' or transformers' class.

        Raises:
            DataError: the weights are missing, damaged, or of another model.
        """
        import torch

        from mlbench_stable_diffusion_xl.architecture import build_part

        state: dict[str, torch.Tensor] = {}
        for file in self.weight_files(part):
            state.update(load_weights(file))
        try:
            with torch.device("meta"):
                module = build_part(part, self.config(part))
        except Exception as error:  # the libraries raise anything for odd values
            raise DataError(f"{self.path / part} describes no model: {first_line(error)}.") from None
        fitting = fit_state(state, module.state_dict(), origin=self.path / part, extras=EXTRAS)
        module.load_state_dict(fitting, assign=True)
        _restore_positions(module)
        return module

    def weight_files(self, part: str) -> list[Path]:
        """Return the safetensors files of a model: one, or those that an index lists.

        Raises:
            DataError: there is none, or the index is damaged or lists a file that is missing.
        """
        folder = self.path / part
        for name in (f"{stem}{ending}" for ending in _ENDINGS for stem in _FILES):
            if (folder / name).is_file():
                return [folder / name]
            if (folder / f"{name}.index.json").is_file():
                files = [folder / each for each in listed_weights(folder / f"{name}.index.json")]
                if missing := [file for file in files if not os.path.isfile(file)]:
                    raise DataError(f"weights file not found: {missing[0]}, which the index lists.")
                return files
        raise DataError(f"{folder} contains no safetensors weights.", hint="Fetch them, or save the model again.")

    def fingerprint(self, part: str) -> str:
        """Return a hash of a model: its configuration and its weights, which takes seconds for the official ones.

        What is made of the weights is kept in the cache under this, so their numbers have to count.

        Raises:
            DataError: as `weight_files`.
        """
        digest = hashlib.sha256(json.dumps(self.config(part), sort_keys=True).encode())
        for file in self.weight_files(part):
            digest.update(file_sha256(file).encode())
        return digest.hexdigest()

    def _json(self, name: str) -> Mapping[str, Any]:
        return read_json_object(self.path / name, what="diffusers model", hint="Expected the folder of the pipeline.")


@cache
def _tokenizer(folder: Path) -> CLIPTokenizer:
    from transformers import CLIPTokenizer

    try:
        return CLIPTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the reader raises anything for a damaged file
        raise DataError(f"{folder} is not a tokenizer: {first_line(error)}.") from None


def _restore_positions(module: torch.nn.Module) -> None:
    """Fill the buffers that are not weights, which building without memory left empty: numbered positions."""
    import torch

    for part in module.modules():
        for name, buffer in part.named_buffers(recurse=False):
            if buffer.is_meta:
                assert name == "position_ids", name
                setattr(part, name, torch.arange(buffer.shape[-1]).expand(buffer.shape))
