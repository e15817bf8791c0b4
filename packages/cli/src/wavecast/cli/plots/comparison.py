"""What the pictures of one case are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from wavecast.cli.devices import DeviceFacts
from wavecast.cli.rows import Row
from wavecast.cli.simulate import Prediction


@dataclass(frozen=True, slots=True)
class Variant:
    """A row that was predicted.

    Attributes:
        key: Its short name in pictures: A, B, …; the baseline comes first.
        row: The row.
        prediction: What the row was made from.
        time_us: Its predicted time.
    """

    key: str
    row: Row
    prediction: Prediction
    time_us: float

    @property
    def name(self) -> str:
        return self.row.variant

    @property
    def label(self) -> str:
        """Key and name."""
        return f"{self.key} {self.name}"

    @property
    def is_baseline(self) -> bool:
        return self.row.variant == self.row.baseline


@dataclass(frozen=True, slots=True)
class Comparison:
    """The variants of one experiment on one shape and device.

    Attributes:
        variants: Those that were predicted, at least one.
        device: The device with all its constants.
        elsewhere: Whose other code, and its published time in µs, on the same shape and device.
    """

    variants: tuple[Variant, ...]
    device: DeviceFacts
    elsewhere: tuple[tuple[str, float], ...] = ()

    def described(self, variant: Variant) -> str:
        """Its label, and whether others are compared with it."""
        return f"{variant.label} (baseline)" if variant.is_baseline and len(self.variants) > 1 else variant.label

    @property
    def title(self) -> str:
        """Experiment, device and sizes."""
        row = self.variants[0].row
        sizes = ", ".join(f"{name} {size:,}" for name, size in row.shape.items())
        return f"{row.experiment} on {self.device.title}" + (f": {sizes}" if sizes else "")

    @property
    def origin(self) -> str:
        """What the numbers depend on besides the code."""
        row = self.variants[0].row
        compiler = f" and Triton {row.triton}" if row.triton else ""
        return f"predicted by Wavecast {row.wavecast} with device file {row.spec}{compiler}"

    @property
    def stem(self) -> str:
        """Start of the names of its files."""
        row = self.variants[0].row
        return "-".join([row.experiment, row.device, *(f"{name}{size}" for name, size in row.shape.items())])

    @property
    def baseline(self) -> Variant | None:
        """The variant that the others are compared with, if it was predicted."""
        return next((variant for variant in self.variants if variant.is_baseline), None)

    @property
    def best(self) -> Variant | None:
        """The fastest of the others."""
        others = [variant for variant in self.variants if not variant.is_baseline]
        return min(others, key=lambda variant: variant.time_us, default=None)


def compare(
    rows: Sequence[Row],
    predictions: Sequence[Prediction],
    *,
    device: DeviceFacts,
    elsewhere: Sequence[tuple[str, float]] = (),
) -> Comparison | None:
    """The comparison of the rows whose time is known, or None if there is none.

    Args:
        rows: Of one experiment on one shape and device.
        predictions: What each was made from.
        device: That device.
        elsewhere: As in ``Comparison``.
    """
    variants: list[Variant] = []
    for row, prediction in zip(rows, predictions, strict=True):
        if row.predicted_us is not None:
            variants.append(Variant(_key(len(variants)), row, prediction, row.predicted_us))
    return Comparison(tuple(variants), device, tuple(elsewhere)) if variants else None


def _key(number: int) -> str:
    """A, B, … Z, AA, AB, …"""
    before, letter = divmod(number, len(ascii_uppercase))
    return (_key(before - 1) if before else "") + ascii_uppercase[letter]
