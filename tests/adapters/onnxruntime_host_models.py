"""Writes the models of the programs in C that run ONNX Runtime under the sanitizers (scripts/sanitize.sh): an input x and an output y of [2, 2] f32.

Usage: onnxruntime_host_models.py FOLDER       writes provider.onnx, and operators.onnx with a node demo::gelu
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write(name, nodes, constants=(), domains=()):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy")
    graph = helper.make_graph(nodes, "graph", [x], [y], list(constants))
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), os.path.join(sys.argv[1], name))


weights = numpy_helper.from_array(np.float32([[1, 2], [-1, 0.5]]), "w")
write("provider.onnx", [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Softmax", ["a"], ["b"]), helper.make_node("MatMul", ["b", "w"], ["c"]),
                        helper.make_node("Add", ["c", "a"], ["y"])], [weights])
write("operators.onnx", [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("gelu", ["a"], ["y"], domain="demo")], domains=["demo"])
