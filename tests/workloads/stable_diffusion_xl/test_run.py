"""A whole run, as the command line makes it: real LoadGen, a process of its own, a stored record."""

import json

import pytest
from invoking import invoke
from PIL import Image

from mlbench.records.run_record import read


@pytest.mark.thorough("workloads")
def test_a_run_meets_its_targets_and_leaves_images_to_look_at(tmp_path):
    arguments = ["run", "stable-diffusion-xl", "--backend", "pytorch", "--scenario", "Offline", "--json"]
    done = invoke(*arguments, "--results", tmp_path)
    assert done.exit_code == 0, done.output
    (run,) = json.loads(done.stdout)
    record = read(tmp_path / run["run_id"])
    assert set(record.accuracy.scores) == {"FID_SCORE", "CLIP_SCORE", "DIGIT_RATE"}
    assert record.accuracy.is_met
    assert record.accuracy.line.startswith("Accuracy Results: {'FID_SCORE': ")
    assert record.engine.batch == 16
    shown = tmp_path / run["run_id"] / "accuracy"
    with Image.open(shown / "contact_sheet.png") as sheet:
        assert sheet.size == (960, 960)
    captions = (shown / "images" / "captions.txt").read_text().splitlines()
    assert {path.stem for path in (shown / "images").glob("*.png")} == {line.split()[0] for line in captions}
