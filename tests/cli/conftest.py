from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace

import pytest

from wavecast.cli import simulate
from wavecast.cli.errors import CliError
from wavecast.cli.rows import KernelRow

from .forks import Forks

TIMES_US = {"byte-stores": 800.0, "vector-two-pass": 200.0, "fused-single-pass": 120.0, "wavecast": 100.0}


@pytest.fixture
def times_us(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The times that the fake simulator knows; changes end with the test."""
    known = dict(TIMES_US)
    monkeypatch.setattr(sys.modules[__name__], "TIMES_US", known)
    return known


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Runs command lines in processes of their own."""
    server = Forks()
    yield server
    server.close()


class FakeVariants:
    """Stands for an operator's ``VARIANTS``: remembers which ones were called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getitem__(self, variant: str) -> Callable[..., None]:
        return partial(self._call, variant)

    def _call(self, variant: str, *arguments: object, **keywords: object) -> None:
        self.called.append(variant)


@pytest.fixture
def fake_simulator(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace operators and simulator by fakes that know the times above; the fixture is the list of variants run."""
    variants = FakeVariants()
    module = SimpleNamespace(VARIANTS=variants, last_path=lambda: "triton")

    def predict_run(
        function: Callable[[], object],
        *,
        device: str,
        whole: bool = False,
        works: object = None,
        caches: str = "clean",
    ) -> simulate.Prediction:
        function()
        variant = variants.called[-1]
        if variant not in TIMES_US:
            raise CliError(f"{variant} does not run", hint="take another")
        time_us = TIMES_US[variant]
        kernel = KernelRow(
            name=variant,
            code_object="0" * 16,
            launches=2,
            grid=(4, 1, 1),
            predicted_us=time_us - 5,
            bound="hbm",
            cause=f"{variant} has its cause.",
            hbm_read_bytes=2e6,
            hbm_write_bytes=1e6,
            coalescing_efficiency=0.5,
            vgpr=64,
        )
        return simulate.Prediction("gfx942", f"{device}-0", "3.7.1", (kernel,), time_us, 0.9 * time_us, 1.2 * time_us)

    monkeypatch.setattr(simulate, "predict_run", predict_run)
    monkeypatch.setattr("wavecast.cli.experiments.operators.import_module", lambda name: module)
    return variants.called
