"""Sentences of texts: NLTK's data, trained on a text, as the real one cannot be downloaded in a test, or a rule."""

import re
from pathlib import Path

import pytest


def install_sentences(root: Path, text: str, patch: pytest.MonkeyPatch) -> None:
    """Write data into a folder, and let this process and those that it starts find it, and no other."""
    import nltk
    from nltk.tokenize import _get_punkt_tokenizer
    from nltk.tokenize.punkt import PunktTrainer, save_punkt_params

    place = root / "tokenizers/punkt_tab/english"
    place.mkdir(parents=True)
    patch.setattr(nltk.data, "path", [str(root)])  # first: NLTK writes and reads in its folders alone
    patch.setenv("NLTK_DATA", str(root))
    save_punkt_params(PunktTrainer(text).get_params(), str(place))
    _get_punkt_tokenizer.cache_clear()


def split_after_capitals(text: str) -> list[str]:
    """Split where a mark and a blank come before a capital letter; enough for the texts of tests."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", text)
