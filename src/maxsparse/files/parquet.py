"""Tables of numbers in parquet files: one column per measurement, or one column of lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.extras import needs

__all__ = ["ParquetTable"]

GROUP_LIMIT = 2**31  # bytes of one row group in memory


class ParquetTable:
    """A parquet file as an (N, width) array of numbers, read one row group at a time.

    Parameters
    ----------
    path : the file.
    key : name of a column of lists of equal length; None reads all columns.
    """

    def __init__(self, path: Path, key: str | None = None) -> None:
        with needs("reading parquet"):
            import pyarrow.parquet as parquet
        self._file = parquet.ParquetFile(path)
        schema = self._file.schema_arrow
        if key is not None and key not in schema.names:
            raise ValueError(f"it has no column {key!r}, only {', '.join(schema.names)}")
        self.columns = schema.names if key is None else [key]
        groups = [self._file.metadata.row_group(i) for i in range(self._file.num_row_groups)]
        self.starts = np.concatenate([[0], np.cumsum([group.num_rows for group in groups], dtype=np.int64)])
        for group in groups:
            claimed = max(group.num_rows * 8 * len(self.columns), group.total_byte_size)
            if group.num_rows < 0 or claimed > GROUP_LIMIT:
                raise ValueError(f"one of its row groups claims {claimed:,} bytes; write it with smaller row groups")
        self._held: tuple[int, NDArray[Any]] | None = None
        first = self._group(0) if groups else np.zeros((0, len(self.columns)))
        self.shape = (int(self.starts[-1]), int(first.shape[1]))
        self.dtype = first.dtype

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows start to stop, (stop − start, width)."""
        pieces = []
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        for index in range(first, len(self.starts) - 1):
            begin = int(self.starts[index])
            if begin >= stop:
                break
            pieces.append(self._group(index)[max(0, start - begin) : stop - begin])
        return np.concatenate(pieces) if pieces else np.zeros((0, self.shape[1]), dtype=self.dtype)

    def _group(self, index: int) -> NDArray[Any]:
        if self._held is None or self._held[0] != index:
            table = self._file.read_row_group(index, columns=self.columns)
            columns = [_numbers(table.column(name), name) for name in self.columns]
            self._held = index, columns[0] if len(columns) == 1 else np.column_stack(columns)
        return self._held[1]


def _numbers(column: Any, name: str) -> NDArray[Any]:
    """Return a column as (N, 1), or as (N, k) if it holds lists of k numbers."""
    import pyarrow as pa

    if column.null_count:
        raise ValueError(f"column {name!r} has {column.null_count} missing values; fill or remove them")
    kind, width = column.type, 1
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        column = column.combine_chunks()
        array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
        count = len(array)
        column = array.flatten()
        kind = column.type
        lengths = {len(item) for item in array} if count else {0}
        if len(lengths) > 1:
            raise ValueError(f"the lists in column {name!r} differ in length")
        width = lengths.pop()
        if column.null_count:
            raise ValueError(f"column {name!r} has missing values; fill or remove them")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ValueError(f"column {name!r} holds {kind}, not numbers")
    flat = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    return np.asarray(flat).reshape(-1, width)
