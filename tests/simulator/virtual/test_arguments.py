"""Arguments of a launch become device addresses and scalars."""

from __future__ import annotations

import gc
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.virtual.arguments import Binder, LaunchArgument, flatten_arguments, scalar_value
from wavecast.simulator.virtual.tensor import HostTensor


@pytest.fixture
def memory() -> AddressSpace:
    return AddressSpace()


def pointer(array: np.ndarray, name: str = "x") -> LaunchArgument:
    return LaunchArgument(name, "*fp32", HostTensor(array))


def test_views_of_one_storage_keep_their_distance(memory: AddressSpace) -> None:
    whole = np.zeros(64, np.float32)
    base, part = Binder(memory).bind([pointer(whole), pointer(whole[5:])])
    assert base == memory.device_pointer(whole.ctypes.data)
    assert part == base + 20
    assert [(buffer.size, buffer.name) for buffer in memory.buffers] == [(256, "x")]


def test_a_storage_keeps_its_address_from_launch_to_launch(memory: AddressSpace) -> None:
    binder, first, second = Binder(memory), np.zeros(64, np.float32), np.zeros(64, np.float32)
    before = binder.bind([pointer(first)])
    other = binder.bind([pointer(second)])
    assert binder.bind([pointer(first), pointer(second)]) == before + other
    assert before != other


def test_memory_that_is_gone_is_unmapped(memory: AddressSpace) -> None:
    binder, kept, gone = Binder(memory), np.zeros(64, np.float32), np.zeros(128, np.float32)
    binder.bind([pointer(kept), pointer(gone)])
    del gone
    gc.collect()
    binder.bind([pointer(kept)])
    assert [buffer.host for buffer in memory.buffers] == [kept.ctypes.data]


class Allocation:
    """A storage at a made-up place."""

    def __init__(self, start: int, size: int) -> None:
        self.start, self.size = start, size

    def data_ptr(self) -> int:
        return self.start

    def nbytes(self) -> int:
        return self.size

    def argument(self) -> LaunchArgument:
        return LaunchArgument(
            "t", "*i8", SimpleNamespace(untyped_storage=lambda: self, storage_offset=lambda: 0, element_size=lambda: 1)
        )


def places(memory: AddressSpace) -> list[tuple[int, int]]:
    return [(buffer.host, buffer.size) for buffer in memory.buffers]


def test_reused_host_memory_of_another_size_replaces_the_old_mapping(memory: AddressSpace) -> None:
    binder, kept, freed = Binder(memory), Allocation(8192, 64), Allocation(4096, 64)
    binder.bind([freed.argument(), kept.argument()])
    del freed
    new = Allocation(4096 + 32, 128)
    binder.bind([new.argument()])
    assert places(memory) == [(8192, 64), (4128, 128)]


def test_a_storage_that_was_resized_leaves_its_old_place(memory: AddressSpace) -> None:
    binder, storage = Binder(memory), Allocation(4096, 64)
    binder.bind([storage.argument()])
    storage.start, storage.size = 4096, 256
    binder.bind([storage.argument()])
    assert places(memory) == [(4096, 256)]


def test_living_storages_that_overlap_stay_reachable(memory: AddressSpace) -> None:
    """As ``torch.from_numpy`` of two views of one array makes them; one that lies in another shares its addresses."""
    whole, inner, beyond = Allocation(4096, 256), Allocation(4116, 64), Allocation(4300, 256)
    binder = Binder(memory)
    first, second, third = binder.bind([storage.argument() for storage in (whole, inner, beyond)])
    assert int(second) == int(first) + 20
    assert places(memory) == [(4096, 256), (4300, 256)]
    assert third == memory.buffers[1].device
    assert binder.bind([inner.argument(), whole.argument()]) == [second, first]


def test_no_tensor_is_a_null_pointer_and_a_host_address_is_translated(memory: AddressSpace) -> None:
    array = np.zeros(8, np.float32)
    address, null, zero, inner = Binder(memory).bind(
        [
            pointer(array),
            LaunchArgument("a", "*i8", None),
            LaunchArgument("b", "*i8", 0),
            LaunchArgument("c", "*i8", array.ctypes.data + 4),
        ]
    )
    assert (null, zero, inner) == (0, 0, int(address) + 4)


def test_reinterpreted_tensor_is_the_tensor_under_it(memory: AddressSpace) -> None:
    array = np.zeros(8, np.float32)
    wrapper = SimpleNamespace(base=HostTensor(array), dtype="int8")
    assert Binder(memory).bind([LaunchArgument("x", "*i8", wrapper)]) == [memory.device_pointer(array.ctypes.data)]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("i32", -5, -5),
        ("u64", 2**63, 2**63),
        ("i64", np.int64(7), 7),
        ("i1", True, 1),
        ("u1", 2, 1),
        ("fp32", 0.1, struct.pack("<f", 0.1)),
        ("fp32", 1e300, struct.pack("<f", float("inf"))),
        ("fp64", 0.1, struct.pack("<d", 0.1)),
        ("fp16", 0.1, struct.pack("<e", 0.1)),
        ("fp16", 1e6, b"\x00\x7c"),
        ("bf16", 1.0, b"\x80\x3f"),
        ("bf16", 1.9999999, b"\xff\x3f"),
        ("fp32", 3, struct.pack("<f", 3.0)),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_scalars_are_packed_by_type(kind: str, value: Any, expected: int | bytes) -> None:
    assert scalar_value(LaunchArgument("a", kind, value)) == expected


@pytest.mark.parametrize(("kind", "value"), [("i32", "seven"), ("fp32", None), ("fp8e4nv", 1.0), ("nvTmaDesc", 0)])
def test_scalar_that_does_not_fit_names_the_argument(kind: str, value: Any) -> None:
    with pytest.raises(LaunchError, match=f"argument alpha .*{kind}"):
        scalar_value(LaunchArgument("alpha", kind, value))


def test_constants_vanish_and_tuples_are_taken_apart() -> None:
    signature = {"x": "*fp32", "pair": ("i32", ("fp32", "constexpr")), "BLOCK": "constexpr", "n": "i32"}
    arguments = flatten_arguments(signature, ["tensor", (1, (2.0, 3)), 64, 9])
    assert [(a.name, a.type, a.value) for a in arguments] == [
        ("x", "*fp32", "tensor"),
        ("pair.0", "i32", 1),
        ("pair.1.0", "fp32", 2.0),
        ("n", "i32", 9),
    ]


def test_host_descriptor_is_passed_as_its_parts() -> None:
    descriptor = SimpleNamespace(base="tensor", shape=[4, 8], strides=[8, 1], padding="nan", round_f32_to_tf32=False)
    arguments = flatten_arguments({"d": "tensordesc<fp32[2, 4]>"}, [descriptor])
    assert [(a.type, a.value) for a in arguments] == [
        ("*fp32", "tensor"),
        *[("i64", value) for value in (4, 8, 8, 1)],
        ("i1", True),
        ("i1", False),
        *[("i32", value) for value in (4, 8)],
        *[("i64", value) for value in (8, 1)],
    ]
    assert scalar_value(arguments[5]) == 1


def test_number_of_values_must_match() -> None:
    with pytest.raises(LaunchError, match="1 values for the 2 arguments x, n"):
        flatten_arguments({"x": "*fp32", "n": "i32"}, [1])
