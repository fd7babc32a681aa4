"""Functions that only borrow arrays count no references; those that make arrays do, and leave nothing behind."""

from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from maxsparse._core.compiled import kernel


class Two(NamedTuple):
    first: np.ndarray
    second: np.ndarray


@kernel()
def total(values):
    result = 0.0
    for value in values:
        result += value
    return result


@kernel()
def larger(two):
    """Swaps names, looks at rows, builds a tuple: all of it borrowed."""
    a, b = two.first, two.second
    if total(b[0]) > total(a[0]):
        a, b = b, a
    swapped = Two(b, a)
    return total(swapped.second[0]) - total(swapped.first[0])


@kernel()
def copied(values):
    return total(values.copy()) + total(values * 2.0) + total(np.sort(values))


@kernel()
def chosen(two, which):
    """Returns an array, which then has an owner more."""
    return two.first if which else two.second


@kernel()
def of_chosen(two, which):
    kept = chosen(two, which)
    return total(kept[0])


@kernel()
def from_python(two):
    return larger(two), copied(two.first[0]), of_chosen(two, True), of_chosen(two, False)


def counts(function, *arguments):
    """Whether the code of a part counts references: in what it does itself, not in what it calls."""
    function.part.compile(tuple(numba.typeof(argument) for argument in arguments))  # not loaded from the disk
    done = next(iter(function.part.overloads.values()))
    own = done.fndesc.llvm_func_name
    body = next(f for f in done.library._final_module.functions if f.name == own)
    return "NRT_incref" in str(body) or "NRT_decref" in str(body)


@pytest.fixture
def two():
    return Two(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0], [7.0, 8.0]]))


def test_answers_are_those_of_python(two):
    a, b = two.first[0], two.second[0]
    assert from_python(two) == (b.sum() - a.sum(), 4 * a.sum(), a.sum(), b.sum())


def test_who_counts(two):
    assert not counts(total, two.first[0])
    assert not counts(larger, two)
    assert counts(copied, two.first[0])
    assert counts(chosen, two, True)
    assert counts(of_chosen, two, True)


@pytest.fixture
def allocations():
    was = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    yield rtsys.get_allocation_stats
    if not was:
        _nrt_python.memsys_disable_stats()


def test_nothing_is_left_and_nothing_freed_twice(two, allocations):
    from_python(two)
    before = allocations()
    for _ in range(100):
        from_python(two)
    after = allocations()
    assert after.alloc - before.alloc >= 100  # the copies
    assert after.alloc - before.alloc == after.free - before.free
    assert two.first.sum() == 10.0
