"""Builds the backend outside the tree, runs models, MiniLM among them, on the CPU and on the backend, and compares the
results. The report of fallbacks must name exactly the operators that the backend lacks."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TENON = os.path.abspath(sys.argv[1])
BUILD = os.path.dirname(TENON)
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Operators of MiniLM for which npu.c has no kernel; for layer_norm it declares the fallback.
LACKS = {"core::cast", "core::div", "core::gather", "core::layer_norm", "core::matmul", "core::mul", "core::sub", "text::mean_pool"}


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


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{command}: {result.stdout[-500:]}{result.stderr[-1500:]}"
    return result.stdout


def fell_back(shown):
    return set(re.findall(r"^(\w+::\w+) +\d+ calls", shown, re.M))


def both(folder, model, libraries, npu, *inputs):
    """Runs a model on the CPU and on the npu. Returns the outputs of both, and what the run on the npu printed."""
    options = [part for library in libraries for part in ("--ops", library)]
    shown = {}
    for name, more in ("cpu", []), ("npu", ["--ops", npu, "--device", "npu"]):
        shown[name] = run(TENON, "run", model, *options, *more, *inputs, "-o", os.path.join(folder, name))
    read = lambda name: {file: np.load(os.path.join(folder, name, file)) for file in os.listdir(os.path.join(folder, name))}
    return read("cpu"), read("npu"), shown["npu"]


def agree(cpu, npu):
    assert cpu.keys() == npu.keys() and cpu
    for name in cpu:
        np.testing.assert_allclose(npu[name], cpu[name], rtol=0, atol=1e-5, err_msg=name)


def small(folder, npu):
    model = os.path.join(folder, "m.onnx")
    make_model(model)
    cpu, device, shown = both(folder, model, [], npu, "-i", "x=random:4", "--dim", "n=3")
    agree(cpu, device)
    assert fell_back(shown) == {"core::matmul"}, fell_back(shown)
    bad = subprocess.run([TENON, "run", model, "--ops", npu, "-i", "zeros", "--device", "gpu"], capture_output=True, text=True)
    assert bad.returncode == 1 and "there is no device 'gpu'" in bad.stderr and "npu" in bad.stderr, bad.stderr
    strict = subprocess.run([TENON, "run", model, "--ops", npu, "-i", "zeros", "--device", "npu"], capture_output=True, text=True, env={**os.environ, "TENON_STRICT": "1"})
    assert strict.returncode == 1 and "core::matmul: no kernel for {npu}" in strict.stderr, strict.stderr


def minilm(folder, npu):
    """Runs the model of the search example, which `make run` creates, on texts of its reference."""
    search = os.path.join(ROOT, "examples", "02_search")
    model, script = os.path.join(BUILD, "run", "minilm.onnx"), os.path.join(search, "make_model.py")
    if not os.path.exists(model) or os.path.getmtime(model) < os.path.getmtime(script):
        run(os.path.join(ROOT, "scripts", "run.sh"), os.path.relpath(BUILD, ROOT), "-q", "May I sell copies?", cwd=ROOT)  # make run: weights, model
    texts = os.path.join(folder, "text_ops.so")
    run(TENON, "build", os.path.join(search, "text_ops.c"), os.path.join(search, "wordpiece.c"), "-l", ":libutf8proc.a", "-o", texts)
    with open(os.path.join(ROOT, "tests", "data", "minilm_reference.json"), encoding="utf-8") as file:
        cases = json.load(file)["cases"][:8]
    np.save(os.path.join(folder, "text.npy"), np.array([case["text"] for case in cases], np.str_))
    cpu, device, shown = both(folder, model, [texts], npu, "-i", f"text=@{folder}/text.npy")
    agree(cpu, device)
    np.testing.assert_allclose(device["embedding.npy"], [case["embedding"] for case in cases], rtol=0, atol=2e-5)
    assert fell_back(shown) == LACKS, fell_back(shown) ^ LACKS
    return np.abs(device["embedding.npy"] - cpu["embedding.npy"]).max()


def main():
    with tempfile.TemporaryDirectory() as folder:
        for file in "npu.c", "story.c":
            shutil.copy(os.path.join(HERE, file), folder)
        npu, story = os.path.join(folder, "npu.so"), os.path.join(folder, "story")
        run(TENON, "build", "npu.c", "-o", npu, cwd=folder)
        run(os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include"), "story.c", "-o", story, "-L", BUILD, "-ltenon", "-lm", f"-Wl,-rpath,{BUILD}", cwd=folder)
        told = run(story, npu)
        assert "npu::scores on meta: [8, 128, 77]" in told and fell_back(told) == {"core::sign"}, told
        for stage in small, minilm:
            place = os.path.join(folder, stage.__name__)
            os.makedirs(place)
            difference = stage(place, npu)
        conformance = os.path.join(BUILD, "tests", "test_conformance_library")
        if os.path.exists(conformance):
            shown = run(conformance, env={**os.environ, "TENON_CONFORMANCE_LIBRARY": npu, "TENON_CONFORMANCE_BACKEND": "npu"})
            assert "0 failed, 0 skipped" in shown, shown
    print(f"MiniLM on the npu is {difference:.1e} from the CPU's; just {len(LACKS)} operators fell back")


if __name__ == "__main__":
    main()
