import pytest

from mtkit import devices
from mtkit.devices import is_cpu, read_device
from mtkit.errors import MtkitError


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("auto", ("auto", None)),
        ("cpu", ("cpu", None)),
        ("cuda", ("cuda", None)),
        ("cuda:0", ("cuda", 0)),
        ("cuda:12", ("cuda", 12)),
    ],
)
def test_a_name_is_a_kind_and_an_index(name: str, device: tuple[str, int | None]) -> None:
    assert read_device(name) == device


@pytest.mark.parametrize("name", ["", "gpu", "cuda:", "cuda:-1", "cuda:250", "cpu:0", "CPU"])
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(MtkitError, match=f"no device '{name}'"):
        read_device(name)


@pytest.mark.parametrize(
    ("name", "has_torch", "has_gpu", "expected"),
    [
        ("cpu", True, True, True),
        ("cuda:1", False, False, False),
        ("auto", True, True, False),
        ("auto", True, False, True),
        ("auto", False, True, True),
    ],
)
def test_a_gpu_needs_its_device_file_and_torch(
    monkeypatch: pytest.MonkeyPatch, name: str, has_torch: bool, has_gpu: bool, expected: bool
) -> None:
    monkeypatch.setattr(devices, "has_torch", lambda: has_torch)
    monkeypatch.setattr(devices, "_GPU_FILES", ["null" if has_gpu else "no-such-device"])
    assert is_cpu(name) is expected
