"""The C++ compiler that torch's inductor calls."""

from __future__ import annotations

import os
import shutil


def cxx() -> str:
    """Return its command: $CXX as for the inductor, else g++."""
    return os.environ.get("CXX", "g++")


def has_cxx() -> bool:
    """Return whether it is installed."""
    return shutil.which(cxx()) is not None
