"""Names of the nine workloads' scores in records before format 3, and the submission checker's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_ROUGE = {"rouge1": "ROUGE1", "rouge2": "ROUGE2", "rougeL": "ROUGEL", "gen_len": "GEN_LEN"}
_TOKENS = {**_ROUGE, "tokens_per_sample": "TOKENS_PER_SAMPLE"}

RENAMED: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "resnet50": {"top1": "acc"},
        "bert": {"f1": "F1"},
        "3d-unet": {"dice": "DICE"},
        "gptj": _ROUGE,
        "llama2-70b": _TOKENS,
        "mixtral-8x7b": {**_TOKENS, "gsm8k": "gsm8k_accuracy", "mbxp": "mbxp_accuracy"},
    }
)
"""By workload: the old name of a score, and the checker's. Scores of other workloads have kept their names."""


def rename_scores(fields: dict[str, object]) -> dict[str, Any]:
    """Return the fields of a record before format 3 with the checker's names: scores, targets and rules.

    What is not as a record has it stays as it is, for the reader to refuse.
    """
    names = RENAMED.get(str(fields.get("workload")), {})
    accuracy, verdict = fields.get("accuracy"), fields.get("verdict")
    if not names or not isinstance(accuracy, dict):
        return fields
    scores = accuracy.get("scores")
    if isinstance(scores, dict):
        scores = {names.get(name, name): score for name, score in scores.items()}
    accuracy = {**accuracy, "scores": scores, "targets": _rename_each(accuracy.get("targets"), "score", names)}
    if isinstance(verdict, dict):
        rules = {f"accuracy.{old}": f"accuracy.{new}" for old, new in names.items()}
        verdict = {**verdict, "rules": _rename_each(verdict.get("rules"), "rule", rules)}
    return {**fields, "accuracy": accuracy, "verdict": verdict}


def _rename_each(rows: Any, key: str, names: Mapping[str, str]) -> Any:
    """Return rows with a renamed value: all of it, or all before an ``@``."""
    if not isinstance(rows, list):
        return rows
    return [
        {**row, key: re.sub(r"^[^@]*", lambda found: names.get(found[0], found[0]), row[key])}
        if isinstance(row, dict) and isinstance(row.get(key), str)
        else row
        for row in rows
    ]
