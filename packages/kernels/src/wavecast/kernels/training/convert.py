"""Conversion of a module to training in FP8."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from wavecast.kernels.training.linear import Fp8Linear
from wavecast.kernels.training.recipe import Recipe

SHOWN = 8
"""Names that an error lists."""


def convert_to_fp8_training(
    module: nn.Module,
    *,
    recipe: Recipe = Recipe.ROWWISE,
    module_filter: Callable[[nn.Module, str], bool] | None = None,
    power_of_two: bool = True,
) -> nn.Module:
    """Make every `torch.nn.Linear` in ``module`` that a filter takes an `Fp8Linear`, in place.

    Each layer stays the same object with the same parameters, hooks, training flag and names; only its class changes,
    so optimizers, state dicts and references to it hold. Converting again gives the recipe that is named last.
    Subclasses of nn.Linear stay as they are, as they compute something of their own.

    Args:
        module: what is converted; may be a linear layer itself.
        recipe: see `Recipe`.
        module_filter: ``module_filter(layer, fully_qualified_name)`` says whether a layer is converted; the name of
            ``module`` itself is empty. None converts all.
        power_of_two: round scales down to powers of two.

    Returns:
        ``module``.

    Raises:
        ValueError: no layer was converted.
    """
    recipe = Recipe(recipe)
    linear = [(name, layer) for name, layer in module.named_modules() if type(layer) in (nn.Linear, Fp8Linear)]
    chosen = [layer for name, layer in linear if module_filter is None or module_filter(layer, name)]
    if not chosen:
        raise ValueError(_nothing_converted(module, [name for name, _ in linear]))
    for layer in chosen:
        layer.__class__ = Fp8Linear
        assert isinstance(layer, Fp8Linear)
        layer.recipe = recipe
        layer.power_of_two = power_of_two
    return module


def _nothing_converted(module: nn.Module, names: list[str]) -> str:
    """What was looked at."""
    if not names:
        return (
            f"{type(module).__name__} has no torch.nn.Linear (subclasses do not count); nothing was converted; use "
            "fp8_linear or scaled_grouped_mm in its forward"
        )
    listed = ", ".join(map(repr, names[:SHOWN])) + (", …" if len(names) > SHOWN else "")
    return f"module_filter took none of the {len(names)} linear layers of {type(module).__name__}: {listed}; widen it"
