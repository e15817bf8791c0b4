"""The compiled loop's own guard."""

from __future__ import annotations

import pytest

from wavecast.simulator.execute import driver

pytestmark = pytest.mark.execute


def test_code_compiled_for_another_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    driver.check_cache()
    monkeypatch.setattr(driver, "_LAYOUT", (*driver._LAYOUT[:-1], 999))
    with pytest.raises(RuntimeError, match=r"another layout; delete .*nbi"):
        driver.check_cache()
