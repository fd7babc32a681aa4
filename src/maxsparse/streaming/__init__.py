"""Signals from a file to a file, chunk by chunk: more than fits into memory, and resumable when a run is killed.

>>> import maxsparse as ms
>>> ms.streaming.FORMATS
('npz', 'parquet', 'zarr', 'npy', 'mat', 'csv')
"""

from maxsparse.streaming.pipeline import Summary, recover, run, solve
from maxsparse.streaming.sources import open_source
from maxsparse.streaming.work import Recover, Solve, Work
from maxsparse.streaming.writers import FORMATS

__all__ = ["FORMATS", "Recover", "Solve", "Summary", "Work", "open_source", "recover", "run", "solve"]
