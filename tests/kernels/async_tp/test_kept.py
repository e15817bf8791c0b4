"""Calls like earlier ones: not checked again, launched directly, and with the same arguments all the same."""

from __future__ import annotations

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


KINDS = ("descriptor", "tensor")


def plain(argument: Any) -> Any:
    """An argument as it is when it is launched."""
    if isinstance(argument, TensorDescriptor):
        sizes = tuple(argument.shape), tuple(argument.strides), tuple(argument.block_shape)
        return "descriptor", argument.base.data_ptr(), *sizes
    return ("tensor", argument.data_ptr()) if isinstance(argument, torch.Tensor) else argument


def gather(seed: int, group: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    a, b = (torch.randn(size, K, generator=torch.Generator().manual_seed(seed)).bfloat16() for size in (ROWS, N))
    gathered, (out,) = all_gather_matmul(a, [b.t()], group, setting="1")
    return [gathered, a, b, out], [out]


def scaled_gather(seed: int, group: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    a, b = (torch.zeros(size, K).to(FP8) for size in (ROWS, N))
    own, columns = torch.ones(ROWS, 1), torch.ones(1, N)
    gathered, (out,) = all_gather_matmul(a, [b.t()], group, a_inverse=own, b_inverses=[columns], setting="1")
    return [gathered, a, b, out], [out, columns]


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
    launches: list[list[Any]] = []
    with idle_group() as (group, driver):
        driver.seen = lambda *given: launches.append([plain(argument) for argument in given[BASE_ARGUMENTS:]])
        kept = [call(seed, group) for seed in range(3)]
    assert len(launches) == 3
    # Later launches have addresses for tensors.
    places = [place for place, argument in enumerate(launches[0]) if kind_of(argument) == "tensor"]
    for launch in launches[1:]:
        for place in places:
            assert isinstance(launch[place], int)
            launch[place] = "tensor", launch[place]
    for (matrices, tensors), launch in zip(kept, launches, strict=True):
        addresses = {kind: [a[1] for a in launch if kind_of(a) == kind] for kind in KINDS}
        if long_products:
            assert addresses["descriptor"] == [matrix.data_ptr() for matrix in matrices]
        assert {tensor.data_ptr() for tensor in (tensors if long_products else [*matrices, *tensors])} <= set(
            addresses["tensor"]
        )
    first, *later = [without_addresses(launch) for launch in launches]
    assert later == [first, first]


def without_addresses(launch: list[Any]) -> list[Any]:
    """What must be the same of every call's launch."""
    return [(a[0], *a[2:]) if kind_of(a) in KINDS else a for a in launch]


def kind_of(argument: Any) -> str | None:
    """Of what `plain` says of an argument."""
    return argument[0] if isinstance(argument, tuple) and argument and argument[0] in KINDS else None


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
    first_of: list[Any] = []
    with idle_group() as (_, driver):
        driver.seen = lambda *given: first_of.append(given[BASE_ARGUMENTS])
        device = torch.device("cpu")
        meetings = Meetings(0, 2, torch.zeros(2, dtype=torch.int64), failure_record(device))
        here, there = torch.zeros(72, dtype=torch.int32), torch.zeros(72, dtype=torch.int32)
        for at, to in ((0, 1), (1, 0), (0, 1), (1, 0)):
            meetings.publish([Publication(here[at : at + 64], ((there[to : to + 64], 0),))])
    # The first of each kind has Triton look at the tensors.
    assert [isinstance(source, torch.Tensor) for source in first_of] == [True, True, False, False]


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
