"""Changes of a tree of seven results: three of an edge system, and four of one in a datacenter."""

import json
import shutil

from whole_tree import DATACENTER, TEST05, detail_of, write

VISION = ("fixture_edge", "resnet50", "Offline")
STREAM = ("fixture_edge", "resnet50", "SingleStream")
MULTI = ("fixture_edge", "resnet50", "MultiStream")
CHAT = ("fixture_dc", "llama2-70b-99.9", "Server")
CHAT_OFFLINE = ("fixture_dc", "llama2-70b-99.9", "Offline")
IMAGES = ("fixture_dc", "stable-diffusion-xl", "Offline")
DETAIL = "mlperf_log_detail.txt"
RUN = f"performance/run_1/{DETAIL}"
SMALL = {name: DATACENTER[name] for name in ("llama2-70b-99.9", "stable-diffusion-xl")}


def lost(check):
    """Return how many results are refused here, and by the official checker."""
    count = len(check.entries)
    return count - check.accepted, count - check.accepted_officially


def rules(check):
    """Return the rules that refuse something."""
    return {each.rule for each in check.findings if not each.is_note}


def edit(file, old, new):
    """Replace text that is in a file."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def describe(tree, **fields):
    """Change fields of the edge system; ... removes one."""
    file = tree.submitter / "systems/fixture_edge.json"
    found = json.loads(file.read_text()) | fields
    file.write_text(json.dumps({name: value for name, value in found.items() if name not in fields or value != ...}))


def remove(path):
    """Remove a file or a folder."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def accuracy(tree, *place):
    """Return the accuracy folder of a result."""
    return tree.result(*place) / "accuracy"


def link(tree, target):
    """Put a link among the code."""
    (tree.submitter / "code/resnet50/link").symlink_to(target)


def large(tree, size):
    """Put a file of this size among the code."""
    with write(tree.submitter / "code/resnet50/weights", "").open("wb") as file:
        file.truncate(size)


def rename(tree, system, model, scenario, name):
    """Rename the folders of a scenario."""
    for folder in (tree.result, tree.measurements, tree.compliance):
        folder(system, model, scenario).rename(folder(system, model, name))


def copy(tree, system, model, scenario, name):
    """Make a result of another scenario, whose log is right."""
    for folder in (tree.result, tree.measurements, tree.compliance):
        shutil.copytree(folder(system, model, scenario), folder(system, model, name))
    for log in (tree.compliance(system, model, name)).rglob("mlperf_log_detail.txt"):
        seeds = {"seeds": TEST05} if "TEST05" in str(log) else {}
        log.write_text(detail_of(model, name, **seeds))
    tree.log(system, model, name)


def append(file, text):
    """Add text to a file."""
    file.write_text(file.read_text() + text)


def audit(tree, test, **changes):
    """Replace the log of a compliance test of ResNet-50, SingleStream."""
    seeds = TEST05 if test == "TEST05" else {}
    given = {"seeds": seeds} if seeds else {}
    log = tree.compliance(*STREAM) / test / "performance/run_1/mlperf_log_detail.txt"
    log.write_text(detail_of(*STREAM[1:], **given, **changes))


def unlike(tree, baseline, compliance):
    """Let the outputs of TEST01 differ, with two scores of the same samples."""
    folder = tree.compliance(*STREAM) / "TEST01"
    write(folder / "verify_accuracy.txt", "TEST FAIL\n")
    write(folder / "accuracy/baseline_accuracy.txt", f"accuracy={baseline}%\n")
    write(folder / "accuracy/compliance_accuracy.txt", f"accuracy={compliance}%\n")


def log_of(tree):
    """Return the accuracy log of TEST01."""
    return tree.compliance(*STREAM) / "TEST01/accuracy/mlperf_log_accuracy.json"


def runs(tree, *tests):
    """Return the performance folders of tests."""
    return [tree.compliance(*STREAM) / test / "performance" for test in tests]


def code_by_name(tree):
    """Let a file name the folder of ResNet-50's code."""
    remove(tree.submitter / "code/resnet50")
    write(tree.submitter / "code/vision/README.md", "x")
    write(tree.submitter / "code/resnet50", "vision\n")
