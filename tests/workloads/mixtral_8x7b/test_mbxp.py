import json
import shutil

import pytest
from mlbench_mixtral_8x7b.mbxp import MbxpResult, MbxpSample, MbxpVerdict, score_mbxp
from mlbench_mixtral_8x7b.mbxp_languages import LANGUAGES, Interpreters

from mlbench.toolkit import Sandbox

LODASH = """
const _ = require("lodash")
if (!_.isEqual(pair(1), [1, 1])) { throw 'wrong' }
"""


@pytest.fixture(scope="module")
def sandbox():
    return Sandbox.available()


def outcomes(sandbox, *samples):
    """Score (id, answer, test) triples; return what became of each."""
    result = score_mbxp([MbxpSample(id=id, answer=answer, test=test) for id, answer, test in samples], sandbox)
    return [verdict.outcome for verdict in result.verdicts]


def need(language):
    for program in LANGUAGES[language].needs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


def assert_golden(sandbox, folder, *, slow):
    """Compare with the official checker's verdicts; those on programs that use up their time are apart."""
    problems = json.loads((folder / "problems.json").read_text())
    expected = json.loads((folder / "expected.json").read_text())
    timed = expected.get("slow_cases", [])
    cases = [
        (problem, case)
        for problem, case in zip(problems, expected["cases"], strict=True)
        if (case["name"] in timed) == slow
    ]
    samples = [
        MbxpSample(id=problem["id"], answer=problem["response"], test=problem["gt_output"]) for problem, _ in cases
    ]
    result = score_mbxp(samples, sandbox)
    assert not result.unscored
    found = [
        {"name": case["name"], "id": case["id"], "passed": verdict.passed, "outcome": verdict.outcome.split(":")[0]}
        for (_, case), verdict in zip(cases, result.verdicts, strict=True)
    ]
    assert found == [case for _, case in cases]
    if not timed:
        assert result.score == expected["pass_at_1"]


class TestGolden:
    def test_python(self, golden, sandbox):
        assert_golden(sandbox, golden / "mbxp_python", slow=False)

    @pytest.mark.thorough("attacks")
    def test_python_that_does_not_end(self, golden, sandbox):
        assert_golden(sandbox, golden / "mbxp_python", slow=True)

    @pytest.mark.slow
    def test_cpp(self, golden, sandbox):
        need("cpp")
        assert_golden(sandbox, golden / "mbxp_cpp", slow=False)

    def test_javascript(self, golden, sandbox):
        need("javascript")
        assert_golden(sandbox, golden / "mbxp_javascript", slow=False)


CHECK = "def check(candidate):\n    assert candidate(1) == 2"
RIGHT = "def add(a):\n    return a + 1\n"


class TestPython:
    def test_the_result_is_what_the_official_checker_says(self, sandbox):
        assert outcomes(
            sandbox,
            ("python_add", RIGHT, CHECK),
            ("python_add", "def add(a):\n    raise KeyboardInterrupt", CHECK),
            ("python_add", "def add(a):\n    raise ValueError('no ' + str(a))", CHECK),
            ("python_add", f"import os\nassert os.getcwd is None\n{RIGHT}", CHECK),
            ("python_add", f"import subprocess\n{RIGHT}\nsubprocess.run('true')", CHECK),
            ("python_add", f"import psutil\n{RIGHT}", CHECK),
            ("python_add", f"import numpy\n{RIGHT}", CHECK),
            ("python_add", f"{RIGHT}\nassert '__file__' not in globals()", CHECK),
        ) == [
            "passed",
            "failed: ",
            "failed: no 1",
            "passed",
            "failed: 'NoneType' object is not callable",
            "failed: import of psutil halted; None in sys.modules",
            "passed",
            "passed",
        ]

    def test_a_process_that_leaves_early_has_not_passed(self, sandbox):
        assert outcomes(
            sandbox,
            ("python_add", "import os\nos.write(1, b'passed')\nos._exit(0)", CHECK),
            ("python_add", "import ctypes\nctypes.string_at(0)", CHECK),
        ) == ["failed: status 0: ", "failed: status 139: "]

    def test_a_lone_surrogate_is_no_program(self, sandbox):
        assert outcomes(sandbox, ("python_add", f"{RIGHT}# \ud800", CHECK)) == ["failed: not UTF-8"]


RUNS = {
    "cpp": (
        "#include <cassert>\nint one() { return 1; }",
        "\nint main() { assert(one() == %d); }",
        "main.cpp:3: int main(): Assertion `one() == 2' failed.",
    ),
    "javascript": ("function one() { return 1 }", "\nif (one() !== %d) { throw 'wrong' }", "throw 'wrong'"),
    "php": (
        "<?php\nfunction one() { return 1; }",
        "\nif (one() != %d) { throw new Exception('wrong'); }",
        "Uncaught Exception: wrong",
    ),
    "ruby": ("def one\n  1\nend", "\nraise ArgumentError, 'wrong' if one != %d", "wrong (ArgumentError)"),
    "typescript": (
        "const one = function () : number { return 1; }",
        "\nimport * as assert from 'assert'\nassert.deepEqual(one(), %d, 'wrong')",
        "AssertionError",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("language", RUNS)
def test_the_status_of_the_last_step_decides(language, sandbox):
    need(language)
    answer, test, complaint = RUNS[language]
    right, wrong = outcomes(sandbox, (f"{language}_one", answer, test % 1), (f"{language}_one", answer, test % 2))
    assert right == "passed"
    assert wrong.startswith("failed: status ")
    assert complaint in wrong


@pytest.mark.slow
def test_typescript_without_a_complaint_counts_as_not_compiled(sandbox):
    need("typescript")
    assert outcomes(sandbox, ("typescript_one", "const one = 1;", "\nif (one !== 1) { throw 'wrong' }")) == [
        "failed: status 0: "
    ]


def test_output_that_is_no_text_fails(sandbox):
    need("javascript")
    answer = "process.stdout.write(Buffer.from([0xff]))"
    assert outcomes(sandbox, ("javascript_one", answer, "\n")) == ["failed: not UTF-8"]


def test_tests_may_load_lodash_where_it_is_installed(sandbox):
    need("javascript")
    samples = [MbxpSample(id="javascript_pair", answer="const pair = (a) => [a, a]", test=LODASH)]
    result = score_mbxp(samples, sandbox)
    if result.unscored:
        assert "Cannot find module 'lodash'" in result.unscored["javascript"]
        assert result.verdicts[0].passed is None
    else:
        assert result.verdicts[0].passed


@pytest.mark.parametrize(
    ("id", "answer", "solution"),
    [
        ("php_f", "  <?php a\\_b ```php c", "  <?php a_b "),
        ("python_f", "\n\t def f(): pass\n```\n```", "def f(): pass\n"),
        ("ruby_f", "```ruby\ndef f; end\n```", ""),
        ("cpp_f", "a``b", "a``b"),
    ],
)
def test_the_solution_is_what_stands_before_the_first_fence(id, answer, solution):
    assert MbxpSample(id=id, answer=answer, test="").solution == solution


def test_an_id_is_a_language_and_an_entry_point():
    sample = MbxpSample(id="python_add_pair", answer="", test="")
    assert (sample.language, sample.entry_point) == ("python", "add_pair")


class TestWhatCannotBeRun:
    def test_is_named_and_never_passes(self, sandbox, monkeypatch):
        monkeypatch.setenv("PATH", "/nowhere")
        samples = [
            MbxpSample(id="python_add", answer=RIGHT, test=CHECK),
            MbxpSample(id="ruby_one", answer="", test=""),
            MbxpSample(id="typescript_one", answer="", test=""),
            MbxpSample(id="java_one", answer="", test=""),
        ]
        result = score_mbxp(samples, sandbox)
        assert result.unscored == {
            "ruby": "ruby not installed",
            "typescript": "tsc and node not installed",
            "java": "it does not count officially",
        }
        assert [verdict.passed for verdict in result.verdicts] == [True, None, None, None]
        assert result.verdicts[1].outcome == "ruby not installed"
        assert result.isolation == sandbox.wall
        assert result.score == 100 / 3  # a language without its interpreter stays in the denominator

    def test_a_broken_interpreter_is_noticed(self, sandbox, tmp_path):
        node = tmp_path / "bin" / "node"
        node.parent.mkdir()
        node.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
        node.chmod(0o755)
        tmp_path.chmod(0o755)
        with sandbox.showing([node]) as opened:
            reason = Interpreters(sandbox=opened, programs={"node": node}).reason_against("javascript", [])
        assert reason == "a right answer does not pass here: failed: status 3: broken"


def test_the_score_is_over_the_official_languages():
    def verdict(language, passed):
        return MbxpVerdict(language=language, passed=passed, outcome="")

    verdicts = (verdict("python", True), verdict("python", False), verdict("go", True), verdict("php", True))
    result = MbxpResult(verdicts=verdicts, unscored={}, isolation="none")
    assert result.score == pytest.approx(200 / 3)
    assert result.by_language == {"python": (1, 2), "go": (1, 1), "php": (1, 1)}
    assert MbxpResult(verdicts=(verdict("go", True),), unscored={}, isolation="none").score == 0
