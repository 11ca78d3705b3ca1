import os

import pytest
from mlbench_cpu_amx import kernels
from mlbench_cpu_amx.kernels import KernelReport

torch = pytest.importorskip("torch")

# what oneDNN 3.13.3 printed on a Xeon with AMX
PRINTED = """\
onednn_verbose,v1,info,oneDNN v3.13.3 (commit b38f97eb6f2173513112f15a0481750b8a66e901)
onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2
onednn_verbose,v1,info,cpu,isa:Intel AVX10.1 and Intel AMX with bfloat16 and 8-bit integer support
onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:bf16 dst:bf16,,,8x3x7x7,12.5
onednn_verbose,v1,primitive,exec,cpu,convolution,brg_conv_fwd:avx10_1_512_amx,forward_inference,src:bf16,alg:direct,mb4_ic3,24.1
onednn_verbose,v1,primitive,exec,cpu,convolution,brgconv_1x1:avx10_1_512_amx,forward_inference,src:bf16,alg:direct,mb4_ic8,11.6
onednn_verbose,v1,primitive,exec,cpu,convolution,brgconv_1x1:avx10_1_512_amx,forward_inference,src:bf16,alg:direct,mb4_ic8,0.02
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx10_1_512,undef,src:f32,,,4x8:8x2,0.01
"""


def test_kernels_are_counted_by_the_report(monkeypatch):
    monkeypatch.setattr(kernels, "INTRODUCTION", kernels.Introduction())  # leave this process's alone
    report = KernelReport()
    report.add("classifier", PRINTED.splitlines())
    assert report.kernels == {
        "classifier": {
            "convolution brgconv_1x1:avx10_1_512_amx": 2,
            "convolution brg_conv_fwd:avx10_1_512_amx": 1,
            "matmul brg_matmul:avx10_1_512": 1,
        }
    }


def test_what_onednn_says_of_itself_is_kept(monkeypatch):
    monkeypatch.setattr(kernels, "INTRODUCTION", kernels.Introduction())
    KernelReport().add("classifier", PRINTED.splitlines())
    assert kernels.INTRODUCTION.version == "v3.13.3"
    assert kernels.INTRODUCTION.isa == "Intel AVX10.1 and Intel AMX with bfloat16 and 8-bit integer support"


@pytest.fixture
def product():
    """A call that goes to oneDNN on every CPU; products of bf16 do so only where the CPU has them."""
    layer, x = torch.nn.Conv2d(16, 16, 3), torch.ones(8, 16, 64, 64)
    with torch.inference_mode():
        yield lambda: layer(x)


def test_the_first_call_is_heard_and_what_others_print_is_passed_on(capfd, product):
    report = KernelReport()
    print("before")
    with report.first_call("product"):
        os.write(1, b"meanwhile\n")
        product()
    print("after")
    assert any(name.startswith("convolution ") for name in report.kernels["product"])
    assert capfd.readouterr().out == "before\nmeanwhile\nafter\n"


def test_later_calls_are_not_heard(capfd, product):
    report = KernelReport()
    with report.first_call("product"):
        pass
    with report.first_call("product"):
        product()
    assert report.kernels == {"product": {}}


def test_a_call_that_raises_leaves_the_output_as_it_was(capfd):
    report = KernelReport()
    with pytest.raises(ZeroDivisionError), report.first_call("product"):
        _ = 1 / 0
    print("after")
    assert capfd.readouterr().out == "after\n"
