"""The documentation as a site: each page is in it, and a link that leads nowhere fails the build."""

import importlib.metadata
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COLLECT = ROOT / "docs/site/collect.py"


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """The folder that mkdocs builds from."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    subprocess.run([sys.executable, COLLECT, folder], check=True)
    return folder


def test_every_page_is_in_the_menu_and_only_there_once(collected):
    patterns = ("*.md", "docs/**/*.md", "results/**/*.md", "plugins/*/*.md", "workloads/*/*.md", "examples/*/*.md")
    written = {file.relative_to(ROOT).as_posix() for pattern in patterns for file in ROOT.glob(pattern)}
    listed = re.findall(r"(?:- |: )(\S+\.md)$", (collected / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    there = {file.relative_to(collected / "pages").as_posix() for file in (collected / "pages").rglob("*.md")}
    assert sorted(listed) == sorted(written) == sorted(there)


def test_links_lead_to_pages_or_are_text():
    rewrite = runpy.run_path(str(COLLECT))["rewrite"]
    assert "[mlbench_tract](examples/mlbench_tract/README.md)" in rewrite("README.md")
    assert "[constraints.txt](constraints.txt)" not in rewrite("README.md")
    assert "![" in rewrite("README.md")
    assert "[the tutorial](docs/tutorial-backend.md)" in rewrite("CONTRIBUTING.md")


@pytest.mark.slow
@pytest.mark.skipif(not any(importlib.metadata.distributions(name="mkdocs-material")), reason="[docs] is not installed")
def test_the_site_is_built_and_a_link_that_leads_nowhere_fails_it(collected, tmp_path):
    def build():
        options = ["--strict", f"--config-file={collected}/mkdocs.yml", f"--site-dir={tmp_path}/site"]
        command = [sys.executable, "-m", "mkdocs", "build", *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert build().returncode == 0
    assert "early stopping" in (tmp_path / "site/search/search_index.json").read_text()
    with (collected / "pages/README.md").open("a") as page:
        page.write("\n[nothing](docs/nothing.md)\n")
    done = build()
    assert (done.returncode, "docs/nothing.md" in done.stderr) == (1, True)
