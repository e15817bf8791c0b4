"""What every test shares. Nothing here imports torch or Triton, so the simulator's tests run without torch."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """The workspace."""
    return Path(__file__).resolve().parent.parent
