"""The transforms: each makes a folder once, in a separate process, and keeps it in the cache."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Gt, Le

from mlbench import GenerationProgram, NoOptions, Transform, UnavailableError, UsageError
from mlbench.toolkit import build_once, find_versions, printable

if TYPE_CHECKING:
    from mlbench import Calibration, Model

logger = logging.getLogger(__name__)

LIBRARY = "llmcompressor"
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
_LOGGED_LINES = 40

Texts = Annotated[int, Ge(1), Le(4096)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """How weights in 4 bits are grouped, and what they are calibrated on."""

    group: Annotated[int, Ge(0), Le(4096)] = 0
    """Weights of a row that share a scale; 0: the most of 128, 64 and 32 that divides the rows of all layers."""
    texts: Texts = 128
    """Texts to calibrate on, which the model writes itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothQuantOptions:
    """How far outliers move from activations to weights, and what shows them."""

    strength: Annotated[float, Gt(0), Le(1)] = 0.8
    """Share of the outliers that weights take over."""
    texts: Texts = 128
    """Texts to calibrate on, which the model writes itself."""


class QuantizedFolder(Transform):
    """A method of llm-compressor; its name here is the transform's."""

    writes_files = True
    checked_on = "llama2-70b"
    form: ClassVar[str]
    """Number formats of weights and activations, in words."""

    def apply(self, model: Model, calibration: Calibration) -> Model:
        """Return the model of a folder in the cache, which is made here first where it is missing.

        Raises:
            UsageError: it is no language model, has no files, or its weights are quantised already.
            UnavailableError: llm-compressor is not installed, or fails.
        """
        from mlbench.toolkit.language import read_scheme  # `mlbench list` has no need of it

        folder = self._folder(model)
        return replace(
            model,
            graphs={},
            files=folder,
            stores=read_scheme(folder),
            why_no_graphs=f"Transform {self.name} wrote a folder for engines that load one: choose --backend vllm.",
            changes=(*model.changes, f"{self.form}{_groups(folder)}{self._calibrated()}, by {self.name}"),
        )

    def _folder(self, model: Model) -> Path:
        """Return the folder in the cache; raises as `apply`."""
        if not isinstance(model.program, GenerationProgram):
            raise UsageError(f"{self.name} takes language models, and {model.name} is none.", hint="Leave it out.")
        source = model.files
        if source is None:
            raise UsageError(f"{self.name} reads a model's files, and {model.name} has none.", hint="Use its weights.")
        if model.stores:
            reason = f"{self.name} takes plain weights, and those of {model.name} are in {model.stores}."
            raise UsageError(reason, hint="Leave it out, or use the weights that these were made of.")
        versions = find_versions(LIBRARY, "compressed-tensors")
        if LIBRARY not in versions:
            raise UnavailableError(
                f"{self.name} needs {LIBRARY}, which is not installed.",
                hint="pip install 'llmcompressor>=0.14', after vLLM: see plugins/mlbench_llm_compressor/README.md.",
            )
        made_from = {"weights": model.weights_fingerprint, "by": self.text, "versions": versions}
        return build_once("quantised", made_from, lambda folder: self._make(source, folder))

    def _make(self, source: Path, folder: Path) -> None:
        """Fill a folder in a process of its own: the libraries change what they find, and keep memory."""
        asked = json.dumps({"method": self.name, **asdict(self.options)})
        command = [sys.executable, "-P", "-m", "mlbench_llm_compressor.making", str(source), str(folder), asked]
        logger.info("making %s: minutes for a large model", self.text)
        env = {**os.environ, **ENVIRONMENT}
        done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it says nothing"]
            logger.warning("%s failed:\n%s", self.text, "\n".join(lines[-_LOGGED_LINES:]))
            raise UnavailableError(f"transform {self.text} failed: {printable(lines[-1])[:300]}")

    def _calibrated(self) -> str:
        texts = getattr(self.options, "texts", 0)
        return f", calibrated on {texts} texts that the model wrote" if texts else ", without data"


class Gptq(QuantizedFolder):
    """Rounds weights one after the other, and lets those that follow make up for the error.

    Source: Frantar et al., GPTQ, 2022.
    """

    name = "gptq"
    title = "quantises a language model's weights to 4 bits by GPTQ (W4A16), for vllm"
    options = GroupOptions()
    form = "weights of linear layers in int4"


class Awq(QuantizedFolder):
    """Scales the channels that matter to activations before weights are rounded.

    Source: Lin et al., AWQ, 2023.
    """

    name = "awq"
    title = "quantises a language model's weights to 4 bits by AWQ (W4A16), for vllm"
    options = GroupOptions()
    form = "weights of linear layers in int4 with zero points"


class SmoothQuant(QuantizedFolder):
    """Moves outliers of activations to the weights, and rounds both to 8 bits.

    Source: Xiao et al., SmoothQuant, 2022.
    """

    name = "smoothquant"
    title = "quantises a language model's linear layers to int8, weights and activations (W8A8), for vllm"
    options = SmoothQuantOptions()
    form = "weights and activations of linear layers in int8"


class Fp8(QuantizedFolder):
    """Rounds weights and activations to E4M3; the scales of activations are found as they come."""

    name = "fp8"
    title = "quantises a language model's linear layers to FP8 (E4M3), weights and activations, without data, for vllm"
    options = NoOptions()
    is_closed = True  # quantisation after training, without data
    form = "weights and activations of linear layers in fp8"


def _groups(folder: Path) -> str:
    """Return how the weights of a folder share scales, as its description says it."""
    described = json.loads((folder / "config.json").read_bytes())["quantization_config"]["config_groups"]["group_0"]
    weights = described["weights"]
    return f", a scale for {weights['group_size']} weights" if weights["group_size"] else ", a scale for each row"
