"""The rules of MLPerf Inference v4.1 as plain tables, for the independent checker of submission trees.

Copied by hand from the rules document, LoadGen's log format and the submission pages of v4.1, never from mlbench's own
rules, so that the two can be held against each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DIVISIONS = ("closed", "open", "network")
CATEGORIES = ("datacenter", "edge", "datacenter,edge", "edge,datacenter")
AVAILABILITY = ("available", "preview", "rdi")

SINGLE, MULTI, SERVER, OFFLINE = "SingleStream", "MultiStream", "Server", "Offline"
# How a scenario's folder may be spelled, and the scenario it is.
SCENARIO_FOLDERS = {name: s for s in (SINGLE, MULTI, SERVER, OFFLINE) for name in (s, s.lower())}

# --- The workloads ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is the same for a workload's 99 % and 99.9 % variants; the conf name is LoadGen's name for it."""

    conf_name: str
    performance_samples: int  # least size of the loaded set
    offline_samples: int  # least samples of the one Offline query
    server_limit_ms: int | None = None
    tests: tuple[str, ...] = ()
    is_equal_issue: bool = False  # every sample is issued equally often
    has_token_limits: bool = False  # time to first token and per output token take the place of the latency limit
    result_keys: tuple[tuple[str, str], ...] = ()  # (scenario, key) of a result in tokens, read beside the usual one


TOKENS = ((OFFLINE, "result_tokens_per_second"), (SERVER, "result_completed_tokens_per_second"))
INFERRED_TOKENS = (
    (OFFLINE, "result_inferred_tokens_per_second"),
    (SERVER, "result_inferred_completed_tokens_per_second"),
)

RESNET50 = Workload(
    conf_name="resnet50",
    performance_samples=1024,
    offline_samples=24576,
    server_limit_ms=15,
    tests=("TEST01", "TEST04", "TEST05"),
)
RETINANET = Workload(
    conf_name="retinanet",
    performance_samples=64,
    offline_samples=24576,
    server_limit_ms=100,
    tests=("TEST01", "TEST05"),
)
BERT = Workload(
    conf_name="bert",
    performance_samples=10833,
    offline_samples=10833,
    server_limit_ms=130,
    tests=("TEST01", "TEST05"),
)
DLRM = Workload(
    conf_name="dlrm-v2",
    performance_samples=204800,
    offline_samples=24576,
    server_limit_ms=60,
    tests=("TEST01", "TEST05"),
)
UNET = Workload(
    conf_name="3d-unet",
    performance_samples=43,
    offline_samples=43,
    tests=("TEST01", "TEST05"),
    is_equal_issue=True,
)
GPTJ = Workload(
    conf_name="gptj",
    performance_samples=13368,
    offline_samples=13368,
    server_limit_ms=20000,
    is_equal_issue=True,
    result_keys=INFERRED_TOKENS,
)
LLAMA2 = Workload(
    conf_name="llama2-70b",
    performance_samples=24576,
    offline_samples=24576,
    tests=("TEST06",),
    is_equal_issue=True,
    has_token_limits=True,
    result_keys=TOKENS,
)
MIXTRAL = Workload(
    conf_name="mixtral-8x7b",
    performance_samples=15000,
    offline_samples=15000,
    tests=("TEST06",),
    is_equal_issue=True,
    has_token_limits=True,
    result_keys=TOKENS,
)
SDXL = Workload(
    conf_name="stable-diffusion-xl",
    performance_samples=5000,
    offline_samples=5000,
    server_limit_ms=20000,
    tests=("TEST01", "TEST04"),
)

TTFT_LIMIT_MS, TPOT_LIMIT_MS = 2000, 200

# --- The models: a workload with an accuracy target -------------------------------------------------------------------

Limits = tuple[float, float | None]  # lowest, highest


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as the official checker names it: where it exists, and what accuracy it must reach."""

    workload: Workload
    scenarios: dict[str, frozenset[str]]  # category to the scenarios that are required there, and only they are allowed
    targets: dict[str, Limits]  # metric to its limits; all of them must be met
    is_equal_issue_checked: bool = False  # the official checker asks only three of those whose workload wants it


def categories(datacenter: str, edge: str, both: str) -> dict[str, frozenset[str]]:
    """Spell out a row of the table of required scenarios; an empty text is a category without the model."""
    letters = {"S": SERVER, "O": OFFLINE, "SS": SINGLE, "MS": MULTI}
    row = {"datacenter": datacenter, "edge": edge, "datacenter,edge": both, "edge,datacenter": both}
    return {category: frozenset(letters[word] for word in text.split()) for category, text in row.items() if text}


VISION = categories("S O", "SS MS O", "SS O MS S")
SERVED_AND_EDGE = categories("S O", "SS O", "SS O S")
SERVED = categories("S O", "", "S O")
VOLUMES = categories("O", "SS O", "SS O")
MIXTRAL_SCENARIOS = categories("S O", "", "SS S O")  # SingleStream of both categories: a slip of the official checker


def gptj(*rouge: float) -> dict[str, Limits]:
    """The targets of GPT-J; the length is 90 % in both variants."""
    one, two, longest = rouge
    return {"ROUGE1": (one, None), "ROUGE2": (two, None), "ROUGEL": (longest, None), "GEN_LEN": (3615190.2, None)}


def llama2(*rouge: float) -> dict[str, Limits]:
    """The targets of Llama 2; the tokens per sample are 90 to 110 % in both variants."""
    one, two, longest = rouge
    limits: dict[str, Limits] = {"ROUGE1": (one, None), "ROUGE2": (two, None), "ROUGEL": (longest, None)}
    return limits | {"TOKENS_PER_SAMPLE": (265.005, 323.895)}


MODELS = {
    "resnet": Model(workload=RESNET50, scenarios=VISION, targets={"acc": (75.6954, None)}),
    "retinanet": Model(workload=RETINANET, scenarios=VISION, targets={"mAP": (37.1745, None)}),
    "bert-99": Model(workload=BERT, scenarios=SERVED_AND_EDGE, targets={"F1": (89.96526, None)}),
    "bert-99.9": Model(workload=BERT, scenarios=SERVED, targets={"F1": (90.783126, None)}),
    "dlrm-v2-99": Model(workload=DLRM, scenarios=SERVED, targets={"AUC": (79.5069, None)}),
    "dlrm-v2-99.9": Model(workload=DLRM, scenarios=SERVED, targets={"AUC": (80.22969, None)}),
    "3d-unet-99": Model(
        workload=UNET, scenarios=VOLUMES, targets={"DICE": (0.853083, None)}, is_equal_issue_checked=True
    ),
    "3d-unet-99.9": Model(workload=UNET, scenarios=VOLUMES, targets={"DICE": (0.8608383, None)}),
    "gptj-99": Model(workload=GPTJ, scenarios=SERVED_AND_EDGE, targets=gptj(42.556635, 19.922265, 29.688219)),
    "gptj-99.9": Model(workload=GPTJ, scenarios=SERVED_AND_EDGE, targets=gptj(42.9435135, 20.1033765, 29.9581119)),
    "llama2-70b-99": Model(workload=LLAMA2, scenarios=SERVED, targets=llama2(43.986888, 21.814848, 28.330038)),
    "llama2-70b-99.9": Model(
        workload=LLAMA2,
        scenarios=SERVED,
        targets=llama2(44.3867688, 22.0131648, 28.5875838),
        is_equal_issue_checked=True,
    ),
    "mixtral-8x7b": Model(
        workload=MIXTRAL,
        scenarios=MIXTRAL_SCENARIOS,
        targets={
            "ROUGE1": (45.036189, None),
            "ROUGE2": (23.050071, None),
            "ROUGEL": (30.057885, None),
            "gsm8k_accuracy": (73.0422, None),
            "mbxp_accuracy": (59.5188, None),
            "TOKENS_PER_SAMPLE": (131.31, 160.49),
        },
        is_equal_issue_checked=True,
    ),
    "stable-diffusion-xl": Model(
        workload=SDXL,
        scenarios=SERVED_AND_EDGE,
        targets={"CLIP_SCORE": (31.68631873, 31.81331801), "FID_SCORE": (23.01085758, 23.95007626)},
    ),
}

ALIASES = {"ssd-resnet34": "retinanet", "mobilenet": "resnet", "resnet50": "resnet"}
# A name that contains the left is taken for the right, the first one wins.
NAME_PARTS = (
    ("mobilenet", "resnet"),
    ("efficientnet", "resnet"),
    ("resnet50", "resnet"),
    ("bert-99.9", "bert-99.9"),
    ("bert-99", "bert-99"),
)

# --- Accuracy ---------------------------------------------------------------------------------------------------------

NUMBER = r"([0-9.]+)"
METRIC_LINES = {  # tried from the start of each line
    "acc": re.compile(f"accuracy={NUMBER}"),
    "mAP": re.compile(f"mAP={NUMBER}"),
    "F1": re.compile(rf"""{{["']exact_match["']:\s*[0-9.]+,\s*["']f1["']:\s*{NUMBER}}}"""),
    "AUC": re.compile(f"AUC={NUMBER}"),
    "DICE": re.compile(rf"Accuracy:\s*mean\s*=\s*{NUMBER}"),
} | {
    metric: re.compile(rf".*'{name}':\s{NUMBER}")
    for metric, name in {
        "ROUGE1": "rouge1",
        "ROUGE2": "rouge2",
        "ROUGEL": "rougeL",
        "GEN_LEN": "gen_len",
        "TOKENS_PER_SAMPLE": "tokens_per_sample",
        "gsm8k_accuracy": "gsm8k",
        "mbxp_accuracy": "mbxp",
        "CLIP_SCORE": "CLIP_SCORE",
        "FID_SCORE": "FID_SCORE",
    }.items()
}
HASH_LINE = re.compile(r"hash=([A-Za-z0-9]+)\n?")
SHA256 = re.compile("[0-9a-fA-F]{64}")
TRUNCATED_LOG_BYTES = 10240
TRUNCATION_MARK = b"\n\n...\n\n"
ACCURACY_MODES = ("AccuracyOnly", "SubmissionRun")
SDXL_IMAGES = ("4655", "2569", "1303", "109", "4509", "3009", "2179", "1826", "2094", "3340")

# --- LoadGen ----------------------------------------------------------------------------------------------------------

SEED_KEYS = ("effective_qsl_rng_seed", "effective_sample_index_rng_seed", "effective_schedule_rng_seed")
SEEDS = dict(zip(SEED_KEYS, (3066443479025735752, 10688027786191513374, 14962580496156340209), strict=True))
TEST05_SEEDS = dict(zip(SEED_KEYS, (16799458546791641818, 5453809927556429288, 5435552105434836064), strict=True))
# What the log of a compliance test shows of its configuration.
AUDIT_SETTINGS: dict[str, dict[str, int]] = {
    "TEST01": {"effective_accuracy_log_rng_seed": 720381539243781796},
    "TEST04": {
        "effective_performance_issue_unique": 0,
        "effective_performance_issue_same": 1,
        "effective_performance_issue_same_index": 3,
    },
    "TEST05": {},
}
MIN_DURATION_MS = 600_000

RESULT_KEYS = {
    OFFLINE: "result_samples_per_second",
    SERVER: "result_completed_samples_per_sec",
    SINGLE: "early_stopping_latency_ss",
    MULTI: "early_stopping_latency_ms",
}
MULTI_SAMPLES = 8
MIN_QUERIES = {SINGLE: 100, SERVER: 100, MULTI: 662}  # as LoadGen is configured
# Fewest queries for which early stopping gives an answer: 90th percentile, 99th, 99th.
EARLY_STOPPING_QUERIES = {SINGLE: 64, MULTI: 662, SERVER: 459}

# --- Files ------------------------------------------------------------------------------------------------------------

FILE_LIMIT_BYTES = 50 * 2**20
ROOT_FILES = (".md", ".pdf")
DETAIL, ACCURACY_LOG = "mlperf_log_detail.txt", "mlperf_log_accuracy.json"
LOGS = {"mlperf_log_summary.txt", DETAIL}
ACCURACY_FILES = LOGS | {ACCURACY_LOG, "accuracy.txt"}
ACCURACY_EXTRAS = {"mlperf_log_trace.json", "results.json", ".gitkeep"}
PERFORMANCE_EXTRAS = {ACCURACY_LOG, "mlperf_log_trace.json", "results.json"}
TEST01_FILES = {ACCURACY_LOG, "accuracy.txt"}
TEST01_SCORES = {"baseline_accuracy.txt", "compliance_accuracy.txt"}
POWER_FILES = {"client.json", "client.log", "ptd_logs.txt", "server.json", "server.log"}
POWER_LOG = "spl.txt"
POWER_TIME = "%m-%d-%Y %H:%M:%S.%f"
POWER_SETTINGS = ("analyzer_table", "power_settings")
MEASUREMENT_FILES = ("README.md", "user.conf", "mlperf.conf")
MEASUREMENT_KEYS = (
    "input_data_types",
    "retraining",
    "starting_weights_filename",
    "weight_data_types",
    "weight_transformations",
)
CALIBRATION_FILES = ("calibration.md", "documentation/calibration.md")
TEST06_LINES = (
    ("First token check pass: True", "First token check pass: Skipped"),
    ("EOS check pass: True",),
    ("Sample length check pass: True",),
)

# A star: the value must not be empty, zero, false or null.
SYSTEM_KEYS = """
    *division *submitter *status *system_name *system_type system_type_detail *number_of_nodes
    *host_processor_model_name *host_processors_per_node *host_processor_core_count host_processor_frequency
    host_processor_caches host_processor_interconnect *host_memory_capacity *host_memory_configuration
    *host_storage_capacity *host_storage_type *host_networking *host_network_card_count *host_networking_topology
    *accelerators_per_node *accelerator_model_name *accelerator_memory_capacity accelerator_frequency
    *accelerator_host_interconnect *accelerator_interconnect accelerator_interconnect_topology
    *accelerator_memory_configuration accelerator_on-chip_memories *cooling *framework *operating_system
    *other_software_stack hw_notes sw_notes
    """.split()
NETWORK_KEYS = """
    network_type network_media network_rate nic_loadgen number_nic_loadgen net_software_stack_loadgen network_protocol
    number_connections nic_sut number_nic_sut net_software_stack_sut network_topology
    """.split()
STRING_KEYS = """
    hw_notes sw_notes system_name host_processor_model_name accelerator_model_name framework operating_system
    """.split()
