"""Sparse tensors in Python: made of arrays, in calls and graphs, from and to matrices of scipy.sparse.  Reference values are NumPy's
and SciPy's.  Run with a Python that has NumPy (.venv), and with one that has SciPy too (.venv-zoo)."""
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
if not os.environ.get("TENON_INSTALLED"):  # otherwise the package installed in this Python is tested
    sys.path.insert(0, os.path.join(BUILD, "python"))

import numpy as np  # noqa: E402

import tenon  # noqa: E402
import totals  # noqa: E402

try:
    import scipy.sparse as scipy_sparse
except ImportError:
    scipy_sparse = None
FOLDER = tempfile.mkdtemp(prefix="tenon-sparse-")
os.environ["TENON_CACHE"] = os.path.join(FOLDER, "cache")
core = tenon.ops.core
DENSE = np.array([[5, 0, 6], [0, 0, 0], [0, 7, 0], [1, 2, 3]], np.float32)
WHOLE = '#include "contract.h"\nTENON_LIBRARY(contract, "1", TENON_GROUP(contract_sparse))\n'
needs_scipy = unittest.skipUnless(scipy_sparse, "scipy is not installed (make test makes .venv-zoo, which has it)")


def library():
    folder = os.path.join(ROOT, "tests/libraries/contract")
    whole = os.path.join(FOLDER, "whole.c")
    with open(whole, "w", encoding="ascii") as file:
        file.write(WHOLE)
    return tenon.load(whole, os.path.join(folder, "sparse.c"), options=["-I" + folder, "-I" + os.path.join(ROOT, "include")])


def random_matrix(rows, columns, seed):
    random = np.random.default_rng(seed)
    return (random.standard_normal((rows, columns)) * (random.random((rows, columns)) < 0.3)).astype(np.float32)


def csr_parts(dense):
    rows, columns = np.nonzero(dense)
    return dense[rows, columns], columns.copy(), np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=dense.shape[0]))])


def csr(dense):
    return tenon.csr(*csr_parts(dense), dense.shape)


def rows_of(dense):
    rows = np.flatnonzero(dense.reshape(dense.shape[0], -1).any(axis=1))
    return tenon.row_sparse(dense[rows], rows, dense.shape)


class Making(unittest.TestCase):
    def test_a_csr_matrix_shares_the_arrays_that_it_was_made_of(self):
        values, columns, ends = csr_parts(DENSE)
        x = tenon.csr(values, columns, ends, (4, 3))
        self.assertEqual((x.layout, x.shape, x.dtype, x.ndim, x.size, x.device), ("csr", (4, 3), "f32", 2, 12, "cpu"))
        self.assertEqual(x.values.data_ptr, values.ctypes.data)
        self.assertEqual(x.indices.data_ptr, columns.ctypes.data)
        self.assertEqual((x.indices.tolist(), x.indptr.tolist()), ([0, 2, 1, 0, 1, 2], [0, 2, 2, 3, 6]))
        del values, columns, ends
        np.testing.assert_array_equal(x.to_dense().numpy(), DENSE)
        self.assertEqual(repr(x), "tenon.Tensor(f32[4, 3], cpu, csr, 6 stored)")
        self.assertIn("csr, 6 stored", x._repr_html_())
        self.assertEqual(len(x), 4)

    def test_a_row_sparse_tensor_has_rows_of_any_shape(self):
        dense = np.zeros((5, 2, 3))
        dense[[1, 4]] = np.arange(12).reshape(2, 2, 3)
        x = rows_of(dense)
        self.assertEqual((x.layout, x.shape, x.dtype), ("row_sparse", (5, 2, 3), "f64"))
        self.assertEqual((x.values.shape, x.indices.tolist(), x.indptr), ((2, 2, 3), [1, 4], None))
        np.testing.assert_array_equal(x.to_dense().numpy(), dense)

    def test_indices_of_other_integers_and_arrays_with_strides_are_copied(self):
        wide = np.arange(6, dtype=np.float64)[::2]
        x = tenon.csr(wide, np.array([0, 1, 0], np.int32), np.array([0, 2, 3], np.uint8), [2, 2])
        self.assertEqual((x.values.tolist(), x.indices.dtype, x.indptr.dtype), ([0, 2, 4], "i64", "i64"))
        np.testing.assert_array_equal(x.to_dense().numpy(), [[0, 2], [4, 0]])

    def test_invalid_sparse_tensors_are_refused(self):
        good = csr_parts(DENSE)
        for bad, why in (((good[0], good[1] + 1, good[2]), "index 1 of a csr tensor is 3: expected 0 to 2"),
                         ((good[0], good[1], good[2][:-1]), "the indptr of a csr tensor have shape"),
                         ((good[0][1:], good[1], good[2]), "the indices of a csr tensor have shape"),
                         ((good[0], good[1].astype("f4"), good[2]), "are f32: expected i64"),
                         ((good[0], good[1][::-1].copy(), good[2]), "strictly ascending indices")):
            with self.assertRaises(tenon.InvalidError) as caught:
                tenon.csr(*bad, (4, 3))
            self.assertIn(why, str(caught.exception))
        with self.assertRaises(TypeError):
            tenon.csr([1.0], *good[1:], (4, 3))
        with self.assertRaises(tenon.InvalidError):
            tenon.row_sparse(DENSE, np.arange(4), (4, 5))
        self.assertEqual(tenon.csr(good[0], good[1][::-1].copy(), good[2], (4, 3), check=False).layout, "csr")

    def test_dense_tensors_have_the_layout_dense(self):
        x = tenon.tensor([1.0, 2.0])
        self.assertEqual((x.layout, x.values, x.indices, x.indptr), ("dense", None, None, None))
        self.assertIs(x.to_dense(), x)

    def test_what_a_sparse_tensor_cannot_become_is_refused(self):
        x = csr(DENSE)
        for call in (x.numpy, x.tolist, x.item, lambda: np.asarray(x), lambda: x.to("sim"), x.__dlpack__, lambda: np.from_dlpack(x)):
            with self.assertRaisesRegex((tenon.UnimplementedError, BufferError), "csr"):
                call()
        copy = x.copy()
        self.assertNotEqual(copy.values.data_ptr, x.values.data_ptr)
        np.testing.assert_array_equal(copy.to_dense().numpy(), DENSE)


class Calls(unittest.TestCase):
    def test_to_sparse_and_back(self):
        for dense in (DENSE, random_matrix(17, 9, 1), np.zeros((3, 2), np.float32), DENSE.astype(np.complex64) * 1j, DENSE.astype(np.int16), DENSE > 0):
            for layout in "csr", "row_sparse":
                x = core.to_sparse(dense, layout=layout)
                self.assertIsInstance(x, tenon.Tensor)
                self.assertEqual(x.layout, layout)
                np.testing.assert_array_equal(x.to_dense().numpy(), dense)

    def test_operators_of_a_library(self):
        ops, a, x = library(), random_matrix(23, 11, 2), random_matrix(11, 5, 3)
        np.testing.assert_allclose(ops.csr_dot(csr(a), x), a @ x, rtol=1e-5, atol=1e-6)
        turned = ops.csr_transpose(csr(a))
        self.assertEqual((turned.layout, turned.shape), ("csr", (11, 23)))
        np.testing.assert_array_equal(turned.to_dense().numpy(), a.T)
        rows = a * (np.arange(23) % 3 == 0)[:, None]
        np.testing.assert_array_equal(ops.row_scale(rows_of(rows), by=3.0).to_dense().numpy(), rows * 3)
        np.testing.assert_array_equal(ops.csr_threshold(a, least=0.5).to_dense().numpy(), np.where(abs(a) >= 0.5, a, 0))
        np.testing.assert_array_equal(ops.csr_pack(csr(rows)).to_dense().numpy(), rows[rows.any(axis=1)])

    def test_results_that_are_given(self):
        ops, a = library(), random_matrix(4, 4, 4)
        out = csr(np.zeros((4, 4), np.float32))
        self.assertIs(ops.csr_transpose(csr(a), out=out), out)
        np.testing.assert_array_equal(out.to_dense().numpy(), a.T)
        with self.assertRaises(tenon.InvalidError):
            ops.csr_transpose(csr(a), out=np.zeros((4, 4), np.float32))

    def test_other_operators_refuse_them_by_name(self):
        with self.assertRaisesRegex(tenon.UnimplementedError, r'core::neg: input x is sparse \(csr\), and no kernel says "sparse": make it dense first'):
            core.neg(csr(DENSE))

    def test_memory_does_not_grow(self):
        ops, a = library(), csr(DENSE)
        sizes = []
        for _ in range(6):
            for _ in range(3000):
                ops.csr_transpose(a)
                tenon.csr(*csr_parts(DENSE), (4, 3)).to_dense()
            with open("/proc/self/statm", encoding="ascii") as file:
                sizes.append(int(file.read().split()[1]) * 4096)
        self.assertLess(sizes[-1] - sizes[1], 1 << 20, sizes)


class Graphs(unittest.TestCase):
    def test_inputs_values_and_outputs_may_be_sparse(self):
        library()
        nodes, b = tenon.graph.ops.contract, tenon.graph.Builder()
        a, x = b.input("a", "f32", ["n", "m"], layout="csr"), b.input("x", "f32", ["n", 2])
        self.assertEqual((a.layout, x.layout), ("csr", "dense"))
        turned = nodes.csr_transpose(a)
        self.assertEqual((turned.layout, turned.shape), ("csr", ["m", "n"]))
        graph = b.finish({"y": nodes.csr_dot(turned, x), "t": turned})
        self.assertIn("f32[n, m] csr", graph.text())
        run = graph.compile()
        for seed in 5, 6:
            matrix, dense = random_matrix(7, 4 + seed, seed), random_matrix(7, 2, seed + 10)
            y, t = run(csr(matrix), dense)
            np.testing.assert_allclose(y, matrix.T @ dense, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(t.to_dense().numpy(), matrix.T)
        with self.assertRaisesRegex(tenon.InvalidError, "input 'a': expected a csr tensor, found a dense tensor"):
            run(matrix, dense)

    def test_a_weight_may_be_sparse(self):
        library()
        b, weight = tenon.graph.Builder(), random_matrix(6, 5, 7)
        x = b.input("x", "f32", [5, None])
        graph = b.finish({"y": tenon.graph.ops.contract.csr_dot(b.constant(csr(weight)), x)})
        dense = random_matrix(5, 3, 8)
        np.testing.assert_allclose(graph.compile()(dense), weight @ dense, rtol=1e-5, atol=1e-6)

    def test_misuse_is_refused(self):
        library()
        b = tenon.graph.Builder()
        for layout, shape in (("coo", [2, 2]), ("csr", [2]), ("csr", None), ("row_sparse", [])):
            with self.assertRaises(tenon.InvalidError):
                b.input("bad", "f32", shape, layout=layout)
        a = b.input("bad", "f32", [2, 2], layout="csr")  # the name is still free
        with self.assertRaisesRegex(tenon.UnimplementedError, "no kernel of the operator is declared \"sparse\""):
            tenon.graph.ops.core.neg(a)
        graph = b.finish({"t": tenon.graph.ops.contract.csr_transpose(a)})
        with self.assertRaisesRegex(tenon.UnimplementedError, "sparse"):
            graph.save(os.path.join(FOLDER, "sparse.onnx"))
        with self.assertRaisesRegex(tenon.UnimplementedError, "sparse"):
            graph.compile(device="sim")


@needs_scipy
class SciPy(unittest.TestCase):
    def test_scipy_matrices_are_arguments_and_results(self):
        ops, dense = library(), random_matrix(13, 8, 9)
        for kind in scipy_sparse.csr_matrix, scipy_sparse.csr_array:
            a, x = kind(dense), random_matrix(8, 3, 10)
            y = ops.csr_dot(a, x)
            self.assertIsInstance(y, np.ndarray)
            np.testing.assert_allclose(y, a @ x, rtol=1e-5, atol=1e-6)
            turned = ops.csr_transpose(a)
            self.assertIs(type(turned), kind)
            self.assertEqual((turned != a.T.tocsr()).nnz, 0)
            np.testing.assert_array_equal(core.to_dense(a), dense)

    def test_duplicates_are_summed_and_the_matrix_stays_as_it_is(self):
        a = scipy_sparse.csr_matrix((np.array([1.0, 2, 3]), np.array([2, 0, 2]), np.array([0, 3, 3])), shape=(2, 3))
        np.testing.assert_array_equal(core.to_dense(a), a.toarray())
        self.assertEqual(a.indices.tolist(), [2, 0, 2])

    def test_other_formats_and_given_results_are_refused(self):
        for other in scipy_sparse.coo_matrix(DENSE), scipy_sparse.csc_matrix(DENSE):
            with self.assertRaisesRegex(TypeError, f"in csr format, found format '{other.format}': convert it with x.tocsr"):
                core.to_dense(other)
        with self.assertRaises(TypeError):
            library().csr_transpose(csr(DENSE), out=scipy_sparse.csr_matrix((3, 4), dtype=np.float32))

    def test_results_equal_those_of_scipy(self):
        for seed in range(20):
            dense = random_matrix(1 + seed, 2 + seed % 5, seed)
            x, theirs = core.to_sparse(dense), scipy_sparse.csr_matrix(dense)
            np.testing.assert_array_equal(x.values.numpy(), theirs.data)
            np.testing.assert_array_equal(x.indices.numpy(), theirs.indices)
            np.testing.assert_array_equal(x.indptr.numpy(), theirs.indptr)


if __name__ == "__main__":
    totals.main()
