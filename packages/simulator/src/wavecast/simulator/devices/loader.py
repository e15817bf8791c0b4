"""Reads device files and checks them against the constants that the model needs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from wavecast.simulator.devices import constants
from wavecast.simulator.devices.device import Device, Kind, Quantity
from wavecast.simulator.errors import SimulatorError, UnknownDeviceError

SECTIONS: Mapping[str, type] = MappingProxyType(
    {
        "compute": constants.Compute,
        "issue": constants.Issue,
        "matrix": constants.Matrix,
        "lds": constants.Lds,
        "l1": constants.L1,
        "l2": constants.L2,
        "mall": constants.Mall,
        "hbm": constants.Hbm,
        "launch": constants.Launch,
        "atomics": constants.Atomics,
        "fences": constants.Fences,
        "combine": constants.Combine,
        "link": constants.Link,
    }
)
_SOURCES = "sources"
_ABSENT = ("mall", "link")  # sections that a device may lack


class DeviceFileError(SimulatorError):
    """A device file lacks a constant, has one too many, or gives one in the wrong unit or without a source."""


def device_names() -> tuple[str, ...]:
    """Names that ``load_device`` takes, ascending."""
    folder = resources.files("wavecast.simulator.devices")
    stems = (entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(sorted(stem for stem in stems if stem != _SOURCES))


@cache
def load_device(name: str) -> Device:
    """The specification of a device.

    Args:
        name: ``mi300x``, ``mi325x``, ``mi355x``, ``mi300a`` or ``h200``, in any case; or the path of a device file,
            which ends in ``.toml`` and may have citations of its own.

    Raises:
        UnknownDeviceError: if no file describes it; the message lists the names that exist.
        DeviceFileError: if the file is not complete.
    """
    if is_device_file(name):
        return _from_file(Path(name))
    key = name.lower()
    if key not in device_names():
        known = ", ".join(device_names())
        raise UnknownDeviceError(f"no device is called {name!r}; known are {known}", hint=f"choose one of: {known}")
    return parse_device(_read(key), _read(_SOURCES))


def is_device_file(name: str) -> bool:
    """Whether ``load_device`` takes a name for the path of a file."""
    return name.endswith(".toml")


def _from_file(path: Path) -> Device:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UnknownDeviceError(
            f"there is no device file {path}", hint=f"give one that exists, or one of: {', '.join(device_names())}"
        ) from error
    except (OSError, ValueError) as error:
        raise DeviceFileError(f"{path} cannot be read: {error}", hint="mend the file") from error
    citations = document.pop("citations", {})
    try:
        return parse_device(document, {**_read(_SOURCES), **citations})
    except (KeyError, TypeError, ValueError) as error:
        raise DeviceFileError(f"{path} is no complete device file: {error!r}") from error


def architecture_of(name: str) -> str:
    """The architecture (``gfx942``, ``gfx950`` or ``sm_90``) of a device name.

    Raises:
        UnknownDeviceError: if no file describes the device.
    """
    return load_device(name).arch


def parse_device(document: Mapping[str, Any], citations: Mapping[str, str]) -> Device:
    """Build a device from a parsed file.

    Args:
        document: The TOML document: ``name``, ``title``, ``arch`` and a table a constant.
        citations: Source key to citation.

    Raises:
        DeviceFileError: if a constant is missing, unknown, in another unit, uncited or outside its range.
    """
    device = str(document.get("name", "?"))
    unknown = set(document) - set(SECTIONS) - {"name", "title", "arch"}
    if unknown:
        raise DeviceFileError(f"{device}: unknown section {sorted(unknown)[0]!r}; wanted: {', '.join(SECTIONS)}")
    quantities: dict[str, Quantity] = {}
    sections: dict[str, Any] = {}
    present = {section: kind for section, kind in SECTIONS.items() if section in document or section not in _ABSENT}
    for section, kind in present.items():
        tables = document.get(section, {})
        values: dict[str, Any] = {}
        for entry in fields(kind):
            key = f"{section}.{entry.name}"
            if entry.name not in tables:
                if entry.default is MISSING:
                    raise DeviceFileError(f"{device}: constant {key} is missing (unit {entry.metadata['unit']})")
                continue
            quantities[key] = _quantity(device, key, tables[entry.name], entry.metadata["unit"], citations)
            values[entry.name] = quantities[key].value
        extra = set(tables) - {entry.name for entry in fields(kind)}
        if extra:
            raise DeviceFileError(f"{device}: {section}.{sorted(extra)[0]} is not a constant that the model knows")
        sections[section] = kind(**values)
    if "mall" not in sections:
        sections["mall"] = constants.Mall.absent(sections["l2"], sections["hbm"], xcds=sections["compute"].num_xcd)
    return Device(
        name=device,
        title=document["title"],
        arch=document["arch"],
        quantities=MappingProxyType(quantities),
        **sections,
    )


def _quantity(device: str, key: str, table: Mapping[str, Any], unit: str, citations: Mapping[str, str]) -> Quantity:
    if table.get("unit") != unit:
        raise DeviceFileError(f"{device}: {key} is given in {table.get('unit')!r}; the model wants {unit!r}")
    sources = tuple(table.get("source", ()))
    missing = [source for source in sources if source not in citations]
    if not sources or missing:
        raise DeviceFileError(f"{device}: {key} cites {missing or 'nothing'}; each needs a key of sources.toml")
    value, low, high = table["value"], table.get("low"), table.get("high")
    if (low is None) != (high is None):
        raise DeviceFileError(f"{device}: {key} has one end of a range only; give both low and high")
    if low is not None and high is not None and not low <= value <= high:
        raise DeviceFileError(f"{device}: {key} = {value} lies outside its own range [{low}, {high}]")
    cited = tuple(citations[source] for source in sources)
    return Quantity(value, unit, Kind(table["kind"]), cited, low, high, table.get("note", ""))


def _read(stem: str) -> dict[str, Any]:
    text = (resources.files("wavecast.simulator.devices") / f"{stem}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
