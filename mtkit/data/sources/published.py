"""Test sets that sacreBLEU knows by name and downloads (arXiv 1804.08771)."""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.error import URLError

from mtkit.console import warn
from mtkit.data.sources.lines import read_lines
from mtkit.errors import MtkitError

_Result = TypeVar("_Result")

_SHORTENED = {
    "wmt14": (
        "wmt14 has 2,737 of newstest2014's 3,003 sentences; papers report on all of them",
        "wmt14/full",
    )
}
"""Sets for which another set has the sentences that papers report on."""


def read_published(name: str, *, languages: tuple[str, str]) -> tuple[list[str], list[list[str]]]:
    """Returns a test set's sources and its sets of references.

    Downloads it unless it is in `~/.sacrebleu` (or the folder in SACREBLEU).
    """
    # sacreBLEU takes a while to load.
    from sacrebleu import (  # noqa: PLC0415
        get_available_testsets,
        get_langpairs_for_testset,
        get_reference_files,
        get_source_file,
    )

    known = get_available_testsets()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        raise MtkitError(
            f"sacreBLEU {_version()} has no test set '{name}'",
            f"did you mean {' or '.join(near)}? to list all: sacrebleu --list"
            if near
            else "to list all: sacrebleu --list",
        )
    pairs = get_langpairs_for_testset(name)
    pair = "-".join(languages)
    if pair not in pairs:
        raise MtkitError(f"test set {name} has no {pair}", f"it has {', '.join(sorted(pairs))}")
    if name in _SHORTENED:
        what, whole = _SHORTENED[name]
        warn(f"{what}: use {whole}")
    files = _download(
        name, pair, lambda: [get_source_file(name, pair), *get_reference_files(name, pair)]
    )
    source, *references = [list(read_lines(Path(path))) for path in files]
    return source, references


def _download(name: str, pair: str, fetch: Callable[[], _Result]) -> _Result:
    try:
        return fetch()
    except URLError as error:
        reason = str(error.reason)
    except (OSError, SystemExit) as error:
        # sacreBLEU exits if a download's digest is wrong.
        reason = str(error) if isinstance(error, OSError) else "wrong checksum"
    raise MtkitError(
        f"test set {name} ({pair}) isn't on this machine, and can't be downloaded: {reason}",
        f"on a machine with a network, run `sacrebleu -t {name} -l {pair} --echo src`, and copy "
        "its ~/.sacrebleu here; or give files with --source and --reference",
    )


def _version() -> str:
    from sacrebleu import __version__  # noqa: PLC0415

    return str(__version__)
