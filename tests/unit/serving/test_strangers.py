"""Who shows no key: told before a body is read, and bounded where the key is in the body."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from mtkit.errors import MtkitError
from mtkit.serving.access import RequestBytes, WaitingBytes
from mtkit.serving.keys import KeyRing, add_key
from mtkit.serving.request_errors import RequestError
from mtkit.serving.settings import Serving

from .conftest import FakeWorker
from .sockets import Running, wait_until

Serve = Callable[..., TestClient]
_ASK = {"q": "a", "source": "en", "target": "de"}


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "keys.toml"
    return path, add_key(path, "us")


@pytest.mark.parametrize("path", ["translate", "score"])
def test_our_own_routes_read_no_body_without_a_key(
    serve: Serve, keys: tuple[Path, str], path: str
) -> None:
    client = serve(keys=keys[0])
    broken = {"content": b"{", "headers": {"Content-Type": "application/json"}}
    assert client.post(f"/v1/{path}", **broken).json()["error"].endswith("to get an API key")
    broken["headers"]["Authorization"] = "Bearer wrong"
    assert client.post(f"/v1/{path}", **broken).status_code == 403
    broken["headers"]["Authorization"] = f"Bearer {keys[1]}"
    assert client.post(f"/v1/{path}", **broken).json()["error"] == "Invalid JSON format"


def test_large_bodies_of_strangers_leave_room(
    workers: type[FakeWorker], keys: tuple[Path, str]
) -> None:
    """25 uploads that stall, as many as held all of `max_waiting_bytes`."""

    async def main() -> None:
        path, key = keys
        async with Running(KeyRing(path)) as running:
            await wait_until(running.listens)
            head = (
                b"POST /translate_file HTTP/1.1\r\nHost: a\r\n"
                b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 19000000\r\n\r\n"
            )
            for _ in range(25):
                await running.connect(head + b"x" * 5_000_000)
            await wait_until(lambda: running.num_waiting > 15_000_000)
            body = b'{"q": "a", "source": "en", "target": "de", "api_key": "%s"}' % key.encode()
            small = (
                b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            answer = await (await running.connect(small + body)).read()
            assert answer.startswith(b"HTTP/1.1 200")
            assert running.num_waiting < 70_000_000

    asyncio.run(main())


def _refused(take: Callable[[], None]) -> bool:
    try:
        take()
    except RequestError as error:
        return error.status == 503
    return False


def test_a_budget_by_hand() -> None:
    budget = WaitingBytes(1_000_000, 600_000, "wait")
    small = 64 << 10
    first, second, third = (RequestBytes(budget, name) for name in ("a", "a", "b"))
    first.take(small)
    first.take(500_000)
    # The first 64 KiB of a request are counted apart.
    assert not _refused(lambda: second.take(small))
    assert _refused(lambda: second.take(100_001))
    second.close()
    assert not _refused(lambda: third.take(small + 400_000))
    other = WaitingBytes(1_000_000, 600_000, "wait")
    first.move(other, "key")
    assert (budget.num_bytes, other.num_bytes) == (small + 400_000, small + 500_000)
    third.close()
    first.close()
    assert (budget.num_bytes, other.num_bytes) == (0, 0)


def test_small_requests_of_one_caller_leave_room_for_others() -> None:
    budget = WaitingBytes(1_000_000_000, 500_000_000, "wait")
    small = 64 << 10
    held = [RequestBytes(budget, "a") for _ in range(600)]
    refused = [_refused(lambda each=each: each.take(small)) for each in held]
    # Half of 64 MiB are 512 requests of 64 KiB.
    assert refused.index(True) == 512
    assert not _refused(lambda: RequestBytes(budget, "b").take(small))
    # What is tiny comes in always.
    assert not _refused(lambda: RequestBytes(budget, "a").take(4_096))


def test_a_file_fits_into_each_budget() -> None:
    settings = Serving(max_file_bytes=400_000_000)
    for budget in (
        WaitingBytes.for_authenticated(settings),
        WaitingBytes.for_unauthenticated(settings),
    ):
        assert not _refused(lambda budget=budget: budget.take("a", 0, 400_000_000))


def test_a_key_in_a_body_moves_it(serve: Serve, keys: tuple[Path, str]) -> None:
    client = serve(keys=keys[0])
    assert client.post("/translate", json={**_ASK, "api_key": keys[1]}).status_code == 200
    assert client.post("/translate", data={**_ASK, "api_key": keys[1]}).status_code == 200
    answer = client.post("/translate", params={"api_key": keys[1]}, data=_ASK)
    assert answer.status_code == 200


def test_a_file_of_keys_by_windows_and_one_beyond_reading(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    key = add_key(path, "a")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert KeyRing(path).find(key) is not None
    path.write_text("keys = 1" + "0" * 5_000)
    with pytest.raises(MtkitError, match="a number with too many digits"):
        KeyRing(path)


def test_a_hash_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text('[[keys]]\nname = "a"\nsha256 = "zz"\n')
    with pytest.raises(
        MtkitError, match=r"keys\.0\.sha256: expected 64 hexadecimal digits"
    ) as found:
        KeyRing(path)
    assert found.value.hint == ""


def test_a_file_of_keys_that_is_deleted_lets_nobody_in(
    serve: Serve,
    keys: tuple[Path, str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path, key = keys
    client = serve(keys=path)
    head = {"Authorization": f"Bearer {key}"}
    assert client.post("/translate", json=_ASK, headers=head).status_code == 200
    content = path.read_bytes()
    path.unlink()
    monkeypatch.setattr("mtkit.serving.keys._POLL_SECONDS", 0.0)
    assert client.post("/translate", json=_ASK, headers=head).status_code == 403
    assert "keys.toml: no such file" in capfd.readouterr().err
    # A faulty one may be in the making: the known keys stay, and the second look reports it once.
    path.write_bytes(content)
    assert client.post("/translate", json=_ASK, headers=head).status_code == 200
    ring = KeyRing(path)
    path.write_bytes(content + b"max_character = 20\n")
    for num_reported in (0, 1, 0):
        assert ring.find(key) is not None
        assert capfd.readouterr().err.count("did you mean 'max_characters'") == num_reported


def test_a_key_is_added_behind_a_last_line_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    first = add_key(path, "a")
    path.write_text(path.read_text().rstrip("\n"))
    second = add_key(path, "b")
    ring = KeyRing(path)
    assert [key.name for each in (first, second) if (key := ring.find(each))] == ["a", "b"]
