"""Models for other programs: one ONNX file, preprocessing inside, y in and scores out."""

from maxsparse.export.convert import Exported, read_model, to_onnx

__all__ = ["Exported", "read_model", "to_onnx"]
