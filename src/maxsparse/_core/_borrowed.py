"""Which compiled functions need not count references to arrays.

Numba counts the references to every array whenever it is passed on, also inside a NamedTuple, with instructions that
all threads wait for. Its optimiser removes few of them from loops that call functions: there they took four fifths of
the time of a search. A function that makes no array and is given none by what it calls only borrows those of its
caller, which outlive it: it need not count.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir, types
from numba.core.compiler import DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import IRLegalization

__all__ = ["borrowing"]

# Expressions whose arrays are those of their operands: parts of tuples, views of rows, tuples of what is there.
PASSED_ON = {"getattr", "getitem", "static_getitem", "cast", "phi", "build_tuple", "exhaust_iter", "pair_first"}


def borrowing(state: Any) -> Any:
    """Return numba's passes for a function, with a look before the last ones whether it only borrows its arrays."""
    passes = DefaultPassBuilder.define_nopython_pipeline(state)
    passes.add_pass_after(_Borrow, IRLegalization)
    passes.finalize()
    return passes


@register_pass(mutates_CFG=False, analysis_only=True)
class _Borrow(AnalysisPass):
    """Generate code without counts where none are needed."""

    _name = "borrow"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        if not _holds_arrays(state, state.return_type) and not any(_owns(state, each) for each in _assignments(state)):
            state.targetctx = state.targetctx.subtarget(enable_nrt=False)
        return False


def _assignments(state: Any) -> list[ir.Assign]:
    return [each for block in state.func_ir.blocks.values() for each in block.find_insts(ir.Assign)]


def _owns(state: Any, assignment: ir.Assign) -> bool:
    """Return whether the function itself must give back what it assigns here."""
    value = assignment.value
    if not isinstance(value, ir.Expr) or not _holds_arrays(state, state.typemap[assignment.target.name]):
        return False
    if value.op == "call":
        return not isinstance(state.typemap[value.func.name], types.NamedTupleClass)
    return value.op not in PASSED_ON


def _holds_arrays(state: Any, kind: types.Type) -> bool:
    return bool(state.targetctx.data_model_manager[kind].contains_nrt_meminfo())
