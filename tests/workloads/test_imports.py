"""What the workload plugins import, and when."""

import json
import subprocess
import sys

PACKAGES = {
    "resnet50": "mlbench_resnet50",
    "retinanet": "mlbench_retinanet",
    "3d-unet": "mlbench_unet3d",
    "bert": "mlbench_bert",
    "dlrm-v2": "mlbench_dlrm_v2",
    "gptj": "mlbench_gptj",
    "llama2-70b": "mlbench_llama2_70b",
    "llama3.1-8b": "mlbench_llama3_1_8b",
    "mixtral-8x7b": "mlbench_mixtral_8x7b",
    "stable-diffusion-xl": "mlbench_stable_diffusion_xl",
}
LIBRARIES = {"retinanet", "stable-diffusion-xl"}
"""Workloads whose constants come from torchvision (anchors) and transformers (tokens)."""

HEAVY = [
    *("numpy", "scipy", "sklearn", "torch", "torchvision", "cv2", "PIL", "safetensors", "yaml", "nibabel"),
    *("transformers", "tokenizers", "nltk", "pycocotools", "diffusers", "open_clip", "torch_fidelity"),
]

IMPORT = """
import importlib, json, sys
packages, heavy = json.loads(sys.argv[1])
found = {}
for package in packages:
    importlib.import_module(package)
    assert f"{package}.workload" in sys.modules
    found[package] = [each for each in heavy if each in sys.modules]
print(json.dumps(found))
"""
OPEN = """
import json, sys
from mlbench import Profile, Variant, Weights
from mlbench.discovery import Plugins
names, heavy = json.loads(sys.argv[1])
found = {}
for name in names:
    workload = Plugins.discover().workload(name)
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
    assert workload.dataset(variant).count and workload.model(variant).graphs
    found[name] = [each for each in heavy if each in sys.modules]
print(json.dumps(found))
"""


def found(program, names, heavy):
    words = [sys.executable, "-c", program, json.dumps([names, heavy])]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def test_importing_a_plugin_loads_nothing_heavy():
    packages = list(PACKAGES.values())
    assert found(IMPORT, packages, HEAVY) == {package: [] for package in packages}


def test_a_run_whose_backend_computes_nothing_does_not_wait_for_torch():
    names = sorted(PACKAGES.keys() - LIBRARIES)
    assert found(OPEN, names, ["torch", "transformers", "onnx"]) == {name: [] for name in names}
