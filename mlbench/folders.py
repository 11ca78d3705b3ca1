"""Where mlbench keeps things, and the only place that reads environment variables."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder for what can be made again (exported graphs, ...): $MLBENCH_CACHE or the user's cache."""
    if chosen := os.environ.get("MLBENCH_CACHE"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("mlbench", appauthor=False))


def results_folder() -> Path:
    """Return the default of ``--results``: $MLBENCH_RESULTS, or ``results`` in the current folder."""
    return Path(os.environ.get("MLBENCH_RESULTS", "results")).expanduser()


def system_settings_file() -> Path:
    """Return this machine's settings file: $MLBENCH_SETTINGS, or ``settings.toml`` in the user's configuration."""
    if chosen := os.environ.get("MLBENCH_SETTINGS"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir("mlbench", appauthor=False)) / "settings.toml"
