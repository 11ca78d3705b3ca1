"""A round of the user's own for tests: v6.0 with another name, seeds of its own, and further changes."""

import re
from importlib import resources

SEEDS = {"qsl": 11, "sample_index": 12, "schedule": 13}
OF_V6_0 = {"qsl": 2465351861681999779, "sample_index": 14276810075590677512, "schedule": 3936089224930324775}


def invent_round(folder, *changes, without=""):
    """Write v9.9 beside the settings file of a folder.

    Args:
        folder: that of the settings file.
        changes: pairs of a text of v6.0's file and what stands there instead.
        without: the workload that it lacks, the one before 3d-unet.
    """
    text = (resources.files("mlbench.rules") / "rounds/v6_0.toml").read_text()
    seeds = ((f"{name} = {seed}", f"{name} = {SEEDS[name]}") for name, seed in OF_V6_0.items())
    for old, new in (('round = "v6.0"', 'round = "v9.9"'), *seeds, *changes):
        assert old in text
        text = text.replace(old, new)
    if without:
        pattern = rf"\[workloads\.{without}\].*?(?=\[workloads\.3d-unet\])"
        text, count = re.subn(pattern, "", text, flags=re.DOTALL)
        assert count == 1
    (folder / "rounds").mkdir()
    (folder / "rounds/v9_9.toml").write_text(text)
