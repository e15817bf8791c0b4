"""Which path a call takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wavecast.kernels.async_tp.selection import (
    CODE_VARIABLE,
    UPSTREAM_VARIABLE,
    VARIABLE,
    Facts,
    Setting,
    Way,
    alias_setting_from,
    code_from,
    select_way,
    setting_from,
)

POSSIBLE = Facts(device="cuda", arch="gfx942", ranks=8, symmetric=True, rows=512, columns=4096, length=8192)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90"])
def test_overlapped_where_possible(arch: str) -> None:
    chosen = select_way(replace(POSSIBLE, arch=arch))
    assert chosen.way is Way.OVERLAPPED
    assert arch in chosen.reason


@pytest.mark.parametrize("rows", [1, 255, 256, 257, 320, 49152])
def test_e2_any_number_of_rows_takes_the_overlapped_path(rows: int) -> None:
    """Upstream's path needs shards of a multiple of 256 rows, 2048 < M <= 4096 and K < 1024."""
    assert select_way(replace(POSSIBLE, rows=rows)).way is Way.OVERLAPPED


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "cpu", "arch": None}, "on the CPU"),
        ({"arch": "sm_100"}, "only gfx942, gfx950, sm_90 are supported, got sm_100"),
        ({"ranks": 1}, "one rank"),
        ({"ranks": 64}, "at most 63"),
        ({"symmetric": False}, "do not reach each other's memory"),
        ({"along_sum": True}, "the summed one"),
        ({"rows": 0}, "nothing to multiply"),
    ],
)
def test_what_is_in_the_way_is_said_and_an_explicit_request_raises(change: dict[str, object], reason: str) -> None:
    facts = replace(POSSIBLE, **change)
    chosen = select_way(facts)
    assert chosen.way is Way.DECOMPOSED
    assert reason in chosen.reason
    with pytest.raises(RuntimeError, match="asked for and not possible.*WAVECAST_ASYNC_TP=auto"):
        select_way(facts, Setting.ON)


def test_off_is_decomposed_everywhere() -> None:
    assert select_way(POSSIBLE, Setting.OFF).way is Way.DECOMPOSED


def test_the_variable_counts_by_its_value() -> None:
    assert setting_from({}) is Setting.AUTO
    assert setting_from({VARIABLE: "0"}) is Setting.OFF
    assert setting_from({VARIABLE: "1"}) is Setting.ON
    with pytest.raises(ValueError, match="WAVECAST_ASYNC_TP is 'yes'; wanted is 0, 1 or auto"):
        setting_from({VARIABLE: "yes"})


def test_whose_kernel_is_taken_counts_by_its_value() -> None:
    assert code_from({}) == "triton"
    assert code_from({CODE_VARIABLE: "hip"}) == "hip"
    with pytest.raises(ValueError, match="WAVECAST_ASYNC_TP_CODE is '1'; wanted is triton or hip"):
        code_from({CODE_VARIABLE: "1"})


def test_the_alias_heeds_pytorchs_variable_as_pytorch_does() -> None:
    assert alias_setting_from({}) is Setting.OFF
    assert alias_setting_from({UPSTREAM_VARIABLE: "0"}) is Setting.AUTO
    assert alias_setting_from({UPSTREAM_VARIABLE: "1", VARIABLE: "0"}) is Setting.OFF
