import pytest
import torch
from torch.backends import cuda

from mtkit.network import scaled_dot_product as kernels


def _enabled() -> dict[str, bool]:
    return {
        "flash": cuda.flash_sdp_enabled(),
        "memory-efficient": cuda.mem_efficient_sdp_enabled(),
        "math": cuda.math_sdp_enabled(),
        "cuDNN": cuda.cudnn_sdp_enabled(),
    }


def test_cudnn_is_left_out_on_a_gpu_and_is_back_afterwards() -> None:
    before = _enabled()
    order = torch._C._get_sdp_priority_order()
    assert before["cuDNN"]
    with kernels.limit_attention_kernels(torch.device("cuda")):
        assert _enabled() == {**before, "cuDNN": False}
        first, second, third, *_ = torch._C._get_sdp_priority_order()
        assert [first, second, third] == [int(backend.value) for backend in kernels.ORDER]
    assert _enabled() == before
    assert torch._C._get_sdp_priority_order() == order


def test_a_cpu_s_choice_is_pytorch_s_own() -> None:
    before = _enabled()
    with kernels.limit_attention_kernels(torch.device("cpu")):
        assert _enabled() == before


def test_a_fault_inside_leaves_the_choice_as_it_was() -> None:
    before = _enabled()
    with pytest.raises(ZeroDivisionError), kernels.limit_attention_kernels(torch.device("cuda")):
        _ = 1 / 0
    assert _enabled() == before
