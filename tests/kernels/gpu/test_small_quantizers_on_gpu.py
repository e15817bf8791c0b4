"""Tensor-wise and block-wise quantizers and the padding of token groups on a real GPU, AMD's or NVIDIA's.

``hatch run rocm:test`` runs these. They need no simulator. Bytes equal the references'.
"""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_results, column_major, put_specials, skewed_values

from wavecast.kernels.blockwise import quantize_blockwise
from wavecast.kernels.blockwise.reference import quantize_blockwise_reference
from wavecast.kernels.device import Path, active_arch, last_path, native_format
from wavecast.kernels.formats import FORMATS, Fp8Format
from wavecast.kernels.tensorwise import quantize_tensorwise
from wavecast.kernels.tensorwise.reference import quantize_tensorwise_reference
from wavecast.kernels.token_padding import pad_token_groups, unpad_token_groups
from wavecast.kernels.token_padding.reference import pad_token_groups_reference, unpad_token_groups_reference

pytestmark = pytest.mark.gpu

RAGGED = [1, 7, 15, 17, 0, 31, 33, 127, 129]
FAR = (1 << 31) + (1 << 20)
"""More values than 32-bit offsets reach."""


@pytest.fixture(scope="module")
def fmt() -> Fp8Format:
    """The native format of the GPU that Triton has."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    arch = active_arch()
    assert arch is not None
    return native_format(arch)


def ends_of(sizes: list[int]) -> torch.Tensor:
    return torch.tensor(sizes).cumsum(0).int()


def on_cpu(results: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    assert last_path() is Path.TRITON
    return tuple(tensor.cpu() for tensor in results)


TENSORS = {
    "less than a vector": lambda: skewed_values(7),
    "tail behind whole tiles": lambda: put_specials(skewed_values(37, 911)),
    "many tiles": lambda: put_specials(skewed_values(3000, 4100)),
    "experts' weights": lambda: column_major(put_specials(skewed_values(3, 40, 50))),
    "padded rows": lambda: put_specials(skewed_values(65, 3000))[:, :2000],
    "fp32": lambda: put_specials(skewed_values(33, 41, dtype=torch.float32)),
    "zero": lambda: torch.zeros(4, 128, dtype=torch.bfloat16),
    "tiny": lambda: torch.full((4, 128), 2.0**-133, dtype=torch.bfloat16),
    "no value": lambda: torch.empty(0, 5),
}


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("power_of_two", [False, True])
def test_tensorwise(fmt: Fp8Format, name: str, power_of_two: bool) -> None:
    x = TENSORS[name]()
    wanted = quantize_tensorwise_reference(x, fmt, power_of_two=power_of_two)
    on_device = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda").copy_(x)
    assert_same_results(name, on_cpu(quantize_tensorwise(on_device, power_of_two=power_of_two)), wanted)


@pytest.mark.parametrize("block", [(128, 128), (1, 128)], ids=str)
@pytest.mark.parametrize("shape", [(7, 5), (300, 200), (2, 300, 264), (1000, 4096)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_blockwise(fmt: Fp8Format, block: tuple[int, int], shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = put_specials(skewed_values(*shape, dtype=dtype))
    wanted = quantize_blockwise_reference(x, block=block, fmt=fmt, power_of_two=False)
    assert_same_results(str(shape), on_cpu(quantize_blockwise(x.cuda(), block)), wanted)


@pytest.mark.parametrize("block", [(128, 128), (128, 1)], ids=str)
def test_blockwise_column_major(fmt: Fp8Format, block: tuple[int, int]) -> None:
    x = column_major(put_specials(skewed_values(3, 136, 152)))
    wanted = quantize_blockwise_reference(x, block=block, fmt=fmt, power_of_two=True)
    actual = quantize_blockwise(column_major(x.cuda()), block, power_of_two=True)
    assert_same_results(str(block), on_cpu(actual), wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, *(fmt.dtype for fmt in FORMATS)], ids=str)
@pytest.mark.parametrize("multiple", [1, 16, 32, 128])
@pytest.mark.parametrize("columns", [2048, 33])
def test_padding(fmt: Fp8Format, dtype: torch.dtype, multiple: int, columns: int) -> None:
    x, offs = skewed_values(sum(RAGGED) + 5, columns).to(dtype), ends_of(RAGGED)
    wanted, ends = pad_token_groups_reference(x, offs, multiple)
    padded = pad_token_groups(x.cuda(), offs.cuda(), multiple)
    assert last_path() is Path.TRITON
    assert torch.equal(padded.tokens.cpu().view(torch.uint8), wanted.view(torch.uint8))
    assert torch.equal(padded.offs.cpu(), ends)
    back = unpad_token_groups(padded.tokens, offs.cuda(), padded.offs, x.shape[0])
    wanted_back = unpad_token_groups_reference(wanted, offs, ends, x.shape[0])
    assert torch.equal(back.cpu().view(torch.uint8), wanted_back.view(torch.uint8))


def test_more_values_than_32_bit_offsets_reach(fmt: Fp8Format) -> None:
    """The amax is behind 2^31 values, and so is what is compared."""
    if torch.cuda.get_device_properties(0).total_memory < 1 << 35:
        pytest.skip("less than 32 GiB")
    x = torch.zeros(FAR, dtype=torch.bfloat16, device="cuda")
    x[-5:] = torch.tensor([1.0, -2.0, 0.5, 0.25, -1.0])
    values, scale, _ = quantize_tensorwise(x)
    assert scale.item() == fmt.max / 2
    assert (values[-5:].float() * 2 / fmt.max).tolist() == [1.0, -2.0, 0.5, 0.25, -1.0]
    rows = x[: FAR // 4096 * 4096].view(-1, 4096)
    rows[-1, -1] = 3
    block = quantize_blockwise(rows)
    assert block.scale.cpu()[-1, -1] == torch.tensor(fmt.max) / torch.tensor(3.0)
    assert block.values[-1, -1].float().item() == fmt.max
    groups = torch.tensor([5, rows.shape[0]], dtype=torch.int32, device="cuda")
    padded = pad_token_groups(rows, groups, 16)
    last = int(padded.offs[0]) + rows.shape[0] - 5 - 1
    assert padded.tokens[last, -1].item() == 3
    assert unpad_token_groups(padded.tokens, groups, padded.offs, rows.shape[0])[-1, -1].item() == 3
