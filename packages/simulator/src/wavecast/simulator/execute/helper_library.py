"""The helper library: forms compiled to machine code once, and kept in the user's cache for this host's processor."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import platformdirs
from llvmlite import ir

from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.form import Form
from wavecast.simulator.execute.object_store import ObjectStore
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.ptx.registry import warp_operation
from wavecast.simulator.execute.registry import operation
from wavecast.simulator.program import instruction
from wavecast.simulator.program.instruction import PTX

# Helpers per object file: LLVM's cost grows faster than linearly in a module's size.
_CHUNK = 64


class HelperLibrary:
    """Addresses of compiled helpers; any number of threads and processes may share the directory.

    Args:
        directory: Where compiled objects are kept; None for the user's cache directory.
    """

    def __init__(self, directory: Path | None = None) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._machine = _target_machine()
        backing = llvm.parse_assembly("")
        self._engine = llvm.create_mcjit_compiler(backing, self._machine)
        root = directory or Path(platformdirs.user_cache_dir("wavecast")) / "helpers"
        self._store = ObjectStore(root / fingerprint())
        self._addresses: dict[str, int] = {}
        self._lock = threading.Lock()

    def addresses(self, forms: Iterable[Form]) -> dict[Form, int]:
        """Addresses of the helpers for these forms, compiling what no earlier run has compiled.

        Raises:
            UnsupportedInstructionError: A form that no entry of the opcode table can emit.
        """
        wanted = {form.symbol: form for form in forms}
        with self._lock:
            missing = [symbol for symbol in wanted if symbol not in self._addresses]
            if missing:
                for code, symbols in self._store.find(missing):
                    self._add(code, symbols)
                absent = sorted(symbol for symbol in missing if symbol not in self._addresses)
                for start in range(0, len(absent), _CHUNK):
                    self._compile([wanted[symbol] for symbol in absent[start : start + _CHUNK]])
            return {form: self._addresses[symbol] for symbol, form in wanted.items()}

    def _add(self, code: bytes, symbols: Iterable[str]) -> None:
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        for symbol in symbols:
            address = self._engine.get_function_address(symbol)
            if address:
                self._addresses.setdefault(symbol, address)

    def _compile(self, forms: list[Form]) -> None:
        module = emit_module(forms)
        parsed = llvm.parse_assembly(str(module))
        parsed.verify()
        tuning = llvm.create_pipeline_tuning_options(speed_level=1)
        # What is worth a vector already is one; a loop over lanes that LLVM vectorises again gathers lane by lane.
        tuning.loop_vectorization = tuning.slp_vectorization = False
        passes = llvm.create_pass_builder(self._machine, tuning).getModulePassManager()
        passes.run(parsed, llvm.create_pass_builder(self._machine, tuning))
        code = self._machine.emit_object(parsed)
        symbols = [form.symbol for form in forms]
        self._store.keep(code, symbols)
        self._add(code, symbols)


def emit_module(forms: Iterable[Form]) -> ir.Module:
    """LLVM IR of the helpers for these forms.

    Raises:
        UnsupportedInstructionError: A form that no entry can emit.
    """
    module = ir.Module(name="helpers")
    module.triple = llvm.get_process_triple()
    for form in forms:
        try:
            _emit(module, form)
        except NotImplementedError as error:
            raise UnsupportedInstructionError(f"{form.opcode} ({form.encoding or 'plain'}): {error}") from None
        except (IndexError, KeyError) as error:
            # An entry reads the operands that its opcode has, and looks up modifiers in tables.
            raise UnsupportedInstructionError(
                f"{form.opcode} ({form.encoding or 'plain'}) has {len(form.operands)} operands and modifiers "
                f"{dict(form.modifiers)}, which do not fit: {type(error).__name__} {error}"
            ) from error
    return module


def _emit(module: ir.Module, form: Form) -> None:
    """Add the helper of one form."""
    if form.encoding == PTX:
        warp = warp_operation(form.opcode)
        if warp is None:
            raise NotImplementedError("no such opcode")
        of_warp = WarpEmitter(module, form)
        warp.emit(of_warp)
        of_warp.finish()
        return
    entry = operation(form.opcode)
    if entry is None:
        raise NotImplementedError("no such opcode")
    emitter = Emitter(module, form)
    entry.emit(emitter)
    emitter.finish()


def _target_machine() -> llvm.TargetMachine:
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        # 64 lanes fill whole 512-bit registers; LLVM would halve them by default to protect the clock of scalar code.
        features["prefer-256-bit"] = False
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=2, reloc="pic", codemodel="jitdefault", jit=True
    )


def emitter_sources() -> list[Path]:
    """The modules that decide what is emitted: all of this stage, and the numbers of the scalar slots."""
    return [*sorted(Path(__file__).parent.rglob("*.py")), Path(instruction.__file__)]


def fingerprint() -> str:
    """Changes whenever the emitted code could: emitter sources, LLVM, processor."""
    digest = hashlib.sha256()
    digest.update(llvmlite.__version__.encode())
    digest.update(repr(llvm.llvm_version_info).encode())
    digest.update(llvm.get_host_cpu_name().encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    for source in emitter_sources():
        digest.update(source.read_bytes())
    return digest.hexdigest()[:24]
