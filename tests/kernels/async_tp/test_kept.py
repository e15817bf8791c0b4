"""Calls like earlier ones: not checked again, launched directly, and with the same arguments all the same."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from idle_device import IdleMemory, idle_group
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

import wavecast.kernels.all_gather_matmul.api as gather_api
from wavecast.kernels import symm_mem
from wavecast.kernels.all_gather_matmul import plan
from wavecast.kernels.all_gather_matmul.api import all_gather_matmul
from wavecast.kernels.async_tp.meeting import Meetings
from wavecast.kernels.async_tp.symmetric import Publication
from wavecast.kernels.async_tp.workspace import failure_record
from wavecast.kernels.matmul_reduce_scatter.api import matmul_reduce_scatter

pytestmark = pytest.mark.compile
FP8 = torch.float8_e4m3fn
ROWS, N, K = 64, 128, 128
BASE_ARGUMENTS = 9  # grid, stream, function, metadata and hooks of a launch


def parameters(arguments: Sequence[Any], matrices: Sequence[torch.Tensor], tensors: dict[int, int]) -> list[Any]:
    """What a kernel is to get, of the arguments that Triton's launcher got for an earlier call like this one.

    Args:
        arguments: of the launcher, without the constants behind them.
        matrices: of the descriptors, in this call.
        tensors: addresses of tensors of the earlier call to those of this one's.
    """
    found: list[Any] = []
    bases = iter(matrices)
    for argument in arguments:
        if isinstance(argument, TensorDescriptor):
            found += [("map", next(bases).data_ptr()), *argument.shape, *argument.strides]
        elif isinstance(argument, torch.Tensor):
            found.append(tensors.get(argument.data_ptr(), argument.data_ptr()))
        elif argument is not None:
            found.append(argument)
    return found


def number(given: bytes, like: Any) -> Any:
    """A parameter's value, of the kind of another."""
    if isinstance(like, tuple):
        assert len(given) == 128
        return "map", int.from_bytes(given[:8], "little")
    return struct.unpack("<f", given)[0] if isinstance(like, float) else int.from_bytes(given, "little")


def gather(seed: int, group: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    a, b = (torch.randn(size, K, generator=torch.Generator().manual_seed(seed)).bfloat16() for size in (ROWS, N))
    gathered, (out,) = all_gather_matmul(a, [b.t()], group, setting="1")
    return [gathered, a, b, out], [out]


def scaled_gather(seed: int, group: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    a, b = (torch.zeros(size, K).to(FP8) for size in (ROWS, N))
    own, columns = torch.ones(ROWS, 1), torch.ones(1, N)
    gathered, (out,) = all_gather_matmul(a, [b.t()], group, a_inverse=own, b_inverses=[columns], setting="1")
    ((gathered_scales, _),) = gather_api.workspace_of(group, 1).memory.published[1].targets[1:]
    return [gathered, a, b, out], [out, columns, gathered_scales]


def scatter(seed: int, group: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    a, b = (torch.randn(size, K, generator=torch.Generator().manual_seed(seed)).bfloat16() for size in (2 * ROWS, N))
    out = matmul_reduce_scatter(a, b.t(), group, setting="1")
    return [a, b], [out]


@pytest.fixture
def long_products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Whether these products count as long, whose chunks come by copy engines."""
    if request.param:
        monkeypatch.setattr(plan, "SHORT_FLOP", 0)
    plan.plan_all_gather_matmul.cache_clear()
    yield request.param
    plan.plan_all_gather_matmul.cache_clear()


@pytest.mark.parametrize(
    ("call", "long_products"),
    [(gather, True), (scaled_gather, True), (gather, False), (scaled_gather, False), (scatter, True)],
    indirect=["long_products"],
)
def test_a_later_call_is_launched_with_its_own_tensors_and_the_same_of_all_else(
    call: Callable[..., Any], long_products: bool
) -> None:
    """By the tensor memory accelerator, which has descriptors, or by the kernel that fetches."""
    by_triton: list[list[Any]] = []
    packed: list[list[bytes]] = []
    with idle_group() as (group, driver):
        driver.seen = lambda *given: by_triton.append([*given[BASE_ARGUMENTS:]])
        driver.cuda.seen = lambda grid, stream, given: packed.append(given)
        kept = [call(seed, group) for seed in range(3)]
        maps = [*driver.cuda.maps.values()]
    ((first,), (matrices, tensors)) = by_triton, kept[0]
    assert len(packed) == 2
    for given, (later_matrices, later_tensors) in zip(packed, kept[1:], strict=True):
        pairs = zip([*matrices, *tensors], [*later_matrices, *later_tensors], strict=True)
        wanted = parameters(first, later_matrices, {old.data_ptr(): new.data_ptr() for old, new in pairs})
        *values, scratch, profile = given
        assert [number(value, like) for value, like in zip(values, wanted, strict=False)] == wanted[: len(values)]
        # What is left over are constants, which are in the code.
        constants = sum(not isinstance(argument, TensorDescriptor) for argument in wanted[len(values) :])
        assert constants == len(wanted) - len(values) > 0
        assert scratch == profile == bytes(8)
        if long_products:
            addresses = {made["address"] for made in maps}
            assert {matrix.data_ptr() for matrix in later_matrices} <= addresses


def test_a_tensor_map_is_what_triton_makes_of_a_descriptor() -> None:
    """Its description, from the kernel's own metadata; it is made once for an address."""
    made = []
    a, b = torch.zeros(2 * ROWS, K).bfloat16(), torch.zeros(N, K).bfloat16()
    with idle_group() as (group, driver):
        make = driver.cuda.tensor_map
        driver.cuda.tensor_map = lambda address, **options: made.append((address, options)) or make(address, **options)
        for _ in range(4):
            matmul_reduce_scatter(a, b.t(), group, setting="1")
    assert [address for address, _ in made] == [a.data_ptr(), b.data_ptr()]
    for (_, options), rows in zip(made, (2 * ROWS, N), strict=True):
        block = options.pop("block")
        assert block[1] * 2 == 128 and block[0] in (64, 128, 256)  # bytes of a row that the widest swizzle takes
        assert options == {
            "data_type": 9, "element_bytes": 2, "shape": (rows, K), "strides": (K, 1), "swizzle": 3,
        }  # fmt: skip


def test_what_differs_from_an_earlier_call_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    original = gather_api.check_factors
    monkeypatch.setattr(gather_api, "check_factors", lambda *given: checked.append(given) or original(*given))
    a, b = torch.zeros(ROWS, K).bfloat16(), torch.zeros(N, K).bfloat16().t()
    with idle_group() as (group, _):
        for _ in range(3):
            all_gather_matmul(a, [b], group, setting="1")
        assert len(checked) == 1
        with pytest.raises(ValueError, match="K of a_shard is 128"):
            all_gather_matmul(a, [b[:64]], group, setting="1")
        with pytest.raises(ValueError, match="they must be equal"):
            all_gather_matmul(a, [b.half()], group, setting="1")
        with pytest.raises(ValueError, match="a_inverse is given"):
            all_gather_matmul(a, [b], group, a_inverse=torch.ones(()), setting="1")
        with pytest.raises(ValueError, match="the number of b_inverses"):
            all_gather_matmul(a, [b], group, b_inverses=[], biases=[None, None], setting="1")
        with pytest.raises(ValueError, match="a multiple of the 2 ranks"):
            matmul_reduce_scatter(a[:63], b, group, setting="1")
        all_gather_matmul(a[:32], [b], group, setting="1")
        assert len(checked) == 6


def test_windows_are_in_no_graph_where_operands_and_scales_are(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def publish(self: IdleMemory, publications: Sequence[Publication], stream: str) -> None:
        for source, targets in publications:
            written.extend(target.narrow(0, row, source.shape[0]).copy_(source) for target, row in targets)

    monkeypatch.setattr(IdleMemory, "publish", publish)
    x, b = torch.ones(ROWS, K, requires_grad=True), torch.zeros(N, K).to(FP8).t()
    inverse, columns = x.abs().amax(1, keepdim=True) / 448, torch.ones(1, N)
    with idle_group() as (group, _):
        all_gather_matmul((x / inverse).to(FP8), [b], group, a_inverse=inverse, b_inverses=[columns], setting="1")
    assert len(written) == 4 and not any(target.requires_grad for target in written)


def test_a_bias_with_gaps_is_launched_without() -> None:
    bias = torch.arange(2.0 * N).bfloat16()[::2]
    launched: list[Any] = []
    a, b = torch.zeros(ROWS, K).bfloat16(), torch.zeros(N, K).bfloat16().t()
    with idle_group() as (group, driver):
        driver.seen = lambda *given: launched.extend(given[BASE_ARGUMENTS:])
        all_gather_matmul(a, [b], group, biases=[bias], setting="1")
    (given,) = [one for one in launched if isinstance(one, torch.Tensor) and one.shape == (N,)]
    assert given.is_contiguous() and torch.equal(given, bias)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bias": torch.zeros(8)}, "bias is given; wanted is None"),
        ({"result_scale": torch.ones(())}, "result_scale is given; wanted is None"),
        ({"output_shape": [2, 16]}, "wanted is the shape of the whole product"),
    ],
)
def test_what_the_alias_of_the_scaled_scatter_refuses(options: dict[str, Any], message: str) -> None:
    one = torch.ones(())
    with pytest.raises(ValueError, match=message):
        symm_mem.fused_scaled_matmul_reduce_scatter(
            torch.zeros(4, 16).to(FP8), torch.zeros(8, 16).to(FP8).t(), one, one, "sum", 0, 0, "no group",
            **{"output_shape": [4, 8], **options},
        )  # fmt: skip


def test_publications_that_begin_elsewhere_are_not_launched_as_compiled_for_others() -> None:
    """Of two that can be copied by words, in one the source begins at a multiple of 16 bytes, in one the target."""
    by_triton: list[Any] = []
    packed: list[int] = []
    with idle_group() as (_, driver):
        driver.seen = lambda *given: by_triton.append(given[BASE_ARGUMENTS])
        driver.cuda.seen = lambda grid, stream, given: packed.append(int.from_bytes(given[0], "little"))
        device = torch.device("cpu")
        meetings = Meetings(0, 2, torch.zeros(2, dtype=torch.int64), failure_record(device))
        here, there = torch.zeros(72, dtype=torch.int32), torch.zeros(72, dtype=torch.int32)
        for at, to in ((0, 1), (1, 0), (0, 1), (1, 0)):
            meetings.publish([Publication(here[at : at + 64], ((there[to : to + 64], 0),))])
    # The first of each kind has Triton look at the tensors.
    assert [source.data_ptr() for source in by_triton] == [here.data_ptr(), here.data_ptr() + 4]
    assert packed == [here.data_ptr(), here.data_ptr() + 4]


def test_a_scattering_call_makes_no_addresses_which_a_captured_one_would_not_have() -> None:
    a, b = torch.zeros(2 * ROWS, 100).bfloat16(), torch.zeros(N, 100).bfloat16().t()
    launched: list[Any] = []
    with idle_group() as (group, driver):
        driver.seen = lambda *given: launched.extend(given[BASE_ARGUMENTS:])
        workspace = gather_api.workspace_of(group, 1)
        matmul_reduce_scatter(a, b, group, setting="1")
    assert any(given is workspace.addresses for given in launched)
    assert workspace.addresses.shape == (4,)


def test_a_window_that_the_caller_has_is_waited_for_at_the_end_too() -> None:
    """A call begins with the readers of earlier ones; it ends with its own where the caller may write there next."""
    a, b = torch.zeros(ROWS, K).bfloat16(), torch.zeros(N, K).bfloat16().t()
    with idle_group() as (group, _):
        workspace = gather_api.workspace_of(group, 1)
        made = []
        for workspace.lent in (False, False, True):
            before = workspace.memory.operations
            all_gather_matmul(a, [b], group, setting="1")
            made.append(workspace.memory.operations - before)
    assert made == [1, 1, 2]
