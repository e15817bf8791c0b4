"""The engine knows every instruction of the corpus, and the program stage states the compiler's own figures."""

from __future__ import annotations

import re

import pytest

from wavecast.simulator.execute.translate import unsupported
from wavecast.simulator.program.assembly import parse_assembly
from wavecast.simulator.program.kernel import Kernel

from .cases import COMPILATION_IDS, COMPILATIONS, compile_case

pytestmark = pytest.mark.compile


@pytest.fixture(scope="module", params=COMPILATIONS, ids=COMPILATION_IDS)
def compiled(request: pytest.FixtureRequest) -> tuple[str, Kernel]:
    """Assembly and parsed kernel of one case."""
    case, arch = request.param
    code = compile_case(case, arch)
    return code.assembly, parse_assembly(code.assembly, lds_bytes=code.lds_bytes)


def test_every_opcode_is_supported(compiled: tuple[str, Kernel]) -> None:
    _, kernel = compiled
    assert unsupported(kernel) == []


def test_resources_equal_the_metadata(compiled: tuple[str, Kernel]) -> None:
    """Registers, spills and scratch that the compiler writes into the code object's metadata for the loader."""
    assembly, kernel = compiled

    def stated(key: str) -> int:
        match = re.search(rf"^[\s-]+\.{key}:\s+(\d+)$", assembly, re.MULTILINE)
        assert match is not None, key
        return int(match[1])

    resources = kernel.resources
    assert resources.vgpr == stated("vgpr_count")
    assert resources.agpr == stated("agpr_count")
    assert resources.sgpr == stated("sgpr_count")
    assert resources.vgpr_spills == stated("vgpr_spill_count")
    assert resources.sgpr_spills == stated("sgpr_spill_count")
    assert resources.scratch_bytes == stated("private_segment_fixed_size")
