import os

import pytest
import torch

import mtkit.network.device as device_module
from mtkit.errors import MtkitError
from mtkit.network.device import (
    choose_fastest_precision,
    find_device,
    limit_kernel_cache,
    limit_threads,
)

CPU = torch.device("cpu")


def test_devices(monkeypatch):
    assert find_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert find_device("auto") == torch.device("cpu")
    with pytest.raises(MtkitError, match="no device 'cuda': 0 GPUs found"):
        find_device("cuda")
    for name in ("gpu", "meta", "mps", "cuda:250"):
        with pytest.raises(MtkitError, match=f"no device '{name}'"):
            find_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert find_device("auto") == torch.device("cuda")
    assert find_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(MtkitError, match="no device 'cuda:1': 1 GPUs found"):
        find_device("cuda:1")


def test_threads_are_lowered_to_the_processors_unless_a_number_is_given(monkeypatch) -> None:
    threads = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(device_module, "count_cpus", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    limit_threads()
    assert threads == []
    monkeypatch.delenv("OMP_NUM_THREADS")
    limit_threads()
    assert threads == [4]


def test_fewer_kernels_are_kept_unless_the_user_says(monkeypatch) -> None:
    variable = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    monkeypatch.setenv(variable, "7")
    limit_kernel_cache()
    assert os.environ[variable] == "7"
    monkeypatch.delenv(variable)
    limit_kernel_cache()
    assert os.environ[variable] == "128"


@pytest.mark.parametrize("has_amx", [False, True])
@pytest.mark.parametrize("has_avx512_bf16", [False, True])
@pytest.mark.parametrize("emulates_bfloat16", [False, True])
def test_a_cpu_suits_bf16_where_it_multiplies_in_it(
    monkeypatch, *, has_amx: bool, has_avx512_bf16: bool, emulates_bfloat16: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has_amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_avx512_bf16)
    monkeypatch.setattr(device_module, "emulates_bfloat16", lambda device: emulates_bfloat16)
    is_quick = (has_amx or has_avx512_bf16) and not emulates_bfloat16
    assert choose_fastest_precision(CPU) == ("bf16" if is_quick else "fp32")


def test_a_torch_that_cannot_tell_takes_fp32(monkeypatch) -> None:
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.delattr(torch.cpu, name)
    assert choose_fastest_precision(CPU) == "fp32"
