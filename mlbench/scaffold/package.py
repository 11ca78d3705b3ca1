"""Writes a new package from templates: whole, or not at all."""

from __future__ import annotations

import builtins
import os
import re
import shutil
import string
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import mlbench
from mlbench.errors import UsageError

NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
"""A name that users can type, and that Python can import with underscores."""

LONGEST_NAME = 100
"""Characters: files and modules are named after it."""

TEMPLATE = ".template"
"""How the names of files end in which names are filled in; others are copied as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageKind:
    """The content of a package."""

    noun: str
    """``backend`` or ``workload``."""
    example: str
    """A name that a user might give."""
    files: Mapping[str, str]
    """The template of each file, below this folder; ``{module}`` in a file's name is the module's."""


def write_package(
    kind: PackageKind,
    name: str,
    parent: Path,
    *,
    words: Mapping[str, str] = MappingProxyType({}),
    model: Sequence[Path] = (),
) -> Path:
    """Write a package and return its folder, ``mlbench_<name>`` in ``parent``.

    Args:
        kind: of package.
        name: of the backend or workload.
        parent: the folder to write it into.
        words: further values of the templates' placeholders.
        model: files that its folder ``model`` gets, the model's own first: the others have their places beside it.

    Raises:
        UsageError: the name cannot be one, the folder exists, or it cannot be written.
    """
    words = {**_words(kind, name), **words}
    folder = parent / words["module"]
    if folder.exists():
        raise UsageError(f"{folder} exists.", hint="Choose another name, or another folder with --into.")
    fresh = None
    try:
        fresh = Path(tempfile.mkdtemp(prefix=".mlbench-", dir=parent))
        for file, template in kind.files.items():
            _write(fresh / file.format_map(words), template, words)
        for file_of_model in model:
            target = fresh / words["module"] / "model" / file_of_model.relative_to(model[0].parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file_of_model, target)
        fresh.chmod(0o755)  # mkdtemp's is 0o700
        os.replace(fresh, folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}.", hint="Choose a folder with --into.") from None
    finally:
        if fresh:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _write(file: Path, template: str, words: Mapping[str, str]) -> None:
    content = resources.files(mlbench).joinpath("scaffold", *template.split("/")).read_bytes()
    if template.endswith(TEMPLATE):
        content = string.Template(content.decode()).substitute(words).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def _words(kind: PackageKind, name: str) -> Mapping[str, str]:
    """Return the values of the templates' placeholders."""
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a {kind.noun}.",
            hint=f"Use lower-case letters and digits, from a letter on, in words joined by - or _: {kind.example}."
            + (f" {LONGEST_NAME} characters at most." if len(name) > LONGEST_NAME else ""),
        )
    class_name = "".join(word.capitalize() for word in re.split("[-_]", name))
    for owner, taken in (("mlbench", mlbench.__all__), ("Python", dir(builtins))):
        if class_name in taken:
            raise UsageError(
                f"{name!r} would make a class {class_name}, which {owner} has.", hint=f"Add a word: {kind.example}."
            )
    module = "mlbench_" + name.replace("-", "_")
    if find_spec(module):
        raise UsageError(f"a module {module} is installed.", hint="Choose another name.")
    return {"name": name, "class_name": class_name, "module": module, "distribution": module.replace("_", "-")}
