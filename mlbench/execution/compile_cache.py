"""What takes long to make and can be made again: kept in the cache under the hash of what it was made from."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlbench.folders import cache_folder


def made_once(kind: str, made_from: Any, fill: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, which ``fill`` has written; called only where the folder does not exist.

    The folder is filled beside its place and renamed: it is whole or absent, also with two processes at once.

    Args:
        kind: names the shelf: ``onnx``.
        made_from: a JSON value of all that decides the contents: fingerprints, settings, versions.
        fill: writes the contents into the folder it is given; what it raises is passed on, and nothing is kept.
    """
    key = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]
    folder = cache_folder() / kind / key
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        fill(fresh)
        os.replace(fresh, folder)
    except OSError:
        if not folder.is_dir():  # if it is there, another process was first, and its folder is as good
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder
