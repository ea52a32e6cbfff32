"""MXNet's operator libraries, loaded as they are: beside real MXNet 1.7, 1.8 and 1.9 (interface 7, 10 and 11), in C, NumPy, PyTorch and graphs."""
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
    """The library against the header that MXNet's wheel carries; None: there is none, or not all of it (1.8 lacks a source)."""
    made, python = os.path.join(FOLDER, f"libheader_{version}.so"), mxnet_oracle.python(VERSIONS[version])
    if version == 10 or not python:
        return None
    if not os.path.exists(made):
        wheel = subprocess.run([python, "-c", "import importlib.util; print(importlib.util.find_spec('mxnet').submodule_search_locations[0])"], capture_output=True, text=True, check=True, cwd=FOLDER).stdout.strip()
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
    """Every case, in each version of MXNet that is here."""

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
                return  # the builder of Python wants to know how many results there are
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
        """By PyTorch's autograd, which calls the library's own."""
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
