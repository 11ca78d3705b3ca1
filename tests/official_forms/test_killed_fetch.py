"""A fetch of all nine workloads that is killed again and again: ``MLBENCH_TEST_KILLS=100 pytest -k all_nine``.

It takes minutes, so that it runs only where it is asked for. Kills come at random moments of the process: while it
downloads, verifies, unpacks and converts.
"""

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("MLBENCH_TEST_KILLS", "0"))
FORMS = (
    *("resnet50", "retinanet", "bert", "unet3d", "dlrm_v2", "gptj", "llama2_70b", "mixtral_8x7b"),
    "stable_diffusion_xl",
)


def contents(data):
    """Return a hash of each file below a folder that a run would read."""
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(data.glob("[!.]*/**/*"))
        if path.is_file()
    }


@pytest.mark.thorough("official forms")
@pytest.mark.skipif(not KILLS, reason="MLBENCH_TEST_KILLS does not say how often")
def test_a_fetch_of_all_nine_that_is_killed_at_random_moments_ends_with_the_same_files(server, tmp_path):
    sets = []
    for name in FORMS:
        (folder := tmp_path / "made" / name).mkdir(parents=True)
        sets.append(import_module(f"test_{name}_form").make_small_set(folder))
    downloads, rng = tmp_path / "downloads", random.Random(1)
    names = [each.workload.name for each in sets]

    def fetch(data):
        for each in sets:
            each.publish(server, data, downloads)
        environment = os.environ | {"MLBENCH_DATA": str(data)}
        words = ["fetch", *names, "--from", str(downloads)]
        return subprocess.Popen(
            [sys.executable, "-m", "mlbench", *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    with fetch(tmp_path / "whole") as unharmed:
        printed, _ = unharmed.communicate()
        assert unharmed.returncode == 0, printed.decode()
    wanted, total = contents(tmp_path / "whole"), server.sent_bytes
    assert {Path(path).parts[0] for path in wanted} == set(names)
    killed = rounds = twice_bytes = 0
    while killed < KILLS:
        rounds += 1
        data, furthest, is_done = tmp_path / f"round {rounds}", {}, False
        while not is_done:
            asked = len(server.requests)
            with fetch(data) as process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=rng.uniform(0.3, 4) if killed < KILLS else None)
                is_done = process.poll() is not None
                if not is_done:
                    os.kill(process.pid, signal.SIGKILL)
                    killed += 1
                    process.communicate()
            assert not is_done or process.returncode == 0
            for path, first in server.requests[asked:]:
                twice_bytes += max(0, furthest.get(path, 0) - first)
                furthest[path] = max(furthest.get(path, 0), first)
        assert contents(data) == wanted
    print(f"{killed} kills in {rounds} rounds of {total / 1e6:.0f} MB, {twice_bytes} bytes asked for twice")
    assert twice_bytes <= total * rounds / 100
