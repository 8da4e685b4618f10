"""Entry point of `mtkit serve`: builds a server from models, limits and keys."""

from collections.abc import Sequence
from pathlib import Path

from mtkit.errors import MtkitError, how_to_install
from mtkit.llm import is_llm_file
from mtkit.pipeline.translate import with_length_ratio
from mtkit.recipe.flags import Flags
from mtkit.recipe.inference import Inference


def serve(
    folders: Sequence[Path],
    overrides: Sequence[str] = (),
    *,
    settings: Inference | None = None,
    host: str = "127.0.0.1",
    port: int = 5000,
    keys: Path | None = None,
    without_keys: bool = False,
    device: str = "auto",
) -> None:
    """Serves model folders until SIGTERM or Ctrl-C.

    Args:
        folders: Model folders, or files of large language models.
        overrides: `serve.KEY=VALUE`, and `inference.KEY=VALUE` for all models.
        settings: Decoding settings of all models; by default each folder's own.
        host: Address to listen on.
        port: Its port; 0 for any free one.
        keys: API key file. Requests without a valid key are rejected.
        without_keys: Whether a non-local address is open to everyone.
        device: As for `mtkit translate`.
    """
    try:
        from mtkit.serving.app import make_context
        from mtkit.serving.keys import KeyRing
        from mtkit.serving.model_service import ServedModel, own_settings
        from mtkit.serving.server import (
            LOCAL_HOSTS,
            is_loopback,
            open_socket,
        )
        from mtkit.serving.server import serve as run_server
        from mtkit.serving.settings import Serving
    except ModuleNotFoundError as error:
        raise MtkitError(
            f"mtkit serve needs the package {error.name}", how_to_install("serve")
        ) from error
    from mtkit.recipe.override_section import override_section, split_overrides
    from mtkit.recipe.overrides import override_key

    of_server, of_models = split_overrides(overrides, "serve")
    for override in of_models:
        if not override_key(override).startswith("inference."):
            raise MtkitError(
                f"--set {override}: expected a key of serve or inference",
                "for example: --set serve.max_characters=10000",
            )
    limits = override_section(Serving(), "serve", of_server)
    if not is_loopback(host) and keys is None and not without_keys:
        raise MtkitError(
            f"--host {host}: others could use the server, and there are no keys",
            "give --keys FILE, made with --new-key NAME; "
            "or --without-keys to allow unauthenticated requests",
        )
    if is_loopback(host) and not limits.hosts:
        # A page of another site that points its name at this machine is rejected.
        own = f"[{host}]" if ":" in host else host
        limits = limits.model_copy(update={"hosts": (*LOCAL_HOSTS, own)})
    ring = KeyRing(keys) if keys is not None else None

    def choose_settings(folder: Path) -> Inference:
        own = own_settings(folder) if settings is None else settings
        if limits.fallback is not None and own.flags is None:
            own = own.model_copy(update={"flags": Flags()})
        own = own if settings is None else with_length_ratio(own, folder)
        return override_section(own, "inference", of_models) if of_models else own

    models = [
        ServedModel.open(name, folder.resolve(), device, choose_settings)
        for folder, name in zip(folders, _name_all(folders), strict=True)
    ]
    opened = open_socket(host, port)
    with opened:
        run_server(make_context(models, limits, ring), opened)


def _name_all(folders: Sequence[Path]) -> list[str]:
    """Returns a unique name for each model: `multi30k` for runs/multi30k/model."""
    names: list[str] = []
    for folder in folders:
        path = folder.resolve()
        plain = path.stem if is_llm_file(folder) else path.name
        if plain == "model":
            plain = path.parent.name
        count = sum(name == plain or name.startswith(f"{plain}-") for name in names)
        names.append(f"{plain}-{count + 1}" if plain in names else plain)
    return names
