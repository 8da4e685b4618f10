"""Where work is done: on this machine, or on a cluster."""

from pathlib import Path

from mtkit.cpus import count_cpus
from mtkit.executor import Executor, LocalExecutor
from mtkit.recipe.cluster import Cluster


def choose_executor(
    cluster: Cluster | None,
    folder: Path,
    num_workers: int | None = None,
    *,
    takes_nodes: bool = False,
) -> Executor:
    """Returns the workers of a cluster that sees a folder, or those of this machine.

    By default there is one per CPU of each; with `takes_nodes` one per machine, or per GPU.
    """
    if cluster is None or cluster.address is None:
        return LocalExecutor(1 if takes_nodes else num_workers or count_cpus())
    # Imported here: few have a cluster.
    from mtkit.pipeline.ray_executor import RayExecutor  # noqa: PLC0415

    skips = cluster.skip_bad_blocks
    return RayExecutor(cluster.address, folder, num_workers, takes_nodes=takes_nodes, skips=skips)
