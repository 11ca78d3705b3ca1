"""Files that must be asked for: an object store's list, and names that other artifacts hold."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mlbench.errors import DataError
from mlbench.fetching.sources import Artifact, RemoteFile, is_inside
from mlbench.system.documents import read_text

_LINE = re.compile(r"(?P<md5>[0-9a-f]{32})?[ \t]+\*?(?P<path>\S.*)")


def read_list(path: Path, artifact: Artifact) -> list[RemoteFile]:
    """Return the files of an object store's list.

    A line without a checksum is a file without one, and not one that is verified: ``md5sum -c`` skips such lines.

    Raises:
        DataError: a line is of another form, names a path outside its folder or one twice, or gives another checksum
            than the one that ``sources.toml`` has.
    """
    text = read_text(path, what="list of files")
    known, found = dict(artifact.files), dict[str, str]()
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        match = _LINE.fullmatch(line)
        name = match["path"].removeprefix("./") if match else ""
        if not match or not is_inside(name):
            raise DataError(f"line {number} of {path} is not a checksum and a path: {line[:80]!r}.")
        if name in found:
            raise DataError(f"line {number} of {path} names {name} a second time.")
        found[name] = match["md5"] or known.get(name, "")
        if known.get(name) not in (None, "", found[name]):
            raise DataError(
                f"{path} gives {name} another checksum than is known.",
                hint="The files there are of another release: give the right ones with --from PATH.",
            )
    if missing := sorted(known.keys() - found.keys()):
        raise DataError(f"{path} does not list {missing[0]}.", hint="The files there are of another release.")
    return [artifact.listed_file(name, md5) for name, md5 in found.items()]


def each_item(artifact: Artifact, folder: Path) -> Iterator[RemoteFile]:
    """Yield a file for each of an artifact's items, which the workload reads from what is in its folder.

    Raises:
        DataError: an item would be a path outside the folder, or two are one file.
    """
    paths = set[str]()
    for item in load_function(artifact.items)(folder):
        path = artifact.destination.format(item=item)
        if not is_inside(path) or path.casefold() in paths:
            raise DataError(f"{artifact.id}: {path!r} is named twice, or lies outside its folder.")
        paths.add(path.casefold())
        urls = tuple(url.format(item=item) for url in artifact.urls)
        yield RemoteFile(path=path, urls=urls, most_bytes=artifact.most_bytes)


def load_function(name: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` names, of the workload's own package."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
