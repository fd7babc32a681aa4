"""Quantise weights of layers to 8 bits, activations dynamically; float64 parts are not changed."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["quantize"]


def quantize(proto: ModelProto) -> bytes:
    """Return the bytes of the same graph with 8-bit matrix products."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    double = {tensor.name for tensor in proto.graph.initializer if tensor.data_type == onnx.TensorProto.DOUBLE}
    # Whitening multiplies rounding errors of y by the condition number of Φ: it must stay in float64.
    kept = [node.name for node in proto.graph.node if double & set(node.input)]
    bare = onnx.ModelProto()
    bare.CopyFrom(proto)
    del bare.graph.value_info[:]  # shapes of weights, which are transposed below
    root = logging.getLogger()
    level = root.level
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        target = Path(folder) / "int8.onnx"
        root.setLevel(logging.ERROR)  # it recommends preprocessing that our graphs do not need
        try:
            quantize_dynamic(bare, target, weight_type=QuantType.QInt8, per_channel=True, nodes_to_exclude=kept)
        finally:
            root.setLevel(level)
        return target.read_bytes()
