"""Figures show their data, their texts do not overlap, and files come out the same every time."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from wavecast.cli.launches import LaunchFacts
from wavecast.cli.plots import files
from wavecast.cli.plots.comparison import Comparison
from wavecast.cli.plots.drawing.style import style
from wavecast.cli.plots.picture import Picture


def drawn(comparison: Comparison) -> dict[str, tuple[Picture, Figure]]:
    return {picture.name: (picture, picture.draw()) for picture in files.pictures(comparison)}


def columns(picture: Picture) -> dict[str, list]:
    return dict(zip(picture.table.columns, map(list, zip(*picture.table.rows, strict=True)), strict=True))


def test_the_bars_of_the_waterfall_are_its_table(three_variants: Comparison) -> None:
    picture, figure = drawn(three_variants)["waterfall"]
    table = columns(picture)
    bars = [patch for patch in figure.axes[0].patches if patch.get_width()]
    by_height = sorted(bars, key=lambda bar: bar.get_y())
    assert [bar.get_x() for bar in by_height] == pytest.approx([*table["start_us"][:-1], 0.0])
    assert [bar.get_width() for bar in by_height] == pytest.approx(table["change_us"])


def test_the_bars_of_traffic_are_its_table(three_variants: Comparison) -> None:
    picture, figure = drawn(three_variants)["traffic"]
    table = columns(picture)
    sizes = [
        value
        for parts in zip(table["read_bytes"], table["write_bytes"], table["atomic_bytes"], strict=True)
        for value in parts
        if value
    ]
    assert [patch.get_height() * 1e6 for patch in figure.axes[0].patches] == pytest.approx(sizes)
    (line,) = figure.axes[0].lines
    assert [value * 1e6 for value in line.get_ydata()] == pytest.approx([table["minimum_bytes"][0]] * 2)


def test_the_marks_of_the_roofline_are_its_table(three_variants: Comparison) -> None:
    picture, figure = drawn(three_variants)["roofline"]
    rows = [dict(zip(picture.table.columns, row, strict=True)) for row in picture.table.rows]
    lines = figure.axes[0].lines
    marks = [line for line in lines if line.get_linestyle() == "None"]
    assert [(mark.get_xdata()[0], mark.get_ydata()[0]) for mark in marks] == [
        pytest.approx((row["ops_per_byte"], row["top_s"])) for row in rows if row["kind"] == "variant"
    ]
    slopes = [line.get_ydata()[-1] / line.get_xdata()[-1] for line in lines[:3]]
    assert slopes == pytest.approx([row["tb_s"] for row in rows if row["kind"] == "bandwidth"])
    levels = [line.get_ydata()[0] for line in lines[3:] if line.get_linestyle() == ":"]
    assert levels == pytest.approx([row["top_s"] for row in rows if row["kind"] == "rate"])


def test_the_bars_and_marks_of_intervals_are_their_table(three_variants: Comparison) -> None:
    picture, figure = drawn(replace(three_variants, elsewhere=(("other code", 90.0),)))["intervals"]
    table = columns(picture)
    bars = figure.axes[0].patches
    assert [bar.get_x() for bar in bars] == pytest.approx([low for low in table["low_us"] if low])
    assert [bar.get_x() + bar.get_width() for bar in bars] == pytest.approx([high for high in table["high_us"] if high])
    marks: dict[str, list[float]] = {}
    for line in figure.axes[0].lines:
        marks.setdefault(line.get_label(), []).append(line.get_xdata()[0])
    assert marks == {
        "predicted": [value for value in table["predicted_us"] if value],
        "published": [value for value in table["published_us"] if value],
    }


def drawn_texts(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> list[Text]:
    """Texts that are really drawn: labels of ticks beyond the ends of an axis exist, but are not."""
    texts: dict[int, Text] = {}
    draw = Text.draw

    def remember(text: Text, *arguments: object) -> None:
        if text.get_visible() and text.get_text().strip():
            texts[id(text)] = text
        draw(text, *arguments)

    with style(), monkeypatch.context() as patch:
        patch.setattr(Text, "draw", remember)
        FigureCanvasAgg(figure).draw()
    return list(texts.values())


@pytest.mark.parametrize("variants", [1, 2, 4, 7])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_no_text_overlaps_another_or_leaves_the_picture(
    variants: int,
    scale: float,
    launch: Callable[..., LaunchFacts],
    comparison: Callable[..., Comparison],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = {
        f"variant-with-name-{number}": (
            launch(
                launch=5.2,
                l2=400.0 * scale**number / 2**number,
                hbm=50.0,
                mall=60.0 - 7 * number,
                latency=40.0 + 30 * number,
                issue=80.0,
                fences=900.0 / (number + 1),
                l1=500.0 / (number + 1),
                lds=300.0 / (number + 1),
                counts={"release_fences": 655_360.0 / (number + 1), "vector_ops": 1.5e9 * (number + 1)},
            ),
        )
        for number in range(variants)
    }
    compared = replace(comparison(cases, measured_us=None), elsewhere=(("somebody else's code, row-wise", 700.0),))
    for name, (_, figure) in drawn(compared).items():
        boxes = [(text.get_text(), text.get_window_extent()) for text in drawn_texts(figure, monkeypatch)]
        assert len(boxes) > 5
        for (one, box), (other, beside) in combinations(boxes, 2):
            assert not box.padded(-0.5).overlaps(beside.padded(-0.5)), f"{name}: {one!r} and {other!r}"
        width, height = figure.get_size_inches() * figure.dpi
        for text, box in boxes:
            assert box.x0 >= -0.5 and box.y0 >= -0.5 and box.x1 <= width + 0.5 and box.y1 <= height + 0.5, (name, text)


def test_files_are_png_svg_and_csv_and_always_the_same(three_variants: Comparison, tmp_path: Path) -> None:
    written: list[dict[str, bytes]] = []
    for folder in ("first", "second"):
        for picture in files.pictures(three_variants):
            files._write(picture, tmp_path / folder / f"{three_variants.stem}-{picture.name}")
        written.append({path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()})
    assert written[0] == written[1]
    assert len(written[0]) == 12
    for name, content in written[0].items():
        start = {"png": b"\x89PNG", "svg": b"<?xml", "csv": b""}[name[-3:]]
        assert content.startswith(start)
    assert all(b"dc:date" not in content for name, content in written[0].items() if name.endswith("svg"))


def test_a_csv_file_is_the_table_of_its_picture(three_variants: Comparison, tmp_path: Path) -> None:
    for picture in files.pictures(three_variants):
        files._write(picture, tmp_path / picture.name)
        head, *rows = csv.reader((tmp_path / f"{picture.name}.csv").open(encoding="utf-8", newline=""))
        assert tuple(head) == picture.table.columns
        assert rows == [["" if cell is None else str(cell) for cell in row] for row in picture.table.rows]


def test_a_users_matplotlib_settings_change_nothing(
    three_variants: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib as mpl

    for folder in ("plain", "changed"):
        for picture in files.pictures(three_variants):
            files._write(picture, tmp_path / folder / picture.name)
        monkeypatch.setitem(mpl.rcParams, "font.size", 20.0)
        monkeypatch.setitem(mpl.rcParams, "savefig.transparent", True)
    for path in (tmp_path / "plain").iterdir():
        assert path.read_bytes() == (tmp_path / "changed" / path.name).read_bytes(), path.name


def test_nothing_but_drawing_needs_matplotlib() -> None:
    import subprocess
    import sys

    code = "import sys, wavecast.cli.plots; print([name for name in sys.modules if name.startswith('matplotlib')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
