"""Optional packages: a missing one is reported with what to install."""

from __future__ import annotations

from typing import Any

__all__ = ["needs"]

# module → name of the package, extra of maxsparse that installs it
EXTRAS = {
    "torch": ("torch", "train"),
    "onnx": ("onnx", "export"),
    "onnxscript": ("onnxscript", "export"),
    "onnxruntime": ("onnxruntime", "export"),
    "dask": ("dask", "cluster"),
    "distributed": ("dask.distributed", "cluster"),
    "zarr": ("zarr", "cluster"),
    "pyarrow": ("pyarrow", "tables"),
    "PIL": ("Pillow", "stereo"),
    "cv2": ("OpenCV", "stereo"),
    "OpenEXR": ("OpenEXR", "stereo"),
    "trimesh": ("trimesh", "stereo"),
    "rawpy": ("rawpy", "raw"),
    "mne": ("MNE-Python", "brain"),
    "spectral": ("spectral", "spectra"),
    "mitsuba": ("Mitsuba", "reproduce"),
    "pymeshfix": ("pymeshfix", "reproduce"),
}


class needs:
    """Import an optional package, or raise an ImportError that says how to install it.

    Parameters
    ----------
    purpose : str
        What the package is needed for, as the subject of a sentence.

    Examples
    --------
    >>> with needs("training"):
    ...     raise ModuleNotFoundError("No module named 'torch'", name="torch")
    Traceback (most recent call last):
        ...
    ImportError: training needs torch: pip install 'maxsparse[train]'
    """

    def __init__(self, purpose: str) -> None:
        self.purpose = purpose

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, ModuleNotFoundError):
            return
        module = (error.name or "").split(".")[0]
        if module in EXTRAS:
            package, extra = EXTRAS[module]
            raise ImportError(
                f"{self.purpose} needs {package}: pip install 'maxsparse[{extra}]'", name=module
            ) from error
