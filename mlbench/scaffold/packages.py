"""The packages that can be written: a backend, one with its own engine, a workload, or one of a user's model."""

from __future__ import annotations

from mlbench.scaffold.package import PackageKind

BACKEND = PackageKind(
    noun="backend",
    example="my-npu",
    files={
        "{module}.py": "backend/module.py.template",
        "test_{module}.py": "backend/test.py.template",
        "pyproject.toml": "backend/pyproject.toml.template",
        "README.md": "backend/README.md.template",
    },
)

ENGINE = PackageKind(
    noun="backend",
    example="my-llm",
    files={
        "{module}.py": "engine/module.py.template",
        "test_{module}.py": "engine/test.py.template",
        "pyproject.toml": "backend/pyproject.toml.template",
        "README.md": "engine/README.md.template",
    },
)
"""A backend whose runtime serves language models itself."""

_MODULES = ("__init__", "workload", "dataset", "graphs", "program", "accuracy", "mini_profile")

WORKLOAD = PackageKind(
    noun="workload",
    example="my-task",
    files={
        **{f"{{module}}/{each}.py": f"workload/package/{each}.py.template" for each in _MODULES},
        "{module}/mini/mini.toml": "workload/mini/mini.toml",
        "{module}/mini/weights.safetensors": "workload/mini/weights.safetensors",
        "recipe.py": "workload/recipe.py.template",
        "test_{module}.py": "workload/test.py.template",
        "pyproject.toml": "workload/pyproject.toml.template",
        "README.md": "workload/README.md.template",
    },
)

USER_MODEL = PackageKind(
    noun="workload",
    example="my-task",
    files={
        "{module}/__init__.py": "user_model/init.py.template",
        "{module}/workload.py": "user_model/workload.py.template",
        "test_{module}.py": "user_model/test.py.template",
        "pyproject.toml": "workload/pyproject.toml.template",
        "README.md": "user_model/README.md.template",
    },
)
"""A workload of a model that a user has as a file."""
