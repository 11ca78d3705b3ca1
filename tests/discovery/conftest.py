"""One-module plugins, as pip would leave them."""

import importlib
import sys

import pytest


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install one-module plugins, as pip would leave them."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name, source):
        (tmp_path / f"{name}_plugin.py").write_text(source)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[mlbench]\n{name} = {name}_plugin\n")
        importlib.invalidate_caches()

    yield install
    for module in [module for module in sys.modules if module.endswith("_plugin")]:
        del sys.modules[module]
