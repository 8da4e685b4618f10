"""The section `[cluster]`."""

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe.cluster import Cluster
from mtkit.recipe.override_section import read_cluster


def test_parts_of_parts_have_contiguous_blocks_that_differ_by_one() -> None:
    for blocks, total in ((10, 64), (64, 10), (7, 7), (1, 3)):
        chosen = [Cluster(part=f"{n}/{total}").choose_blocks(blocks) for n in range(1, total + 1)]
        assert [number for part in chosen for number in part] == list(range(blocks))
        assert max(map(len, chosen)) - min(map(len, chosen)) <= 1


def test_overrides_of_the_cluster_are_split_off() -> None:
    given = ["cluster.part=3/64", "inference.beam_size=2", "~cluster.address"]
    cluster, others = read_cluster(given)
    assert (cluster.number_and_total, others) == ((3, 64), ["inference.beam_size=2"])
    assert read_cluster([]) == (Cluster(), [])
    with pytest.raises(MtkitError, match=r"cluster.part: expected a number and how many"):
        read_cluster(["cluster.part=3 of 64"])


@pytest.mark.parametrize("address", ["", "n1", "n1:", ":6379", "n1:port", "n1:65536", "n1:²"])
def test_an_address_has_host_and_port(address: str) -> None:
    Cluster(address="auto")
    Cluster(address="n1.example:6379")
    with pytest.raises(MtkitError, match=r'neither "auto" nor a host with its port'):
        read_cluster([f"cluster.address={address}"])
