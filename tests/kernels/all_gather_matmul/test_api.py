"""What the call refuses, over a group of one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from wavecast.kernels.all_gather_matmul import all_gather_matmul, api


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store: Path = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


A, B = torch.ones(4, 8, dtype=torch.bfloat16), torch.ones(8, 6, dtype=torch.bfloat16)
ONE = torch.ones(())


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ((A[0], [B]), {}, "a_shard has 1 dimensions"),
        ((A.int(), [B]), {}, "a_shard is int32"),
        ((A, []), {}, "bs is empty"),
        ((A, [B[1:]]), {}, "K of a_shard is 8 but K of bs\\[0\\] is 7"),
        ((A, [B.half()]), {}, "they must be equal"),
        ((A, [B]), {"gather_dim": 2}, "gather_dim is 2 for a shard of 2 dimensions"),
        ((A, [B]), {"biases": [None, None]}, "the number of biases is 2"),
        ((A, [B]), {"biases": [torch.ones(5)]}, "biases\\[0\\] has shape \\(5,\\); wanted is \\(6,\\)"),
        ((A, [B]), {"out_dtypes": [torch.int8]}, "out_dtype is torch.int8"),
        ((A, [B]), {"a_inverse": ONE, "b_inverses": [ONE]}, "which have no scale"),
        ((A.to(torch.float8_e4m3fn), [B.to(torch.float8_e4m3fn)]), {}, "a_inverse is None"),
        (
            (A.to(torch.float8_e4m3fn), [B.to(torch.float8_e4m3fn)]),
            {"a_inverse": torch.ones(3, 1), "b_inverses": [ONE]},
            "a_inverse has shape \\(3, 1\\); wanted is \\(\\) for all rows, \\(4, 1\\)",
        ),
    ],
)
def test_what_it_refuses(given: tuple, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        all_gather_matmul(*given, dist.group.WORLD, **options)


def test_an_explicit_request_where_it_is_not_possible_raises() -> None:
    with pytest.raises(RuntimeError, match="tensors are on the CPU"):
        all_gather_matmul(A, [B], dist.group.WORLD, setting="1")


def test_one_rank_and_no_rows() -> None:
    gathered, (out,) = all_gather_matmul(A, [B], dist.group.WORLD)
    assert torch.equal(gathered, A)
    assert (out == 8).all()
    gathered, (out,) = all_gather_matmul(A[:0], [B], dist.group.WORLD, return_gathered=False)
    assert gathered is None
    assert out.shape == (0, 6)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_single_scale_of_any_shape_is_for_all_rows(shape: tuple[int, ...]) -> None:
    a, b = A.to(torch.float8_e4m3fn), B.to(torch.float8_e4m3fn)
    scale = torch.full(shape, 2.0)
    _, (out,) = all_gather_matmul(
        a, [b], dist.group.WORLD, a_inverse=scale, b_inverses=[ONE], out_dtypes=[torch.bfloat16]
    )
    assert torch.equal(out, torch.full((4, 6), 16.0, dtype=torch.bfloat16))


def test_the_path_is_chosen_for_the_gpu_that_has_the_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another GPU of the machine, of another kind, may be the current one."""
    current = ["sm_90"]

    @contextmanager
    def launch_device(tensor: object) -> Iterator[None]:
        current.append("gfx942")
        yield
        current.pop()

    monkeypatch.setattr(api, "launch_device", launch_device)
    monkeypatch.setattr(api, "active_arch", lambda: current[-1])
    monkeypatch.setattr(api, "is_symmetric", lambda group, device: True)
    shard = SimpleNamespace(device=SimpleNamespace(type="cuda"), shape=(64, 128))
    facts = api.facts_of(shard, 256, SimpleNamespace(size=lambda: 4))  # type: ignore[arg-type]
    assert (facts.arch, facts.ranks, facts.rows, facts.length) == ("gfx942", 4, 64, 128)
