from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from machine import Machine


@pytest.fixture(scope="session")
def machine() -> Machine:
    """One wave's machine; compiled helpers are shared by every test."""
    return Machine()
