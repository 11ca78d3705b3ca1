"""The class of `package_runner.cpp`, compiled once against the installed torch."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import torch

from mlbench.errors import UnavailableError
from mlbench.execution.export.compile_cache import build_once
from mlbench.toolkit.torch_backend.cxx_compiler import cxx

SOURCE = Path(__file__).with_name("package_runner.cpp")
LIBRARY = "package_runner.so"


@cache
def package_class() -> Any:
    """Return the class that loads a package and runs it, without Python's lock.

    Raises:
        UnavailableError: the C++ compiler cannot build it.
    """
    folder = build_once("package_runner", [SOURCE.read_text(), torch.__version__], _build)
    torch.classes.load_library(os.fspath(folder / LIBRARY))
    return torch.classes.mlbench.Package


def _build(folder: Path) -> None:
    home = Path(torch.__file__).parent  # torch.utils.cpp_extension knows it too, but needs setuptools
    headers = (home / "include", home / "include/torch/csrc/api/include")
    command = [
        *(cxx(), "-std=c++20", "-O1", "-shared", "-fPIC", "-w"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(f"-I{path}" for path in headers),
        *(os.fspath(SOURCE), "-o", os.fspath(folder / LIBRARY)),
        *(f"-L{home / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10"),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        said = next((line for line in built.stderr.splitlines() if "error" in line), "no reason given")
        raise UnavailableError(f"{command[0]} cannot build {SOURCE.name}: {said[:300]}")
