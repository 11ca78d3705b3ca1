"""Demands on the folders of a tree that do not depend on what is measured.

Source: submission checkers v4.1 to v5.1, ``check_results_dir``, the checks before a system is read; from v6.0 on
``repository_checks.sh``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlbench.errors import UsageError
from mlbench.rules.official import Round
from mlbench.submission.checking.findings import Reaction, TreeFinding, list_names
from mlbench.submission.tree import DIVISIONS, RESULTS, SYSTEMS
from mlbench.system.documents import leads_out

_BESIDE_DIVISIONS = (".git", ".github", "assets")
"""Folders that the official checker passes over without a word."""
_CALIBRATION = ("calibration.md", "documentation/calibration.md")


def check_root(root: Path, of: Round) -> Iterator[TreeFinding]:
    """Yield what is wrong with the entries next to the divisions, and next to the submitters in them."""
    folders, files = _list(root)
    if extra := [name for name in files if not name.endswith((".md", ".pdf"))]:
        message = f"only .md and .pdf files are allowed next to the divisions; move away {list_names(extra)}."
        yield TreeFinding(rule="root_files", path=extra[0], message=message, loses="", official=_reaction(of))
    for name in sorted({*folders} - {*DIVISIONS, *_BESIDE_DIVISIONS}):
        message = f"is not a division; nothing in it is counted. Divisions are {', '.join(DIVISIONS)}."
        yield TreeFinding(rule="division_name", path=name, message=message, loses=name).as_note()
    for division in [name for name in DIVISIONS if name in folders]:
        _, beside = _list(root / division)
        if beside:
            message = f"files are not allowed next to the submitters; move away {list_names(beside)}."
            yield TreeFinding(
                rule="division_files",
                path=f"{division}/{beside[0]}",
                message=message,
                loses=division,
                official=_reaction(of),
            )


def _reaction(of: Round) -> Reaction:
    """Return what the round's checker does about names, sizes and links: some leave them to a script run by hand."""
    return Reaction.REFUSES if of.checks.names_and_sizes else Reaction.ACCEPTS


def submitters_of(root: Path) -> Iterator[str]:
    """Yield every submitter's folder in every division: ``closed/Acme``."""
    for division in DIVISIONS:
        if (root / division).is_dir():
            yield from (f"{division}/{name}" for name in _list(root / division)[0])


def check_submitter(root: Path, submitter: str, of: Round) -> Iterator[TreeFinding]:
    """Yield what is wrong with the names, sizes and links of a submitter's files and folders."""
    if not (root / submitter / RESULTS).is_dir():
        message = f"has no {RESULTS} folder: nothing of it is counted."
        yield TreeFinding(rule="submitter_results", path=submitter, message=message, loses=submitter).as_note()
        return
    content = _walk(root, submitter, of)
    for rule, (find, message) in _DEMANDS.items():
        if found := sorted(find(content)):
            told = f"{message.format(of.files.file_megabytes)}: {list_names(found)}."
            yield TreeFinding(rule=rule, path=found[0], message=told, loses=submitter, official=_reaction(of))
    if found := [name for name in content.links if os.path.exists(root / name) and leads_out(root / name)]:
        target = leads_out(root / found[0])
        message = f"links that lead out of the tree, and are not followed: {list_names(found)} (to {target})."
        yield TreeFinding(rule="links_out", path=found[0], message=message, loses=submitter, official=Reaction.ACCEPTS)
    yield from _documents(root, submitter, of)


def _documents(root: Path, submitter: str, of: Round) -> Iterator[TreeFinding]:
    """Yield which documents of a submitter are missing, and which described systems have no results."""
    is_asked = bool(of.files.submitter) and not submitter.startswith("open/")
    for wanted in of.files.submitter if is_asked else (" or ".join(_CALIBRATION),):
        if not any((root / submitter / name).is_file() for name in wanted.split(" or ")):
            finding = TreeFinding(
                rule="calibration_document",
                path=submitter,
                message=f"the rules require a description of the quantisation: {wanted}.",
                loses=submitter,
            )
            yield finding if is_asked else finding.as_note()
    if not of.checks.systems_need_results or not is_asked:
        return
    named = {file.stem for file in (root / submitter / SYSTEMS).glob("*.json")}
    if idle := sorted(name for name in named if not (root / submitter / RESULTS / name).is_dir()):
        message = f"described systems have no results: {list_names(idle)}."
        yield TreeFinding(rule="idle_systems", path=f"{submitter}/{SYSTEMS}", message=message, loses=submitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """All below a folder, by paths from the root of the tree; links to folders are not followed."""

    root: Path
    folders: list[str]
    files: list[str]
    empty: list[str]
    links: list[str]
    """To files and to folders."""
    largest_bytes: int

    def link_is_broken(self, name: str) -> bool:
        """Return whether a link leads nowhere, or is relative: the official checker looks from the root of the tree."""
        path = self.root / name
        return path.is_symlink() and not (path.exists() and os.path.exists(self.root / os.readlink(path)))

    def is_large(self, name: str) -> bool:
        """Return whether a file is over the limit."""
        try:
            return os.path.getsize(self.root / name) > self.largest_bytes
        except OSError:
            return False


_DEMANDS: Mapping[str, tuple[Callable[[_Content], list[str]], str]] = {
    "broken_links": (
        lambda all_: [name for name in all_.files if all_.link_is_broken(name)],
        "links that lead nowhere, or are relative, which the official checker looks up from the root of the tree; "
        "put copies in their place",
    ),
    "file_size": (lambda all_: [name for name in all_.files if all_.is_large(name)], "files over {} MiB"),
    "dot_names": (
        lambda all_: [name for name in (*all_.folders, *all_.files) if _last(name).startswith(".")],
        "names may not begin with a dot",
    ),
    "spaces_in_names": (
        lambda all_: [name for name in (*all_.folders, *all_.files) if " " in _last(name)],
        "names may not hold spaces",
    ),
    "pycache": (
        lambda all_: [name for name in all_.folders if name.endswith("__pycache__")],
        "remove the folders that Python left",
    ),
    "empty_folders": (lambda all_: all_.empty, "empty folders"),
}


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _walk(root: Path, below: str, of: Round) -> _Content:
    folders, files, empty, links = [], [], [], []
    for folder, inner, names in os.walk(root / below, onerror=_refuse):
        path = Path(folder).relative_to(root).as_posix()
        folders.append(path)
        files += [f"{path}/{name}" for name in names]
        links += [f"{path}/{name}" for name in (*inner, *names) if os.path.islink(os.path.join(folder, name))]
        if not inner and not names:
            empty.append(path)
    return _Content(
        root=root,
        folders=folders,
        files=files,
        empty=empty,
        links=sorted(links),
        largest_bytes=of.files.file_megabytes << 20,
    )


def _list(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the folders and of the files in a folder, sorted."""
    try:
        found = sorted(folder.iterdir())
    except OSError as error:
        _refuse(error)
    return [each.name for each in found if each.is_dir()], [each.name for each in found if each.is_file()]


def _refuse(error: OSError) -> None:
    raise UsageError(f"{os.fsdecode(error.filename)} cannot be read: {error.strerror}.") from None
