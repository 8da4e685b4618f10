"""Identifies what translates: files, engine, device and precision."""

from dataclasses import dataclass
from pathlib import Path

from mtkit.inference.engines.native_engine import find_native_precision
from mtkit.model.config import read_config
from mtkit.model.digest import digest_model
from mtkit.recipe.inference import Inference


@dataclass(frozen=True)
class ModelIdentity:
    """Everything that a translation depends on except its source and the search settings.

    Attributes:
        model: Digest of the files that translate, by `digest_model`.
        engine: `native`, the one in C++, or `torch`.
        device: `cpu` or `cuda`.
        precision: Such as `bf16`.
    """

    model: str
    engine: str
    device: str
    precision: str

    def describe(self) -> str:
        """Returns everything but the digest, as a phrase."""
        return f"`{self.engine}` on `{self.device}` in `{self.precision}`"


def identify(folder: Path, settings: Inference, device: str) -> ModelIdentity:
    """Returns the identity of a model folder's translator, with every `auto` resolved."""
    model = digest_model(folder)
    native = find_native_precision([folder], settings, device)
    if settings.engine == "auto" and native is not None:
        return ModelIdentity(model, "native", "cpu", native)
    # Imported here: the other engine translates without torch.
    from mtkit.inference.engines.open_torch_engine import choose_precision  # noqa: PLC0415
    from mtkit.network.device import find_device  # noqa: PLC0415

    found = find_device(device)
    precision = choose_precision(settings, found, read_config(folder).model)
    return ModelIdentity(model, "torch", found.type, precision)
