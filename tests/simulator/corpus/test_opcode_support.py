"""The engine knows every instruction of the corpus."""

from __future__ import annotations

import pytest

from wavecast.simulator.execute.translate import unsupported
from wavecast.simulator.program.assembly import parse_assembly

from .cases import COMPILATION_IDS, COMPILATIONS, Case, compile_case

pytestmark = pytest.mark.compile


@pytest.mark.parametrize(("case", "arch"), COMPILATIONS, ids=COMPILATION_IDS)
def test_every_opcode_is_supported(case: Case, arch: str) -> None:
    code = compile_case(case, arch)
    assert unsupported(parse_assembly(code.assembly, lds_bytes=code.lds_bytes)) == []
