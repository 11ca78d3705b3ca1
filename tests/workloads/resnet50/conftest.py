from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def golden() -> Path:
    """Outputs of the official reference on synthetic inputs."""
    return Path(__file__).parents[2] / "data" / "resnet50"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of the tests' own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLBENCH_CACHE", str(folder))
        yield folder
