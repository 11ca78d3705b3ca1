from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def golden(request: pytest.FixtureRequest) -> Path:
    """Outputs of the official reference on synthetic inputs, of the workload that a test's folder is named for."""
    return Path(__file__).parents[1] / "data" / request.path.parent.name


@pytest.fixture(autouse=True)
def one_torch_thread() -> Iterator[None]:
    """So that these tests take as long beside others as alone."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
