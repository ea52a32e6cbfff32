"""The example libraries of MXNet's own source tree, compiled unmodified for each version, beside real MXNet. MXNET_SOURCE names a checkout: a git
repository with the tags 1.7.0, 1.8.0 and 1.9.1, or the files of one version. Without it a share of the tests runs, on our own libraries with
the same operators (mxnet/examples), against the headers that MXNet's wheels carry."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-mxnet-examples-")
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np
import torch

import tenon
import tenon.torch
import mxnet_oracle
import totals

SOURCE = os.environ.get("MXNET_SOURCE", "")
TAGS = {7: "1.7.0", 10: "1.8.0", 11: "1.9.1"}
FILES = ["example/extensions", "include/mxnet/lib_api.h", "src/lib_api.cc"]
random = np.random.default_rng(3)


OURS = os.path.join(ROOT, "tests/adapters/mxnet/examples")
of_mxnet_source = unittest.skipUnless(SOURCE, "MXNET_SOURCE names no checkout of MXNet: make mxnet-examples MXNET_SOURCE=DIR")


def build_ours(version, file):
    """Builds our own library in place of an example, with the header and the source file of MXNet's wheel."""
    wheel = mxnet_oracle.package(TAGS[version][:3])
    if not wheel:
        raise unittest.SkipTest(f"MXNet {TAGS[version][:3]} is not there: make test-mxnet makes .venv-mxnet-{TAGS[version][:3]}")
    made = os.path.join(FOLDER, f"lib{os.path.basename(file)[:-3]}_{version}.so")
    more = [os.path.join(wheel, "src/lib_api.cc")] if version > 7 else []
    if not os.path.exists(made):
        subprocess.run(["c++", "-std=c++11", "-w", "-O2", "-fPIC", "-shared", f"-DVERSION={version}", os.path.join(OURS, file), *more, f"-I{wheel}/include/mxnet", f"-I{wheel}/include", "-o", made], check=True)
    return made


def sources(version):
    """Returns the folder with the files of that version, or None."""
    folder = os.path.join(FOLDER, TAGS[version])
    if os.path.isdir(folder):
        return folder
    os.makedirs(folder)
    archive = subprocess.run(["git", "-C", SOURCE, "archive", TAGS[version], *(FILES if version > 7 else FILES[:2])], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if archive.stdout and subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, stderr=subprocess.DEVNULL).returncode == 0 and os.path.exists(os.path.join(folder, FILES[1])):
        return folder
    shutil.rmtree(folder)
    header = os.path.join(SOURCE, FILES[1])
    said = re.search(r"define MX_LIBRARY_VERSION (\d+)", open(header, encoding="utf-8").read()) if os.path.exists(header) else None
    return SOURCE if said and int(said[1]) == version else None


def build(version, file):
    """Builds the library of an example; the test is skipped if the sources of that version are missing."""
    if not SOURCE:
        return build_ours(version, file)
    folder = sources(version)
    path = os.path.join(folder, "example/extensions", file) if folder else ""
    if not os.path.exists(path):
        raise unittest.SkipTest(f"MXNET_SOURCE has no {file} of MXNet {TAGS[version]}")
    made = os.path.join(FOLDER, f"lib{os.path.basename(file)[:-3]}_{version}.so")
    if not os.path.exists(made):
        more = [os.path.join(folder, "src/lib_api.cc")] if version > 7 else []
        subprocess.run(["c++", "-std=c++11", "-w", "-O2", "-fPIC", "-shared", path, *more, f"-I{folder}/include/mxnet", f"-I{folder}/include", "-o", made], check=True)
    return made


def of_mxnet(version, library, program, **given):
    if not mxnet_oracle.python(TAGS[version][:3]):
        raise unittest.SkipTest(f"MXNet {TAGS[version][:3]} is not there: make test-mxnet makes .venv-mxnet-{TAGS[version][:3]}")
    return mxnet_oracle.run(f"mx.library.load({library!r}, verbose=False)\n{program}", TAGS[version][:3], **given)


def csr(array):
    rows, columns = np.nonzero(array)
    return tenon.csr(array[rows, columns], columns, np.searchsorted(rows, np.arange(array.shape[0] + 1)), array.shape)


class Examples(unittest.TestCase):
    def each(self, body):
        for version in TAGS if SOURCE else (7, 11):  # the wheel of 1.8 lacks src/lib_api.cc
            with self.subTest(version=TAGS[version]):
                body(version)

    def test_gemm(self):
        def body(version):
            library = build(version, "lib_custom_op/gemm_lib.cc")
            a, b, d = (random.standard_normal(s).astype("f4") for s in ((3, 4), (4, 5), (3, 5)))
            found = of_mxnet(version, library, """
a, b, d = (mx.nd.array(given[n]) for n in "abd")
for op in "my_gemm", "state_gemm":
    a.attach_grad(), b.attach_grad()
    with mx.autograd.record(): c = getattr(mx.nd, op)(a, b)
    c.backward(d)
    found.update({op + "c": c, op + "a": a.grad.copy(), op + "b": b.grad.copy()})
""", a=a, b=b, d=d)
            ops = tenon.load(library)
            tenon.torch.register(ops)
            for op in ("my_gemm", "state_gemm"):
                x, y = torch.from_numpy(a.copy()).requires_grad_(), torch.from_numpy(b.copy()).requires_grad_()
                c = getattr(getattr(torch.ops, ops.name), op)(x, y)
                c.backward(torch.from_numpy(d))
                for made, name in ((c.detach(), "c"), (x.grad, "a"), (y.grad, "b")):
                    np.testing.assert_array_equal(made.numpy(), found[op + name])
                np.testing.assert_array_equal(getattr(ops, op)(a, b), found[op + "c"])
        self.each(body)

    def test_transposed_csr(self):
        def body(version):
            library = build(version, "lib_custom_op/transposecsr_lib.cc")
            a = np.array([[1, 3, 0, 2, 1], [0, 1, 0, 0, 0], [0, 2, 4, 5, 3]], "f4")
            found = of_mxnet(version, library, """
for op in "my_transposecsr", "my_state_transposecsr":
    made = getattr(mx.nd, op)(mx.nd.array(given["a"]).tostype("csr"))
    found.update({op + "data": made.data, op + "indices": made.indices, op + "indptr": made.indptr})
""", a=a)
            ops = tenon.load(library)
            for op in ("my_transposecsr", "my_state_transposecsr"):
                made = getattr(ops, op)(csr(a))
                self.assertEqual((made.layout, tuple(made.shape)), ("csr", (5, 3)))
                for part, of in (("data", made.values), ("indices", made.indices), ("indptr", made.indptr)):
                    np.testing.assert_array_equal(np.asarray(of), found[op + part])
                with self.assertRaises(tenon.Error):
                    getattr(ops, op)(a)
        self.each(body)

    @of_mxnet_source
    def test_transposed_rows(self):
        def body(version):
            library = build(version, "lib_custom_op/transposerowsp_lib.cc")
            a = np.zeros((5, 3), "f4")
            a[0], a[2] = [1, 2, 3], [4, 0, 5]
            found = of_mxnet(version, library, """
made = mx.nd.my_transposerowsp(mx.nd.array(given["a"]).tostype("row_sparse"))
found.update({"data": made.data, "indices": made.indices})
""", a=a)
            made = tenon.load(library).my_transposerowsp(tenon.row_sparse(a[[0, 2]], np.array([0, 2]), a.shape))
            np.testing.assert_array_equal(np.asarray(made.values), found["data"])
            np.testing.assert_array_equal(np.asarray(made.indices), found["indices"])
        self.each(body)

    def test_libraries_without_operators(self):
        def body(version):
            self.assertEqual(list(tenon.load(build(version, "lib_api/init_lib.cc"))), [])
        self.each(body)

    def chain(self):
        b, ops = tenon.graph.Builder(), tenon.graph.ops.core
        return b.finish({"y": ops.log(ops.exp(ops.add(b.input("a", "f32", [3, 2]), b.input("b", "f32", [3, 2]))))})

    @of_mxnet_source
    def test_subgraph(self):
        def body(version):
            library = build(version, "lib_subgraph/subgraph_lib.cc")
            a, b = (random.random((3, 2)).astype("f4") for _ in range(2))
            found = of_mxnet(version, library, """
args = {n: mx.nd.array(given[n]) for n in "ab"}
for backend in "myProp", "mySelect":
    made = mx.sym.log(mx.sym.exp(mx.sym.var("a") + mx.sym.var("b"))).optimize_for(backend, args)
    found[backend] = made.bind(mx.cpu(), args).forward()[0].asnumpy()
""", a=a, b=b)
            name = tenon.load(library).name
            for backend in ("myProp", "mySelect"):
                made = self.chain().apply(f"{name}::{backend}")
                self.assertEqual([n.op for n in made.nodes], ["core::add", f"{name}::_custom_subgraph_op"])
                self.assertIn("myKey=myVal", made.nodes[1].attributes["attributes"])
                np.testing.assert_array_equal(np.asarray(made.compile()(a, b)), found[backend])
                self.assertEqual([n.op for n in self.chain().apply(f"{name}::{backend}", reject=True).nodes], ["core::add", "core::exp", "core::log"])
                if version > 7:
                    more = made.apply(f"{name}::addInputPass")
                    self.assertEqual((len(more.nodes[1].inputs[0]), len(more.inputs)), (2, 2))
                    self.assertIn("__ext_extra_inputs__=1", more.nodes[1].attributes["attributes"])
                    np.testing.assert_array_equal(np.asarray(more.compile()(a, b)), found[backend])
        self.each(body)

    @of_mxnet_source
    def test_pass(self):
        def body(version):
            name, graph = tenon.load(build(version, "lib_pass/pass_lib.cc")).name, self.chain()
            for each in ["myPass"] + ["jsonPass"] * (version == 7):
                made = graph.apply(f"{name}::{each}", option=1)
                self.assertEqual((made.nodes[0].op, made.inputs, len(made.nodes)), ("core::add", graph.inputs, 3))
        self.each(body)

    @of_mxnet_source
    def test_relu_for_cuda(self):
        if not any(os.path.exists(os.path.join(f, "curand_kernel.h")) for f in ("/usr/include", "/usr/local/cuda/include")) or not shutil.which("nvcc"):
            self.skipTest("relu_lib.cu: there is no nvcc, or no curand_kernel.h")
        self.each(lambda version: build(version, "lib_custom_op/relu_lib.cu"))


if __name__ == "__main__":
    try:
        totals.main()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
