"""Zip archives of mini data: the same bytes each time."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path


def write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    """Store files by name, in this order, uncompressed and without a date."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
