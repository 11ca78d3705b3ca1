"""Libraries of NVIDIA's providers, which pip installs outside the loader's search path."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import logging
import os
from functools import cache
from pathlib import Path

LIBRARIES = {
    "CUDAExecutionProvider": "libonnxruntime_providers_cuda.so",
    "TensorrtExecutionProvider": "libonnxruntime_providers_tensorrt.so",
}
"""Libraries of the providers that are handled here."""

logger = logging.getLogger(__name__)


@cache
def load_libraries(provider: str) -> None:
    """Load CUDA, cuDNN and TensorRT from where pip put them, for a provider that is linked against them.

    Nothing is raised: whether it was enough is seen when the provider starts.
    """
    import onnxruntime

    if provider not in LIBRARIES:
        return
    preload = getattr(onnxruntime, "preload_dlls", lambda: None)  # 1.21 brought it
    with contextlib.redirect_stdout(io.StringIO()) as said:  # what it prints belongs to no result
        preload()
    if said.getvalue():
        logger.info("%s", said.getvalue().strip())
    if provider == "TensorrtExecutionProvider":
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module("tensorrt")  # loads the libraries that come with it


def missing_library(provider: str) -> str:
    """Return why a provider's own library cannot be loaded; empty if it can, or the reason is unknown."""
    import onnxruntime

    if provider not in LIBRARIES:
        return ""
    try:
        ctypes.CDLL(os.fspath(Path(onnxruntime.__file__).parent / "capi" / LIBRARIES[provider]))
    except OSError as error:
        return str(error)
    return ""
