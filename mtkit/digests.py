"""Short digests of values, bytes and files."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any


def digest(content: Any) -> str:
    """Returns a short digest of anything JSON can express, the same on every machine."""
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    # It may contain paths that are invalid UTF-8.
    return hashlib.sha256(canonical.encode(errors="surrogateescape")).hexdigest()[:16]


def digest_bytes(content: bytes) -> str:
    """Returns a short digest of bytes; equals `digest_file` of a file with these bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


@cache
def digest_package() -> str:
    """Returns a short digest of mtkit's own source, which two installations may share."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return digest([[path.name, digest_file(path)] for path in files])


def digest_file(path: Path) -> str:
    """Returns a short digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]
