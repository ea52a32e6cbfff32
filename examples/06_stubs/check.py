"""Builds the library, runs a model with the best built-in loops and with the stub of this library, and compares with
NumPy."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TENON = pathlib.Path(sys.argv[1]).resolve()
HERE = pathlib.Path(__file__).resolve().parent


def make_model(path):
    nodes = [helper.make_node("Transpose", ["x"], ["turned"], perm=[0, 2, 1]), helper.make_node("Sub", ["turned", "y"], ["d"]),
             helper.make_node("span", ["d", "axes"], ["s"], domain="stubs"), helper.make_node("span", ["turned", "axis"], ["t"], domain="stubs")]
    constants = [numpy_helper.from_array(np.array([0, -1]), "axes"), numpy_helper.from_array(np.array([1]), "axis")]
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", [value("x", [4, 300, 50]), value("y", [300])], [value("d", None), value("s", None), value("t", None)], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("stubs", 1)], ir_version=9), path)


def main():
    text = (HERE / "stubs.c").read_text()
    longest = max(body.count("\n") + 1 for body in re.findall(r"^static tenon_status_t (?:sub_part|sub|span)\(.*?^}|^static tenon_status_t sub\(.*?}$", text, re.M | re.S))
    assert longest <= 20, f"a stub of {longest} lines"
    random = np.random.default_rng(1)
    x, y = random.standard_normal((4, 300, 50)).astype(np.float32), random.standard_normal(300).astype(np.float32)
    d = x.transpose(0, 2, 1) - y
    expected = {"d": d, "s": np.ptp(d, axis=(0, 2), keepdims=True), "t": np.ptp(x.transpose(0, 2, 1), axis=1, keepdims=True)}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        np.save(folder / "x.npy", x), np.save(folder / "y.npy", y)
        make_model(folder / "m.onnx")

        def tenon(*arguments, capability=""):
            return subprocess.run([TENON, *map(str, arguments)], cwd=folder, check=True, capture_output=True, text=True, env={**os.environ, "TENON_CPU_CAPABILITY": capability}).stdout

        tenon("build", HERE / "stubs.c", "-o", "stubs.so")
        for capability in "", "default":
            tenon("run", "m.onnx", "--ops", "./stubs.so", "-i", "x=@x.npy", "-i", "y=@y.npy", "-o", ".", capability=capability)
            for name, array in expected.items():
                np.testing.assert_array_equal(np.load(folder / f"{name}.npy"), array)
        chosen = re.search(r"^  (.*) \(chosen\)$", tenon("show", "core::sub", "--ops", "./stubs.so", capability="default"), re.M).group(1)
        assert chosen == "cpu stub f32 strided from stubs", chosen
        rows = {row["name"]: row for row in json.loads(tenon("ops", "--stubs", "--json", "./stubs.so"))}
        assert rows["stubs::span"]["stub"] == "x over axes" and [slot["kernel"] for slot in rows["stubs::span"]["slots"]] == ["cpu stub f32 strided"]
        assert rows["core::sub"]["slots"][0] == {"backend": "cpu", "capability": "", "kernel": "cpu stub f32 strided", "library": "stubs"}
    print(f"stubs of at most {longest} lines; differences and spans equal NumPy's")


if __name__ == "__main__":
    main()
