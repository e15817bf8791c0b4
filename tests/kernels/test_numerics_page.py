"""The numerics page names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

NAMED = re.compile(r"`([\w/]+\.py)?::(test_\w+)`")


def test_every_named_test_exists(root: Path) -> None:
    tests = root / "tests" / "kernels"
    page = (root / "docs" / "concepts" / "numerics.md").read_text(encoding="utf-8")
    named = NAMED.findall(page)
    assert len(named) > 20
    file = ""
    for path, test in named:
        file = path or file  # a name without a path is in the file named before it
        assert f"def {test}(" in (tests / file).read_text(encoding="utf-8"), f"{file} has no {test}"


def test_every_rule_names_a_test(root: Path) -> None:
    page = (root / "docs" / "concepts" / "numerics.md").read_text(encoding="utf-8")
    rules = re.findall(r"^\| (?!case|format|---)(.+?) \|.* \| (.+) \|$", page, re.MULTILINE)
    rules = [(rule, last) for rule, last in rules if not re.match(r"e\dm\d", rule)]  # the table of formats
    assert len(rules) > 15
    without = [rule for rule, last in rules if not NAMED.search(last)]
    assert without == ["decreasing offsets"]
