"""How many workers a node has, by its cores, memory and GPUs; counts by hand."""

from pathlib import Path

import pytest

from mtkit.executor import WorkerNeeds
from mtkit.pipeline.ray_executor import RayExecutor

GIB = float(2**30)
CPU_NODE = {"CPU": 16.0, "memory": 64 * GIB}
GPU_NODE = {"CPU": 64.0, "GPU": 8.0, "memory": 512 * GIB}


def place(node: dict[str, float], needs: WorkerNeeds | None = None, **options):
    executor = RayExecutor("auto", Path(), **options)
    return (executor if needs is None else executor.fit(needs)).place(node)


def test_work_on_text_takes_a_core_each() -> None:
    assert place(CPU_NODE) == (16, {"num_cpus": 1})
    assert place(CPU_NODE, max_workers=4) == (4, {"num_cpus": 1})
    assert place(GPU_NODE) == (64, {"num_cpus": 1})


@pytest.mark.parametrize(("gibibytes", "expected"), [(3, 16), (5, 12), (40, 1), (100, 1)])
def test_models_take_memory(gibibytes: int, expected: int) -> None:
    needs = WorkerNeeds(num_bytes=gibibytes << 30)
    assert place(CPU_NODE, needs) == (expected, {"num_cpus": 1})


def test_models_take_a_gpu_each_where_there_are_some() -> None:
    assert place(GPU_NODE, WorkerNeeds(num_bytes=1)) == (8, {"num_gpus": 1, "num_cpus": 1})
    assert place(GPU_NODE, takes_nodes=True) == (8, {"num_gpus": 1, "num_cpus": 8})
    assert place(CPU_NODE, takes_nodes=True) == (1, {"num_cpus": 16})


def test_what_runs_behind_an_address_needs_no_gpu() -> None:
    assert place(GPU_NODE, WorkerNeeds(is_remote=True)) == (1, {"num_cpus": 1})
