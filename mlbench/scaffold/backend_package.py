"""Writes the package of a new backend from the templates in ``backend/``."""

from __future__ import annotations

import builtins
import os
import re
import shutil
import string
import tempfile
from collections.abc import Mapping
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import mlbench
from mlbench.errors import UsageError

NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
"""What users type, and what Python, with underscores, can import."""

LONGEST_NAME = 100
"""Characters: files and modules are named after it."""

_TEMPLATES = resources.files(mlbench) / "scaffold" / "backend"


def new_backend(name: str, parent: Path) -> Path:
    """Write the package of a backend and return its folder, ``mlbench_<name>`` in ``parent``: whole, or not at all.

    Raises:
        UsageError: the name cannot be one, the folder exists, or it cannot be written.
    """
    words = _words(name)
    folder = parent / words["module"]
    if folder.exists():
        raise UsageError(f"{folder} exists.", hint="Choose another name, or another folder with --into.")
    fresh = None
    try:
        fresh = Path(tempfile.mkdtemp(prefix=".mlbench-", dir=parent))
        for file, template in _files(words["module"]).items():
            text = (_TEMPLATES / template).read_text()
            (fresh / file).write_text(string.Template(text).substitute(words))
        fresh.chmod(0o755)  # mkdtemp's is 0o700
        os.replace(fresh, folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}.", hint="Choose a folder with --into.") from None
    finally:
        if fresh:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _words(name: str) -> Mapping[str, str]:
    """Return what the templates' placeholders stand for."""
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a backend.",
            hint="Use lower-case letters and digits, from a letter on, in words joined by - or _: my-npu."
            + (f" {LONGEST_NAME} characters at most." if len(name) > LONGEST_NAME else ""),
        )
    class_name = "".join(word.capitalize() for word in re.split("[-_]", name))
    for owner, taken in (("mlbench", mlbench.__all__), ("Python", dir(builtins))):
        if class_name in taken:
            raise UsageError(
                f"{name!r} would make a class {class_name}, which {owner} has.", hint="Add a word: my-npu."
            )
    module = "mlbench_" + name.replace("-", "_")
    if find_spec(module):
        raise UsageError(f"a module {module} is installed.", hint="Choose another name.")
    return {"name": name, "class_name": class_name, "module": module, "distribution": module.replace("_", "-")}


def _files(module: str) -> Mapping[str, str]:
    """Return the template of each file."""
    return {
        f"{module}.py": "module.py.template",
        f"test_{module}.py": "test.py.template",
        "pyproject.toml": "pyproject.toml.template",
        "README.md": "README.md.template",
    }
