"""torch under ``run``: which side a tensor is on, and that moving it from one to the other copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from wavecast.cli.errors import CliError
from wavecast.cli.virtual_torch.patch import torch_on
from wavecast.simulator.virtual import VirtualDevice, virtual_device


@pytest.fixture
def device() -> Iterator[VirtualDevice]:
    with virtual_device("mi300x") as virtual, torch_on(virtual):
        yield virtual


def side(tensor: torch.Tensor) -> str:
    assert tensor.is_cuda == (tensor.device.type == "cuda") == (not tensor.is_cpu) == (tensor.get_device() == 0)
    return str(tensor.device)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(3, device="cuda"),
        lambda: torch.full((2,), 1.0, device=torch.device("cuda", 0)),
        lambda: torch.tensor([1, 2], device="cuda:0"),
        lambda: torch.ones(3).cuda(),
        lambda: torch.ones(3).to("cuda"),
        lambda: torch.ones(3).to(device=0),
        lambda: torch.ones(3).to(torch.zeros(1, device="cuda")),
        lambda: torch.ones(3, device="cuda").to(torch.float16),
        lambda: torch.ones(3, device="cuda")[1:] + 1,
        lambda: torch.ones(3, device="cuda") + torch.tensor(2.0),
        lambda: torch.stack([torch.ones(3, device="cuda")] * 2),
        lambda: torch.empty_like(torch.ones(3, device="cuda")),
        lambda: torch.ones(3, device="cuda").new_zeros(2),
        lambda: torch.ones(3, device="cuda").split(1)[2],
        lambda: torch.nn.Linear(2, 2).cuda().weight,
        lambda: torch.nn.Linear(2, 2, device="cuda").bias,
        lambda: torch.randn(2, device="cuda", generator=torch.Generator("cuda").manual_seed(1)),
    ],
)
def test_what_is_made_for_the_gpu_is_on_it(device: VirtualDevice, make: object) -> None:
    assert side(make()) == "cuda:0"  # type: ignore[operator]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(3),
        lambda: torch.zeros(3, device="cpu"),
        lambda: torch.ones(3, device="cuda").cpu(),
        lambda: torch.ones(3, device="cuda").to("cpu", torch.float16),
        lambda: torch.ones(3) + 1,
        lambda: torch.nn.Linear(2, 2).weight,
        lambda: torch.zeros(3, pin_memory=True),
        lambda: torch.from_numpy(torch.zeros(3).numpy()),
    ],
)
def test_what_is_made_on_the_host_stays_there(device: VirtualDevice, make: object) -> None:
    assert side(make()) == "cpu"  # type: ignore[operator]


def test_moving_copies_and_staying_does_not(device: VirtualDevice) -> None:
    host = torch.zeros(3)
    there = host.cuda()
    there += 1
    back = there.cpu()
    there += 1
    assert (host.tolist(), back.tolist(), there.tolist()) == ([0] * 3, [1] * 3, [2] * 3)
    assert there.cuda().data_ptr() == there.to("cuda").data_ptr() == there.data_ptr()
    assert host.cpu().data_ptr() == host.to("cpu").data_ptr() == host.data_ptr()
    assert there.to("cuda", copy=True).data_ptr() != there.data_ptr()


class Scaled(torch.Tensor):
    """A wrapper without memory of its own: numbers and one scale for all of them."""

    @staticmethod
    def __new__(cls, numbers: torch.Tensor, scale: torch.Tensor) -> Scaled:
        return torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=scale.dtype, device=numbers.device)

    def __init__(self, numbers: torch.Tensor, scale: torch.Tensor) -> None:
        self.numbers, self.scale = numbers, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["numbers", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.clone.default, torch.ops.aten._to_copy.default):
            return cls(args[0].numbers.clone(), args[0].scale.clone())
        if func is torch.ops.aten.slice.Tensor:
            return cls(func(args[0].numbers, *args[1:]), args[0].scale)
        raise NotImplementedError(func)


def test_a_wrapper_moves_with_the_tensors_that_it_holds(device: VirtualDevice) -> None:
    host = Scaled(torch.ones(4, dtype=torch.int8), torch.ones(1))
    for there in (host.cuda(), host.to("cuda")):
        assert side(host) == side(host.scale) == "cpu"
        assert side(there) == side(there.numbers) == side(there.scale) == "cuda:0"
        assert there.numbers.data_ptr() != host.numbers.data_ptr()
        assert there.cuda() is there
        assert side(there.cpu().numbers) == "cpu"


def test_a_wrapper_made_for_the_gpu_is_indexed(device: VirtualDevice) -> None:
    """torch sets the device of a tensor before it indexes it, and there is no GPU to set."""
    there = Scaled(torch.arange(6, dtype=torch.int8, device="cuda"), torch.ones(1, device="cuda"))
    part = there[1:3]
    assert (side(there), side(part), side(part.numbers)) == ("cuda:0",) * 3
    assert part.numbers.tolist() == [1, 2]
    with pytest.raises(CliError, match="GPU 1"):
        torch.Tensor._make_wrapper_subclass(Scaled, (1,), device="cuda:1")


def test_products_may_have_a_wider_type_than_their_factors(device: VirtualDevice) -> None:
    one, other = torch.randn(2, 5, 6, device="cuda").bfloat16(), torch.randn(2, 6, 7, device="cuda").bfloat16()
    start, out = torch.randn(5, 7, device="cuda"), torch.empty(5, 7, device="cuda")
    expected = one.double() @ other.double()
    wide = torch.bmm(one, other, out_dtype=torch.float32)
    assert (wide.dtype, side(wide)) == (torch.float32, "cuda:0")
    torch.testing.assert_close(wide.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(torch.mm(one[0], other[0], out_dtype=torch.float32), wide[0])
    torch.addmm(start, one[0], other[0], out_dtype=torch.float32, out=out)
    torch.testing.assert_close(out, start + wide[0])


def test_a_default_device_is_followed(device: VirtualDevice) -> None:
    with torch.device("cuda"):
        assert (side(torch.zeros(1)), side(torch.zeros(1, device="cpu"))) == ("cuda:0", "cpu")
    assert side(torch.zeros(1)) == "cpu"
    torch.set_default_device("cuda")
    assert side(torch.zeros(1)) == "cuda:0"
    torch.set_default_device(None)
    assert side(torch.zeros(1)) == "cpu"


def test_backward_of_a_function_of_the_program_may_ask_for_the_gpu(device: VirtualDevice) -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, gradient):
            assert gradient.is_cuda
            return gradient * torch.full((1,), 2.0, device="cuda")

    x = torch.ones(3, device="cuda", requires_grad=True)
    Twice.apply(x).sum().backward()
    assert (side(x.grad), x.grad.tolist()) == ("cuda:0", [2.0] * 3)
    (gradient,) = torch.autograd.grad(Twice.apply(x).sum(), x)
    assert gradient.tolist() == [2.0] * 3


def test_torch_says_what_the_device_is(device: VirtualDevice) -> None:
    assert (torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device()) == (True, 1, 0)
    properties = torch.cuda.get_device_properties("cuda")
    assert properties.gcnArchName.startswith("gfx942")
    assert (properties.multi_processor_count, properties.warp_size) == (304, 64)
    assert torch.cuda.get_device_capability() == (9, 4)
    assert torch.version.hip
    assert str(torch.accelerator.current_accelerator()) == "cuda"
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    end.record()
    assert start.elapsed_time(end) == 0


@pytest.mark.parametrize("index", ["cuda:1", torch.device("cuda", 2), 3])
def test_there_is_one_gpu(device: VirtualDevice, index: object) -> None:
    for ask in (lambda: torch.zeros(1).to(index), lambda: torch.cuda.set_device(index)):
        with pytest.raises(CliError, match="and there is one"):
            ask()


def test_what_has_no_meaning_is_refused(device: VirtualDevice) -> None:
    for ask in (torch.cuda.memory_allocated, torch.cuda.CUDAGraph, torch.cuda.mem_get_info):
        with pytest.raises(CliError, match="does not have"):
            ask()


def test_a_device_context_tells_its_number(device: VirtualDevice) -> None:
    with torch.cuda.device(torch.ones(1, device="cuda").device) as nothing:
        assert nothing is None
    assert torch.cuda.device("cuda").idx == torch.cuda.device(0).prev_idx == torch.cuda.current_device() == 0


def test_the_raw_stream_is_that_of_the_current_one(device: VirtualDevice) -> None:
    assert torch._C._cuda_getCurrentRawStream(0) == torch.cuda.current_stream().cuda_stream
    with pytest.raises(CliError, match="and there is one"):
        torch._C._cuda_getCurrentRawStream(1)


def test_compiled_functions_and_modules_run_as_written(device: VirtualDevice) -> None:
    @torch.compile
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.compile(fullgraph=True, mode="max-autotune")
    def where(x: torch.Tensor) -> str:
        return side(x)  # no graph could have it

    module = torch.nn.Linear(4, 4, device="cuda")
    module.compile()
    x = torch.ones(4, device="cuda")
    assert side(double(x)) == where(x) == side(module(x)) == "cuda:0"
    assert double(x).tolist() == [2.0] * 4


def test_torch_is_as_before_afterwards() -> None:
    def state() -> tuple[object, ...]:
        raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        return torch.cuda.is_available, torch.version.hip, torch.Generator, torch.compile, raw_stream

    before = state()
    with virtual_device("mi300x") as virtual, torch_on(virtual):
        assert torch.cuda.is_available is not before[0]
    assert state() == before
    assert torch.zeros(1).device.type == "cpu"
    assert virtual.tensor_device == "cpu"


@pytest.mark.compile
@pytest.mark.execute
def test_operators_take_tensors_of_the_gpu_and_refuse_those_of_the_host(device: VirtualDevice) -> None:
    from wavecast.kernels.rowwise import quantize_rowwise

    host = torch.randn(64, 256).to(torch.bfloat16)
    codes, scale, inverse = quantize_rowwise(host.cuda())
    assert side(codes) == side(scale) == side(inverse) == "cuda:0"
    assert [launch.grid for launch in device.launches] == [(64, 1, 1)]
    with pytest.raises(ValueError, match=r"CPU tensors while a virtual gfx942 is active; move them to the GPU"):
        quantize_rowwise(host)
