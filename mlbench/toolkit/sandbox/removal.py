"""The removal of a folder in which a program had its way."""

from __future__ import annotations

import os
import shutil


def remove_folder(folder: str) -> None:
    """Remove a folder whose owner may have locked parts of it; follow no link."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            place = os.path.join(path, name)
            if not os.path.islink(place):
                os.chmod(place, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
