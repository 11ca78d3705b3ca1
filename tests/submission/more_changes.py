"""More changes of trees than `test_check` has, to hold two checkers against each other; neither is the measure here."""

import json

from tree_changes import CHAT, DETAIL, IMAGES, RUN, STREAM, VISION, accuracy, append, audit, describe, edit, remove
from whole_tree import DATACENTER, EDGE, NETWORK, write

ERROR_LINE = ':::MLLOG {"key": "error_runtime", "value": "x", "metadata": {"is_error": true}}\n'
DAMAGED_LINE = ":::MLLOG {\n"
FIRST_TOKEN = "result_first_token_99.00_percentile_latency_ns"
SERVED_IMAGES = ("fixture_dc", "stable-diffusion-xl", "Server")
EQUAL_ISSUE = "sample_concatenate_permutation"


def implementation(tree):
    """Return the description of the implementation of ResNet-50, Offline."""
    (file,) = tree.measurements(*VISION).glob("*.json")
    return file


def put_first(file, text):
    """Put text before what is in a file."""
    file.write_text(text + file.read_text())


def reverse_lines(file):
    """Put the last line first."""
    file.write_text("".join(reversed(file.read_text().splitlines(keepends=True))))


def replace_hash(tree, text):
    """Replace the hash of the accuracy log of ResNet-50, Offline."""
    file = accuracy(tree, *VISION) / "accuracy.txt"
    kept = [line for line in file.read_text().splitlines() if not line.startswith("hash=")]
    file.write_text("\n".join([*kept, f"hash={text}"]) + "\n")


def configure(tree, *lines):
    """Replace `mlperf.conf` of Llama 2, Server."""
    write(tree.measurements(*CHAT) / "mlperf.conf", "".join(f"{line}\n" for line in lines))


def rename_model(tree, name, model="resnet50", system="fixture_edge"):
    """Call a model by another name."""
    for folder in ("results", "measurements", "compliance"):
        if (tree.submitter / folder).is_dir():
            (tree.submitter / folder / system / model).rename(tree.submitter / folder / system / name)
    (tree.submitter / "code" / model).rename(tree.submitter / "code" / name)


def log_of_test(tree, test):
    """Return the log of a compliance test of ResNet-50, SingleStream."""
    return tree.compliance(*STREAM) / test / RUN


LOGS = {
    "a log of Server": lambda t: t.log(*VISION, effective_scenario="Server"),
    "a log of MultiStream": lambda t: t.log(*VISION, effective_scenario="MultiStream"),
    "an INVALID log of SingleStream": lambda t: t.log(
        *VISION, effective_scenario="SingleStream", result_validity="INVALID"
    ),
    "an INVALID log of another scenario, in tokens": lambda t: t.log(
        *CHAT, effective_scenario="Offline", effective_samples_per_query=24576, result_validity="INVALID"
    ),
    "a damaged log of Server": lambda t: (
        t.log(*VISION, effective_scenario="Server"),
        append(t.result(*VISION) / RUN, DAMAGED_LINE),
    ),
    "a log of Server, of an unknown model": lambda t: (
        t.log(*VISION, effective_scenario="Server"),
        rename_model(t, "alexnet"),
    ),
    "a log of no scenario": lambda t: t.log(*VISION, effective_scenario=None),
    "a damaged line": lambda t: append(t.result(*VISION) / RUN, DAMAGED_LINE),
    "a line of another marker": lambda t: append(t.result(*VISION) / RUN, ":::ENDPTS {\n"),
    "an error line": lambda t: append(t.result(*VISION) / RUN, ERROR_LINE),
    "an error line in the accuracy log": lambda t: append(accuracy(t, *VISION) / DETAIL, ERROR_LINE),
    "an error line in TEST05": lambda t: append(log_of_test(t, "TEST05"), ERROR_LINE),
    "TEST01 of 599 s": lambda t: audit(t, "TEST01", effective_min_duration_ms=599_999),
    "a latency limit of 20 s": lambda t: t.log(*SERVED_IMAGES, effective_target_latency_ns=20 * 10**9),
    "a latency limit above 20 s": lambda t: t.log(*SERVED_IMAGES, effective_target_latency_ns=20 * 10**9 + 1),
    "no latency limit": lambda t: t.log(*SERVED_IMAGES, effective_target_latency_ns=None),
    "no validity": lambda t: t.log(*VISION, result_validity=None),
    "no result": lambda t: t.log(*VISION, result_samples_per_second=None),
    "no rate in samples beside that in tokens": lambda t: t.log(*CHAT, result_completed_samples_per_sec=None),
    "no rate in tokens": lambda t: t.log(*CHAT, result_completed_tokens_per_second=None),
    "no mean latency": lambda t: t.log(*VISION, result_mean_latency_ns=None),
    "no duration": lambda t: t.log(*VISION, effective_min_duration_ms=None),
    "no seed": lambda t: t.log(*VISION, effective_schedule_rng_seed=None),
    "no 99th percentile of first tokens": lambda t: t.log(*CHAT, **{FIRST_TOKEN: None}),
    "early stopping not met in Server": lambda t: t.log(*CHAT, early_stopping_met=False),
    "too few queries": lambda t: t.log(*STREAM, effective_min_query_count=10, result_query_count=10),
}
MEASUREMENTS = {
    "a text of an implementation": lambda t: implementation(t).write_text('"all five"'),
    "a broken implementation": lambda t: implementation(t).write_text("{"),
    "an implementation by the system's name": lambda t: implementation(t).rename(
        t.measurements(*VISION) / "fixture_edge.json"
    ),
    "an implementation by another name": lambda t: implementation(t).rename(
        t.measurements(*VISION) / "other_fixture_Offline.json"
    ),
    "an implementation of another scenario": lambda t: implementation(t).rename(
        t.measurements(*VISION) / "fixture_edge_fixture_Server.json"
    ),
    "neither implementation nor README": lambda t: (
        implementation(t).unlink(),
        remove(t.measurements(*VISION) / "README.md"),
    ),
    "equal issue of another scenario": lambda t: configure(t, f"*.Offline.{EQUAL_ISSUE} = 1"),
    "equal issue of the scenario": lambda t: configure(t, f"llama2-70b.Server.{EQUAL_ISSUE} = 1"),
    "equal issue of another model": lambda t: configure(t, f"gptj.*.{EQUAL_ISSUE} = 1"),
    "equal issue of the folder's name": lambda t: configure(t, f"llama2-70b-99.9.*.{EQUAL_ISSUE} = 1"),
    "equal issue by a word": lambda t: configure(t, f"*.*.{EQUAL_ISSUE} = true"),
    "equal issue off, then on": lambda t: configure(t, f"*.*.{EQUAL_ISSUE} = 0", f"*.*.{EQUAL_ISSUE} = 1"),
    "a line with two signs": lambda t: append(t.measurements(*CHAT) / "user.conf", "*.Server.target_qps = 1 = 2\n"),
    "an odd line that is not read": lambda t: append(t.measurements(*IMAGES) / "user.conf", "this is odd\n"),
}
SCORES = {
    "scores in double quotes": lambda t: edit(accuracy(t, *CHAT) / "accuracy.txt", "'rouge1'", '"rouge1"'),
    "scores without a blank": lambda t: edit(accuracy(t, *CHAT) / "accuracy.txt", "'rouge2': ", "'rouge2':"),
    "scores behind words": lambda t: edit(accuracy(t, *CHAT) / "accuracy.txt", "{'rouge1'", "Results: {'rouge1'"),
    "accuracy behind words": lambda t: edit(accuracy(t, *VISION) / "accuracy.txt", "accuracy=", "Top-1 accuracy="),
    "too many tokens": lambda t: put_first(accuracy(t, *CHAT) / "accuracy.txt", "'tokens_per_sample': 323.9\n"),
    "a short hash": lambda t: replace_hash(t, "abc"),
    "a hash with a sign": lambda t: replace_hash(t, "0123-4567"),
    "a hash behind a word": lambda t: edit(accuracy(t, *VISION) / "accuracy.txt", "hash=", "the hash="),
    "a hash before the score": lambda t: reverse_lines(accuracy(t, *VISION) / "accuracy.txt"),
    "a bad score first": lambda t: put_first(accuracy(t, *VISION) / "accuracy.txt", "accuracy=70.0%\n"),
    "no accuracy folder": lambda t: remove(accuracy(t, *VISION)),
    "no log of the accuracy run": lambda t: remove(accuracy(t, *VISION) / DETAIL),
    "an image without an ending": lambda t: (accuracy(t, *IMAGES) / "images/109.png").rename(
        accuracy(t, *IMAGES) / "images/109"
    ),
    "an image by another name": lambda t: (accuracy(t, *IMAGES) / "images/109.png").rename(
        accuracy(t, *IMAGES) / "images/i109.png"
    ),
}
TESTS = {
    "scores in TEST01 that passed": lambda t: write(
        t.compliance(*STREAM) / "TEST01/accuracy/baseline_accuracy.txt", "accuracy=76%\n"
    ),
    "replies beside TEST04's log": lambda t: write(
        t.compliance(*STREAM) / "TEST04/performance/run_1/mlperf_log_accuracy.json", "[]"
    ),
    "no replies of TEST06": lambda t: remove(t.compliance(*CHAT) / "TEST06/accuracy"),
    "no run of TEST04": lambda t: remove(t.compliance(*STREAM) / "TEST04/performance"),
}
SYSTEMS = {
    "no submitter": lambda t: describe(t, submitter=None),
    "no status": lambda t: describe(t, status=...),
    "no category": lambda t: describe(t, system_type=None),
    "a system that is not over a network": lambda t: describe(t, is_network="false"),
    "a system that may be over a network": lambda t: describe(t, is_network=None),
    "double quotes": lambda t: describe(t, framework='the "fast" one'),
    "no notes": lambda t: describe(t, hw_notes=None),
    "a number of nodes": lambda t: describe(t, number_of_nodes=1),
    "a list of descriptions": lambda t: write(t.submitter / "systems/fixture_edge.json", "[]"),
}
FOLDERS = {
    "another folder at the root": lambda t: write(t.root / "tools/run.sh", "x"),
    "a submitter without results": lambda t: write(t.root / "closed/Other/systems/a b.json", "x"),
    "a model that is unknown": lambda t: rename_model(t, "alexnet"),
    "a model by another name": lambda t: rename_model(t, "mobilenet"),
    "a model whose name holds a known one": lambda t: rename_model(t, "our-resnet50-int8"),
    "a link to a file by its whole path": lambda t: (t.submitter / "code/resnet50/link").symlink_to(
        t.submitter / "calibration.md"
    ),
}
TABLES_OF_THE_SMALL_TREE = (LOGS, MEASUREMENTS, SCORES, TESTS, SYSTEMS, FOLDERS)
OF_THE_SMALL_TREE = {name: change for table in TABLES_OF_THE_SMALL_TREE for name, change in table.items()}
"""Of the tree of seven results."""

# Trees of one model: name to division, category, models, change


def score(model, scenario, line):
    """Return a change of the line with the score."""

    def change(tree):
        file = tree.result("anvil", model, scenario) / "accuracy/accuracy.txt"
        kept = [each for each in file.read_text().splitlines() if each.startswith("hash=")]
        file.write_text("\n".join([line, *kept]) + "\n")

    return change


def scores(models, category, model, *lines):
    """Return trees with these lines for scores."""
    alone = {model: models[model]}
    return {f"{model}: {line}": ("closed", category, alone, score(model, "Offline", line)) for line in lines}


def without_equal_issue(model):
    """Return a change of the configuration of a model."""
    return lambda t: write(t.measurements("anvil", model, "Offline") / "mlperf.conf", "# nothing\n")


def with_an_odd_line(model):
    """Return a change of the configuration of a model."""
    return lambda t: append(t.measurements("anvil", model, "Offline") / "mlperf.conf", "odd\n")


def map_model(name):
    """Return a change to a model of one's own, mapped to this name."""

    def change(tree):
        rename_model(tree, "mine", system="anvil")
        write(tree.submitter / "model_mapping.json", json.dumps({"mine": name}))

    return change


ROUGE = "{{'rouge1': {}, 'rouge2': 20.2, 'rougeL': 30, 'gen_len': {}}}"
MIXED_SCORES = "{{'rouge1': 45.1, 'rouge2': 23.1, 'rougeL': 30.1, 'gsm8k': 73.1, 'mbxp': {}, 'tokens_per_sample': {}}}"
ONE = {"resnet50": ("Offline",)}
OTHER_TREES = {
    **scores(
        DATACENTER,
        "datacenter",
        "bert-99",
        '{"exact_match": 83.7, "f1": 89.96526}',
        '{"exact_match": 83.7, "f1": 89.965259}',
        "{'exact_match': 83.7, 'f1': 90.0}",
        '{"exact_match":83.7,"f1":90.5} and more',
        '{"f1": 90.8, "exact_match": 83.7}',
        ' {"exact_match": 83.7, "f1": 90.5}',
        '{"exact_match": 83.7, "f1": 90.5, "x": 1}',
        '{"exact_match": 83.7, "f1": 9.05e1}',
    ),
    **scores(
        EDGE,
        "edge",
        "3d-unet-99",
        "Accuracy: mean = 0.853083",
        "Accuracy: mean = 0.853082",
        "Accuracy:mean=0.86",
        "accuracy: mean = 0.86",
        "The Accuracy: mean = 0.86",
    ),
    **scores(
        DATACENTER,
        "datacenter",
        "stable-diffusion-xl",
        "{'FID_SCORE': 23.01085758, 'CLIP_SCORE': 31.81331801}",
        "{'FID_SCORE': 23.010857, 'CLIP_SCORE': 31.75}",
        "{'FID_SCORE': 23.95007627, 'CLIP_SCORE': 31.75}",
        "{'CLIP_SCORE': 31.75}",
        "{'FID_SCORE': 23.5}\n{'CLIP_SCORE': 31.75}",
    ),
    **scores(
        EDGE,
        "edge",
        "gptj-99.9",
        ROUGE.format(42.9435135, 3615191),
        ROUGE.format(42.94, 3615191),
        ROUGE.format(43, 3615190),
        ROUGE.format("'43'", 3615191),
    ),
    **scores(
        DATACENTER,
        "datacenter",
        "mixtral-8x7b",
        MIXED_SCORES.format(59.6, 160.49),
        MIXED_SCORES.format(59.5, 160.49),
        MIXED_SCORES.format(59.6, 160.5),
    ),
    **scores(EDGE, "edge", "retinanet", "mAP=37.1745%", "mAP=37.17449%"),
    **scores(DATACENTER, "datacenter", "dlrm-v2-99.9", "AUC=80.22969%", "AUC=80.229689%"),
    **{
        f"{model} without equal issue, {division}": (
            division,
            "datacenter",
            {model: DATACENTER[model]},
            without_equal_issue(model),
        )
        for model in ("mixtral-8x7b", "llama2-70b-99", "llama2-70b-99.9", "3d-unet-99", "3d-unet-99.9", "gptj-99")
        for division in ("closed", "open")
    },
    **{
        f"3d-unet-99 {change.__name__.replace('_', ' ')}, network": (
            "network",
            "datacenter",
            {"3d-unet-99": DATACENTER["3d-unet-99"]},
            change("3d-unet-99"),
        )
        for change in (without_equal_issue, with_an_odd_line)
    },
    **{
        f"all scenarios of {model}, {division}, {category}": (
            division,
            category,
            {model: ("SingleStream", "Offline") if "unet" in model else ("SingleStream", "Offline", "Server")},
            lambda t: None,
        )
        for model in ("bert-99", "bert-99.9", "3d-unet-99", "llama2-70b-99", "mixtral-8x7b", "stable-diffusion-xl")
        for division, category in (
            ("closed", "datacenter"),
            ("closed", "edge"),
            ("closed", "datacenter,edge"),
            ("open", "edge"),
            ("network", "datacenter"),
        )
    },
    **{
        f"open, {name}": ("open", "edge", ONE, change)
        for name, change in {
            "mapped to resnet": map_model("resnet"),
            "mapped to resnet50": map_model("resnet50"),
            "mapped to alexnet": map_model("alexnet"),
            "INVALID": lambda t: t.log("anvil", "resnet50", "Offline", result_validity="INVALID"),
            "no accuracy folder": lambda t: remove(t.result("anvil", "resnet50", "Offline") / "accuracy"),
            "no score": score("resnet50", "Offline", "none"),
            "an error in the accuracy log": lambda t: append(
                t.result("anvil", "resnet50", "Offline") / "accuracy" / DETAIL, ERROR_LINE
            ),
        }.items()
    },
    **{
        f"network, {name}": ("network", "datacenter", {"resnet50": ("Server", "Offline")}, change)
        for name, change in {
            "as it should be": lambda t: None,
            "another name of the system": lambda t: t.log("anvil", "resnet50", "Offline", sut_name="SUT"),
            "no name of the system": lambda t: t.log("anvil", "resnet50", "Offline", sut_name=None),
        }.items()
    },
}


def over_a_network(tree):
    """Describe a system as one over a network."""
    file = tree.submitter / "systems/anvil.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"is_network": "true"} | dict.fromkeys(NETWORK, "x")))
