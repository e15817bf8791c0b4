"""The engine knows every instruction of the corpus, and the program stage states the compiler's own figures."""

from __future__ import annotations

import functools
import re

import pytest

from wavecast.simulator.execute.translate import unsupported
from wavecast.simulator.program.assembly import parse_assembly
from wavecast.simulator.program.kernel import Kernel

from .cases import COMPILATION_IDS, COMPILATIONS, Case, compile_case

pytestmark = pytest.mark.compile


@functools.lru_cache(maxsize=1)
def parsed(case: Case, arch: str) -> tuple[str, Kernel]:
    """Assembly and kernel; the tests of one case run one after the other."""
    code = compile_case(case, arch)
    return code.assembly, parse_assembly(code.assembly, lds_bytes=code.lds_bytes)


@pytest.mark.parametrize(("case", "arch"), COMPILATIONS, ids=COMPILATION_IDS)
class TestCase:
    def test_every_opcode_is_supported(self, case: Case, arch: str) -> None:
        _, kernel = parsed(case, arch)
        assert unsupported(kernel) == []

    def test_resources_equal_the_metadata(self, case: Case, arch: str) -> None:
        """Registers, spills and scratch that the compiler writes into the code object's metadata for the loader."""
        assembly, kernel = parsed(case, arch)

        def stated(key: str) -> int:
            match = re.search(rf"^\s+\.{key}:\s+(\d+)$", assembly, re.MULTILINE)
            assert match is not None, key
            return int(match[1])

        resources = kernel.resources
        assert (resources.vgpr, resources.agpr, resources.sgpr) == tuple(
            stated(key) for key in ("vgpr_count", "agpr_count", "sgpr_count")
        )
        assert (resources.vgpr_spills, resources.sgpr_spills) == (
            stated("vgpr_spill_count"),
            stated("sgpr_spill_count"),
        )
        assert resources.scratch_bytes == stated("private_segment_fixed_size")
