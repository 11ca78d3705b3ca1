"""Lines and tables at the width of the terminal."""

import pytest
from click.testing import CliRunner

from mlbench.cli import main
from mlbench.reports.console import short_ids, table


def printed(command, columns):
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(main, command)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


@pytest.mark.parametrize("columns", [80, 120])
def test_list_wraps_below_what_it_says_and_keeps_commands_whole(columns):
    lines = printed(["list"], columns)
    assert max(map(len, lines)) <= columns
    begin = next(line for line in lines if line.startswith("  resnet50"))
    column = begin.index("ResNet-50")
    whole = " ".join(line.strip() for line in lines)
    assert "resnet50 " in whole and "(SingleStream, MultiStream, Server, Offline)" in whole
    follow = lines[lines.index(begin) + 1]
    assert follow.startswith("  retinanet") or follow.startswith(" " * column + "(SingleStream")


def test_without_a_terminal_a_line_is_a_line():
    done = CliRunner(env={"COLUMNS": None}).invoke(main, ["list"])
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  resnet50")]
    assert line.endswith("(SingleStream, MultiStream, Server, Offline)")


LONG = {"workload": "stable-diffusion-xl", "backend": "onnxruntime", "scenario": "SingleStream"}


@pytest.fixture
def ten_runs(a_run, tmp_path):
    """Ten stored runs with the longest names that the built-in plugins have."""
    for number in range(10):
        record = a_run(run_id=f"20261121T00450{number}Z-{number:04d}", **LONG, overhead_ns_per_sample=20_000)
        folder = tmp_path / record.run_id
        folder.mkdir()
        (folder / "record.json").write_text(record.text())
    return tmp_path


@pytest.mark.parametrize("columns", [60, 80, 120, 160])
def test_a_run_is_one_line_of_a_table_whatever_the_width(ten_runs, columns):
    lines = printed(["table", "--all", "--results", str(ten_runs)], columns)
    assert max(map(len, lines)) <= columns
    assert sum("samples/s" in line and "valid" in line for line in lines) == 10


def test_at_80_columns_names_and_results_are_whole_and_what_is_left_out_is_said(ten_runs):
    lines = printed(["table", "--all", "--results", str(ten_runs)], 80)
    assert sum(all(name in line for name in LONG.values()) and "685 samples/s" in line for line in lines) == 10
    assert "Not shown at this width: p99 latency, overhead, performance, accuracy, run;" in " ".join(lines)


def test_a_table_has_what_can_be_typed_for_a_run(a_run, tmp_path):
    for number in range(2):
        folder = tmp_path / f"20261121T00450{number}Z-resnet50-null-Offline-a{number}f3"
        folder.mkdir()
        (folder / "record.json").write_text(a_run(run_id=folder.name, backend="null").text())
    (row,) = [line for line in printed(["table", "--results", str(tmp_path)], 80) if "a1f3" in line]
    assert printed(["show", row.replace("│", " ").split()[-1], "--results", str(tmp_path), "--json"], 80)


def test_runs_whose_ids_end_alike_are_named_in_whole(a_run):
    runs = [a_run(run_id=name) for name in ("20261121T004500Z-a-3f2a", "20261121T004501Z-a-3f2a", "x-77aa")]
    assert short_ids(runs) == ["20261121T004500Z-a-3f2a", "20261121T004501Z-a-3f2a", "77aa"]


@pytest.mark.parametrize(("is_accurate", "said"), [(True, "valid"), (False, "inaccurate")])
def test_a_narrow_table_calls_no_inaccurate_run_valid(a_run, is_accurate, said):
    verdict = {"rules": [], "not_applied": {}, "is_valid": True, "is_accurate": is_accurate, "is_conformant": False}
    shown = table([a_run(verdict=verdict, **LONG)], width=80)
    assert next(iter(shown.columns[-1].cells)).plain == said


def test_published_results_are_one_line_each_at_80_columns():
    lines = printed(["published", "resnet50", "--scenario", "Offline", "--accelerator", "H200"], 80)
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if line.startswith("4.1-")]
    assert rows and all(row.rstrip().endswith("samples/s") for row in rows)


def test_a_comparison_keeps_numbers_and_verdicts_whole_at_80_columns(ten_runs):
    done = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["compare", "0001", "0002", "--results", str(ten_runs)])
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("685 samples/s  685 samples/s" in line for line in lines), done.output


def test_rows_of_one_kind_of_runs_are_a_line_each_at_80_columns(ten_runs):
    done = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["compare", "0001", "0002", "--results", str(ten_runs)])
    lines = done.stdout.splitlines()
    title = next(number for number, line in enumerate(lines) if line.startswith("measure")) - 1
    assert lines[title].startswith("stable-diffusion-xl onnxr")
    assert [line.split()[0] for line in lines[title + 1 : title + 4]] == ["measure", "throughput", "acc"]


def test_how_a_run_failed_takes_no_names_from_the_other_rows(a_run):
    failure = {"kind": "out of memory", "message": "", "stage": "performance", "log_tail": ""}
    nothing = dict.fromkeys(("result", "accuracy", "verdict"))
    failed = a_run(status="failed", failure=failure, **nothing, **LONG)
    shown = table([failed, a_run(**LONG)], width=80)
    cells = [[cell.plain for cell in column.cells] for column in shown.columns]
    assert cells[:3] == [[name] * 2 for name in LONG.values()]
    assert "out of memory" in cells[4]


@pytest.mark.parametrize("columns", [80, 120])
def test_the_page_of_a_run_wraps_and_its_columns_stay(ten_runs, columns):
    lines = printed(["show", "0001", "--results", str(ten_runs)], columns)
    assert max(map(len, lines)) <= columns
    assert lines[0].startswith("stable-diffusion-xl on onnxruntime (fp32, SingleStream): 685")
    assert "  form      profile mini, trained weights, tier smoke" in lines


@pytest.fixture
def two_kinds(ten_runs, a_run):
    """A folder of runs of several workloads, backends and scenarios."""
    for number, (workload, backend, scenario) in enumerate(KINDS):
        names = {"workload": workload, "backend": backend, "scenario": scenario}
        record = a_run(run_id=f"20261121T00451{number}Z-{number:04d}", **names)
        folder = ten_runs / record.run_id
        folder.mkdir()
        (folder / "record.json").write_text(record.text())
    return str(ten_runs)


KINDS = [("bert", "pytorch", "Offline"), ("resnet50", "onnxruntime", "SingleStream")]


def test_a_comparison_of_several_kinds_of_runs_has_a_line_for_each_at_80_columns(two_kinds, monkeypatch):
    monkeypatch.chdir(two_kinds)  # the path of the folder is a line of its own, however long
    command = ["compare", ".", ".", "--results", "."]
    lines = CliRunner(env={"COLUMNS": "80"}).invoke(main, command).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for names in (*KINDS, tuple(LONG.values())):
        (row,) = [line for line in lines if line.startswith(" ".join(names)) and "better" not in line]
        assert "x 1.000" in row and row.rstrip().endswith("cannot tell")
    assert "Not shown at this width: base, new, interval" in " ".join(lines)


def test_a_comparison_of_several_kinds_of_runs_shows_both_sides_where_they_fit(two_kinds):
    command = ["compare", two_kinds, two_kinds, "--results", two_kinds]
    shown = CliRunner(env={"COLUMNS": "160"}).invoke(main, command).stdout
    assert "685 samples/s" in shown and "Not shown" not in shown


def test_what_show_says_goes_on_below_where_it_begins(ten_runs):
    lines = printed(["show", "0001", "--results", str(ten_runs)], 60)
    at = next(number for number, line in enumerate(lines) if line.startswith("  run  "))
    column = lines[at].index("2026") if "2026" in lines[at] else 12
    following = [line for line in lines[at + 1 : at + 8] if line.startswith(" " * 4) and line.strip()]
    assert all(line.startswith(" " * column) for line in following)


def test_of_runs_that_are_alike_the_newest_is_shown_and_the_others_are_counted(ten_runs):
    lines = printed(["table", "--results", str(ten_runs)], 120)
    assert sum("samples/s" in line for line in lines) == 1
    assert lines[-1] == "9 older runs like these; --all lists them too."
    assert "--all" not in "".join(printed(["table", "--markdown", "--results", str(ten_runs)], 120))
