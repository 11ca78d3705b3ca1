"""The folders of mlbench, and the only module that reads environment variables."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from mlbench.errors import UsageError

NO_PLUGINS = "MLBENCH_NO_PLUGINS"


def cache_folder() -> Path:
    """Return the folder for what can be made again (exported graphs, ...): $MLBENCH_CACHE or the user's cache."""
    if chosen := os.environ.get("MLBENCH_CACHE"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("mlbench", appauthor=False))


def make_cache_folder(name: str) -> Path:
    """Return a folder of the cache, made where it is missing; raises `UsageError` where nothing can be kept in it."""
    folder = cache_folder() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise UsageError(f"cache cannot be written: {folder}: {error.strerror}.", hint="Set MLBENCH_CACHE.") from None
    return folder


def data_folder() -> Path:
    """Return the folder that `mlbench fetch` fills: $MLBENCH_DATA or the user's data folder."""
    if chosen := os.environ.get("MLBENCH_DATA"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("mlbench", appauthor=False))


def folder_variables() -> Mapping[str, str]:
    """Return the variables by which another process has the folders of this one; their paths are absolute."""
    found = {
        "MLBENCH_CACHE": cache_folder(),
        "MLBENCH_DATA": data_folder(),
        "MLBENCH_SETTINGS": system_settings_file(),
    }
    return {name: str(path.absolute()) for name, path in found.items()}


def is_without_plugins() -> bool:
    """Return whether plugins from outside stay unloaded: $MLBENCH_NO_PLUGINS is set, and neither empty nor 0."""
    return os.environ.get(NO_PLUGINS, "0") not in ("", "0")


def hub_token() -> str | None:
    """Return the user's token for Hugging Face, $HF_TOKEN; it is never stored nor logged."""
    return os.environ.get("HF_TOKEN") or None


def results_folder() -> Path:
    """Return the default of ``--results``: $MLBENCH_RESULTS, or ``results`` in the current folder."""
    return Path(os.environ.get("MLBENCH_RESULTS", "results")).expanduser()


def check_results_folder(folder: Path) -> None:
    """Raise `UsageError` for a path where no folder is or can be made: too long, or a link to itself."""
    try:
        os.stat(folder)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it contains a null character"
        raise UsageError(f"{os.fsdecode(folder)!r}: {reason}.", hint="Name another folder.") from None


def visible_devices() -> tuple[str, ...] | None:
    """Return the accelerators that $CUDA_VISIBLE_DEVICES leaves to this process, by its names; None: all of them."""
    if (given := os.environ.get("CUDA_VISIBLE_DEVICES")) is None:
        return None
    return tuple(name for each in given.split(",") if (name := each.strip()))


def system_settings_file() -> Path:
    """Return this machine's settings file: $MLBENCH_SETTINGS, or ``settings.toml`` in the user's configuration."""
    if chosen := os.environ.get("MLBENCH_SETTINGS"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir("mlbench", appauthor=False)) / "settings.toml"


def network_token_file() -> Path:
    """Return the default of ``--token-file``: beside this machine's settings file."""
    return system_settings_file().with_name("network.token")


def own_rounds_folder() -> Path:
    """Return the folder of rounds that the user adds: beside this machine's settings file."""
    return system_settings_file().with_name("rounds")


def tuned_settings_file() -> Path:
    """Return the file of what `mlbench tune` found for this machine: beside its settings file."""
    file = system_settings_file()
    return file.with_name(f"{file.stem}.tuned.toml")
