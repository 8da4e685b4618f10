"""What is wrong with a body: told with its place, and cheap to find."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

Serve = Callable[..., TestClient]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("translate", {"lines": ["a", 5]}, "lines, line 2: Input should be a valid string"),
        ("translate", {"lines": [{"txt": "a"}]}, "missing lines, line 1, text parameter"),
        ("translate", {"lines": ["a"], "x": None}, "x: Extra inputs are not permitted"),
        ("translate", {"lines": ["a"], "settings": {"beam": 2}}, "settings, beam: Extra inputs"),
        (
            "translate",
            {"lines": ["a"], "settings": {"paragraphs": {"x": 2}}},
            "settings, paragraphs, x: Extra inputs",
        ),
        ("score", {"pairs": [["a", "b"], ["a"]]}, "pairs, pair 2, target: Field required"),
        ("score", {"pairs": [["a", 5]]}, "pairs, pair 1, target: Input should be a valid string"),
    ],
)
def test_a_fault_is_told_with_its_place(
    serve: Serve, path: str, body: dict[str, Any], said: str
) -> None:
    response = serve().post(f"/v1/{path}", json=body)
    assert response.status_code == 400
    assert response.json()["error"].startswith(f"Invalid request: {said}")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("translate", b'{"q": [%s1], "source": "en", "target": "de"}' % (b"1," * 1_000_000)),
        pytest.param(
            "v1/translate",
            b'{"lines": [%s{}]}' % (b"{}," * 1_000_000),
            marks=pytest.mark.patient,
        ),
        ("v1/translate", b'{"lines": ["a"], "glossary": [%s{}]}' % (b"{}," * 1_000_000)),
        ("v1/score", b'{"pairs": [%s[]]}' % (b"[]," * 1_000_000)),
        (
            "v1/translate",
            b"{%s}" % b",".join(b'"%d": 1' % number for number in range(300_000)),
        ),
    ],
    ids=["texts", "lines", "terms", "pairs", "keys"],
)
def test_a_million_faults_take_little_memory(serve: Serve, path: str, body: bytes) -> None:
    client = serve()
    tracemalloc.start()
    try:
        response = client.post(
            f"/{path}", content=body, headers={"content-type": "application/json"}
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert response.status_code == 400
    # What was read, a list's million items of 64 bytes and the body itself: no more.
    assert peak < 200_000_000
