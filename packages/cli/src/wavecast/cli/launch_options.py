"""Options that describe a launch of a kernel of a file, for every verb that takes one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Grid = Annotated[str | None, typer.Option(help="Workgroups of the file's kernel: X, X,Y or X,Y,Z.")]
Block = Annotated[str | None, typer.Option(help="Work-items of a workgroup: X, X,Y or X,Y,Z.")]
Arguments = Annotated[
    list[str] | None,
    typer.Option(help="Next argument of the kernel: buf:SIZE:DTYPE:FILL, npy:PATH, i32:5, 0.5, …"),
]
LdsBytes = Annotated[int, typer.Option(min=0, help="Dynamic LDS bytes of the launch.")]
Position = Annotated[str, typer.Option(help="Of the launch in its stream: first or back-to-back.")]
Warm = Annotated[bool, typer.Option("--warm", help="An equal launch just before left its data in caches.")]
Include = Annotated[list[Path] | None, typer.Option("--include", "-I", help="Folder with headers.")]
Define = Annotated[list[str] | None, typer.Option("--define", "-D", help="Macro: NAME or NAME=VALUE.")]
CompileOption = Annotated[list[str] | None, typer.Option(help="Word for the compiler: --compile-option=-O1.")]
