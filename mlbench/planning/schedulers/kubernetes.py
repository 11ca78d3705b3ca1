"""A suite's job as a manifest for Kubernetes.

Source: the reference of the Kubernetes API, Job of batch/v1 and ConfigMap of v1, in version 1.31.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlbench.errors import UnavailableError
from mlbench.planning.schedulers.suite_job import JobDemand, SuiteJob

_DEVICE = "nvidia.com/gpu"
"""What the device plugin of NVIDIA calls a GPU."""
_CONTAINER, _SUITE, _CLAIM, _KEY = "mlbench", "suite", "kept", "suite.toml"
_LABELS = {"app.kubernetes.io/name": "mlbench"}
_RETRIES = 6
_FINAL_STATUSES = [1, 2]
"""A run failed or is not valid; wrong usage. Another attempt would end the same way."""


def kubernetes_manifest(job: SuiteJob, demand: JobDemand) -> str:
    """Return the manifest: a ConfigMap with the suite file, and the Job.

    Folders have the paths of this machine in the container, and are folders of the claim: ``results``, ``data``,
    ``cache``, ``settings``.

    Raises:
        UnavailableError: PyYAML is not installed.
    """
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise UnavailableError("PyYAML is not installed.", hint="pip install 'mlbench-inference[cpu]'") from None

    dumper_of_lines = type("LinesDumper", (yaml.SafeDumper,), {"ignore_aliases": lambda self, data: True})
    yaml.add_representer(
        str,
        lambda dumper, text: dumper.represent_scalar(
            "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
        ),
        Dumper=dumper_of_lines,
    )
    texts = [yaml.dump(each, Dumper=dumper_of_lines, sort_keys=False, width=10_000) for each in _documents(job, demand)]
    return _comment(job) + _IMAGE + "---\n".join(texts)


_IMAGE = "# The image: examples/docker in mlbench's repository has a Dockerfile for CPUs and one for CUDA.\n"


def _comment(job: SuiteJob) -> str:
    if job.is_continued:
        return (
            f"# Makes the runs of the suite {job.suite} that are missing or failed: a pod after the first, or the Job\n"
            "# created again, continues where the last one stopped.\n"
        )
    return f"# Makes all runs of the suite {job.suite} anew (--fresh), so it has one attempt.\n"


def _documents(job: SuiteJob, demand: JobDemand) -> Sequence[object]:
    metadata = {"name": job.name, "labels": _LABELS}
    template = {"metadata": {"labels": _LABELS}, "spec": _pod(job, demand)}
    final = {"containerName": _CONTAINER, "operator": "In", "values": _FINAL_STATUSES}
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    rules = [
        {"action": "FailJob", "onExitCodes": final},
        {"action": "Ignore", "onPodConditions": [disrupted]},  # a pod that was taken away is no attempt
    ]
    ends = {"backoffLimit": _RETRIES, "podFailurePolicy": {"rules": rules}} if job.is_continued else {"backoffLimit": 0}
    return (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_KEY: job.suite_text}},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {**ends, "template": template}},
    )


def _pod(job: SuiteJob, demand: JobDemand) -> object:
    resources = {"cpu": str(job.cpus), "memory": f"{job.memory_gib}Gi"}
    if job.devices.count:
        resources[job.devices.kind or _DEVICE] = str(job.devices.count)
    container = {
        "name": _CONTAINER,
        "image": demand.image,
        "command": ["mlbench", *job.words],
        "env": [{"name": name, "value": value} for name, value in job.environment.items()],
        # equal, so that kubelet's static policy gives the container cores of its own
        "resources": {"requests": resources, "limits": resources},
        "volumeMounts": _mounts(job),
    }
    alone = {"labelSelector": {"matchLabels": _LABELS}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "restartPolicy": "Never",
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}},
        "containers": [container],
        "volumes": [
            {"name": _SUITE, "configMap": {"name": job.name}},
            {"name": _CLAIM, "persistentVolumeClaim": {"claimName": demand.claim}},
        ],
    }


def _mounts(job: SuiteJob) -> list[dict[str, str]]:
    kept = {
        "results": job.results,
        "data": Path(job.environment["MLBENCH_DATA"]),
        "cache": Path(job.environment["MLBENCH_CACHE"]),
        "settings": Path(job.environment["MLBENCH_SETTINGS"]).parent,
    }
    folders = [{"name": _CLAIM, "mountPath": str(path), "subPath": name} for name, path in kept.items()]
    return [*folders, {"name": _SUITE, "mountPath": str(job.suite_file), "subPath": _KEY}]
