"""What can be begun: a backend, or a workload."""

from __future__ import annotations

from mlbench.scaffold.package import PackageKind

BACKEND = PackageKind(
    noun="backend",
    example="my-npu",
    files={
        "{module}.py": "module.py.template",
        "test_{module}.py": "test.py.template",
        "pyproject.toml": "pyproject.toml.template",
        "README.md": "README.md.template",
    },
)

_MODULES = ("__init__", "workload", "dataset", "graphs", "program", "accuracy", "mini_profile")

WORKLOAD = PackageKind(
    noun="workload",
    example="my-task",
    files={
        **{f"{{module}}/{each}.py": f"package/{each}.py.template" for each in _MODULES},
        "{module}/mini/mini.toml": "mini/mini.toml",
        "{module}/mini/weights.safetensors": "mini/weights.safetensors",
        "recipe.py": "recipe.py.template",
        "test_{module}.py": "test.py.template",
        "pyproject.toml": "pyproject.toml.template",
        "README.md": "README.md.template",
    },
)
