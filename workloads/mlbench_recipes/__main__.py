"""Make the mini profile of a workload: its data, its trained weights, and the reference scores in `mini.toml`."""

from __future__ import annotations

import argparse
import logging
from importlib import import_module
from pathlib import Path

RECIPES = sorted(file.parent.name for file in Path(__file__).parent.glob("*/recipe.py"))

logger = logging.getLogger(__name__)


def main() -> None:
    """Make the mini profile that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m mlbench_recipes", description=__doc__)
    parser.add_argument("workload", choices=RECIPES, help="the folder of its recipe")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into; made if missing")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    arguments.out.mkdir(parents=True, exist_ok=True)
    profile = import_module(f"mlbench_recipes.{arguments.workload}.recipe").make_mini_profile(arguments.out)
    logger.info("reference scores: %s", profile.reference)


if __name__ == "__main__":
    main()
