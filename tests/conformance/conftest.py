from pathlib import Path

import pytest

from mlbench.conformance.subject import Subject
from mlbench.contracts.precision import Precision
from mlbench.discovery import Plugins

PLUGIN = Path(__file__).parent / "broken_plugin"


@pytest.fixture
def broken_plugin(monkeypatch):
    """Install the plugin of broken backends, for this process and for children."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))


@pytest.fixture
def hurried(monkeypatch, tmp_path):
    """Let the kit's process be ended soon after a check that cannot end itself; return a timeout for checks."""
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr("mlbench.conformance.isolated._GRACE_S", 2.0)
    return 3.0


@pytest.fixture
def on_trial(broken_plugin):
    """Return a function from a backend's name to a subject without much patience."""
    plugins = Plugins.discover()
    return lambda name, patience_s=0.4: Subject(
        backend=plugins.backend(name), precision=Precision.FP32, patience_s=patience_s
    )
