from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from wavecast.cli.rows import (
    Document,
    Effect,
    KernelRow,
    Row,
    RowSensitivity,
    RowTuning,
    Tuning,
    document_from_json,
    document_to_json,
    error_percent,
)
from wavecast.cli.schema import RowError

KEYS = """
experiment variant baseline device arch ranks recipe shape dtype path launches kernels caches predicted_us
predicted_low_us predicted_high_us measured_us measured_on published_us published_source error_percent speedup
speedup_published bound cause hbm_read_bytes hbm_write_bytes minimum_bytes coalescing_efficiency fence_release
fence_acquire vgpr sgpr lds_bytes spill_bytes waves_per_simd exposed_us tokens_per_s memory_bytes counters wavecast
triton spec code_object
""".split()


def a_row(**changes: Any) -> Row:
    kernel = KernelRow(name="k", code_object="0" * 16, launches=1, grid=(4, 2, 1), predicted_us=9.5, vgpr=64)
    row = Row(
        experiment="rowwise",
        variant="wavecast",
        baseline="separate-kernels",
        device="mi300x",
        arch="gfx942",
        shape={"tokens": 64, "n": 128},
        kernels=(kernel,),
        launches=1,
        predicted_us=12.0,
        predicted_low_us=10.0,
        predicted_high_us=15.0,
    )
    return replace(row, **changes)


def test_keys_and_their_order_are_the_contract() -> None:
    assert [item.name for item in fields(Row)] == KEYS


def test_every_key_is_documented(root: Path) -> None:
    page = (root / "docs/reference/rows.md").read_text()
    schemas = (Row, KernelRow, RowSensitivity, Effect, RowTuning, Tuning)
    missing = [item.name for schema in schemas for item in fields(schema) if f"| `{item.name}` |" not in page]
    assert not missing


def test_document_survives_json() -> None:
    document = Document(schema="wavecast.predict/1", rows=(a_row(), a_row(variant="separate-kernels")))
    assert document_from_json(json.loads(json.dumps(document_to_json(document)))) == document


def test_rows_that_are_older_than_a_key_are_read() -> None:
    data = document_to_json(Document(schema="wavecast.predict/1", rows=(a_row(caches="dirty"),)))
    assert document_from_json(data).rows[0].caches == "dirty"
    del data["rows"][0]["caches"]
    assert document_from_json(data).rows == (a_row(),)


def an_effect(**changes: Any) -> Effect:
    effect = Effect("hbm.read_tb_s", 3.96, 3.66, 4.42, "TB/s", 13.0, 11.0, "measured", "mt4g")
    return replace(effect, **changes)


def test_sensitivity_is_a_part_of_its_own(root: Path) -> None:
    sampling = an_effect(constant="sampling", value=None, low=None, high=None, unit=None, kind="sampling")
    entry = RowSensitivity.of(a_row(), (an_effect(), sampling))
    document = Document(schema="wavecast.predict/1", rows=(a_row(),), sensitivity=(entry,))
    data = json.loads(json.dumps(document_to_json(document)))
    assert list(data) == ["schema", "rows", "sensitivity"]
    assert list(data["rows"][0]) == KEYS
    assert document_from_json(data) == document
    for wrong, message in (
        ({**data, "sensitivity": []}, "not one entry for each row"),
        ({**data, "sensitivity": {}}, "rows and sensitivity must be lists"),
        ({**data, "timing": []}, "perhaps"),
    ):
        with pytest.raises(RowError, match=message):
            document_from_json(wrong)
    with pytest.raises(RowError, match="low_us is None"):
        an_effect(low_us=None)


def test_tuning_is_a_part_of_its_own() -> None:
    tuning = Tuning(
        "cast", 3, 2, {"BLOCK=9": "compiler: no"}, "BLOCK=2", "BLOCK=1", ("BLOCK=2",), 1.2, 1.1, 1.3, 4.5, 2, 1
    )
    entry = RowTuning.of(a_row(), (tuning,))
    # Rows that were not tuned have no entry.
    document = Document("wavecast.predict/1", rows=(a_row(variant="separate-kernels"), a_row()), tuning=(entry,))
    data = json.loads(json.dumps(document_to_json(document)))
    assert list(data) == ["schema", "rows", "tuning"]
    assert document_from_json(data) == document
    with pytest.raises(RowError, match="a row that is not there"):
        document_from_json({**data, "rows": data["rows"][:1]})
    with pytest.raises(RowError, match="compile_s is '4'"):
        replace(tuning, compile_s="4")


def test_unknown_is_null() -> None:
    data = document_to_json(Document(schema="wavecast.predict/1", rows=(a_row(),)))
    assert data["rows"][0]["measured_us"] is None
    assert list(data["rows"][0]) == KEYS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"predicted_us": "12"}, "predicted_us is '12'"),
        ({"launches": True}, "launches is True"),
        ({"shape": [1]}, r"shape is \[1\]"),
        ({"predicted_us": 9.0}, "outside its interval"),
        ({"predicted_low_us": float("nan")}, "finite"),
        ({"published_us": 10.0, "published_source": "x"}, "error_percent is None, but the times give"),
        ({"published_us": 10.0, "error_percent": 20.0}, "no published_source"),
    ],
)
def test_wrong_rows_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RowError, match=message):
        a_row(**changes)


def test_wrong_documents_are_refused() -> None:
    data = document_to_json(Document(schema="wavecast.predict/1", rows=(a_row(),)))
    with pytest.raises(RowError, match=r"wavecast\.predict/2"):
        document_from_json({**data, "schema": "wavecast.predict/2"})
    extra = {**data["rows"][0], "speed": 1}
    with pytest.raises(RowError, match="speed"):
        document_from_json({**data, "rows": [extra]})


@pytest.mark.parametrize(
    ("measured", "published", "expected"), [(None, None, None), (None, 10.0, 20.0), (8.0, 10.0, 50.0)]
)
def test_error_is_against_measured_before_published(
    measured: float | None, published: float | None, expected: float | None
) -> None:
    result = error_percent(12.0, measured_us=measured, published_us=published)
    assert result == (None if expected is None else pytest.approx(expected))
