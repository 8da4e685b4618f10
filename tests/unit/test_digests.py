"""Digests are the same on every machine."""

import json
from pathlib import Path

from mtkit.digests import digest, digest_file


def test_digests_depend_on_content_alone(tmp_path: Path) -> None:
    assert digest({"a": 1, "b": 2}) == digest(json.loads('{"b": 2, "a": 1}'))
    assert digest({"a": 1}) != digest({"a": 1.5})
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    # FIPS 180-2, appendix B.1: SHA-256 of "abc" begins so.
    assert digest_file(path) == "ba7816bf8f01cfea"
