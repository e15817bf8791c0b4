from dataclasses import dataclass

import pytest

from wavecast.simulator.overlap.program import (
    Barrier,
    BarrierLike,
    Copy,
    CopyLike,
    Kernel,
    KernelLike,
    Record,
    RecordLike,
    WaitEvent,
    WaitEventLike,
    WaitSignal,
    WaitSignalLike,
    WriteSignal,
    WriteSignalLike,
)


@pytest.mark.parametrize(
    ("operation", "protocol", "kind"),
    [
        (Kernel("k", "gemm", {"M": 8}, 1), KernelLike, "kernel"),
        (Copy(0, 1, 4), CopyLike, "copy"),
        (WriteSignal(0, 0), WriteSignalLike, "write-signal"),
        (WaitSignal(0), WaitSignalLike, "wait-signal"),
        (Record("e"), RecordLike, "record"),
        (WaitEvent("e"), WaitEventLike, "wait-event"),
        (Barrier(), BarrierLike, "barrier"),
    ],
)
def test_each_dataclass_is_what_its_protocol_says(operation: object, protocol: type, kind: str) -> None:
    assert isinstance(operation, protocol)
    assert operation.kind == kind  # type: ignore[attr-defined]


def test_another_dataclass_with_equal_fields_meets_the_protocol() -> None:
    @dataclass(frozen=True)
    class Transfer:
        source_rank: int
        target_rank: int
        size_bytes: int
        engine: str
        kind: str = "copy"

    assert isinstance(Transfer(0, 1, 4096, "blit"), CopyLike)
