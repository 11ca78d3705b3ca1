"""``mlbench submit build`` in a folder of runs, ``results``, and a description, ``system.json``."""

import json
import re

from invoking import invoke

from mlbench.measurement import verification
from mlbench.submission.auditing import audit


def trust_logs(patch, cache):
    """Take made logs for what records and compliance tests say, and use an empty cache."""
    patch.setenv("MLBENCH_CACHE", str(cache))
    patch.setattr(verification, "verify", lambda *_: verification.Verification())
    patch.setattr(audit, "judge_stored", lambda *_: iter(()))


def build(place, *words, submitter="Acme"):
    """Call it for an edge system, or what else is said, with ``tree`` as output."""
    given = ["--submitter", submitter, "--system", place / "system.json", "--results", place / "results"]
    given += [] if "--category" in words else ["--category", "edge"]
    return invoke("submit", "build", *[*given, "-o", place / "tree", *words])


def refused(place, done, reason):
    """Whether a build ended with exit status 2 and a line with the reason, and left nothing behind."""
    left = [each.name for each in place.iterdir() if "tree" in each.name]
    said = (done.exit_code, done.stdout, len(done.stderr.splitlines()))
    return said == (2, "", 1) and reason in done.stderr and left == []


def run_of(place, scenario="Offline"):
    """Return the folder of the run in a scenario."""
    (folder,) = (place / "results").glob(f"*-{scenario}-*")
    return folder


def files_of(root, system):
    """Return the files of a tree but its code, by path; the implementation has one name in all."""
    paths = (each.relative_to(root).as_posix() for each in root.rglob("*") if each.is_file())
    named = re.compile(rf"({system})_[^/]+_([A-Z]\w+\.json)$")
    return {named.sub(r"\1_name_\2", path) for path in paths if "/code/" not in path}


def change(file, **changes):
    """Replace fields of a JSON object in a file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
