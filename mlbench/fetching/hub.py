"""Files on Hugging Face, by the hub's own library."""

from __future__ import annotations

from pathlib import Path

from mlbench.errors import DataError, UnavailableError, first_line
from mlbench.fetching.sources import Artifact
from mlbench.system.folders import hub_token


def fetch_from_hub(artifact: Artifact, folder: Path) -> Path:
    """Download a file of a repository; return where it lies, in a folder of its own below ``folder``.

    A token comes from the environment alone; what the library may have stored is not used.

    Raises:
        UnavailableError: the library is not installed.
        DataError: the hub does not give the file.
    """
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise UnavailableError(
            f"{artifact.id} lies on Hugging Face, and huggingface_hub is not installed.",
            hint="Install it: pip install 'mlbench-inference[fetch]'.",
        ) from None
    hub = artifact.hub
    try:
        found = hf_hub_download(
            hub["repo"],
            hub["file"],
            repo_type=hub["kind"],
            revision=hub["revision"],
            local_dir=folder / ".hub",
            token=hub_token() or False,
        )
    except Exception as error:  # its errors come from four libraries
        raise DataError(
            f"{artifact.id} was not fetched from Hugging Face: {first_line(error)}.",
            hint="Run it again to continue, or give a copy that you have with --from PATH.",
        ) from None
    return Path(found)
