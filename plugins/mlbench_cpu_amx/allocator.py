"""Detects the memory allocator of the process."""

from __future__ import annotations

import re
from pathlib import Path

MAPS = Path("/proc/self/maps")


def find_allocator(maps: Path = MAPS) -> str:
    """Return ``tcmalloc`` or ``jemalloc`` where one is loaded (by LD_PRELOAD, before the process), else ``libc``."""
    found = re.search(r"lib(tcmalloc|jemalloc)[\w.-]*\.so", maps.read_text()) if maps.is_file() else None
    return found[1] if found else "libc"
