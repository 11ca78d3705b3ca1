import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from mlbench_recipes.stable_diffusion_xl import recipe
from mlbench_stable_diffusion_xl.digits import all_captions
from mlbench_stable_diffusion_xl.mini_profile import CLIP_FILES, MiniProfile
from mlbench_stable_diffusion_xl.program import TextToImage

from mlbench import DataError, LoggedReply, Precision, Weights
from mlbench.rules.official import official_rules
from mlbench.rules.scoring import score

PROFILE = MiniProfile.shipped()
BATCH = 32


@dataclass(frozen=True)
class Shipped:
    """The shipped model in torch, read once."""

    graphs: Any
    metric: Any
    samples: list[np.ndarray]
    images: np.ndarray
    """What it paints."""

    def painted(self, **changes: Any) -> np.ndarray:
        """What it paints with other constants."""
        return painted(TextToImage(replace(PROFILE.program.constants, **changes)), self.samples, self.graphs)

    def judged(self, images: np.ndarray) -> Any:
        """Scores of images, and whether they meet the targets."""
        return score(self.metric, [LoggedReply(index=i, data=image.tobytes()) for i, image in enumerate(images)])


def painted(program, samples, graphs):
    return np.concatenate(
        [program.run(samples[first : first + BATCH], graphs) for first in range(0, len(samples), BATCH)]
    )


@pytest.fixture(scope="module")
def shipped(compiled):
    dataset, graphs = PROFILE.dataset(), compiled(PROFILE.graphs(Weights.TRAINED))
    dataset.load(range(dataset.count))
    samples = [dataset.sample(index) for index in range(dataset.count)]
    metric = PROFILE.metric(dataset.captions, PROFILE.targets(official_rules("stable-diffusion-xl")))
    judges = PROFILE.judges()
    metric._judges = lambda: judges  # read once for all tests
    return Shipped(graphs, metric, samples, painted(PROFILE.program, samples, graphs))


@pytest.mark.thorough("workloads")
def test_the_shipped_model_reaches_the_scores_that_the_recipe_measured(shipped):
    found = shipped.judged(shipped.images)
    reference = PROFILE.reference
    assert found.scores["FID_SCORE"] == pytest.approx(reference["FID_SCORE"], rel=0.005)
    assert found.scores["CLIP_SCORE"] == pytest.approx(reference["CLIP_SCORE"], rel=0.001)
    assert found.scores["DIGIT_RATE"] == pytest.approx(reference["DIGIT_RATE"], abs=0.5)
    assert found.is_met


FAULTS: dict[str, Callable[[Shipped], np.ndarray]] = {
    "guidance off": lambda shipped: shipped.painted(guidance=1.0),
    "3 steps": lambda shipped: shipped.painted(schedule=PROFILE.checkpoint.schedule(3)),
    "a start of half the noise": lambda shipped: shipped.painted(start=PROFILE.program.constants.start / 2),
    "an untrained negative prompt": lambda shipped: shipped.painted(
        negative_tokens=PROFILE.checkpoint.token_ids(["zebras quarrel"])[0]
    ),
    "one prompt for all": lambda shipped: np.repeat(shipped.images[:1], len(shipped.images), axis=0),
    "images shuffled by one": lambda shipped: np.roll(shipped.images, 1, axis=0),
}


@pytest.mark.thorough("workloads")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_misses_a_target(shipped, fault):
    found = shipped.judged(FAULTS[fault](shipped))
    assert not found.is_met, f"{fault}: {found.scores}"


@pytest.mark.thorough("workloads")
def test_what_is_painted_alone_agrees_with_what_is_painted_in_a_batch_and_with_nothing_else(shipped):
    (alone,) = PROFILE.program.run(shipped.samples[7:8], shipped.graphs)
    difference, limits = shipped.metric.difference, shipped.metric.difference_limits
    assert difference(alone.tobytes(), shipped.images[7].tobytes()) <= limits(Precision.FP32).mean / 10
    assert difference(alone.tobytes(), shipped.images[8].tobytes()) > limits(Precision.INT8).one
    fewer_steps = TextToImage(replace(PROFILE.program.constants, schedule=PROFILE.checkpoint.schedule(3)))
    (hasty,) = fewer_steps.run(shipped.samples[7:8], shipped.graphs)
    assert difference(hasty.tobytes(), shipped.images[7].tobytes()) > limits(Precision.INT8).one


def test_128_captions_are_asked_for_in_three_wordings():
    captions = PROFILE.dataset().captions
    assert len(set(captions)) == len(captions) == 128
    assert set(captions) <= {caption for _, caption in all_captions()}
    assert {caption.split()[1] for caption in captions} >= {"digit", "paper"}


@pytest.mark.parametrize("name", ["unet/diffusion_pytorch_model.safetensors", CLIP_FILES[1], "judge.safetensors"])
def test_a_shipped_file_with_a_changed_byte_is_noticed(tmp_path, name):
    folder = shutil.copytree(PROFILE.files.path, tmp_path / "mini")
    content = bytearray((folder / name).read_bytes())
    content[-2] ^= 1
    (folder / name).write_bytes(content)
    profile = replace(PROFILE, files=replace(PROFILE.files, path=folder))
    with pytest.raises(DataError, match=r"shipped file is corrupt or another version.*Install mlbench again"):
        profile.graphs(Weights.TRAINED) and profile.judges()


def test_the_recipe_measures_what_the_metric_scores():
    assert recipe.BATCH < PROFILE.samples
    assert PROFILE.lowest_digit_rate == pytest.approx(PROFILE.reference["DIGIT_RATE"] - recipe.DIGIT_MARGIN)
    assert PROFILE.fid_margin == recipe.FID_MARGIN


def test_no_shipped_file_names_a_folder_of_the_machine_that_made_it():
    descriptions = list(files("mlbench_stable_diffusion_xl").joinpath("mini").rglob("*.json"))
    assert len(descriptions) > 5
    assert not [path.name for path in descriptions if "_name_or_path" in path.read_text(encoding="utf-8")]
