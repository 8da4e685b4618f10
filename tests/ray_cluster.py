"""Nodes of a Ray cluster on this machine; run as a program, it obeys its stdin.

    add      a node more; prints `added`
    kill N   kills a node at once, as a power cut would; prints `killed`

Its first line of output is the address. It ends with its stdin.
A node has one CPU, or MTKIT_NODE_CPUS.
"""

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]


class Nodes:
    """A running cluster."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid
        self.address = self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._read()


@contextmanager
def start_nodes(num_nodes: int, **environment: str):
    """Yields a cluster."""
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.ray_cluster", str(num_nodes), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )
        with process:
            try:
                yield Nodes(process)
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(60)


def main(num_nodes: int, folder: str) -> None:
    # Ray writes the address there, too, but doesn't make the folder.
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": folder}
    (Path(folder) / "ray").mkdir()
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    each = {
        "num_cpus": int(os.environ.get("MTKIT_NODE_CPUS", "1")),
        "object_store_memory": 100 << 20,
    }
    head = {**each, "include_dashboard": False, "temp_dir": folder}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(**each) for _ in range(num_nodes - 1)]
    print(cluster.address, flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "add":
            nodes.append(cluster.add_node(**each))
            print("added", flush=True)
        else:
            cluster.remove_node(nodes.pop(int(arguments[0])), allow_graceful=False)
            print("killed", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
