"""Programs of PyTorch's paths, against what its code does."""

from __future__ import annotations

from collections import Counter

from wavecast.simulator.devices import load_device
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.practice import Product, all_gather_matmul, async_matmul
from wavecast.simulator.overlap.program import Copy, OperationLike

H200, MI355X = Node(load_device("h200"), 2), Node(load_device("mi355x"), 2)


def kinds(operations: tuple[OperationLike, ...]) -> list[str]:
    return [
        operation.name if operation.kind == "kernel" else operation.kind
        for operation in operations
    ]  # fmt: skip


def test_the_native_path_of_rocm_copies_whole_rows_in_pieces_that_no_copy_engine_takes() -> None:
    product = Product(4096, 1024, 1024 + 64)
    current, backend = all_gather_matmul(product, MI355X, "native-upstream").streams[:2]
    copies = [operation for operation in (*current.operations, *backend.operations) if operation.kind == "copy"]
    row = 2 * product.k
    sizes = [copy.size_bytes for copy in copies[:5]]
    assert sum(sizes) == 2048 * row
    assert all(size % row == 0 and size <= 2**20 for size in sizes)
    assert Counter(copy.source_rank for copy in copies) == {0: 10, 1: 5}  # its own twice, the other's once
    assert all(copy.engine == "blit" for copy in copies)
    shared = all_gather_matmul(product, MI355X, "native-upstream", shared_input=True).streams[0]
    assert len(shared.operations) == len(current.operations) - 5


def test_the_native_path_of_cuda_waits_before_it_overwrites_and_copies_a_shard_at_once() -> None:
    product = Product(4096, 1024, 1024)
    rest = ["barrier", "record", "zero signals", "copy", "write-signal", "async matmul", "wait-event", "barrier"]
    current, backend = all_gather_matmul(product, H200, "native-upstream").streams[:2]
    assert kinds(current.operations) == ["barrier", "copy", *rest]
    assert kinds(backend.operations) == ["wait-event", "copy", "write-signal", "record"]
    assert backend.operations[1] == Copy(1, 0, 2**22, "copy-engine")
    shared = all_gather_matmul(product, H200, "native-upstream", shared_input=True).streams[0]
    assert kinds(shared.operations) == rest


def test_a_tile_order_in_bands_of_clusters_mixes_chunks_of_few_tiles() -> None:
    # Tiles of 128 x 256, bands of at most 8 clusters of 2 x 1: 2,048 rows a chunk are a band, 1,024 are half of one.
    apart = async_matmul(Product(4096, 4096, 512), H200, 0)
    assert apart.tile_waits == (0,) * 256 + (1,) * 256
    assert async_matmul(Product(4096, 4096, 512), H200, 1).tile_waits == (1,) * 256 + (0,) * 256
    mixed = async_matmul(Product(2048, 4096, 512), H200, 0)
    assert mixed.tile_waits == ((0,) * 8 + (1,) * 8) * 16
    # Small products have small bands.
    assert async_matmul(Product(2048, 1024, 512), H200, 0).tile_waits == (0,) * 32 + (1,) * 32


def test_columns_that_fill_a_band_are_multiplied_too() -> None:
    # 14 tiles of columns become 16.
    kernel = async_matmul(Product(8192, 3584, 512), H200, 0)
    assert len(kernel.tile_waits) == 64 * 16
    assert kernel.shape["N"] == 4096
    assert async_matmul(Product(8192, 4000, 512), H200, 0).shape["N"] == 4000
    assert async_matmul(Product(4096, 3584, 512), MI355X, 0).shape["N"] == 3584
