"""A Ray cluster of several nodes on this machine, on loopback, in processes of its own: ``ray_cluster.py <count>``.

It prints its address, and ends with its standard input.
"""

import subprocess
import sys
from contextlib import contextmanager

ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Also of those who use it: Ray then takes loopback for this machine's address."""
_MEMORY_BYTES = 80 << 20


class StartedCluster:
    """A cluster, and its processes."""

    def __init__(self, process, address, raylets, head):
        self.process, self.address, self.raylets, self.head = process, address, raylets, head


@contextmanager
def ray_cluster(environment, count=2):
    command = [sys.executable, __file__, str(count)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**environment, **ENVIRONMENT}, **pipes) as process:
        words = process.stdout.readline().split()
        assert words, "Ray does not start here"
        address, head, *raylets = words
        try:
            yield StartedCluster(process, address, list(map(int, raylets)), int(head))
        finally:
            process.stdin.close()
            process.wait(60)


def main():
    from ray.cluster_utils import Cluster

    sizes = {"num_cpus": 1, "object_store_memory": _MEMORY_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args={**sizes, "include_dashboard": False})
    nodes = [cluster.head_node, *(cluster.add_node(**sizes) for _ in range(int(sys.argv[1]) - 1))]
    processes = [node.all_processes for node in nodes]
    raylets = [each["raylet"][0].process.pid for each in processes]
    print(cluster.address, processes[0]["gcs_server"][0].process.pid, *raylets, flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
