"""torch.compile: our operators where Inductor's micro-pipeline of tensor parallelism puts its own.

Inductor finds collectives beside products and joins them into ``torch.ops.symm_mem``'s fused operators. A pass behind
that puts ``torch.ops.wavecast``'s in their place, which see the environment variables when they run:

    with async_tp():
        compiled = torch.compile(model)
        compiled(x)  # the first call compiles
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

from wavecast.kernels import group_ops

Arguments = tuple[Any, ...]


@contextmanager
def async_tp() -> Iterator[None]:
    """Have what is compiled inside overlap collectives with products by this package's operators.

    Raises:
        RuntimeError: another pass has the place behind Inductor's own.
    """
    if config.post_grad_custom_post_pass is not None:
        raise RuntimeError(
            "torch._inductor.config.post_grad_custom_post_pass is set; call AsyncTpPass()(graph) from that pass, and "
            "set torch._inductor.config._micro_pipeline_tp"
        )
    with config.patch(_micro_pipeline_tp=True, post_grad_custom_post_pass=AsyncTpPass()):
        yield


class AsyncTpPass(CustomGraphPass):
    """Replaces the fused operators of ``torch.ops.symm_mem`` in a graph.

    Those that have a result scale, or no dtype for FP8 operands, or scatter a scaled product with a bias or reshaped,
    stay.
    """

    def __call__(self, graph: Graph) -> None:
        """Change the graph in place."""
        replacements: dict[Any, tuple[Any, Callable[[Node], Arguments | None]]] = {
            torch.ops.symm_mem.fused_all_gather_matmul.default: (group_ops.all_gather_matmul, _gather),
            torch.ops.symm_mem.fused_all_gather_scaled_matmul.default: (group_ops.all_gather_matmul, _scaled_gather),
            torch.ops.symm_mem.fused_matmul_reduce_scatter.default: (group_ops.matmul_reduce_scatter, _scatter),
            torch.ops.symm_mem.fused_scaled_matmul_reduce_scatter.default: (
                group_ops.matmul_reduce_scatter,
                _scaled_scatter,
            ),
        }
        for node in list(graph.nodes):
            operator, arguments_of = replacements.get(node.target, (None, None))
            arguments = arguments_of(node) if arguments_of is not None else None
            if operator is None or arguments is None:
                continue
            with graph.inserting_before(node):
                replacement = graph.call_function(operator, arguments)
            replacement.meta.update(node.meta)
            node.replace_all_uses_with(replacement)
            graph.erase_node(node)

    def uuid(self) -> Any:
        """What compiled code that is kept depends on."""
        return get_hash_for_files((__file__,))


def _dtype(node: Node) -> torch.dtype:
    value: torch.Tensor = node.meta["val"]
    return value.dtype


def _gather(node: Node) -> Arguments:
    a_shard, bs, gather_dim, group_name = node.args
    return_gathered = node.kwargs.get("return_A", True)
    nothing = [None] * len(bs)  # type: ignore[arg-type]
    dtypes = [_dtype(a_shard)] * len(bs)  # type: ignore[arg-type]
    return a_shard, bs, group_name, gather_dim, None, nothing, nothing, dtypes, return_gathered


def _scaled_gather(node: Node) -> Arguments | None:
    a_shard, bs, a_scale, b_scales, gather_dim, group_name, biases, result_scales, out_dtypes, _ = node.args
    if any(scale is not None for scale in result_scales) or None in out_dtypes:  # type: ignore[union-attr, operator]
        return None
    return a_shard, bs, group_name, gather_dim, a_scale, b_scales, biases, out_dtypes, True


def _scatter(node: Node) -> Arguments:
    a, b, reduce_op, scatter_dim, group_name = node.args
    return a, b, group_name, reduce_op, scatter_dim, None, None, _dtype(a)  # type: ignore[arg-type]


def _scaled_scatter(node: Node) -> Arguments | None:
    given = (*node.args, None, None, None, False)[:13]
    a, b, a_scale, b_scale, reduce_op, scatter_dim, _, group_name, shape, bias, result_scale, out_dtype, _ = given
    ndim = a.meta["val"].ndim  # type: ignore[union-attr]
    if bias is not None or result_scale is not None or out_dtype is None or len(shape) != ndim:  # type: ignore[arg-type]
        return None
    return a, b, group_name, reduce_op, scatter_dim, a_scale, b_scale, out_dtype
