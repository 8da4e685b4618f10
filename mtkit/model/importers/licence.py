"""The licence of a public model, from its card."""

from dataclasses import dataclass

from mtkit.errors import shorten
from mtkit.files import read_file
from mtkit.model.importers.source_folder import SourceFolder

CARD_FILE = "README.md"
_MAX_BYTES = 1 << 20
_MAX_CHARACTERS = 80


@dataclass(frozen=True)
class Licence:
    """The origin of a model, and its licence.

    Attributes:
        origin: Its name on the hub, or that of its folder.
        name: The licence in the hub's spelling: `apache-2.0`, `cc-by-nc-4.0`; empty if unknown.
    """

    origin: str
    name: str

    @property
    def allows_commercial_use(self) -> bool:
        """Whether its name doesn't rule out commercial use; also if it is unknown."""
        return "nc" not in self.name.lower().replace("_", "-").split("-")


def read_licence(folder: SourceFolder) -> Licence:
    """Returns the licence on a folder's card."""
    # Slow to load.
    import yaml  # noqa: PLC0415

    path = folder.find(CARD_FILE)
    name = ""
    if path is not None:
        text = read_file(path, max_bytes=_MAX_BYTES).decode("utf-8", errors="replace")
        if text.startswith("---"):
            head = text.removeprefix("---").partition("\n---")[0]
            try:
                # Merged mappings of merged ones could fill the memory.
                found = None if "<<" in head else yaml.safe_load(head)
            except (yaml.YAMLError, RecursionError, ValueError):
                found = None
            if isinstance(found, dict):
                told = found.get("license")
                if told == "other" and found.get("license_name"):
                    told = found["license_name"]
                listed = told if isinstance(told, list) else [told]
                name = ", ".join(one for one in listed if isinstance(one, str) and one)
    origin = folder.origin if folder.is_from_hub else folder.name
    return Licence(origin=origin, name=shorten(" ".join(name.split()), _MAX_CHARACTERS))
