"""A tree of made logs that the official checker accepts, as its own structural test: never a result.

Written from the description of the tree and of the keys that the checker reads, not from mlbench's tables.
"""

import hashlib
import json
from pathlib import Path

SUBMITTER = "Fixture"
NORMAL = (3066443479025735752, 10688027786191513374, 14962580496156340209)
TEST05 = (16799458546791641818, 5453809927556429288, 5435552105434836064)
REPLIES = "[\n]\n"
IMAGES = ("4655", "2569", "1303", "109", "4509", "3009", "2179", "1826", "2094", "3340")

DATACENTER = {
    **{f"{name}": ("Server", "Offline") for name in ("resnet50", "retinanet", "bert-99", "bert-99.9")},
    **{f"{name}": ("Server", "Offline") for name in ("dlrm-v2-99", "dlrm-v2-99.9", "gptj-99", "gptj-99.9")},
    **{f"{name}": ("Server", "Offline") for name in ("llama2-70b-99", "llama2-70b-99.9", "mixtral-8x7b")},
    "stable-diffusion-xl": ("Server", "Offline"),
    "3d-unet-99": ("Offline",),
    "3d-unet-99.9": ("Offline",),
}
EDGE = {
    **{f"{name}": ("SingleStream", "MultiStream", "Offline") for name in ("resnet50", "retinanet")},
    **{f"{name}": ("SingleStream", "Offline") for name in ("bert-99", "3d-unet-99", "3d-unet-99.9")},
    **{f"{name}": ("SingleStream", "Offline") for name in ("gptj-99", "gptj-99.9", "stable-diffusion-xl")},
}
LOADED = {"resnet50": 1024, "retinanet": 64, "bert": 10833, "dlrm-v2": 204800, "3d-unet": 43, "gptj": 13368}
LOADED |= {"llama2-70b": 24576, "mixtral-8x7b": 15000, "stable-diffusion-xl": 5000}
SENT = {**LOADED, "resnet50": 24576, "retinanet": 24576, "dlrm-v2": 24576}
LATENCY_MS = {"resnet50": 15, "retinanet": 100, "bert": 130, "dlrm-v2": 60, "gptj": 20000, "stable-diffusion-xl": 20000}
TESTS = {"resnet50": ("TEST01", "TEST04", "TEST05"), "gptj": (), "stable-diffusion-xl": ("TEST01", "TEST04")}
TESTS |= {name: ("TEST01", "TEST05") for name in ("retinanet", "bert", "dlrm-v2", "3d-unet")}
TESTS |= {name: ("TEST06",) for name in ("llama2-70b", "mixtral-8x7b")}
ROUGE = "{{'rouge1': {}, 'rouge2': {}, 'rougeL': {}, 'gen_len': 4016878, 'tokens_per_sample': {}}}"
SCORES = {
    "resnet50": "accuracy=76.456%, good=38228, total=50000",
    "retinanet": "mAP=37.55%",
    "bert": '{"exact_match": 83.784, "f1": 90.874}',
    "dlrm-v2": "AUC=80.31%, accuracy=96.605%, good=1, total=1",
    "3d-unet": "Accuracy: mean = 0.86170, kidney = 0.9346, tumor = 0.7877",
    "gptj": ROUGE.format(42.9865, 20.1235, 29.9881, 69.0),
    "llama2-70b": ROUGE.format(44.4312, 22.0352, 28.6162, 294.45),
    "mixtral-8x7b": f"{ROUGE.format(45.5, 23.3, 30.4, 145.9)[:-1]}, 'gsm8k': 73.8, 'mbxp': 60.2}}",
    "stable-diffusion-xl": "Accuracy Results: {'FID_SCORE': 23.5, 'CLIP_SCORE': 31.75}",
}
SYSTEM = dict.fromkeys(
    "system_type_detail host_processor_frequency host_processor_caches host_processor_interconnect "
    "accelerator_frequency accelerator_interconnect_topology accelerator_on-chip_memories hw_notes sw_notes".split(),
    "",
) | dict.fromkeys(
    "host_processor_model_name host_memory_capacity host_memory_configuration host_storage_capacity host_storage_type "
    "host_networking host_networking_topology accelerator_model_name accelerator_memory_capacity "
    "accelerator_host_interconnect accelerator_interconnect accelerator_memory_configuration cooling framework "
    "operating_system other_software_stack".split(),
    "N/A",
)
SYSTEM |= {
    "submitter": SUBMITTER,
    "status": "available",
    "system_name": "fixture",
    "number_of_nodes": "1",
    "host_processors_per_node": "1",
    "host_processor_core_count": "2",
    "host_network_card_count": "1",
    "accelerators_per_node": "0",
}
NETWORK = (
    *("network_type", "network_media", "network_rate", "nic_loadgen", "number_nic_loadgen"),
    *("net_software_stack_loadgen", "network_protocol", "number_connections", "nic_sut", "number_nic_sut"),
    *("net_software_stack_sut", "network_topology"),
)
"""What a system that is reached over a network has beside ``is_network``."""
IMPLEMENTATION = {
    "input_data_types": "fp32",
    "retraining": "N",
    "starting_weights_filename": "none",
    "weight_data_types": "fp32",
    "weight_transformations": "none",
}
VERIFIED_TOKENS = (
    "First token check pass: True\nEOS check pass: True\nSample length check pass: True\nTEST06 complete\n"
)


def base(model):
    """Return the name of a model without its accuracy."""
    return model.removesuffix("-99.9").removesuffix("-99")


def detail_of(model, scenario, seeds=NORMAL, **changes):
    """Return the detail log of a run that is valid in every respect, but for these keys; None removes one."""
    name = base(model)
    is_tokens = name in ("llama2-70b", "mixtral-8x7b")
    values = {
        "test_datetime": "2024-07-20T12:00:00Z",
        "sut_name": "Network SUT of the fixture",
        "effective_scenario": scenario,
        "effective_test_mode": "PerformanceOnly",
        "effective_samples_per_query": {"MultiStream": 8, "Offline": SENT[name]}.get(scenario, 1),
        "effective_min_duration_ms": 600000,
        "effective_min_query_count": {"MultiStream": 662, "Offline": 1}.get(scenario, 100),
        **dict(zip((f"effective_{key}_rng_seed" for key in ("qsl", "sample_index", "schedule")), seeds, strict=True)),
        "effective_performance_sample_count": LOADED[name],
        "effective_target_latency_ns": 0 if is_tokens else LATENCY_MS.get(name, 0) * 10**6,
        "effective_target_qps": 50,
        "effective_sample_concatenate_permutation": name in ("3d-unet", "gptj", "llama2-70b", "mixtral-8x7b"),
        "generated_samples_per_query": {"MultiStream": 8, "Offline": SENT[name]}.get(scenario, 1),
        "requested_use_token_latencies": is_tokens,
        "requested_server_ttft_latency": 2000 * 10**6,
        "requested_server_tpot_latency": 200 * 10**6,
        "power_begin": "07-20-2024 12:00:00.000",
        "power_end": "07-20-2024 12:10:10.000",
        "result_validity": "VALID",
        "result_perf_constraints_met": True,
        "result_min_duration_met": True,
        "result_min_queries_met": True,
        "early_stopping_met": True,
        "early_stopping_result": "",
        "result_query_count": 1 if scenario == "Offline" else 30000,
        "result_overlatency_query_count": 0,
        "result_samples_per_second": 1000.0,
        "result_completed_samples_per_sec": 49.5,
        "result_tokens_per_second": 3000.0,
        "result_completed_tokens_per_second": 2500.0,
        "result_inferred_tokens_per_second": 69000.0,
        "result_inferred_completed_tokens_per_second": 3400.0,
        "result_qps_without_loadgen_overhead": 50.0,
        "early_stopping_latency_ss": 20_000_000,
        "early_stopping_latency_ms": 160_000_000,
        "result_mean_latency_ns": 10_000_000,
        "result_mean_query_latency_ns": 10_000_000,
        "result_max_latency_ns": 610_000_000_000,
        "result_99.00_percentile_latency_ns": 12_000_000,
        "result_99.00_percentile_per_query_latency_ns": 12_000_000,
        "result_first_token_99.00_percentile_latency_ns": 500_000_000,
        "result_time_per_output_token_99.00_percentile_ns": 50_000_000,
        **changes,
    }
    records = ({"key": key, "value": value, "metadata": {"is_error": False}} for key, value in values.items())
    return "".join(f":::MLLOG {json.dumps(record)}\n" for record in records if record["value"] is not None)


def write(file: Path, text: str) -> Path:
    """Write a file, and the folders above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


class WholeTree:
    """A tree under construction."""

    def __init__(self, root, division="closed"):
        self.root, self.division = root, division
        self.submitter = root / division / SUBMITTER

    def result(self, system, model, scenario):
        """Return the folder of a result."""
        return self.submitter / "results" / system / model / scenario

    def measurements(self, system, model, scenario):
        """Return the folder that describes it."""
        return self.submitter / "measurements" / system / model / scenario

    def compliance(self, system, model, scenario):
        """Return the folder of its compliance tests."""
        return self.submitter / "compliance" / system / model / scenario

    def log(self, *place, **changes):
        """Replace the performance log of a result by one with other values."""
        write(self.result(*place) / "performance/run_1/mlperf_log_detail.txt", detail_of(*place[1:], **changes))

    def add(self, system, system_type, models):
        """Add a system with all that it needs."""
        text = json.dumps(SYSTEM | {"division": self.division, "system_type": system_type})
        write(self.submitter / f"systems/{system}.json", text)
        write(self.submitter / "calibration.md", "No calibration.\n")
        for model, scenarios in models.items():
            write(self.submitter / f"code/{model}/README.md", "A fixture.\n")
            for scenario in scenarios:
                self._add_result(system, model, scenario)
        return self

    def _add_result(self, system, model, scenario):
        place = (system, model, scenario)
        folder, measurements = self.result(*place), self.measurements(*place)
        self._add_run(folder / "performance/run_1", detail_of(model, scenario))
        self._add_accuracy(folder / "accuracy", f"{SCORES[base(model)]}\n")
        write(folder / "accuracy/mlperf_log_summary.txt", "A fixture.\n")
        write(folder / "accuracy/mlperf_log_detail.txt", detail_of(model, scenario, effective_test_mode="AccuracyOnly"))
        if model == "stable-diffusion-xl":
            for name in (*(f"{image}.png" for image in IMAGES), "captions.txt"):
                write(folder / "accuracy/images" / name, "A fixture.\n")
        write(measurements / f"{system}_fixture_{scenario}.json", json.dumps(IMPLEMENTATION))
        write(measurements / "README.md", "A fixture, no result.\n")
        write(measurements / "user.conf", f"*.{scenario}.target_qps = 50\n")
        write(measurements / "mlperf.conf", "*.*.sample_concatenate_permutation = 1\n")
        write(measurements / "calibration_process.adoc", "No calibration.\n")
        for test in TESTS[base(model)] if self.division != "open" else ():
            self._add_test(self.compliance(*place) / test, model, scenario)

    def _add_test(self, folder, model, scenario):
        if folder.name == "TEST06":
            write(folder / "verify_accuracy.txt", VERIFIED_TOKENS)
            write(folder / "accuracy/mlperf_log_accuracy.json", REPLIES)
            return
        write(folder / "verify_performance.txt", "TEST PASS\n")
        seeds = TEST05 if folder.name == "TEST05" else NORMAL
        self._add_run(folder / "performance/run_1", detail_of(model, scenario, seeds))
        if folder.name == "TEST01":
            write(folder / "verify_accuracy.txt", "TEST PASS\n")
            self._add_accuracy(folder / "accuracy", "")

    def _add_run(self, folder, detail):
        write(folder / "mlperf_log_detail.txt", detail)
        write(folder / "mlperf_log_summary.txt", "A fixture.\n")

    def _add_accuracy(self, folder, scores):
        write(folder / "mlperf_log_accuracy.json", REPLIES)
        digest = hashlib.sha256(REPLIES.encode()).hexdigest()
        write(folder / "accuracy.txt", f"{scores}hash={digest}\n")
