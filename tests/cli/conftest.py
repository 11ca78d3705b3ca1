"""A run that several files look at."""

import pytest
from click.testing import CliRunner

from mlbench.cli import main


@pytest.fixture(scope="session")
def one_run(tmp_path_factory):
    """A run of the null backend, made once; zeros are not the right labels, so it is not accurate."""
    results = tmp_path_factory.mktemp("runs")
    request = ["run", "resnet50", "--backend", "null", "--scenario", "SingleStream", "--results", str(results)]
    done = CliRunner().invoke(main, request)
    assert done.exit_code == 1, done.output
    (folder,) = results.iterdir()
    return folder
