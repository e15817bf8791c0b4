"""Predict a Triton kernel of one's own: launch it on CPU tensors under a virtual device."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from wavecast.simulator.virtual import virtual_device


@triton.jit
def add_rows(x_ptr, y_ptr, total_ptr, n, BLOCK: tl.constexpr):
    """One row of ``x + y``."""
    columns = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    mask = columns < n
    total = tl.load(x_ptr + row + columns, mask=mask) + tl.load(y_ptr + row + columns, mask=mask)
    tl.store(total_ptr + row + columns, total, mask=mask)


def main() -> None:
    """Check the result on a small input, then predict a large one."""
    x, y = torch.randn(64, 4096), torch.randn(64, 4096)
    total = torch.empty_like(x)
    # Every workgroup is executed, so the result is complete.
    with virtual_device("mi300x"):
        add_rows[(64,)](x, y, total, 4096, BLOCK=4096)
    print("result is right:", torch.equal(total, x + y))

    x, y, total = (torch.empty(32768, 4096) for _ in range(3))
    # A sample of the workgroups is enough for time and traffic.
    with virtual_device("mi300x", workgroups="sample") as device:
        add_rows[(32768,)](x, y, total, 4096, BLOCK=4096)
    for launch in device.launches:
        time, traffic = launch.result.time, launch.result.traffic
        print(f"{launch.kernel}: {time.predicted_us:.0f} µs ({time.low_us:.0f} to {time.high_us:.0f})")
        print(
            f"{traffic.hbm_read_bytes / 1e6:.0f} MB read, {traffic.hbm_write_bytes / 1e6:.0f} MB written; {time.cause}"
        )


if __name__ == "__main__":
    main()
