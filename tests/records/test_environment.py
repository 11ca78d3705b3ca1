"""What is observed of a machine, on machines made of a few files."""

import getpass
import json
import platform
import subprocess
import sys

import pytest

from mlbench.records.environment import observe_environment
from mlbench.records.machine.accelerators import Accelerator

SAPPHIRE_RAPIDS = """\
processor	: {thread}
vendor_id	: GenuineIntel
model name	: Intel(R) Xeon(R) Platinum 8480+
physical id	: {socket}
core id		: {core}
flags		: fpu sse2 fma avx2 avx512f avx512bw avx512_vnni avx512_bf16 avx512_fp16 amx_bf16 amx_tile amx_int8
power management:

"""

GRAVITON = """\
processor	: 0
Features	: fp asimd asimdhp asimddp sve i8mm bf16
CPU part	: 0xd40

processor	: 1
Features	: fp asimd asimdhp asimddp sve i8mm bf16
CPU part	: 0xd40

"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that makes files and observes the machine that they describe."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def observe(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return observe_environment(tmp_path)

    return observe


@pytest.fixture
def nvidia_smi(tmp_path):
    """Return a function that installs an nvidia-smi which prints or does something."""

    def install(script):
        tool = tmp_path / "bin" / "nvidia-smi"
        tool.parent.mkdir()
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)

    return install


def test_a_two_socket_server_is_counted_by_sockets_cores_and_threads(machine):
    places = [(socket, core) for socket in (0, 1) for core in (0, 1, 2) for _ in ("thread", "its sibling")]
    threads = [SAPPHIRE_RAPIDS.format(thread=n, socket=s, core=c) for n, (s, c) in enumerate(places)]
    nodes = {f"sys/devices/system/node/node{node}/cpulist": "" for node in (0, 1)}
    tuning = {
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
    }
    cpu = machine({"proc/cpuinfo": "".join(threads)} | nodes | tuning).cpu
    assert cpu.model == "Intel(R) Xeon(R) Platinum 8480+"
    assert (cpu.sockets, cpu.cores, cpu.threads, cpu.numa_nodes) == (2, 6, 12, 2)
    assert {"avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8"} < set(cpu.flags)
    assert "sse2" not in cpu.flags
    assert (cpu.governor, cpu.turbo, cpu.is_virtual) == ("performance", True, False)


def test_an_arm_machine_is_described_by_its_features(machine):
    cpu = machine({"proc/cpuinfo": GRAVITON}).cpu
    assert (cpu.model, cpu.threads, cpu.sockets) == ("0xd40", 2, None)
    assert cpu.flags == ["asimd", "asimddp", "asimdhp", "sve", "i8mm", "bf16"]


@pytest.mark.parametrize(
    ("files", "turbo"),
    [
        ({"sys/devices/system/cpu/cpufreq/boost": "0\n"}, False),
        ({"sys/devices/system/cpu/cpufreq/boost": "1\n"}, True),
        ({"sys/devices/system/cpu/intel_pstate/no_turbo": "1\n"}, False),
        ({}, None),
    ],
)
def test_turbo_is_read_where_the_driver_says(machine, files, turbo):
    assert machine(files).cpu.turbo is turbo


@pytest.mark.parametrize(
    ("files", "quota", "memory"),
    [
        ({"sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "max\n"}, None, None),
        ({"sys/fs/cgroup/cpu.max": "250000 100000\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 2.5, 2**30),
        (
            {
                "proc/self/cgroup": "0::/jobs/one\n",
                "sys/fs/cgroup/jobs/cpu.max": "100000 100000\n",
                "sys/fs/cgroup/jobs/one/cpu.max": "400000 100000\n",
            },
            1.0,
            None,
        ),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            None,
            None,
        ),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
            },
            1.5,
            2**29,
        ),
    ],
)
def test_the_tightest_limit_of_the_control_groups_is_ours(machine, files, quota, memory):
    allowance = machine(files).allowance
    assert (allowance.cpu_quota, allowance.memory_bytes) == (quota, memory)


@pytest.mark.parametrize(
    ("files", "container"),
    [
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"proc/1/cgroup": "0::/kubepods/burstable/pod1\n", ".dockerenv": ""}, "kubernetes"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, None),
    ],
)
def test_containers_are_recognised(machine, files, container):
    assert machine(files).allowance.container == container


def test_memory_load_and_system_are_read(machine):
    environment = machine(
        {
            "proc/meminfo": "MemTotal:       24684096 kB\nMemFree: 1 kB\n",
            "proc/loadavg": "2.70 2.10 1.00 3/200 1234\n",
            "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
        }
    )
    assert environment.memory_bytes == 25_276_514_304
    assert environment.load_average == 2.7
    assert environment.os == "Debian GNU/Linux 12 (bookworm)"


def test_nvidia_devices_are_described_by_their_driver(machine, nvidia_smi):
    nvidia_smi(
        "echo 'NVIDIA H200, 143771, 570.86.10, 700.00, 1980, Enabled, Disabled'\n"
        "echo 'Tesla T4, 15360, 570.86.10, 70.00, 1590, Enabled, [N/A]'"
    )
    h200, t4 = machine({"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidiactl": ""}).accelerators
    assert h200 == Accelerator(
        name="NVIDIA H200",
        memory_bytes=143771 * 2**20,
        driver="570.86.10",
        power_limit_w=700.0,
        max_clock_mhz=1980.0,
        ecc=True,
        mig=False,
    )
    assert (t4.name, t4.mig) == ("Tesla T4", None)


KFD, RENDER = "sys/class/kfd/kfd/topology/nodes", "sys/class/drm"

MI300X = {
    f"{KFD}/0/properties": "cpu_cores_count 96\nsimd_count 0\ngfx_target_version 0\n",
    f"{KFD}/0/mem_banks/0/properties": "heap_type 0\nsize_in_bytes 810000000000\n",
    f"{KFD}/10/properties": "simd_count 440\ngfx_target_version 90010\ndrm_render_minor 129\n",
    f"{KFD}/2/properties": (
        "simd_count 1216\ngfx_target_version 90402\ndrm_render_minor 128\nmax_engine_clk_fcompute 2100\n"
    ),
    f"{KFD}/2/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 206141652992\nflags 0\n",
    f"{RENDER}/renderD128/device/product_name": "AMD Instinct MI300X OAM\n",
    f"{RENDER}/renderD128/device/current_compute_partition": "SPX\n",
    f"{RENDER}/renderD128/device/hwmon/hwmon5/power1_cap": "750000000\n",
    "sys/module/amdgpu/version": "6.12.12\n",
}
"""A server with an MI300X, and a GPU of which the driver says little."""


def test_amd_devices_are_described_by_the_files_of_their_driver(machine):
    mi300x, other = machine(MI300X).accelerators
    assert mi300x == Accelerator(
        name="AMD Instinct MI300X OAM",
        memory_bytes=206141652992,
        driver="6.12.12",
        power_limit_w=750.0,
        max_clock_mhz=2100.0,
        ecc=None,
        mig=False,
    )
    assert (other.name, other.memory_bytes, other.power_limit_w, other.mig) == ("AMD GPU gfx90a", None, None, None)


def test_a_driver_that_came_with_the_kernel_goes_by_the_kernels_release(machine):
    files = {name: text for name, text in MI300X.items() if "module" not in name}
    gpu, _ = machine(files | {"proc/sys/kernel/osrelease": "6.8.0-47-generic\n"}).accelerators
    assert gpu.driver == "amdgpu of Linux 6.8.0-47-generic"


def test_a_machine_with_another_amd_gpu_is_another_machine(machine):
    name = machine(MI300X).machine
    product = f"{RENDER}/renderD128/device/product_name"
    assert machine({product: "AMD Instinct MI325X\n"}).machine != name


@pytest.mark.parametrize("script", ["echo 'a, b, c, d, e, f, g'; exit 9", "echo 'NVIDIA-SMI has failed'", "kill -9 $$"])
def test_a_driver_that_does_not_answer_leaves_the_device_files_to_speak(machine, nvidia_smi, script):
    nvidia_smi(script)
    environment = machine({"dev/nvidia0": "", "dev/kfd": "", "dev/dri/renderD128": ""})
    assert environment.accelerators == []
    assert environment.devices == ["/dev/dri/renderD128", "/dev/kfd", "/dev/nvidia0"]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "version mismatch"),
        ("echo 'no such library' >&2; exit 127", "no such library"),
        ("echo 'NVIDIA-SMI has failed'", "NVIDIA-SMI has failed"),
        ("kill -9 $$", "signal 9"),
        ("/bin/sleep 1000", "did not answer within 0.2 s"),
    ],
)
def test_of_a_driver_whose_tool_fails_the_reason_is_kept_with_the_gpus_that_its_files_name(
    machine, nvidia_smi, monkeypatch, script, problem
):
    monkeypatch.setattr("mlbench.system.nvidia_smi._TIMEOUT_S", 0.2)
    nvidia_smi(script)
    environment = machine(
        {
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n",
            "proc/driver/nvidia/gpus/0000:65:00.0/information": "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   40\n",
        }
    )
    assert problem in environment.accelerator_problem
    (gpu,) = environment.accelerators
    assert (gpu.name, gpu.driver, gpu.memory_bytes, gpu.mig) == ("NVIDIA A100-SXM4-40GB", "535.104.05", None, None)


def test_a_field_that_an_old_tool_does_not_know_costs_that_field_alone(machine, nvidia_smi):
    nvidia_smi(
        'case "$1" in\n'
        """*mig*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2;;\n"""
        "*) echo 'Tesla V100-SXM2-16GB, 16160, 418.67, 300.00, 1530, Enabled';;\nesac"
    )
    environment = machine({})
    (gpu,) = environment.accelerators
    assert (gpu.name, gpu.memory_bytes, gpu.ecc, gpu.mig) == ("Tesla V100-SXM2-16GB", 16160 * 2**20, True, None)
    assert environment.accelerator_problem == ""


def test_a_gpu_that_fell_off_the_bus_leaves_the_others_and_a_reason(machine, nvidia_smi):
    nvidia_smi(
        "echo 'NVIDIA H200, 143771, 570.86.10, 700.00, 1980, Enabled, Disabled'\n"
        "echo 'Unable to determine the device handle for GPU 0000:65:00.0: Unknown Error'; exit 15"
    )
    environment = machine({})
    assert [gpu.name for gpu in environment.accelerators] == ["NVIDIA H200"]
    assert "Unknown Error" in environment.accelerator_problem


def test_a_tool_that_finds_no_device_is_no_problem(machine, nvidia_smi):
    nvidia_smi("echo 'No devices were found'; exit 6")
    environment = machine({})
    assert (environment.accelerators, environment.accelerator_problem) == ([], "")


def test_an_unreadable_machine_still_has_an_environment(machine):
    environment = machine({})
    assert environment.cpu.threads == 1
    assert environment.memory_bytes is None
    assert environment.python == f"CPython {platform.python_version()}"


def test_the_same_hardware_has_the_same_name_whatever_the_load(machine):
    base = {"proc/cpuinfo": GRAVITON, "proc/meminfo": "MemTotal: 24684096 kB\n", "proc/loadavg": "0.1 0 0 1/1 1\n"}
    name = machine(base).machine
    assert machine(base | {"proc/loadavg": "9 0 0 1/1 1\n"}).machine == name
    assert machine(base | {"proc/meminfo": "MemTotal: 24684000 kB\n"}).machine == name
    assert machine(base | {"proc/meminfo": "MemTotal: 49368192 kB\n"}).machine != name


def test_versions_of_what_is_installed_are_kept():
    libraries = observe_environment().libraries
    assert libraries["mlcommons-loadgen"] == "6.0.17"
    assert "numpy" in libraries


def test_nothing_personal_is_kept(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    text = observe_environment().model_dump_json()
    words = {word for value in json.loads(text).values() for word in json.dumps(value).lower().split('"')}
    assert platform.node().lower() not in words
    assert getpass.getuser() not in words
    assert "hunter2" not in text


def test_observing_imports_no_runtime():
    check = (
        "import sys; from mlbench.records.environment import observe_environment; observe_environment();"
        "sys.exit(bool({'torch', 'numpy', 'onnxruntime', 'transformers', 'mlperf_loadgen'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_a_container_of_podman_names_its_image(machine):
    told = 'engine="podman-5.2.0"\nname="night"\nimage="quay.io/acme/product:1.4"\nimageid="4f5e"\nrootless=1\n'
    allowance = machine({"run/.containerenv": told}).allowance
    assert (allowance.container, allowance.image) == ("podman", "quay.io/acme/product:1.4 4f5e")


def test_a_container_that_does_not_say_has_no_image(machine):
    allowance = machine({".dockerenv": ""}).allowance
    assert (allowance.container, allowance.image) == ("docker", None)
