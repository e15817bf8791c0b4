"""The operators over a gloo group of two processes, in the decomposed form; and workspaces of groups."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from processes import run_in_processes

from wavecast.kernels.async_tp import groups, members
from wavecast.kernels.async_tp.members import numbers_of

SCRIPT = Path(__file__).with_name("group_script.py")


def test_every_option_over_two_processes(tmp_path: Path) -> None:
    checks = ("options", "row_scales", "operators", "gradients", "inductor")
    for said in run_in_processes(SCRIPT, *checks, store=tmp_path / "store"):
        assert [line.split()[1] for line in said.splitlines() if line.startswith("passed")] == list(checks)


@pytest.fixture
def capturing(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a graph is captured; workspaces are those of no GPU."""
    now = [False]
    monkeypatch.setattr(groups, "_workspaces", {})
    monkeypatch.setattr(groups, "_captured", set())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: now[0])
    monkeypatch.setattr(
        groups, "TorchSymmetricMemory", lambda group, size: SimpleNamespace(window_bytes=size, failure=None)
    )
    monkeypatch.setattr(groups, "make_workspace", Made)
    return now


class Made:
    """Stands for a workspace."""

    def __init__(self, memory: Any, failure: None) -> None:
        self.memory = memory

    def check(self) -> None:
        pass


def test_a_group_made_anew_with_the_name_of_a_destroyed_one_has_a_workspace_of_its_own(capturing: list[bool]) -> None:
    first, second = (SimpleNamespace(group_name="0") for _ in range(2))
    workspace = groups.workspace_of(first, 1)
    assert groups.workspace_of(first, 2) is workspace
    assert groups.workspace_of(second, 1) is not workspace


def test_a_workspace_that_a_graph_uses_lives_on_when_a_larger_one_is_made(capturing: list[bool]) -> None:
    group, sizes = SimpleNamespace(group_name="0"), (1, 2 * groups.SMALLEST_WINDOW_BYTES)
    for captured in (True, False):
        groups._workspaces.clear()
        groups.workspace_of(group, sizes[0])
        capturing[0] = captured
        used = weakref.ref(groups.workspace_of(group, sizes[0]))
        capturing[0] = False
        groups.workspace_of(group, sizes[1])
        gc.collect()
        assert (used() is not None) == captured


def test_gpus_of_a_group_are_those_that_its_ranks_tell_of() -> None:
    here = ["GPU-a", "GPU-b", "GPU-c", "GPU-d"]
    assert numbers_of(["GPU-d", "GPU-b"], here) == (3, 1)
    assert numbers_of(["GPU-b", "GPU-of-another-node"], here) is None
    assert numbers_of(["GPU-b", "GPU-b"], here) is None


def test_a_group_of_some_gpus_is_asked_about_those(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks on the third and the last of four GPUs; the first one reaches none of them."""
    asked = []

    def gather(told: list[str], mine: str, group: object) -> None:
        told[:] = ["GPU-2", "GPU-3"]
        assert mine == "GPU-3"

    monkeypatch.setattr(members, "_devices", {})
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=f"GPU-{device}"))
    monkeypatch.setattr(members.dist, "all_gather_object", gather)
    monkeypatch.setattr(
        torch.cuda, "can_device_access_peer", lambda here, other: asked.append((here, other)) or other != 0
    )
    groups._reaches.cache_clear()
    group: Any = SimpleNamespace(size=lambda: 2)
    assert groups.is_symmetric(group, torch.device("cuda", 3))
    assert groups.is_symmetric(group, torch.device("cuda", 3))
    assert asked == [(3, 2)]
