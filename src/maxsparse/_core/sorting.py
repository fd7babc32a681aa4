"""Sorting in compiled code: numbers in place, indices by their keys, medians.

Numba's own sorts (and its median, percentile, partition, unique and searchsorted) are families of functions that share
one name and differ only in a number that is counted per process. Loaded from the disk cache, one of them may be
linked to another: `np.sort` then leaves its data unsorted (numba issue 10486). They also take seconds to compile.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from maxsparse._core.compiled import kernel

__all__ = ["argsort", "median", "sort"]

RUN = 8  # indices sorted by insertion before they are merged


@kernel()
def sort(values: NDArray[Any]) -> None:
    """Sort `values` in place, in ascending order: Shell's method with Tokuda's gaps.

    Examples
    --------
    >>> import numpy as np
    >>> from maxsparse._core.sorting import sort
    >>> values = np.array([2.0, -1.0, 3.0, 0.0])
    >>> sort(values)
    >>> values
    array([-1.,  0.,  2.,  3.])
    """
    count = values.shape[0]
    gap = 1
    while 9 * gap < 4 * count:
        gap = (9 * gap + 3) // 4
    while gap > 0:
        for i in range(gap, count):
            value, j = values[i], i - gap
            while j >= 0 and values[j] > value:
                values[j + gap] = values[j]
                j -= gap
            values[j + gap] = value
        gap = 4 * gap // 9


@kernel()
def argsort(keys: NDArray[Any], order: NDArray[Any], work: NDArray[Any]) -> None:
    """Set `order` to the indices that put `keys` in ascending order; equal keys keep their order. `work` is scratch.

    Both are integer arrays of the length of `keys`. Short runs are sorted by insertion, then merged.
    """
    count = keys.shape[0]
    for i in range(count):
        order[i] = i
    for start in range(0, count, RUN):
        for i in range(start + 1, min(start + RUN, count)):
            key, j = keys[i], i - 1
            while j >= start and keys[order[j]] > key:
                order[j + 1] = order[j]
                j -= 1
            order[j + 1] = i
    width = RUN
    while width < count:
        for start in range(0, count, 2 * width):
            middle, stop = min(start + width, count), min(start + 2 * width, count)
            left, right = start, middle
            for place in range(start, stop):
                if right >= stop or (left < middle and not keys[order[right]] < keys[order[left]]):
                    work[place] = order[left]
                    left += 1
                else:
                    work[place] = order[right]
                    right += 1
        for place in range(count):
            order[place] = work[place]
        width *= 2


@kernel()
def median(values: NDArray[Any], count: int) -> float:
    """Return the median of the first `count` values, one at least, and leave these sorted."""
    sort(values[:count])
    middle: float = 0.5 * (values[(count - 1) // 2] + values[count // 2])
    return middle
