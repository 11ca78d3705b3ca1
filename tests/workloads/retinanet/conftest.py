import pytest
from mlbench_retinanet.graphs import Architecture


@pytest.fixture(scope="session")
def tiny() -> Architecture:
    """A network with all the parts of the official one, and few channels."""
    return Architecture(
        planes=4,
        blocks=(1, 1, 1, 1),
        groups=2,
        width_per_group=32,
        channels=8,
        classes=3,
        image_size=64,
        anchor_bases=(12, 24, 48, 96, 192),
    )
