"""A limit on the memory of tensors, TENON_MEMORY_LIMIT: a loop that never ends meets it with an error, from the command and in Python. What the
failed run had is free again, and other runs go on."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import onnx
from onnx import TensorProto as T, helper as h

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(ROOT / "tests/adapters")]
import totals  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()
LOOP, NEG = (str(Path(FOLDER.name, name)) for name in ("loop.onnx", "neg.onnx"))
WORDS = "node 'endless'.*out of memory: .* needs [0-9]+ bytes, but tensors have [0-9]+ bytes already, and the limit is {}: .*TENON_MEMORY_LIMIT"


def value(name, dtype, shape):
    return h.make_tensor_value_info(name, dtype, shape)


def save(nodes, inputs, outputs, path):
    graph = h.make_graph(nodes, "g", inputs, outputs)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def make_models():
    body = h.make_graph([h.make_node("Identity", ["on"], ["on_next"]), h.make_node("Add", ["state", "one"], ["state_next"]),
                         h.make_node("Identity", ["state_next"], ["item"])], "body",
                        [value("i", T.INT64, []), value("on", T.BOOL, []), value("state", T.FLOAT, [1000])],
                        [value("on_next", T.BOOL, []), value("state_next", T.FLOAT, [1000]), value("item", T.FLOAT, [1000])],
                        [h.make_tensor("one", T.FLOAT, [1], [1.0])])
    save([h.make_node("Loop", ["count", "on", "x"], ["y", "all"], name="endless", body=body)],
         [value("count", T.INT64, []), value("on", T.BOOL, []), value("x", T.FLOAT, [1000])],
         [value("y", T.FLOAT, [1000]), value("all", T.FLOAT, ["n", 1000])], LOOP)
    save([h.make_node("Neg", ["x"], ["y"])], [value("x", T.FLOAT, ["n"])], [value("y", T.FLOAT, ["n"])], NEG)


def run(limit, *command, timeout=600):
    environment = {**os.environ, "TENON_MEMORY_LIMIT": limit, "PYTHONPATH": str(BUILD / "python")}
    return subprocess.run(list(map(str, command)), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)


class Memory(unittest.TestCase):
    def test_a_loop_that_never_ends_meets_the_limit(self):
        for limit, size in (("64M", 64 << 20), ("300000K", 300000 << 10)):
            found = run(limit, BUILD / "tenon", "run", LOOP, "-i", f"count={2**62}", "-i", "on=1", "-i", "x=ones")
            self.assertNotEqual(found.returncode, 0)
            self.assertRegex(found.stdout, WORDS.format(size))

    def test_the_memory_of_a_failed_run_is_free_again(self):
        program = f"""
import numpy as np, tenon
loop, neg = tenon.graph.load({LOOP!r}).compile(), tenon.graph.load({NEG!r}).compile()
x = np.ones(1000, np.float32)
for _ in range(5):
    y, all = loop(count=np.array(3), on=np.array(True), x=x)
    assert y[0] == 4 and all.shape == (3, 1000) and all[2, 0] == 4, (y[0], all.shape)
    try:
        loop(count=np.array(2**62), on=np.array(True), x=x)
        raise SystemExit("it ended")
    except MemoryError as error:
        print(error)
    assert neg(x=np.ones(10 << 20, np.float32))[0] == -1  # 40 of the 64 MiB
"""
        found = run("64M", sys.executable, "-c", program)
        self.assertEqual(found.returncode, 0, found.stdout)
        self.assertEqual(len(found.stdout.splitlines()), 5)
        for line in found.stdout.splitlines():
            self.assertRegex(line, WORDS.format(64 << 20))

    def test_a_tensor_beyond_the_limit_is_refused_and_a_smaller_one_is_not(self):
        for count, fits in ((1 << 20, True), (4 << 20, False)):  # the input and the output have 4 bytes for each
            found = run("16M", BUILD / "tenon", "run", NEG, "-d", f"n={count}", "-i", "ones")
            self.assertEqual(found.returncode == 0, fits, found.stdout)
            self.assertEqual("TENON_MEMORY_LIMIT" in found.stdout, not fits, found.stdout)

    def test_a_limit_that_is_no_number_is_refused_and_zero_is_none(self):
        for text in ("2x", "-1", "1.5G", "12MB", "99999999999999999999"):
            found = run(text, BUILD / "tenon", "run", NEG, "-i", "ones")
            self.assertNotEqual(found.returncode, 0)
            self.assertIn(f"TENON_MEMORY_LIMIT is '{text}': expected a number of bytes", found.stdout)
        for text in ("0", "", "1T"):
            self.assertEqual(run(text, BUILD / "tenon", "run", NEG, "-i", "ones").returncode, 0)
        self.assertIn("no limit for tensors", run("0", BUILD / "tenon", "doctor").stdout)
        self.assertIn("at most 512 MiB for tensors", run("512M", BUILD / "tenon", "doctor").stdout)


if __name__ == "__main__":
    make_models()
    totals.main()
