"""Where work is spread over machines: a Ray cluster, or the jobs of a scheduler."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from mtkit.recipe.section import Section

_LAST_PORT = 65_535


def _check_address(address: str) -> str:
    host, _, port = address.rpartition(":")
    is_port = port.isdecimal() and int(port) <= _LAST_PORT
    if address != "auto" and not (host and is_port):
        raise ValueError(
            f'"{address}" is neither "auto" nor a host with its port, such as "n1:6379"'
        )
    return address


class Cluster(Section):
    """`mtkit prepare` and `mtkit translate FILE` on several machines; results are the same."""

    address: Annotated[str, AfterValidator(_check_address)] | None = None
    """A Ray cluster: `auto`, or host and port of its head node. Every node needs mtkit, and sees
    corpora, models and workspace under the same paths."""
    part: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5}/[1-9][0-9]{0,5}$")] | None = None
    """Part of a file that this job translates: `3/64` is the third of 64."""
    skip_bad_blocks: bool = False
    """Skip a block that killed three workers; by default such a block is an error."""

    @model_validator(mode="after")
    def _part_is_one_of_them(self) -> "Cluster":
        if self.part is not None:
            number, total = self.number_and_total
            if number > total:
                raise ValueError(f'part = "{self.part}" is beyond the last, "{total}/{total}"')
            if self.address is not None:
                raise ValueError("address and part both spread the work: give one of the two")
        return self

    @property
    def number_and_total(self) -> tuple[int, int]:
        """Number of this job's part, from 1, and the number of parts."""
        number, _, total = (self.part or "1/1").partition("/")
        return int(number), int(total)

    def choose_blocks(self, num_blocks: int) -> range:
        """Returns this job's contiguous part of a file's blocks; parts differ by at most one."""
        number, total = self.number_and_total
        return range(num_blocks * (number - 1) // total, num_blocks * number // total)
