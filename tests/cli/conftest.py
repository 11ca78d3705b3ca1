"""Stored runs that commands read, and repositories for those that look at commits."""

import subprocess

import pytest
from invoking import invoke

WHO = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false")


@pytest.fixture
def mlbench(results, monkeypatch):
    monkeypatch.setenv("MLBENCH_RESULTS", str(results))
    return invoke


@pytest.fixture
def store(a_run, tmp_path):
    """Store a run per throughput in a folder, and return the folder."""

    def store(name, values, **changes):
        folder = tmp_path / name
        for number, value in enumerate(values):
            result = a_run().result.model_dump() | {"value": value}
            run = a_run(run_id=f"{name}-{number}", result=result, tag=name, **changes)
            (folder / run.run_id).mkdir(parents=True)
            (folder / run.run_id / "record.json").write_text(run.text())
        return folder

    return store


@pytest.fixture
def repository(tmp_path):
    """Return a function that makes a repository with a commit for each set of files, and returns both."""
    folder = tmp_path / "a product's"

    def git(*words):
        done = subprocess.run(["git", *WHO, "-C", str(folder), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def repository(commits):
        folder.mkdir()
        git("init", "--quiet")
        for number, files in enumerate(commits):
            for name, text in files.items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(text)
            git("add", ".")
            git("commit", "--quiet", "--allow-empty", "-m", f"Change number {number}")
        return folder, git("log", "--reverse", "--format=%H").split()

    return repository
