"""Serves a small set under the official names: every address and checksum of a workload's list is replaced by its own.

A set is a mapping from the ids of a list's artifacts to contents: of the one file, or by path of several.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from mlbench.contracts.workload import Workload

Content = bytes | Mapping[str, bytes]

CHECKSUMS = ("md5", "sha256", "git_blob_sha1", "md5_any")
DROPPED = (*CHECKSUMS, "hub", "size_bytes", "size_is_estimate", "samples", "note", "digest_from", "needed", "files")


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def tar_of(members: Mapping[str, bytes], mode: str = "w") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


@dataclass(kw_only=True)
class SmallSet:
    """A small set of a workload, and what is said of it."""

    workload: Workload
    contents: Mapping[str, Content]
    smaller: str
    """What its `smaller.toml` says."""

    def publish(self, server, data: Path, downloads: Path) -> None:
        """Serve it, write the data folder's own list of sources, and lay what needs a person among the downloads."""
        official = tomllib.loads(self.workload.sources.read_text())
        needed = [each for each in official["artifact"] if each.get("needed", True)]
        lines = [f'round = "{official["round"]}"', "", "[settings]", *_toml(official["settings"])]
        lines += ['smaller = "smaller.toml"']
        for entry in needed:
            lines += ["", "[[artifact]]", *_toml(self._served(entry, server, downloads))]
        server.add(f"{self.workload.name}/smaller.toml", self.smaller.encode())
        lines += ["", "[[artifact]]", 'id = "smaller"', 'role = "helper"', 'destination = "smaller.toml"']
        lines += [f'urls = ["{server.url}/{self.workload.name}/smaller.toml"]', f'md5 = "{md5(self.smaller.encode())}"']
        data.mkdir(parents=True, exist_ok=True)
        (data / f"{self.workload.name}.sources.toml").write_text("\n".join(lines) + "\n")

    def _served(self, entry, server, downloads: Path) -> Mapping[str, object]:
        kept = {name: value for name, value in entry.items() if name not in DROPPED}
        if "convert" in entry:
            return kept
        content = self.contents[entry["id"]]
        has_digest = any(name in entry for name in CHECKSUMS)
        if isinstance(content, bytes):
            address = entry["hub"]["file"] if "hub" in entry else urlsplit(entry["urls"][0]).path.lstrip("/")
            name = entry.get("archive") or address
            self._offer(name, content, entry, server, downloads)
            digest = {"md5": md5(content)} if has_digest else {}
            return {**kept, "urls": [f"{server.url}/{self.workload.name}/{quote(name)}"], **digest}
        names = dict(entry.get("files", []))
        for path, each in content.items():
            self._offer(path, each, entry, server, downloads)
        base = {} if entry.get("gate", "none") != "none" else {"base": f"{server.url}/{self.workload.name}"}
        return kept | base | self._files(entry, content, names, server)

    def _files(self, entry, content, names, server) -> Mapping[str, object]:
        if "items" in entry:
            start = server.url + f"/{self.workload.name}/"
            return {"urls": [start + urlsplit(entry["urls"][0]).path.lstrip("/")], "base": ""}
        if "list_url" in entry:
            listed = "".join(f"{md5(each) if names.get(path) else ''}  {path}\n" for path, each in content.items())
            server.add(f"{self.workload.name}/list.md5", listed.encode())
            return {"list_url": f"{server.url}/{self.workload.name}/list.md5"}
        return {"files": [[path, md5(each) if names.get(path, "-") else ""] for path, each in content.items()]}

    def _offer(self, name: str, content: bytes, entry, server, downloads: Path) -> None:
        if entry.get("gate", "none") != "none":
            path = downloads / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        else:
            server.add(f"{self.workload.name}/{name}", content)


def _toml(values: Mapping[str, object]) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in values.items()]
