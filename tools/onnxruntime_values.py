"""Computes every value of a model by ONNX Runtime, for `tenon compare --against onnxruntime`.

Usage: onnxruntime_values.py MODEL FROM TO.  Reads the inputs from the folder FROM (values.txt of `tenon run --values`), and writes
TO/values.txt and a .npy file for each value and output.
"""
import os
import sys


def fail(words):
    print(words, file=sys.stderr)
    sys.exit(1)


try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as error:
    fail(f"{error}: install it into the interpreter that --python names: pip install onnxruntime onnx")

NAMES = {"float16": "f16", "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128", "bool": "bool",
         **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)}, **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)}}


def read_inputs(folder):
    with open(os.path.join(folder, "values.txt"), encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    for row in rows:
        if row[0] == "input" and row[2] not in NAMES.values() and row[2] != "string":
            fail(f"input '{row[3]}' is {row[2]}, a dtype that NumPy does not support")
    return {row[3]: np.load(os.path.join(folder, row[1])) for row in rows if row[0] == "input"}


def main(model_path, source, target):
    model = onnx.load(model_path)
    inputs = read_inputs(source)
    outputs = [output.name for output in model.graph.output]
    makers = {name: node for node in model.graph.node for name in node.output if name}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in makers if name not in outputs)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        wanted = {port.name for port in session.get_inputs()}
        names = [port.name for port in session.get_outputs()]
        arrays = session.run(names, {name: array for name, array in inputs.items() if name in wanted})
    except Exception as error:  # ONNX Runtime raises its own classes
        fail(f"ONNX Runtime: {error}")
    os.makedirs(target, exist_ok=True)
    with open(os.path.join(target, "values.txt"), "w", encoding="utf-8") as lines:
        for number, (name, array) in enumerate(zip(names, arrays)):
            if not isinstance(array, np.ndarray) or array.dtype.name not in NAMES:
                continue
            file = f"{number:05d}.npy"
            np.save(os.path.join(target, file), array)
            node = makers.get(name)
            for kind in (["output"] if name in outputs else []) + ["value"]:
                row = kind, file, NAMES[array.dtype.name], name, node.name if node else "", node.op_type if node else ""
                lines.write("\t".join(word.replace("\t", " ").replace("\n", " ") for word in row) + "\n")


main(*sys.argv[1:])
