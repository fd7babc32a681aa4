"""Quantise layers to 8 bits: weights once, inputs row by row when the file runs; float64 parts are not changed.

Column j of a layer's weights is about t_j (V_j − 128); row i of its input x is about s_i (q_i − 128), where s_i =
max |x_i| / 127. The product of the unsigned integers q and V is exact on every processor; that of unsigned and
signed ones, which onnxruntime's own tool makes, saturates on some. The tool also has one scale for all rows, so
that one signal with large activations spoils the scores of a whole batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

__all__ = ["quantize"]

LARGEST = np.float32(127)
TINY = np.float32(1e-30)  # the scale of rows of zeros
CONSTANTS: dict[str, NDArray[Any]] = {
    "int8.zero": np.array(128, np.uint8),  # the integer that stands for zero
    "int8.shift": np.array(128, np.float32),
    "int8.largest": np.array(LARGEST),
    "int8.tiny": np.array(TINY),
    "int8.last": np.array([-1], np.int64),  # the axis of a row's entries
}


def quantize(proto: ModelProto) -> bytes:
    """Return the bytes of the same graph with 8-bit matrix products."""
    import onnx

    small = onnx.ModelProto()
    small.CopyFrom(proto)
    writer = _Writer(small)
    del small.graph.node[:], small.graph.value_info[:]
    for node in proto.graph.node:
        small.graph.node.extend(writer.replaced(node))
    _drop_unused(small)
    onnx.checker.check_model(small, full_check=True)
    content: bytes = small.SerializeToString()
    return content


class _Writer:
    """Writes layers with quantised weights; a weight or an input that several layers share is quantised once."""

    def __init__(self, proto: ModelProto) -> None:
        from onnx import TensorProto, numpy_helper

        self.graph = proto.graph
        self.floats = {
            tensor.name: numpy_helper.to_array(tensor)
            for tensor in proto.graph.initializer
            if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2
        }
        for node in proto.graph.node:
            if node.op_type == "Transpose" and node.input[0] in self.floats:
                self.floats[node.output[0]] = self.floats[node.input[0]].T
        self.known: set[str] = set()
        for name, value in CONSTANTS.items():
            self._constant(name, value)

    def replaced(self, node: NodeProto) -> list[NodeProto]:
        """Return the nodes of a layer with 8-bit integers; any other node as it is."""
        from onnx import TensorProto, helper

        options = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        plain = not options.get("transA", 0) and options.get("alpha", 1.0) == options.get("beta", 1.0) == 1.0
        if not (plain and node.op_type in ("Gemm", "MatMul") and node.input[1] in self.floats):
            return [node]
        weights = self._weights(node.input[1], bool(options.get("transB", 0)))
        nodes, x, out = self._rows(node.input[0]), node.input[0], node.output[0]
        c = list(node.input[2:])
        nodes += [
            _node("MatMulInteger", [f"{x}.rows", f"{weights}.V", "int8.zero", "int8.zero"], f"{out}.integer"),
            _node("Cast", [f"{out}.integer"], f"{out}.float", to=TensorProto.FLOAT),
            _node("Mul", [f"{out}.float", f"{x}.s"], f"{out}.rows scaled"),
            _node("Mul", [f"{out}.rows scaled", f"{weights}.t"], f"{out}.product" if c else out),
        ]
        return nodes + ([_node("Add", [f"{out}.product", *c], out)] if c else [])

    def _weights(self, name: str, transposed: bool) -> str:
        """Quantise a weight column by column, and return the name of its parts."""
        part = f"{name}.transposed" if transposed else name
        if part not in self.known:
            W = self.floats[name].T if transposed else self.floats[name]
            t = np.maximum(np.abs(W).max(axis=0) / LARGEST, TINY)
            self._constant(f"{part}.t", t)
            self._constant(f"{part}.V", (np.rint(W / t) + 128).astype(np.uint8))
            self.known.add(part)
        return part

    def _rows(self, x: str) -> list[NodeProto]:
        """Return the nodes that quantise the rows of an input."""
        if f"{x}.rows" in self.known:
            return []
        from onnx import TensorProto

        self.known.add(f"{x}.rows")
        return [
            _node("Abs", [x], f"{x}.abs"),
            _node("ReduceMax", [f"{x}.abs", "int8.last"], f"{x}.most", keepdims=1),
            _node("Div", [f"{x}.most", "int8.largest"], f"{x}.step"),
            _node("Max", [f"{x}.step", "int8.tiny"], f"{x}.s"),
            _node("Div", [x, f"{x}.s"], f"{x}.divided"),
            # 128 is added in float: the cast of a negative number to an unsigned one is undefined.
            _node("Add", [f"{x}.divided", "int8.shift"], f"{x}.shifted"),
            _node("Round", [f"{x}.shifted"], f"{x}.rounded"),
            _node("Cast", [f"{x}.rounded"], f"{x}.rows", to=TensorProto.UINT8),
        ]

    def _constant(self, name: str, value: NDArray[Any]) -> None:
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))


def _node(kind: str, inputs: list[str], output: str, **attributes: Any) -> NodeProto:
    from onnx import helper

    return helper.make_node(kind, inputs, [output], name=output, **attributes)


def _drop_unused(proto: ModelProto) -> None:
    """Remove weights in float that no node reads any more, and transposes of them."""
    graph = proto.graph
    needed = {output.name for output in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            kept.append(node)
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(reversed(kept))
    graph.initializer.extend(constants)
