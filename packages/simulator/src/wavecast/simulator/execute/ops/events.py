"""What a checked launch calls in place of, or before, an instruction that touches no memory: its record."""

from __future__ import annotations

from wavecast.simulator.execute.address import record
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.form import Form
from wavecast.simulator.execute.layout import RowKind
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.trace import RecordKind

# No assembler knows an opcode of this name.
EVENT = Form("record_event", "", (), ())


@raw(EVENT.opcode, "", kind=RowKind.MEMORY)
def _(e: Emitter) -> None:
    # EXEC may be empty: an event counts all the same.
    record(e, None, kind=RecordKind.EVENT)
