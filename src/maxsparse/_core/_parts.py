"""How compiled functions call each other: a function becomes part of each kernel that uses it, and is optimised there.

By itself, numba also turns every function into machine code of its own, optimises it again in each function that calls
it, and again in their callers. That is most of the time to compile. It also makes the first run differ from later ones
in the last bits: a kernel that was just compiled calls the machine code of its functions, one that is loaded from the
disk cache calls the copies that were stored with it, which have been optimised twice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from llvmlite import binding as llvm
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

from maxsparse._core._borrowed import borrowing
from maxsparse._core._stored import Stored

__all__ = ["Kernel"]


class Kernel(CPUDispatcher):
    """A function compiled on first use: with an entry where Python calls it, as a part where compiled code does."""

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], *, apart: bool = False, alone: bool = False
    ) -> None:
        options = {**options, "nopython": True, "no_cfunc_wrapper": True}
        compiler: Any = partial(_Entry, apart=apart)
        super().__init__(function, targetoptions=options, pipeline_class=compiler)
        with suppress(RuntimeError):  # there is no folder to write to, or the code has no file
            self.enable_caching()
            cache: Any = vars(self)["_cache"]
            cache._cache_file = Stored(self, cache)
        inner = {**options, "no_cpython_wrapper": True}
        compiler = partial(_Part, apart=apart, alone=alone)
        self.part = _PartDispatcher(function, targetoptions=inner, pipeline_class=compiler)

    @property
    def _numba_type_(self) -> types.Dispatcher:
        """What compiled code finds under the name of this function."""
        return types.Dispatcher(self.part)


class _PartDispatcher(CPUDispatcher):
    """What compiled code calls: compiled once for integers, not again for each constant."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(
            tuple(types.unliteral(arg) for arg in args), {name: types.unliteral(arg) for name, arg in kws.items()}
        )


class _Compiler(Compiler):
    """Numba's compiler, with a promise that numba has a flag for but no option: arrays do not overlap."""

    def __init__(self, *state: Any, apart: bool) -> None:
        super().__init__(*state)
        if apart:
            self.state.flags.noalias = True


class _Entry(_Compiler):
    """For what Python calls."""

    def define_pipelines(self) -> Any:
        self.state.library = _EntryLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class _Part(_Compiler):
    """Up to LLVM's intermediate code, for what compiled code calls."""

    def __init__(self, *state: Any, apart: bool, alone: bool) -> None:
        super().__init__(*state, apart=apart)
        self.alone = alone

    def define_pipelines(self) -> Any:
        library = _PartLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        library.alone = self.alone
        self.state.library = library
        return [borrowing(self.state)]


class _EntryLibrary(JITCodeLibrary):
    """Machine code of a kernel with all its parts, which no other kernel sees.

    Numba tells functions of one name apart by a number that is counted anew in every process (numba issue 10486). Code
    from the disk cache may then be linked to another function of this process that has the same name and number.
    """

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.linkonce_odr:
                function.linkage = llvm.Linkage.internal
        super()._optimize_final_module()


class _PartLibrary(JITCodeLibrary):
    """Intermediate code of a function and of what it calls, neither optimised nor turned into machine code."""

    alone = False

    def add_ir_module(self, ir_module: Any) -> None:
        if self.alone:
            for function in ir_module.functions:
                if not function.is_declaration:
                    function.attributes.add("noinline")
        super().add_ir_module(ir_module)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        # Here numba writes the address of the function's environment as soon as the function is compiled.
        for variable in self._final_module.global_variables:
            if variable.name.startswith("_ZN08NumbaEnv"):
                self._codegen._engine.add_module(llvm.parse_assembly(f'@"{variable.name}" = common global i64 0\n'))
        self._codegen._engine.finalize_object()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # there is no machine code
