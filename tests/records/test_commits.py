"""Which commit something was installed from, as git and pip write it down."""

import json
import subprocess
import sys

import pytest

from mlbench.records.commits import find_commit, find_plugins, observe_commits, observe_plugins
from mlbench.records.environment import observe_environment


@pytest.fixture
def repository(tmp_path):
    """Return a repository with one commit, and a function that asks git."""

    def git(*arguments, folder=tmp_path / "product"):
        person = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
        done = subprocess.run(["git", *person, *arguments], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    (tmp_path / "product" / "src").mkdir(parents=True)
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "One")
    return tmp_path / "product", git


def test_the_commit_on_a_branch_packed_detached_and_in_a_worktree_is_gits(repository):
    folder, git = repository
    commit = git("rev-parse", "HEAD")
    assert find_commit(folder) == commit
    assert find_commit(folder / "src") == commit
    git("pack-refs", "--all")
    assert find_commit(folder) == commit
    git("worktree", "add", "--quiet", "-b", "other", "../other")
    assert find_commit(folder.parent / "other") == commit
    git("checkout", "--quiet", "--detach")
    assert find_commit(folder) == commit


def test_a_folder_outside_any_repository_has_none(tmp_path):
    assert find_commit(tmp_path) is None


def test_what_pip_noted_down_counts_and_what_it_did_not_is_left_out(monkeypatch, repository, tmp_path):
    folder, git = repository
    noted = {"url": "https://example.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "c" * 40}}
    checkout = {"url": folder.as_uri(), "dir_info": {"editable": True}}
    archive = {"url": "https://example.org/a.whl", "archive_info": {}}
    origins = {"noted": noted, "checkout": checkout, "archive": archive}
    texts = {name: json.dumps(origin) for name, origin in origins.items()} | {
        "index": None,
        "broken": "{",
        "list": "[]",
    }
    for name, text in texts.items():
        info = tmp_path / "site" / f"{name}-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[mlbench]\n{name} = {name}\n")
        if text is not None:
            (info / "direct_url.json").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    assert observe_commits(find_plugins()) == {"noted": "c" * 40, "checkout": git("rev-parse", "HEAD")}


def test_a_plugin_that_others_brought_has_its_version_in_the_record(monkeypatch, tmp_path):
    for name, point in {"mlbench-acme": "mlbench", "acme": "console_scripts", "mlbench-inference": "mlbench"}.items():
        folder = tmp_path / f"{name.replace('-', '_')}-2.1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.1\n")
        (folder / "entry_points.txt").write_text(f"[{point}]\nacme = acme\n")
    monkeypatch.syspath_prepend(tmp_path)
    versions = observe_environment().libraries
    assert observe_plugins(find_plugins())["mlbench-acme"] == versions["mlbench-acme"] == "2.1"
    assert not {"acme", "mlbench-inference"} & versions.keys()
