"""The folder that a recipe writes: the files of a mini profile, and `mini.toml` with their checksums and numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from mlbench.errors import DataError
from mlbench.system.documents import first_problem, read_toml
from mlbench.toolkit.files import file_sha256, unpack, verify_file

if TYPE_CHECKING:
    from dataclasses import Field

DESCRIPTION = "mini.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniFolder:
    """Files by name, each verified by the checksum that the recipe wrote."""

    path: Path
    sha256: Mapping[str, str]
    """Checksum of each file by name."""

    @classmethod
    def of(cls, path: Path, names: Iterable[str]) -> MiniFolder:
        """Return the folder with the checksums that its files have now."""
        return cls(path=path, sha256={name: file_sha256(path / name) for name in names})

    def file(self, name: str) -> Path:
        """Return the path of a file.

        Raises:
            DataError: it is missing, or another than the recipe wrote.
        """
        return verify_file(
            self.path / name, sha256=self.sha256[name], what="shipped file", hint="Install mlbench again."
        )

    def unpacked(self, name: str) -> Path:
        """Return a folder with the contents of a zip archive, unpacked once into the cache.

        Raises:
            DataError: the archive is missing or corrupt.
        """
        return unpack(self.path / name, sha256=self.sha256[name])


class MiniProfile(Protocol):
    """A frozen dataclass: a field ``files``, and what else `mini.toml` says; tables are dataclasses of their own."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def files(self) -> MiniFolder:
        """The folder and the checksums."""


P = TypeVar("P", bound=MiniProfile)


def read_mini(kind: type[P], folder: Path) -> P:
    """Return the content of `mini.toml` in a folder, as a workload's own dataclass.

    Raises:
        DataError: it is missing, not TOML, or has other content.
    """
    from pydantic import TypeAdapter, ValidationError

    hint = "Install mlbench again."
    content = read_toml(folder / DESCRIPTION, what="shipped file", hint=hint)
    files = MiniFolder(path=folder, sha256=content.pop("sha256", {}))
    try:
        return TypeAdapter(kind).validate_python({**content, "files": files})
    except ValidationError as error:
        raise DataError(f"shipped file {folder / DESCRIPTION}: {first_problem(error)}.", hint=hint) from None


def write_mini(profile: MiniProfile, *, recipe: str) -> None:
    """Write `mini.toml` beside the files it describes; ``recipe`` is the module that made them."""
    content = asdict(profile)
    content["sha256"] = content.pop("files")["sha256"]
    tables = {name: value for name, value in content.items() if isinstance(value, dict)}
    lines = [f"# Written by {recipe}.", *_lines({name: content[name] for name in content if name not in tables})]
    for title, table in tables.items():
        lines += ["", f"[{title}]", *_lines(table)]
    (profile.files.path / DESCRIPTION).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _lines(values: Mapping[str, Any]) -> list[str]:
    """Return TOML's lines; of numbers, text and lists of them JSON's form is TOML's too."""
    return [f"{json.dumps(name) if '.' in name else name} = {json.dumps(value)}" for name, value in values.items()]
