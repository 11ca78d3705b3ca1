"""Examples at the end of ``mlbench COMMAND --help``; a test parses each of them."""

from __future__ import annotations

from collections.abc import Mapping

import click

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "demo": ("mlbench demo", "mlbench demo --backend onnxruntime"),
    "run": (
        "mlbench run resnet50 --backend onnxruntime --scenario Server",
        "mlbench run --model resnet.onnx --backend onnxruntime --backend pytorch",
        "mlbench run bert gptj --backend pytorch --tier dev",
        "mlbench run bert --backend pytorch --set execution.batch=8 --repeat 5 --tag batch-8",
        "mlbench run bert --variant 99.9 --category datacenter",
        "mlbench run llama2-70b --backend pytorch --round v5.1 --scenario Interactive",
        "mlbench run --suite nightly.toml",
        "mlbench run --suite nightly.toml --print slurm --cpus 64 --devices gpu:h100=8",
        "mlbench run resnet50 --network 10.0.0.2 --network 10.0.0.3",
    ),
    "serve": (
        "mlbench serve resnet50 --backend onnxruntime --listen 10.0.0.2",
        "mlbench serve bert --backend pytorch --listen 10.0.0.2:4211 --name second --token-file ~/network.token",
    ),
    "tune": (
        "mlbench tune resnet50 --backend onnxruntime --save",
        "mlbench tune llama2-70b --backend pytorch --limit ttft=1s --limit tpot=50ms --budget 30",
        "mlbench tune bert --backend onnxruntime --tier valid --plan",
    ),
    "precisions": (
        "mlbench precisions bert --backend onnxruntime",
        "mlbench precisions gptj --backend onnxruntime --transform prune-layers:0.34 --repeat 3",
    ),
    "curve": (
        "mlbench curve resnet50 --backend onnxruntime",
        "mlbench curve llama2-70b --backend onnxruntime --tier dev --limit ttft=500ms --plan",
    ),
    "doctor": ("mlbench doctor",),
    "rounds": ("mlbench rounds",),
    "rules": ("mlbench rules llama2-70b --round v5.1", "mlbench rules bert"),
    "list": ("mlbench list", "mlbench list --round v6.0", "mlbench list --json"),
    "settings": (
        "mlbench settings bert pytorch --scenario Server",
        "mlbench settings --explain execution.batching",
        "mlbench settings bert pytorch --explain execution.workers",
    ),
    "roofline": ("mlbench roofline", "mlbench roofline --again"),
    "table": ("mlbench table", "mlbench table nightly --workload bert --newest 10"),
    "show": ("mlbench show 3f2a", "mlbench show nightly --scenario Offline --newest 1"),
    "report": ("mlbench report -o runs.html", "mlbench report --compare before after -o change.html"),
    "site": ("mlbench site public", 'mlbench site public --title "Nightly on the H200"'),
    "verify": ("mlbench verify 3f2a",),
    "cost": ("mlbench cost m7i.large=nightly --price prices.toml",),
    "compare": (
        "mlbench compare before after --across settings",
        "mlbench compare --run before.toml after.toml",
    ),
    "replay": ("mlbench replay 3f2a",),
    "regress": (
        "mlbench regress --baseline main",
        "mlbench regress nightly --baseline main --strict --junit regress.xml",
    ),
    "bisect": (
        "mlbench bisect bert --backend npu --scenario Offline --good v1.2 "
        "--install 'python -m venv .venv; .venv/bin/pip install .' --mlbench '{folder}/.venv/bin/mlbench'",
        "mlbench bisect bert --backend npu --scenario Offline --mlbench v1/bin/mlbench --mlbench v2/bin/mlbench",
    ),
    "baseline": ("mlbench baseline save main nightly", "mlbench baseline list"),
    "baseline save": ("mlbench baseline save main nightly",),
    "baseline list": ("mlbench baseline list",),
    "baseline show": ("mlbench baseline show main",),
    "baseline remove": ("mlbench baseline remove main",),
    "history": ("mlbench history --workload bert", "mlbench history nightly --margin 0.02"),
    "published": (
        "mlbench published resnet50 --scenario Offline --accelerator H200",
        "mlbench published --place 3f2a",
        "mlbench published llama2-70b --scenario Offline --accelerator H200 --rounds all",
    ),
    "fetch": (
        "mlbench fetch --plan",
        "mlbench fetch bert",
        "mlbench fetch resnet50 --from ~/Downloads",
    ),
    "query": ('mlbench query "SELECT workload, backend, value, unit FROM runs WHERE is_valid"',),
    "export": ("mlbench export runs.parquet", "mlbench export runs.csv --results results"),
    "onnx": (
        "mlbench onnx resnet50 -o served",
        "mlbench onnx bert --profile full -o repository --layout triton",
    ),
    "import": ("mlbench import inference_results_v4.1 --tag official",),
    "audit": ("mlbench audit 3f2a --plan", "mlbench audit 3f2a", "mlbench audit 3f2a --test TEST05"),
    "system": ("mlbench system describe -o system.json",),
    "system describe": (
        "mlbench system describe --from mine.json -o system.json",
        "mlbench system describe --network --from mine.json --from network.json",
    ),
    "submit": ("mlbench submit plan --category edge", "mlbench submit check inference_results_v4.1"),
    "submit demo": ("mlbench submit demo", "mlbench submit demo -o example"),
    "submit plan": ("mlbench submit plan --category edge", "mlbench submit plan -o missing.toml"),
    "submit build": (
        "mlbench submit build --submitter Acme --system system.json -o tree",
        "mlbench submit build --submitter Acme --system system.json --division open v1 -o tree",
    ),
    "submit check": ("mlbench submit check inference_results_v4.1 --notes",),
    "check": ("mlbench check pytorch", "mlbench check onnxruntime --precision int8 --set backend.threads=2"),
    "plugin": ("mlbench plugin new my-npu", "mlbench plugin check my-npu"),
    "plugin new": ("mlbench plugin new my-npu --into ..", "mlbench plugin new my-llm --engine"),
    "plugin check": ("mlbench plugin check my-npu --badge badge.svg",),
    "completion": (
        "mlbench completion bash >> ~/.bashrc",
        "mlbench completion zsh >> ~/.zshrc",
        "mlbench completion fish > ~/.config/fish/completions/mlbench.fish",
    ),
}
"""By command, or command and subcommand."""


def add_examples(command: click.Command, name: str) -> None:
    """Add examples to the end of the help of a command and its subcommands."""
    lines = "\n".join(f"  {line}" for line in EXAMPLES[name])
    command.epilog = f"\b\nExamples:\n{lines}"
    for below, found in command.commands.items() if isinstance(command, click.Group) else ():
        add_examples(found, f"{name} {below}")
