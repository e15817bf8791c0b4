"""A device specification as the command line sees it, and as it writes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavecast.cli.devices import Constant


@dataclass(frozen=True, slots=True)
class SpecFacts:
    """A device specification.

    Attributes:
        name: Name of the device.
        title: Its full name.
        arch: ``gfx942``, ``sm_90``, …
        values: ``section.name`` to value.
        atomic_channels: Channels that atomics spread over.
        constants: All constants with their sources, in the order of the file.
    """

    name: str
    title: str
    arch: str
    values: Mapping[str, float]
    atomic_channels: float
    constants: Sequence[Constant]


def spec_text(spec: SpecFacts, changed: Mapping[str, Constant]) -> str:
    """A device file in TOML: the constants of a specification, some of them replaced.

    Its citations are its own, under ``citations``, so that it can be read wherever it lies.

    Args:
        spec: What it starts from.
        changed: ``section.name`` to the constant in its place.
    """
    keys: dict[str, str] = {}
    tables: list[str] = []
    for known in spec.constants:
        item = changed.get(known.key, known)
        for source in item.sources:
            keys.setdefault(source, f"source-{len(keys) + 1}")
        lines = [f"[{item.key}]", f"value = {item.value!r}", f"unit = {_text(item.unit)}"]
        lines += [
            f"kind = {_text(item.kind)}",
            f"source = [{', '.join(_text(keys[source]) for source in item.sources)}]",
        ]
        if item.low is not None and item.high is not None:
            lines += [f"low = {item.low!r}", f"high = {item.high!r}"]
        if item.note:
            lines.append(f"note = {_text(item.note)}")
        tables.append("\n".join(lines))
    head = [f"name = {_text(spec.name)}", f"title = {_text(spec.title)}", f"arch = {_text(spec.arch)}"]
    citations = ["[citations]", *(f"{_text(key)} = {_text(source)}" for source, key in keys.items())]
    return "\n\n".join(["\n".join(head), *tables, "\n".join(citations)]) + "\n"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
