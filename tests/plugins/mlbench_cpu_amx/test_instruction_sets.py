import os

import pytest
from mlbench_cpu_amx.instruction_sets import choose_instruction_set, limit, list_available

from mlbench import UsageError
from mlbench.toolkit import flags_of

# flags that decide, of processors as /proc/cpuinfo lists them
SAPPHIRE_RAPIDS = "fma avx2 avx512f avx512dq avx512bw avx512vl avx512_bf16 amx_bf16 avx512_fp16 amx_tile amx_int8"
ICE_LAKE = "fma avx2 avx512f avx512dq avx512bw avx512vl avx512_vnni"
ZEN_3 = "fma avx2 vaes"


def cpuinfo(flags: str) -> str:
    return f"processor\t: 0\nmodel name\t: some\nflags\t\t: fpu sse2 {flags}\nbugs\t\t:\n\nprocessor\t: 1\n"


@pytest.mark.parametrize(
    ("flags", "sets"),
    [
        (SAPPHIRE_RAPIDS, ["amx", "avx512", "avx2"]),
        (ICE_LAKE, ["avx512", "avx2"]),
        (ZEN_3, ["avx2"]),
        ("", []),
    ],
)
def test_what_a_cpu_has_is_read_from_its_flags_the_best_first(flags, sets):
    assert list_available(flags_of(cpuinfo(flags))) == sets


def test_a_cpu_that_is_not_x86_has_none():
    assert list_available(flags_of("processor\t: 0\nFeatures\t: fp asimd bf16 sve\n")) == []


def test_auto_takes_the_best_there_is():
    assert choose_instruction_set("auto", flags_of(cpuinfo(SAPPHIRE_RAPIDS))) == "amx"
    assert choose_instruction_set("auto", flags_of(cpuinfo(ICE_LAKE))) == "avx512"


def test_a_lesser_set_than_the_best_can_be_asked_for():
    assert choose_instruction_set("avx2", flags_of(cpuinfo(SAPPHIRE_RAPIDS))) == "avx2"


def test_amx_on_a_cpu_without_it_is_refused_with_what_is_missing():
    with pytest.raises(UsageError) as caught:
        choose_instruction_set("amx", flags_of(cpuinfo(ICE_LAKE)))
    assert caught.value.message == "backend.isa is 'amx', and this CPU lacks amx_bf16, amx_int8, amx_tile."
    assert caught.value.hint == "Choose auto, or from avx512, avx2."


def test_a_limit_that_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    limit("avx512")
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_BF16"
