"""An ordinary script for a GPU that knows nothing of a simulator: ``hatch run cli run docs/examples/gpu_script.py``."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"ROWS": rows}, num_warps=4) for rows in (1, 4)], key=["columns"])
@triton.jit
def softmax_rows(source, target, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """``ROWS`` rows of a softmax over the columns."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    place, mask = row * columns + column, (row < rows) & (column < columns)
    value = tl.load(source + place, mask=mask, other=-float("inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, axis=1)[:, None])
    tl.store(target + place, power / tl.sum(power, axis=1)[:, None], mask=mask)


def softmax(source: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension of a matrix."""
    rows, columns = source.shape
    target = torch.empty_like(source)
    grid = lambda meta: (triton.cdiv(rows, meta["ROWS"]),)  # noqa: E731
    softmax_rows[grid](source, target, rows, columns, BLOCK=triton.next_power_of_2(columns))
    return target


if __name__ == "__main__":
    x = torch.randn(1000, 700, device="cuda", dtype=torch.bfloat16)
    torch.testing.assert_close(softmax(x), torch.softmax(x, dim=1))
    print(torch.cuda.get_device_name(), "rows a program:", softmax_rows.best_config.kwargs["ROWS"])
