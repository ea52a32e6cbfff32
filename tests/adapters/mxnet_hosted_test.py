"""MXNet's operator libraries, loaded unmodified: beside real MXNet 1.7, 1.8 and 1.9 (interface 7, 10 and 11), in C, NumPy, PyTorch and graphs."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-mxnet-")
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np
import torch

import tenon
import tenon.torch
import mxnet_cases
import mxnet_oracle
import totals

SOURCES = os.path.join(ROOT, "tests", "adapters", "mxnet")
VERSIONS = {7: "1.7", 10: "1.8", 11: "1.9"}
NAMES = {"float32": "f32", "float64": "f64"}
compared = {"calls": 0}

PROGRAM = """
mx.library.load(library, verbose=False)
def array(a, layout):
    made = mx.nd.array(a, dtype=a.dtype)
    return made if layout == "default" else made.tostype(layout)
def keep(case, way, outputs, inputs, want):
    for o, out in enumerate(outputs): found[f"{case}/{way}/out{o}"] = out.asnumpy()
    for i, one in enumerate(inputs): found[f"{case}/{way}/in{i}"] = one.asnumpy()
for case, c in plan.items():
    arrays = [given[f"{case}/{i}"] for i in range(c["count"])]
    heads = [mx.nd.array(given[f"{case}/head{o}"], dtype=given[f"{case}/head{o}"].dtype) for o in range(c["heads"])]
    if c["seed"] is not None: mx.random.seed(c["seed"], ctx=mx.cpu(0))
    if "nd" in c["where"]:
        inputs = [array(a, l) for a, l in zip(arrays, c["layouts"])]
        if heads:
            for one in inputs: one.attach_grad()
        for _ in range(c["calls"]):
            if heads:
                with mx.autograd.record(): outputs = getattr(mx.nd, c["op"])(*inputs, **c["attributes"])
            else: outputs = getattr(mx.nd, c["op"])(*inputs, **c["attributes"])
            outputs = outputs if isinstance(outputs, list) else [outputs]
        if heads:
            mx.autograd.backward(outputs, heads)
            for i, one in enumerate(inputs): found[f"{case}/nd/grad{i}"] = one.grad.asnumpy()
        keep(case, "nd", outputs, inputs, c)
    if "sym" in c["where"]:
        names = [f"x{i}" for i in range(len(arrays))]
        symbol = getattr(mx.sym, c["op"])(*[mx.sym.Variable(n) for n in names], **c["attributes"])
        args = {n: mx.nd.array(a, dtype=a.dtype) for n, a in zip(names, arrays)}
        grads = {n: mx.nd.zeros(a.shape, dtype=a.dtype) for n, a in zip(names, arrays)}
        bound = symbol.bind(mx.cpu(), args, args_grad=grads)
        for _ in range(c["calls"]): outputs = bound.forward(is_train=True)
        bound.backward(heads)
        for i, n in enumerate(names): found[f"{case}/sym/grad{i}"] = grads[n].asnumpy()
        keep(case, "sym", outputs, [args[n] for n in names], c)
"""


def plain(version):
    made = os.path.join(FOLDER, f"libplain_{version}.so")
    if not os.path.exists(made):
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-O2", "-fPIC", "-shared", f"-DVERSION={version}", os.path.join(SOURCES, "plain.c"), "-o", made, "-lm"], check=True)
    return made


def header(version):
    """Builds the library against the header that MXNet's wheel carries. None: the header is missing, or incomplete (1.8 lacks a source)."""
    made, python = os.path.join(FOLDER, f"libheader_{version}.so"), mxnet_oracle.python(VERSIONS[version])
    if version == 10 or not python:
        return None
    if not os.path.exists(made):
        wheel = mxnet_oracle.package(VERSIONS[version])
        more = [] if version == 7 else [os.path.join(wheel, "src", "lib_api.cc")]
        subprocess.run(["c++", "-std=c++11", "-w", "-O2", "-fPIC", "-shared", f"-DVERSION={version}", os.path.join(SOURCES, "header.cc"), *more, "-I" + os.path.join(wheel, "include"), "-I" + os.path.join(wheel, "include", "mxnet"), "-o", made], check=True)
    return made


def texts(attributes):
    return [f"{k}={v}" for k, v in attributes.items()]


def sparse(array, layout):
    if layout == "csr":
        rows, columns = np.nonzero(array)
        return tenon.csr(array[rows, columns], columns, np.searchsorted(rows, np.arange(array.shape[0] + 1)), array.shape)
    rows = np.flatnonzero(np.any(array != 0, axis=1))
    return tenon.row_sparse(array[rows], rows, array.shape)


def dense(tensor):
    return np.asarray(tensor.to_dense() if isinstance(tensor, tenon.Tensor) and tensor.layout != "dense" else tensor)


class Beside(unittest.TestCase):
    """Runs every case in each version of MXNet that is installed."""

    def beside(self, version, library, cases):
        if not mxnet_oracle.python(VERSIONS[version]):
            self.skipTest(f"MXNet {VERSIONS[version]} is not there: make test-mxnet makes .venv-mxnet-{VERSIONS[version]}")
        given, plan = {}, {}
        for name, c in cases.items():
            given.update({f"{name}/{i}": a for i, a in enumerate(c["inputs"])})
            given.update({f"{name}/head{o}": a for o, a in enumerate(c["heads"] or ())})
            plan[name] = {"op": c["op"], "count": len(c["inputs"]), "heads": len(c["heads"] or ()), "calls": c["calls"], "layouts": c["layouts"], "seed": c["seed"], "where": c["where"], "attributes": c["attributes"]}
        found = mxnet_oracle.run(f"library, plan = {library!r}, {plan!r}\n" + PROGRAM, VERSIONS[version], **given)
        ops = tenon.load(library)
        tenon.torch.register(ops)
        for name, c in cases.items():
            for way in c["where"]:
                with self.subTest(case=name, way=way):
                    self.one(ops, c, lambda what: found[f"{name}/{way}/{what}"], way)
                    compared["calls"] += 1

    def one(self, ops, c, wanted, way):
        inputs = [a.copy() if l == "default" else sparse(a, l) for a, l in zip(c["inputs"], c["layouts"])]
        op = getattr(ops, c["op"])
        is_list = any(p["kind"] == "Tensor[]" for p in op.parameters)
        if way == "nd":
            if c["seed"] is not None:
                tenon.seed(c["seed"])
            for _ in range(c["calls"]):
                made = op(list(inputs), **c["attributes"]) if is_list else op(*inputs, **c["attributes"])
        else:
            b = tenon.graph.Builder()
            values = [b.input(f"x{i}", NAMES[a.dtype.name], list(a.shape)) for i, a in enumerate(inputs)]
            if is_list:
                return  # the builder in Python needs the number of results
            value = getattr(getattr(tenon.graph.ops, ops.name), c["op"])(*values, **c["attributes"])
            run = b.finish({f"y{o}": v for o, v in enumerate(value if isinstance(value, tuple) else (value,))}).compile()
            for _ in range(c["calls"]):
                made = run(*inputs)
        made = made if isinstance(made, (tuple, list)) else [made]
        for o, one in enumerate(made):
            np.testing.assert_array_equal(dense(one), wanted(f"out{o}"))
            self.assertEqual(dense(one).dtype, wanted(f"out{o}").dtype)
        if way == "nd":
            for i, (one, layout) in enumerate(zip(inputs, c["layouts"])):
                np.testing.assert_array_equal(dense(one), wanted(f"in{i}"), err_msg="an input, which may be written to")
            if c["heads"] and c["op"] not in ("t_counter",):
                self.gradients(ops, c, is_list, wanted)

    def gradients(self, ops, c, is_list, wanted):
        """By PyTorch's autograd, which calls the library's own gradients."""
        leaves = [torch.from_numpy(a.copy()).requires_grad_(w != "null") for a, w in zip(c["inputs"], c["wants"])]
        op = getattr(getattr(torch.ops, ops.name), c["op"])
        times = 2 if "add" in c["wants"] else 1
        for _ in range(times):
            made = op(leaves, attributes=texts(c["attributes"])) if is_list else op(*leaves, attributes=texts(c["attributes"]))
            made = made if isinstance(made, (tuple, list)) else [made]
            torch.autograd.backward(list(made), [torch.from_numpy(h) for h in c["heads"]])
        for i, (leaf, want) in enumerate(zip(leaves, c["wants"])):
            if want == "null":
                self.assertIsNone(leaf.grad)
            else:
                np.testing.assert_array_equal(leaf.grad.numpy(), times * wanted(f"grad{i}"))


class Uses(unittest.TestCase):
    """Tests that need no MXNet."""

    def test_a_program_in_c(self):
        program = os.path.join(FOLDER, "host")
        subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1", "-g", os.path.join(SOURCES, "host.c"), "-I" + os.path.join(ROOT, "include"), "-L" + BUILD, "-ltenon", "-Wl,-rpath," + BUILD, "-lpthread", "-o", program], check=True)
        # The program counts the memory in use. The allocator's caches of free blocks would be part of it.
        environment = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
        run = subprocess.run([program, *(plain(v) for v in VERSIONS)], capture_output=True, text=True, env=environment)
        self.assertEqual((run.returncode, run.stdout.splitlines()[-1:]), (0, ["ok"]), run.stderr)

    def test_the_file_is_read_once(self):
        program = f"import sys; sys.path.insert(0, {os.path.join(BUILD, 'python')!r}); import tenon\nfor _ in range(3): tenon.load({plain(11)!r}, unloadable=True).unload()"
        words = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "LD_DEBUG": "files"})
        self.assertEqual(words.returncode, 0, words.stderr[-500:])
        self.assertEqual(words.stderr.count(f"calling init: {plain(11)}"), 1)

    def test_in_pytorch_compiled(self):
        ops = tenon.load(plain(11))
        tenon.torch.register(ops)
        a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True)
        gemm = torch.ops.plain_11.t_gemm
        self.assertEqual(set(torch.library.opcheck(gemm.default, (a, b)).values()), {"SUCCESS"})
        self.assertEqual(set(torch.library.opcheck(torch.ops.plain_11.t_sumdiff.default, (a, a)).values()), {"SUCCESS"})
        compiled = torch.compile(lambda a, b: gemm(a * 2, b).relu().sum(), fullgraph=True)
        for x, y in ((a, b), (torch.randn(5, 4, requires_grad=True), torch.randn(4, 1, requires_grad=True))):
            expected = (x * 2 @ y).relu().sum()
            found = compiled(x, y)
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(torch.autograd.grad(found, (x, y)), torch.autograd.grad(expected, (x, y)))
        x = torch.randn(3, requires_grad=True)
        made = torch.ops.plain_11.t_counter(x, attributes=["factor=2"])  # its gradient uses the object of its call
        self.assertEqual(made.requires_grad, True)
        torch.autograd.grad(made.sum(), x)
        exported = torch.export.export(_Product(gemm), (a.detach(), b.detach()))
        torch.testing.assert_close(exported.module()(a, b), a @ b)

    def test_a_saved_graph(self):
        ops = tenon.load(plain(11))
        b = tenon.graph.Builder()
        x = b.input("x", "f32", ["n", 3])
        graph = b.finish({"y": tenon.graph.ops.plain_11.t_scale(tenon.graph.ops.core.add(x, 1.0), factor="4")})
        path = os.path.join(FOLDER, "scale.onnx")
        graph.save(path)
        data = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(tenon.graph.load(path).compile()(data), (data + 1) * 4)
        self.assertIn("factor=4", graph.text())

    def test_many_threads(self):
        ops = tenon.load(plain(11))
        wrong = []

        def work(k):
            for i in range(200):
                if not np.array_equal(ops.t_scale(np.full(5, k, np.float32), factor=i), np.full(5, k * i, np.float32)):
                    wrong.append((k, i))
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        self.assertEqual(wrong, [])

    def test_seeds(self):
        library = header(11)
        if not library:
            self.skipTest("MXNet 1.9 is not there: make test-mxnet makes .venv-mxnet-1.9")
        ops, x = tenon.load(library), np.zeros(50, np.float32)
        made = []
        for seed in (3, 4, 3):
            tenon.seed(seed)
            made.append([ops.h_noise(x) for _ in range(3)])
        np.testing.assert_array_equal(made[0], made[2])
        self.assertEqual(len({one.tobytes() for run in made[:2] for one in run}), 6)

    def test_where_an_operator_comes_from(self):
        ops = tenon.load(plain(10))
        self.assertIn("MXNet's operator t_counter, of library interface 10.", ops.t_counter.doc)
        self.assertIn("Has state; on cpu; has a gradient.", ops.t_counter.doc)
        self.assertIn("writes to inputs", ops.t_running.doc)
        self.assertEqual((ops.name, ops.version), ("plain_10", "10"))
        shown = subprocess.run([os.path.join(BUILD, "tenon"), "show", "plain_10::t_csr_scale", "--ops", plain(10)], capture_output=True, text=True)
        self.assertIn("interface 10", shown.stdout + shown.stderr)
        listed = subprocess.run([os.path.join(BUILD, "tenon"), "ops", plain(10)], capture_output=True, text=True)
        self.assertIn("t_gemm", listed.stdout + listed.stderr)
        told = subprocess.run([os.path.join(BUILD, "tenon"), "doctor", "--load", plain(10)], capture_output=True, text=True)
        self.assertRegex(told.stdout, "bridge: +mxnet")
        self.assertIn(f"loads:         yes, as plain_10 10, with {len([n for n in dir(ops) if 't_' in n])} operators", told.stdout)


class _Product(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, a, b):
        return self.op(a, b)


for _version in VERSIONS:
    def _plain(self, version=_version):
        self.beside(version, plain(version), mxnet_cases.PLAIN)
    setattr(Beside, f"test_symbols_alone_{_version}", _plain)
    if _version != 10:
        def _header(self, version=_version):
            library = header(version)
            if not library:
                self.skipTest(f"MXNet {VERSIONS[version]} is not there: make test-mxnet makes .venv-mxnet-{VERSIONS[version]}")
            self.beside(version, library, mxnet_cases.HEADER)
        setattr(Beside, f"test_own_header_{_version}", _header)

if __name__ == "__main__":
    totals.main(lambda: compared["calls"])
