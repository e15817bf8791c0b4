"""The part of torchtitan's protocol that its converters meet, to stand in for it: configs that build their owner."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

import torch
from torch import nn


class Configurable:
    @dataclass(kw_only=True, slots=True)
    class Config:
        def build(self) -> Any:
            return self._owner(config=replace(self))

        def traverse(self, kind: type, prefix: str = "") -> Iterator[tuple[str, Any, Any, Any]]:
            if isinstance(self, kind):
                yield prefix, self, None, None
                return
            for f in fields(self):
                value = getattr(self, f.name)
                inner = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
                for index, child in inner:
                    if not hasattr(child, "traverse"):
                        continue
                    name = ".".join(part for part in (prefix, f.name, None if index is None else str(index)) if part)
                    place = (self, f.name) if index is None else (value, index)
                    for found, config, parent, attribute in Configurable.Config.traverse(child, kind, name):
                        yield found, config, *(place if parent is None else (parent, attribute))

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "Config" in cls.__dict__:
            cls.Config._owner = cls


class QuantizationConverter(Configurable):
    @dataclass(kw_only=True, slots=True)
    class Config(Configurable.Config):
        model_compile_enabled: bool = False


class Linear(nn.Linear, Configurable):
    @dataclass(kw_only=True, slots=True)
    class Config(Configurable.Config):
        in_features: int
        out_features: int
        bias: bool = False

    def __init__(self, config: Config) -> None:
        super().__init__(config.in_features, config.out_features, bias=config.bias)


class ScaledLinear(Linear):
    @dataclass(kw_only=True, slots=True)
    class Config(Linear.Config):
        pass

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        return 2 * super().forward(input)


class GroupedExperts(nn.Module, Configurable):
    @dataclass(kw_only=True, slots=True)
    class Config(Configurable.Config):
        dim: int
        hidden_dim: int
        num_experts: int

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.num_experts, config.hidden_dim, config.dim))

    def forward(self, x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        offs = sizes.cumsum(dim=0, dtype=torch.int32)
        return self._grouped_mm(A=x.bfloat16(), B_t=self.weight.bfloat16().transpose(-2, -1), offs=offs).type_as(x)

    def _grouped_mm(self, *, A: torch.Tensor, B_t: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return torch._grouped_mm(A, B_t, offs=offs)


class BiasedExperts(GroupedExperts):
    @dataclass(kw_only=True, slots=True)
    class Config(GroupedExperts.Config):
        bias: float = 0.0

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.bias = config.bias

    def forward(self, x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        return super().forward(x, sizes) + self.bias


class Model(nn.Module, Configurable):
    @dataclass(kw_only=True, slots=True)
    class Config(Configurable.Config):
        layers: list[Any]
        experts: Any
        lm_head: Any

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer.build() for layer in config.layers)
        self.experts, self.lm_head = config.experts.build(), config.lm_head.build()


def modules() -> dict[str, ModuleType]:
    """What ``sys.modules`` holds when this stands in for torchtitan."""
    places = {
        "torchtitan.components.quantization": ("QuantizationConverter",),
        "torchtitan.models.common.linear": ("Linear",),
        "torchtitan.models.common.moe": ("GroupedExperts",),
    }
    made: dict[str, ModuleType] = {}
    for path, names in places.items():
        parts = path.split(".")
        for depth in range(1, len(parts) + 1):
            made.setdefault(".".join(parts[:depth]), ModuleType(".".join(parts[:depth])))
        for name in names:
            setattr(made[path], name, getattr(sys.modules[__name__], name))
    return made
