from __future__ import annotations

import json
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from wavecast.simulator.devices import load_device
from wavecast.simulator.errors import MissingToolError
from wavecast.simulator.overlap import sweep as sweeping
from wavecast.simulator.overlap.collectives import collective_time
from wavecast.simulator.overlap.errors import OverlapError
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.practice import Product, all_gather_matmul, matmul
from wavecast.simulator.overlap.prices import Prices
from wavecast.simulator.overlap.simulate import simulate
from wavecast.simulator.overlap.sweep import GATHER, SCATTER, Configuration, sweep
from wavecast.simulator.overlap.trace import trace_events
from wavecast.simulator.overlap.verdict import judge

SMALL = Product(4096, 1024, 512)
LARGE = Product(8192, 8192, 8192)


def test_answers_come_in_the_order_of_the_questions_with_a_reason_each() -> None:
    asked = [
        Configuration(GATHER, LARGE, 2, "sequence", "h200"),
        Configuration(SCATTER, SMALL, 2, "decomposed", "h200"),
        Configuration(GATHER, LARGE, 2, "decomposed", "h200"),
        Configuration(GATHER, Product(2048, 512, 512), 64, "sequence", "mi300x"),
    ]
    answers = sweep(asked, jobs=1)
    assert [answer.configuration for answer in answers] == asked
    sequence, small, decomposed, impossible = answers
    assert sequence.verdict is not None and decomposed.verdict is not None and small.verdict is not None
    assert "one after the other" in sequence.verdict.reason
    assert decomposed.verdict.total_us < sequence.verdict.total_us
    assert decomposed.verdict.reason.startswith("hides")
    assert small.verdict.reason.startswith("loses")
    assert impossible.verdict is None
    assert "64 GPUs do not make a node" in impossible.problem


def test_processes_find_what_one_finds() -> None:
    asked = [Configuration(GATHER, SMALL, ranks, "decomposed", "mi300x") for ranks in (2, 4)]
    asked += [Configuration(GATHER, Product(4096, 2048, 512), 2, "native-upstream", "mi300x")]
    assert sweep(asked, jobs=2) == sweep(asked, jobs=1)


def test_a_cluster_needs_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "find_spec", lambda name: None)
    with pytest.raises(MissingToolError, match="'distributed', which is not installed") as refused:
        sweep([Configuration(GATHER, SMALL, 2, "sequence", "h200")], cluster="tcp://nowhere:1")
    assert "wavecast-simulator[cluster]" in refused.value.hint


class Scheduler:
    """Of the package 'distributed', as much as sweeps use: does the work when asked for it."""

    def __init__(self, address: str) -> None:
        if "nowhere" in address:
            raise OSError("timed out")
        self.address = address

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.address = "closed"

    def map(self, function: Any, parts: list[Any], *, pure: bool) -> list[Any]:
        assert not pure
        return [(function, part) for part in parts]

    def gather(self, asked: list[Any]) -> list[Any]:
        assert self.address == "tcp://head:8786"
        return [function(pickle.loads(pickle.dumps(part))) for function, part in asked]


def test_a_cluster_finds_what_this_machine_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Scheduler))
    asked = [
        Configuration(GATHER, product, ranks, "decomposed", "h200") for product in (SMALL, LARGE) for ranks in (2, 4)
    ]
    assert sweep(asked, cluster="tcp://head:8786") == sweep(asked, jobs=1)
    with pytest.raises(OverlapError, match="no Dask scheduler answers at tcp://nowhere:1: timed out"):
        sweep(asked, cluster="tcp://nowhere:1")


def test_the_parts_of_a_verdict_add_up_and_one_link_of_seven_is_named() -> None:
    node, product = Node(load_device("mi300x"), 8), Product(8192, 3584, 8192)
    prices = Prices(node)
    outcome = simulate(all_gather_matmul(product, node, "decomposed"), node, prices)
    whole_us = prices(matmul(product, product.m)).alone_us
    verdict = judge(outcome, node, whole_us=whole_us, collective_us=collective_time("all-gather", 2**27, node).us)
    assert verdict.product_us + verdict.exposed_us == pytest.approx(verdict.total_us)
    assert verdict.moving_us + verdict.idle_us == pytest.approx(verdict.exposed_us)
    assert verdict.product_us == pytest.approx(whole_us + verdict.stretch_us)
    assert verdict.lanes == 2
    assert "copies use 2 of 7 links at a time" in verdict.reason


def test_scales_that_are_gathered_too_count_as_what_could_be_hidden() -> None:
    product = Product(4096, 1024, 512, "fp8")
    (answer,) = sweep([Configuration(GATHER, product, 2, "sequence", "h200")], jobs=1)
    assert answer.verdict is not None
    node = Node(load_device("h200"), 2)
    whole_us = Prices(node)(matmul(product, product.m)).alone_us
    gathered = [collective_time("all-gather", size, node).us for size in (4096 * 512, 4096 * 4)]
    assert answer.verdict.total_us == pytest.approx(whole_us + sum(gathered))
    assert answer.verdict.reason.startswith(
        f"the {sum(gathered):,.0f} µs collective and the {whole_us:,.0f} µs product"
    )


def test_what_starves_is_named() -> None:
    # The barrier after the first half finds all compute units taken by the second half.
    (answer,) = sweep([Configuration(SCATTER, LARGE, 2, "decomposed", "mi300x")], jobs=1)
    assert answer.verdict is not None
    assert answer.verdict.starved == "barrier 3"
    assert "barrier 3 waits" in answer.verdict.reason
    assert answer.verdict.starved_us > 0.1 * answer.verdict.total_us


def test_a_trace_has_every_operation_in_the_format_of_trace_viewers() -> None:
    node = Node(load_device("h200"), 2)
    outcome = simulate(all_gather_matmul(SMALL, node, "decomposed"), node, Prices(node))
    document = json.loads(json.dumps(trace_events(outcome, name="x")))
    complete = [event for event in document["traceEvents"] if event["ph"] == "X" and event["cat"] != "wait"]
    assert len(complete) == len(outcome.spans)
    assert all(event["dur"] >= 0 for event in complete)
    assert max(event["ts"] + event["dur"] for event in complete) == pytest.approx(outcome.total_us)
    names = {event["args"]["name"] for event in document["traceEvents"] if event["ph"] == "M"}
    assert names == {"GPU 0", "GPU 1", "current", "backend"}
