"""Graphs as text: every graph that a case of ONNX's suite or the zoo contains is written, read and written again without a difference.
Two witnesses compare the graphs: the text itself, and the ONNX file that an independent writer makes of each. Run with a Python that has
NumPy, onnx and safetensors (.venv-zoo)."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TENON_BUILD", os.path.join(ROOT, "build"))
DATA = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data")
ZOO = os.path.join(BUILD, "zoo")
IMAGES = os.path.join(BUILD, "companions", "images.so")  # the operator of ONNX's ImageDecoder; it is built where libjpeg and libpng are installed
sys.path.insert(0, os.path.join(BUILD, "python"))

import tenon  # noqa: E402


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def onnx_file(graph, folder):
    """The graph in the ONNX file that tenon_graph_save writes, or the reason why there is none. Extents that are known only after a
    run have numbers in the order of inference there, which depends on the order of the constants."""
    path = os.path.join(folder, "model.onnx")
    try:
        graph.save(path)
    except tenon.Error as error:
        return str(error)
    return re.sub(r'dim_param: "[^"]*\?.*"', 'dim_param: "?"', str(onnx.load(path)))


class Texts(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.first, self.second = (os.path.join(self.folder, name) for name in ("first", "second"))
        os.mkdir(self.first)
        os.mkdir(self.second)

    def again(self, graph):
        """Writes the graph, reads it, and returns what was read after comparing both."""
        written, rewritten = (os.path.join(folder, "model.graph") for folder in (self.first, self.second))
        graph.save(written)
        read = tenon.graph.load(written)
        read.save(rewritten)
        self.assertEqual(contents(written).decode(), contents(rewritten).decode())
        weights = [os.path.join(folder, "model.safetensors") for folder in (self.first, self.second)]
        self.assertEqual(os.path.exists(weights[0]), b"\nweights '" in contents(written))
        if os.path.exists(weights[0]):
            self.assertEqual(contents(weights[0]), contents(weights[1]))
        self.assertEqual(onnx_file(graph, self.first), onnx_file(read, self.second))
        for path in weights:
            if os.path.exists(path):
                os.remove(path)
        return read

    def test_every_case_of_onnx(self):
        if os.path.exists(IMAGES):
            tenon.load(IMAGES)
        for path in sorted(glob.glob(os.path.join(DATA, "*", "*", "model.onnx"))):
            case = os.path.basename(os.path.dirname(path))
            if "image_decoder" in case and not os.path.exists(IMAGES):
                continue
            with self.subTest(case=case):
                self.again(tenon.graph.load(path))

    def test_models_of_the_zoo(self):
        paths = sorted(glob.glob(os.path.join(ZOO, "*.onnx")))
        if not paths:
            self.skipTest(f"{ZOO} has no models (make zoo makes all)")
        for path in paths:
            with self.subTest(model=os.path.basename(path)):
                self.again(tenon.graph.load(path))

    def test_light_models_give_the_same_bits(self):
        for path in sorted(glob.glob(os.path.join(DATA, "light", "*.onnx"))):
            with self.subTest(model=os.path.basename(path)):
                graph = tenon.graph.load(path)
                values = [np.random.default_rng(7).random([4 if not isinstance(d, int) else d for d in shape], np.float32)
                          for _, dtype, shape in graph.inputs]
                first = graph.compile()(*values)
                second = self.again(graph).compile()(*values)
                np.testing.assert_array_equal(first, second)

    def test_a_changed_attribute_is_one_changed_line(self):
        nodes = tenon.graph.ops.core
        texts = []
        for axis in 0, 1:
            b = tenon.graph.Builder()
            y = b.input("x", "f32", ["n", 3, 4])
            for step in range(5):
                y = nodes.relu(nodes.softmax(y, axis=axis if step == 2 else -1))
            b.finish({"y": nodes.concat([y, y], axis=1)}).save(os.path.join(self.first, "model.graph"))
            texts.append(contents(os.path.join(self.first, "model.graph")).decode().splitlines())
        self.assertEqual(len(texts[0]), len(texts[1]))
        different = [(a, b) for a, b in zip(*texts) if a != b]
        self.assertEqual(len(different), 1)
        self.assertRegex(different[0][0], r"core::softmax\(.*axis=0\)")
        self.assertRegex(different[0][1], r"core::softmax\(.*axis=1\)")

    def test_another_program_reads_the_weights(self):
        from safetensors.numpy import load_file

        b = tenon.graph.Builder()
        stored = {"f32": np.arange(40, dtype=np.float32), "i64": np.arange(30), "u8": np.arange(77, dtype=np.uint8).reshape(7, 11),
                  "f16": np.arange(50, dtype=np.float16), "bool": np.arange(20) % 3 == 0}
        values = {name: b.constant(value, name) for name, value in stored.items()}
        b.finish(values).save(os.path.join(self.first, "model.graph"))
        found = load_file(os.path.join(self.first, "model.safetensors"))
        self.assertEqual(sorted(found), sorted(stored))
        for name, value in stored.items():
            np.testing.assert_array_equal(found[name], value)
            self.assertEqual(found[name].dtype, value.dtype)

    def test_the_command_converts_and_runs_a_text(self):
        b = tenon.graph.Builder()
        x = b.input("x", "f32", ["n", 3])
        b.finish({"y": tenon.graph.ops.core.mul(x, b.constant(np.float32([1, 2, 4])))}).save(os.path.join(self.first, "model.onnx"))
        command = os.path.join(BUILD, "tenon")
        text = os.path.join(self.second, "text.graph")
        subprocess.run([command, "convert", os.path.join(self.first, "model.onnx"), text], check=True, capture_output=True)
        run = subprocess.run([command, "run", text, "-i", "x=1,1,1", "-d", "n=1"], check=True, capture_output=True, text=True)
        self.assertRegex(run.stdout, r"y\s+f32 \[1, 3\].*\[1, 2, 4\]")
        self.assertEqual(tenon.graph.load(contents(text)).outputs, tenon.graph.load(text).outputs)


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(ROOT, "tests/adapters"))
    import totals

    totals.main()
