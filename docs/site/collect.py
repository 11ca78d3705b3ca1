"""Collect the pages of the documentation site, in the places that they have in the repository: their links hold there.

``nox -s docs`` calls it with a folder, and has mkdocs build the site from there.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTIONS = {
    "Start": (
        "docs/index.md",
        "docs/installing.md",
        "docs/running.md",
        "docs/your-own-model.md",
        "docs/transforms.md",
        "docs/glossary.md",
        "docs/troubleshooting.md",
        "docs/status.md",
    ),
    "Use": (
        "docs/reading-a-result.md",
        "docs/rounds.md",
        "docs/processor-time.md",
        "docs/reports.md",
        "docs/network-division.md",
        "docs/nodes.md",
        "docs/submission-trees.md",
        "docs/audit.md",
        "docs/what-is-checked.md",
        "docs/tuning.md",
        "docs/data.md",
        "docs/benchmarking-a-server.md",
        "docs/python.md",
        "docs/guarding-against-regressions.md",
        "results/**/README.md",
    ),
    "Settings": ("docs/settings.md",),
    "Backends": ("docs/tutorial-backend.md", "plugins/*/README.md"),
    "Workloads": ("docs/tutorial-workload.md", "docs/sandbox.md", "workloads/*/README.md"),
    "Examples": ("examples/*/README.md",),
    "Decisions": ("docs/decisions/*.md",),
    "Project": ("docs/architecture.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
}
"""Pages by section, in the order of the menu; README comes before all."""

PICTURES = Path("docs/images")

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def pages(*patterns: str) -> list[str]:
    """Return the pages that patterns name, as paths in the repository."""
    return [file.relative_to(ROOT).as_posix() for pattern in patterns for file in sorted(ROOT.glob(pattern))]


def menu() -> Iterator[str]:
    """Yield the lines of mkdocs' ``nav``."""
    yield "nav:"
    yield "  - mlbench: README.md"
    for title, patterns in SECTIONS.items():
        yield f"  - {title}:"
        yield from (f"      - {page}" for page in pages(*patterns))


def rewrite(page: str) -> str:
    """Return a page for the site: a link to a folder leads to its README, one to source code is its text alone.

    Pictures stay.
    """

    def link(found: re.Match[str]) -> str:
        text, target = found.groups()
        path = (ROOT / page).parent / target.partition("#")[0]
        if ":" in target or path.suffix == ".md" or target.startswith("#") or not path.exists():
            return found[0]
        return f"[{text}]({target.rstrip('/')}/README.md)" if (path / "README.md").is_file() else text

    return LINK.sub(link, (ROOT / page).read_text(encoding="utf-8"))


def main(folder: Path) -> None:
    """Write all pages and mkdocs' settings to a folder, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    for page in ["README.md", *(page for patterns in SECTIONS.values() for page in pages(*patterns))]:
        place = folder / "pages" / page
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(rewrite(page), encoding="utf-8")
    shutil.copytree(ROOT / PICTURES, folder / "pages" / PICTURES)
    settings = (ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8")
    (folder / "mkdocs.yml").write_text("\n".join([settings, "docs_dir: pages", *menu(), ""]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
