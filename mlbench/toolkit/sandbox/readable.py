"""Paths that programs in the sandbox may read: the system's programs and libraries, and other interpreters."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_CONFIGURATION = (
    *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),  # finding programs and libraries
    *("passwd", "group", "nsswitch.conf", "localtime"),
    *("php", "java*", "ssl/openssl.cnf", "pki/tls/openssl.cnf", "crypto-policies"),
)
_PATH = "/usr/local/bin:/usr/bin:/bin"


def readable_paths(more: Iterable[Path] = ()) -> tuple[str, ...]:
    """Return the readable paths: none lies below another, and links on the way to one are included.

    A folder that holds the user's home is left out.
    """
    configuration = [path for name in _CONFIGURATION for path in Path("/etc").glob(name)]
    wanted = [*map(Path, _SYSTEM), *configuration, Path(sys.prefix), Path(sys.base_prefix), *more]
    home = Path.home().resolve()
    shown = {step for path in wanted if not home.is_relative_to(path.resolve()) for step in _steps(path)}
    folders = {path for path in shown if path.is_dir() and not path.is_symlink()}
    return tuple(sorted(str(path) for path in shown if not folders.intersection(path.parents)))


def installation(program: Path) -> Path:
    """Return the folder that a program is installed in: ``~/node`` of ``~/node/bin/node``."""
    folder = program.resolve().parent
    return folder.parent if folder.name == "bin" else folder


def search_path(readable: Iterable[str]) -> str:
    """Return PATH: the programs of what is shown, then the system's."""
    folders = [f"{path}/bin" for path in readable if path not in _SYSTEM and os.path.isdir(f"{path}/bin")]
    return ":".join([*folders, _PATH])


def _steps(path: Path) -> Iterator[Path]:
    """Yield the links on the way to a path, and where they lead to in the end; nothing for what does not exist."""
    place = Path("/")
    parts = path.absolute().parts[1:]
    for number, part in enumerate(parts, 1):
        place /= part
        if place.is_symlink():
            yield place
            yield from _steps(Path(os.path.normpath(place.parent / place.readlink())).joinpath(*parts[number:]))
            return
    if place.exists():
        yield place
