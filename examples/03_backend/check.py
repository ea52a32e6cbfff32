"""Builds the backend, runs a model on the CPU and on it, and compares; the report must name just what the backend lacks."""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TENON = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))


def make_model(path):
    random = np.random.default_rng(1)
    weight = numpy_helper.from_array(random.standard_normal((6, 5)).astype(np.float32), "weight")
    nodes = [helper.make_node("MatMul", ["x", "weight"], ["product"]), helper.make_node("Softmax", ["product"], ["soft"], axis=1),
             helper.make_node("Shape", ["soft"], ["shape"]), helper.make_node("Erf", ["soft"], ["bent"]),
             helper.make_node("Reshape", ["bent", "flat"], ["line"]), helper.make_node("Transpose", ["soft"], ["turned"], perm=[1, 0]),
             helper.make_node("Split", ["turned", "halves"], ["upper", "lower"], axis=0), helper.make_node("Tanh", ["upper"], ["y"])]
    constants = [weight, numpy_helper.from_array(np.array([-1], np.int64), "flat"), numpy_helper.from_array(np.array([2, 3], np.int64), "halves")]
    value = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    outputs = [value("y", TensorProto.FLOAT, None), value("line", TensorProto.FLOAT, None), value("lower", TensorProto.FLOAT, None), value("shape", TensorProto.INT64, None)]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", 6])], outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def main():
    with tempfile.TemporaryDirectory() as folder:
        model, library = os.path.join(folder, "m.onnx"), os.path.join(folder, "npu.so")
        make_model(model)
        subprocess.run([TENON, "build", os.path.join(HERE, "npu.c"), "-o", library], check=True, capture_output=True)
        shown = {}
        for name, options in ("cpu", []), ("npu", ["--device", "npu"]):
            command = [TENON, "run", model, "--ops", library, "-i", "x=random:4", "--dim", "n=3", "-o", os.path.join(folder, name), *options]
            shown[name] = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for output in "y", "line", "lower", "shape":
            cpu, npu = (np.load(os.path.join(folder, name, f"{output}.npy")) for name in ("cpu", "npu"))
            np.testing.assert_allclose(npu, cpu, rtol=1e-5, atol=1e-5)
        lacks = set(re.findall(r"^(core::\w+) +\d+ calls", shown["npu"], re.M))
        assert lacks == {"core::matmul"}, f"fell back: {lacks}"
        bad = subprocess.run([TENON, "run", model, "--ops", library, "-i", "zeros", "--device", "gpu"], capture_output=True, text=True)
        assert bad.returncode == 1 and "no library has a kernel for it" in bad.stderr and "npu" in bad.stderr, bad.stderr
        strict = subprocess.run([TENON, "run", model, "--ops", library, "-i", "zeros", "--device", "npu"], capture_output=True, text=True, env={**os.environ, "TENON_STRICT": "1"})
        assert strict.returncode == 1 and "core::matmul: no kernel for {npu}" in strict.stderr, strict.stderr
    print("a model on the npu equals the CPU's; only core::matmul fell back")


if __name__ == "__main__":
    main()
