#!/usr/bin/env python3
"""Writes gelu.onnx: standard nodes around demo::gelu, y = 2 gelu(x + bias), for any number of rows of four."""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

constants = {"bias": np.array([-1, -0.5, 0.5, 1], np.float32), "two": np.array(2, np.float32)}
graph = helper.make_graph(
    [
        helper.make_node("Add", ["x", "bias"], ["shifted"], "add"),
        helper.make_node("gelu", ["shifted"], ["activated"], "gelu", domain="demo"),
        helper.make_node("Mul", ["activated", "two"], ["y"], "mul"),
    ],
    "gelu",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 4])],
    [numpy_helper.from_array(array, name) for name, array in constants.items()],
)
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("demo", 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="tenon examples/01_gelu")
onnx.checker.check_model(model)
onnx.save(model, sys.argv[1] if len(sys.argv) > 1 else "gelu.onnx")
