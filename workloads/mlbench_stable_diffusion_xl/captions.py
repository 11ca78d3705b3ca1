"""Captions of COCO 2014, in the form that the official download script writes them."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlbench import DataError
from mlbench.toolkit import DATA_BYTES, foreign, parse_json, read_text

HEADER = ("id", "image_id", "caption", "height", "width", "file_name", "coco_url")
NUMBERS = ("id", "image_id", "height", "width")

OFFICIAL_CAPTIONS = 5000
CALIBRATION_CAPTIONS = 500
SELECTION_SEED = 2023
"""Seed of the selection from COCO's annotations. Source: MLPerf Inference v4.1, text_to_image/tools/coco.py."""

_HINT = f"Expected a tab separated file with the columns {', '.join(HEADER)}."


@dataclass(frozen=True, slots=True)
class Captions:
    """Rows of a caption file; the sample with index i is the i-th."""

    rows: Sequence[Mapping[str, str]]

    @property
    def texts(self) -> list[str]:
        """The captions."""
        return [row["caption"] for row in self.rows]

    @property
    def fingerprint(self) -> str:
        """A hash of all rows."""
        return hashlib.sha256(self.as_tsv().encode()).hexdigest()

    def as_tsv(self) -> str:
        """Return the text of a caption file."""
        text = io.StringIO()
        writer = csv.DictWriter(text, HEADER, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()


def read_captions(path: Path, *, count: int) -> Captions:
    """Read a caption file, or select captions from COCO's own annotations where the file is JSON.

    Args:
        path: captions.tsv, captions_source.tsv or captions_val2014.json.
        count: how many captions are wanted.

    Raises:
        DataError: the file is missing, of another form, or has another number of captions.
    """
    text = _text(path)
    captions = select_captions(text, path, count) if path.suffix == ".json" else _from_tsv(text, path)
    if len(captions.rows) != count:
        raise DataError(f"{path} has {len(captions.rows)} captions, not {count}.", hint="Download it again.")
    return captions


def select_captions(text: str, path: Path, count: int) -> Captions:
    """Return the official choice from COCO's annotations: a caption per image, shuffled, the first ``count``, by id.

    Source: MLPerf Inference v4.1, text_to_image/tools/coco.py, which shuffles with pandas; pandas asks NumPy.

    Raises:
        DataError: the text is not COCO annotations of captions.
    """
    import numpy as np

    with foreign(path, "contains no captions of COCO", hint="Expected captions_val2014.json."):
        document: Any = parse_json(text)
        first: dict[int, Any] = {}
        for annotation in document["annotations"]:
            first.setdefault(annotation["image_id"], annotation)
        images = {image["id"]: image for image in document["images"]}
        by_id = sorted(first.values(), key=lambda annotation: annotation["id"])
        order = np.random.RandomState(SELECTION_SEED).permutation(len(by_id))[:count]
        chosen = [by_id[place] for place in sorted(order)]
        rows = [
            {
                **{key: str(annotation[key]) for key in ("id", "image_id")},
                "caption": annotation["caption"].replace("\n", "").strip(),
                **{
                    key: str(images[annotation["image_id"]][key])
                    for key in ("height", "width", "file_name", "coco_url")
                },
            }
            for annotation in chosen
            if annotation["image_id"] in images
        ]
    return Captions(rows)


def _from_tsv(text: str, path: Path) -> Captions:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t")
    try:
        found = tuple(reader.fieldnames or ())
        if found != HEADER:
            raise DataError(f"{path} begins with {' '.join(found)[:100] or 'nothing'!r}.", hint=_HINT)
        rows = list(reader)
    except csv.Error as error:  # a field of a hundred thousand characters
        raise DataError(f"{path} is not a caption file: line {reader.line_num}: {error}.", hint=_HINT) from None
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values() or not all(row[name].isdecimal() for name in NUMBERS):
            raise DataError(f"line {number} of {path} is not a caption: {list(row.values())}."[:300], hint=_HINT)
    return Captions(rows)


def _text(path: Path) -> str:
    hint = "It belongs to the official data."
    return read_text(path, what="captions file", missing_hint=hint, limit_bytes=DATA_BYTES)
