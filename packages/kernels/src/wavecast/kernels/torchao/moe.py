"""torchao's entry points for FP8 grouped GEMMs, and its conversion of the parameters of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from wavecast.kernels.device import default_format_name
from wavecast.kernels.formats import format_named
from wavecast.kernels.torchao.configs import Float8LinearConfig, Float8TrainingOpConfig
from wavecast.kernels.training import Recipe, fp8_linear, scaled_grouped_mm


def _to_fp8_rowwise_then_scaled_grouped_mm(
    A: torch.Tensor,
    B_t: torch.Tensor,
    offs: torch.Tensor,
    out_dtype: torch.dtype | None = torch.bfloat16,
    float8_dtype: torch.dtype = torch.float8_e4m3fn,
    pad_token_groups_for_grouped_mm: bool = True,
) -> torch.Tensor:
    """Multiply each group of rows by a matrix of its own, in FP8 with a scale per row; differentiable.

    Groups may have any sizes, so ``pad_token_groups_for_grouped_mm`` has no effect; in torchao its default is an error
    and False wants groups of multiples of 16.

    Args:
        A: (M, K) bf16 or fp32; rows contiguous.
        B_t: (E, K, N) bf16 or fp32 with K contiguous, strides (K * N, 1, K).
        offs: (E,) int32 end offsets.
        out_dtype: of the result; None is bf16.
        float8_dtype: of the operands; must be the device's, so on gfx942 ``torch.float8_e4m3fnuz`` has to be passed.
        pad_token_groups_for_grouped_mm: has no effect.

    Returns:
        (M, N); rows from ``offs[-1]`` on are zero, where torchao leaves them unwritten.

    Raises:
        ValueError: another ``float8_dtype`` than the device's; else as `scaled_grouped_mm`.
    """
    del pad_token_groups_for_grouped_mm
    native = format_named(default_format_name()).dtype
    if float8_dtype != native:
        raise ValueError(f"float8_dtype is {float8_dtype}; this device multiplies {native}; pass that")
    return scaled_grouped_mm(A, B_t, offs, recipe=Recipe.ROWWISE, out_dtype=out_dtype or torch.bfloat16)


def _quantize_then_scaled_grouped_mm(
    A: torch.Tensor,
    B_t: torch.Tensor,
    config: Float8TrainingOpConfig,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """`_to_fp8_rowwise_then_scaled_grouped_mm` by a configuration.

    Args:
        A, B_t, offs: see there; ``offs`` is needed.
        config: an FP8 configuration.
        bias: must be None, as torchao ignores it for FP8.

    Raises:
        ValueError: another configuration, no ``offs``, or a bias; else as there.
    """
    if not isinstance(config, Float8TrainingOpConfig):
        raise ValueError(
            f"config is {type(config).__name__}; wanted is wavecast.kernels.torchao.Float8TrainingOpConfig"
        )
    if offs is None:
        raise ValueError("offs is None; wanted are the int32 end offsets of the groups")
    if bias is not None:
        raise ValueError("a bias is given; FP8 grouped GEMMs add none; add it to the result")
    return _to_fp8_rowwise_then_scaled_grouped_mm(A, B_t, offs, config.out_dtype, config.float8_dtype)


_SAME_WEIGHT: frozenset[Any] = frozenset(
    {
        torch.Tensor.bfloat16,
        torch.Tensor.clone,
        torch.Tensor.contiguous,
        torch.Tensor.cpu,
        torch.Tensor.cuda,
        torch.Tensor.detach,
        torch.Tensor.float,
        torch.Tensor.half,
        torch.Tensor.mT.__get__,  # type: ignore[attr-defined]
        torch.Tensor.requires_grad_,
        torch.Tensor.t,
        torch.Tensor.T.__get__,  # type: ignore[attr-defined]
        torch.Tensor.to,
        torch.Tensor.transpose,
        torch.Tensor.type,
        torch.empty_like,
        torch.transpose,
    }
)
"""What makes a converted weight of a converted weight: casts, moves and transposes."""


class Float8TrainingWeightWrapperTensor(torch.Tensor):
    """A weight whose linear layers and grouped GEMMs are in FP8; to everything else a tensor.

    ``F.linear``, ``torch._grouped_mm`` and ``F.grouped_mm`` are taken over, and no other call. Under FSDP2 a module
    sees the gathered weight, which is a plain tensor again: convert modules there, not parameters.
    """

    config: Float8TrainingOpConfig

    @classmethod
    def wrap(cls, tensor: torch.Tensor, config: Float8TrainingOpConfig) -> Float8TrainingWeightWrapperTensor:
        """The same memory as a weight of this class."""
        weight = tensor.as_subclass(cls)
        weight.config = config
        return weight

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        copied: torch.Tensor = self.wrap(_plain(self.detach()).clone(), self.config)
        if isinstance(self, nn.Parameter):
            copied = nn.Parameter(copied, requires_grad=self.requires_grad)
        memo[id(self)] = copied
        return copied

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        with torch._C.DisableTorchFunctionSubclass():
            if name == "linear":
                return _linear(*args, **kwargs)
            if name in ("_grouped_mm", "grouped_mm"):
                return _grouped_mm(*args, **kwargs)
            result = func(*args, **kwargs)
            if func in _SAME_WEIGHT and not isinstance(result, cls):
                return cls.wrap(result, args[0].config)
            return result


def _linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:  # noqa: A002
    """``F.linear`` with a converted weight."""
    if not isinstance(weight, Float8TrainingWeightWrapperTensor):  # the input or the bias is one
        return nn.functional.linear(input, weight, bias)
    config = Float8LinearConfig.from_recipe_name(weight.config.float8_linear_recipe)
    plain_bias = None if bias is None else _plain(bias)
    return fp8_linear(
        _plain(input),
        _plain(weight),
        plain_bias,
        recipe=config.recipe,
        power_of_two=config.round_scales_to_power_of_2,
    )


def _grouped_mm(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
    """``torch._grouped_mm`` with converted weights.

    Raises:
        ValueError: not rows times experts.
    """
    if not isinstance(b, Float8TrainingWeightWrapperTensor) or a.ndim != 2 or b.ndim != 3:
        raise ValueError(
            f"grouped GEMM of {tuple(a.shape)} and {tuple(b.shape)}; converted weights are taken as the second "
            "operand, (M, K) times (E, K, N)"
        )
    if unknown := {key for key, value in options.items() if value is not None}:
        raise ValueError(f"grouped GEMM with {', '.join(sorted(unknown))}; converted weights take offs alone")
    return _quantize_then_scaled_grouped_mm(a, _plain(b), b.config, offs=offs)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without the class, gradients included."""
    return tensor.as_subclass(torch.Tensor)


def quantize_(
    model: nn.Module,
    config: Float8TrainingOpConfig,
    filter_fn: Callable[[nn.Module, str], bool] | None = None,
    device: torch.device | str | int | None = None,
) -> None:
    """Convert the parameters of the modules that a filter takes, and of all modules below them, in place.

    Args:
        model: is changed.
        config: an FP8 training configuration; torchao's function takes many more, which are not here.
        filter_fn: ``filter_fn(module, name)``; None takes ``nn.Linear``.
        device: where to move ``model``; None leaves it.

    Raises:
        ValueError: another configuration.
    """
    if not isinstance(config, Float8TrainingOpConfig):
        raise ValueError(
            f"config is {type(config).__name__}; only wavecast.kernels.torchao.Float8TrainingOpConfig is possible "
            "here; take other conversions from torchao itself"
        )
    if device is not None:
        model.to(device)
    wanted = _is_linear if filter_fn is None else filter_fn
    for name, module in model.named_modules():
        if wanted(module, name):
            for part in module.modules():
                _convert_parameters(part, config)


def _is_linear(module: nn.Module, name: str) -> bool:
    del name
    return isinstance(module, nn.Linear)


def _convert_parameters(module: nn.Module, config: Float8TrainingOpConfig) -> None:
    for name, parameter in list(module.named_parameters(recurse=False)):
        if not isinstance(parameter, Float8TrainingWeightWrapperTensor) and parameter.ndim in (2, 3):
            weight = Float8TrainingWeightWrapperTensor.wrap(parameter.detach(), config)
            setattr(module, name, nn.Parameter(weight, requires_grad=parameter.requires_grad))
