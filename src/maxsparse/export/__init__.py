"""Export of models as one ONNX file: y in, scores out, preprocessing included."""

from maxsparse.export.convert import Exported, read_model, to_onnx

__all__ = ["Exported", "read_model", "to_onnx"]
