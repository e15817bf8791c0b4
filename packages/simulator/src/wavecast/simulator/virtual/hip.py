"""HIP's module API on a virtual device: what a program asks that loads code objects itself and packs their arguments.

``VirtualDriver.hip`` has it for the active device. The library on a machine with ROCm takes machine code; here it is
the assembly text of the same compilation, as everything is executed from that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from wavecast.simulator.compile.code_object import CodeObject, code_objects_of
from wavecast.simulator.errors import LaunchError

if TYPE_CHECKING:
    from wavecast.simulator.virtual.device import VirtualDevice


class CompiledModule(Protocol):
    """What a program hands to ``load_module``."""

    @property
    def assembly(self) -> str:
        """AMDGCN assembly text with descriptors and metadata."""
        ...

    @property
    def toolchain(self) -> str:
        """Compiler and version."""
        ...


class VirtualHip:
    """Loads modules and launches their functions on a virtual device.

    Args:
        device: Where launches go.
    """

    def __init__(self, device: VirtualDevice) -> None:
        self._device = device

    @property
    def arch(self) -> str:
        """Architecture of the device, ``gfx942``."""
        return self._device.arch

    def address_of(self, tensor: Any) -> int:
        """Device address of a tensor's first element; 0 for None."""
        return 0 if tensor is None else self._device.address_of(tensor)

    def has_own_link(self, device: int, other: int) -> bool:
        """Whether a link of its own joins each two devices of a node, by this one's specification."""
        link = self._device.spec.link
        return link is not None and link.full_mesh

    def current_stream(self) -> int:
        """The stream that launches go to; a node's rank knows itself which one is current."""
        return 0

    def load_module(self, compiled: CompiledModule) -> Mapping[str, CodeObject]:
        """The kernels of a module by name, as ``hipModuleLoadData`` would make them known to the device.

        Raises:
            LaunchError: The module is for another architecture.
        """
        codes = code_objects_of(compiled.assembly, toolchain=compiled.toolchain)
        if codes[0].arch != self.arch:
            raise LaunchError(
                f"the module was compiled for {codes[0].arch}, and {self._device.name} is {self.arch}",
                hint=f"compile it for {self.arch}",
            )
        return {code.name: code for code in codes}

    def get_function(self, module: Mapping[str, CodeObject], name: str) -> CodeObject:
        """A kernel of a module, as ``hipModuleGetFunction`` finds it.

        Raises:
            LaunchError: None has the name.
        """
        if name not in module:
            raise LaunchError(f"the module has no kernel {name!r}", hint=f"it has {', '.join(module)}")
        return module[name]

    def launch(
        self,
        function: CodeObject,
        *,
        grid: Sequence[int],
        block: Sequence[int],
        packed: bytes,
        stream: int,
        tensors: Sequence[Any],
    ) -> None:
        """Launch a kernel with packed arguments, as ``hipModuleLaunchKernel`` with a buffer of them.

        Args:
            function: From ``get_function``.
            grid: Workgroups in x, y, z.
            block: Work-items of a workgroup in x, y, z.
            packed: All arguments as they lie in memory.
            stream: From ``current_stream``.
            tensors: Those whose addresses are in ``packed``.

        Raises:
            LaunchError: The arguments are not as many bytes as the kernel takes, or grid or block do not fit.
        """
        self._device.launch_packed(function, grid=grid, block=block, packed=packed, tensors=tensors)
