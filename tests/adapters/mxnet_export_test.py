"""Tenon's operators in real MXNet 1.9.1: a library of every kind of operator (mxnet/kit.c), exported and called by mx.nd, by symbols
and by Gluon, with gradients by MXNet's autograd.  Expected values are NumPy's, and those of Tenon's own calls and gradients here."""
import ctypes
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-mxnet-")
os.environ["TENON_CACHE"] = os.path.join(FOLDER, "cache")
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np

import mxnet_oracle
import tenon
import totals

KIT, EXPORTED = os.path.join(FOLDER, "kit.so"), os.path.join(FOLDER, "kit_mxnet.so")
LOAD = f"mx.library.load({EXPORTED!r}, verbose=False)\nnd, F, ag = mx.nd, mx.nd, mx.autograd\n"
F32 = np.float32
rng = np.random.default_rng(7)


def command(*arguments):
    return subprocess.run([os.path.join(BUILD, "tenon"), *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def setUpModule():
    if not mxnet_oracle.python():
        raise unittest.SkipTest("MXNet 1.9.1 is not installed: make test-mxnet makes .venv-mxnet-1.9")
    command("build", os.path.join(ROOT, "tests", "adapters", "mxnet", "kit.c"), "-o", KIT)
    command("export", "--mxnet", KIT, "-o", EXPORTED)
    global kit
    kit = tenon.load(KIT)


def normal(*shape):
    return rng.standard_normal(shape).astype(F32)


class Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


def own_gradients(name, attrs, arrays, heads):
    """Returns the gradients of one call, by libtenon's tenon_gradients."""
    c, host = ctypes, ctypes.CDLL(os.path.join(BUILD, "libtenon.so.1"))
    host.tenon_error.restype = c.c_char_p

    def check(status):
        if status:
            raise RuntimeError(host.tenon_error().decode())

    def tensor(array):
        made = c.c_void_p()
        check(host.tenon_tensor_borrow(c.c_void_p(array.ctypes.data), Dtype(2, 32, 1), array.ndim, (c.c_int64 * array.ndim)(*array.shape), None, None, None, c.byref(made)))
        return made
    op, given, values = c.c_void_p(), c.c_void_p(), c.c_void_p()
    check(host.tenon_op_find(name.encode(), c.byref(op)))
    check(host.tenon_attrs_create(op, c.byref(given)))
    for key, value in attrs.items():
        check(host.tenon_attrs_parse(given, key.encode(), value.encode()))
    check(host.tenon_attrs_values(given, c.byref(values)))
    inputs, results, grads = (c.c_void_p * len(arrays))(*map(tensor, arrays)), (c.c_void_p * len(heads))(), (c.c_void_p * len(arrays))()
    for leaf in inputs:
        check(host.tenon_tensor_require_grad(c.c_void_p(leaf), 1))
    check(host.tenon_op_call(op, values, inputs, results, c.c_uint64(0)))
    check(host.tenon_gradients(results, (c.c_void_p * len(heads))(*map(tensor, heads)), len(heads), inputs, len(inputs), 0, grads))
    found = [np.empty_like(array) for array in arrays]
    for grad, array in zip(grads, found):
        check(host.tenon_tensor_copy_async(c.c_void_p(grad), tensor(array)))
    return found  # tensors stay until the process ends


class MXNet(unittest.TestCase):
    def run_there(self, program, environment=None, **given):
        return mxnet_oracle.run(LOAD + program, environment=environment, **given)

    def close(self, found, *expected, tolerance=1e-6):
        for one in expected:
            self.assertEqual(np.shape(found), np.shape(one))
            np.testing.assert_allclose(found, one, rtol=tolerance, atol=tolerance)

    def refusals(self, calls, **given):
        """Returns the message of MXNetError for each call, by name."""
        program = "def attempt(name, call):\n    try:\n        call()\n        nd.waitall()\n        found[name] = 'nothing was raised'\n" \
                  "    except mx.MXNetError as error:\n        found[name] = str(error)\n"
        program += "".join(f"attempt({name!r}, lambda: {call})\n" for name, call in calls.items())
        return {name: str(text) for name, text in self.run_there(program, **given).items()}


# A call of each operator for all ways of calling: name, calls by F of arrays a, b, ..., arrays, NumPy's values.
def halves(x):
    return [np.minimum(x, 0), np.maximum(x, 0) ** 2]


def centred(x, gain, running):
    return [(x - x.mean(dtype=np.float64)).astype(F32) * gain, (0.75 * running + 0.25 * x.mean()).astype(F32)]


A, B, V, ONE = normal(4, 3), normal(3), normal(6), normal(1)
CASES = {
    "blend": ("F.kit_blend(a, b, weight=0.25)", [A, B], lambda: [0.25 * A + 0.75 * B], lambda a, b: kit.blend(a, b, weight=0.25)),
    "times": ("F.kit_times(a, by=1e-3)", [A], lambda: [A * F32(1e-3)], lambda a: kit.times(a, by=1e-3)),
    "halves": ("F.kit_halves(a)", [A], lambda: halves(A), lambda a: kit.halves(a)),
    "split": ("F.kit_split(a, parts=2)", [A], lambda: [A[:2], A[2:]], lambda a: kit.split(a, parts=2)),
    "row_mean": ("F.kit_row_mean(a, keep=True)", [A], lambda: [A.mean(1, keepdims=True)], lambda a: kit.row_mean(a, keep=True)),
    "energy": ("F.kit_energy(a)", [A], lambda: [(A ** 2).sum().reshape(1)], lambda a: np.asarray(kit.energy(a)).reshape(1)),
    "total": ("F.kit_total(a, b, c, num_args=3)", [A, A * 2, A * 3], lambda: [A * 6], lambda a, b, c: kit.total([a, b, c])),
    "total and bias": ("F.kit_total(a, b, c, operand_counts=[2, 1])", [A, A * 2, A * 3], lambda: [A * 6], lambda a, b, c: kit.total([a, b], c)),
    "counted": ("F.kit_counted(a, start=2)", [A], lambda: [A + 3], lambda a: a + 3),
    "decay": ("F.kit_decay(a, b, rate=0.5)", [V, V[::-1].copy()], lambda: [V - 0.5 * V[::-1]], None),
    "centre": ("F.kit_centre(a, b, c, momentum=0.75)", [A, ONE, ONE], lambda: centred(A, ONE, ONE), None),
    "weigh": ("F.kit_weigh(a, b=True, i=3, ints=(4, 5))", [A], lambda: [np.array([1, 3, 1, .5, 4, 0, 32, 14, 3.5, 1, 0, -1, 1, 1])],
              lambda a: kit.weigh(a, b=True, i=3, ints=[4, 5])),
}
WRITES = {"decay": (0, "V - 0.5 * V[::-1]"), "centre": (2, None)}
LETTERS = "abc"


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


class Calls(MXNet):
    """Each operator by mx.nd, as a bound symbol, and hybridised, gives NumPy's values and Tenon's own."""

    def check(self, program):
        given = {f"{name}_{letter}": array for name, case in CASES.items() for letter, array in zip(LETTERS, case[1])}
        found = self.run_there(program, **given)
        for name, (_, arrays, by_numpy, by_tenon) in CASES.items():
            with self.subTest(name):
                expected = by_numpy()
                self.assertEqual(found[f"{name}_count"], len(expected))
                own = listed(by_tenon(*arrays)) if by_tenon else [None] * len(expected)
                for i, value in enumerate(expected):
                    self.close(found[f"{name}_{i}"], value, *([] if own[i] is None else [np.asarray(own[i])]))
                for written in [WRITES[name][0]] if name in WRITES else []:
                    self.close(found[f"{name}_after"], expected[-1])
        return found

    CASE = "".join(f"({name!r}, lambda F, a, b=None, c=None: {case[0]}, {len(case[1])}, {WRITES.get(name, (None,))[0]}),\n" for name, case in CASES.items())
    CASE = f"CASES = [{CASE}]\n" + """
def inputs(name, count):
    return [nd.array(given[name + '_' + letter], dtype='float32') for letter in 'abc'[:count]]
def give(name, results, written=None):
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    found[name + '_count'] = len(results)
    for i, result in enumerate(results):
        found[f'{name}_{i}'] = result.asnumpy()
    if written is not None:
        found[name + '_after'] = written.asnumpy()
"""

    def test_by_mx_nd(self):
        self.check(self.CASE + """
for name, call, count, written in CASES:
    arrays = inputs(name, count)
    give(name, call(F, *arrays), None if written is None else arrays[written])
""")

    def test_as_bound_symbols(self):
        self.check(self.CASE + """
for name, call, count, written in CASES:
    arrays, names = inputs(name, count), ['x', 'y', 'z'][:count]
    symbol = call(mx.sym, *map(mx.sym.Variable, names))
    auxiliary = symbol.list_auxiliary_states()
    assert auxiliary == ([] if written is None else [names[written]]), auxiliary
    bound = symbol.bind(mx.cpu(), {n: a for n, a in zip(names, arrays) if n not in auxiliary}, aux_states={n: a for n, a in zip(names, arrays) if n in auxiliary})
    give(name, bound.forward(), None if written is None else arrays[written])
""")

    def test_by_simple_bind_with_inferred_shapes_and_dtypes(self):
        self.check(self.CASE + """
for name, call, count, written in CASES:
    arrays, names = inputs(name, count), ['x', 'y', 'z'][:count]
    bound = call(mx.sym, *map(mx.sym.Variable, names)).simple_bind(mx.cpu(), grad_req='null', **{n: a.shape for n, a in zip(names, arrays)})
    bound.copy_params_from({n: a for n, a in zip(names, arrays) if n in bound.arg_dict}, {n: a for n, a in zip(names, arrays) if n in bound.aux_dict})
    give(name, bound.forward(), None if written is None else bound.aux_dict[names[written]])
""")

    def test_hybridised(self):
        for how in ("", "static_alloc=True, static_shape=True"):
            self.check(self.CASE + f"""
for name, call, count, written in CASES:
    class Block(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, *arrays):
            return call(F, *arrays)
    block, arrays = Block(), inputs(name, count)
    block.hybridize({how})
    give(name, block(*arrays), None if written is None else arrays[written])
""")

    def test_dtypes_that_an_operator_takes(self):
        found = self.run_there("""
for dtype in ('float16', 'float32'):
    found[dtype] = nd.kit_blend(nd.array(given['a'], dtype=dtype), nd.array(given['b'], dtype=dtype), weight=0.25).asnumpy()
for dtype in ('uint8', 'int8', 'int32', 'int64', 'float64', 'bool'):
    found['split ' + dtype] = nd.kit_split(nd.array(given['n'], dtype=dtype), parts=2)[1].asnumpy()
found['bits'] = nd.kit_bits(nd.array(given['a']))
x = nd.array(given['a'], dtype='bfloat16') if hasattr(mx.base, 'bfloat16') else None
""", a=A, b=B, n=np.array([0, 1, 0, 2]))
        self.close(found["float32"], 0.25 * A + 0.75 * B)
        self.assertEqual(found["float16"].dtype, np.float16)
        np.testing.assert_array_equal(found["float16"], np.asarray(kit.blend(A.astype(np.float16), B.astype(np.float16), weight=0.25)))
        for dtype in ("uint8", "int8", "int32", "int64", "float64", "bool"):
            self.assertEqual(found["split " + dtype].dtype, np.dtype(dtype))
            np.testing.assert_array_equal(found["split " + dtype], np.array([0, 2]).astype(dtype))
        np.testing.assert_array_equal(found["bits"], A.view(np.int32))

    def test_written_arguments_given_as_results_share_their_memory(self):
        found = self.run_there("w = nd.array(given['w'])\nnd.kit_decay(w, nd.ones(6), rate=1, out=w)\nfound['w'] = w", w=V)
        self.close(found["w"], V - 1)

    def test_with_numpy_shapes_results_without_axes_have_one(self):
        found = self.run_there("""
with mx.util.np_shape(True):
    found['y'] = nd.kit_energy(nd.array(given['x'])).asnumpy()
    found['empty'] = nd.kit_times(nd.zeros((0, 3)), by=2).asnumpy()
""", x=A)
        self.close(found["y"], (A ** 2).sum().reshape(1))
        self.assertEqual(found["empty"].shape, (0, 3))


class Attributes(MXNet):
    def test_every_kind_as_python_writes_it(self):
        calls = {
            "defaults": "", "bool": "b=True", "int": "i=-3", "dim": "d=4", "float": "f=2.5e-3", "exact": "f=0.1", "str": "s=\"it's; a=[1]\"",
            "choice": "c='two'", "dtype": "t='float64'", "dtype of numpy": "t=np.int8", "dtype of tenon": "t='bf16'", "tuple": "ints=(7,)", "list": "ints=[1, 2, 3]",
            "empty": "ints=()", "floats": "floats=(2, 3.5)", "strs": "strs=('xy', 'z')", "dims": "dims=[2, 3]", "may": "may=7", "none": "may=None", "whole": "n=3",
            "real": "n=2.5", "truth": "n=True", "context": "on=mx.cpu()", "mxnet's own": "__wd_mult__='2'"}
        program = "".join(f"found[{name!r}] = nd.kit_weigh(nd.ones(1), **dict({text})) if not {text!r}.startswith('__') else nd.kit_weigh(nd.ones(1), {text})\n"
                          for name, text in calls.items())
        found = self.run_there(program)
        base = np.array([0, 0, 1, .5, 4, 0, 32, 5, 3.5, 1, 0, -1, 1, 1])
        expected = {"bool": {0: 1}, "int": {1: -3}, "dim": {2: 4}, "float": {3: 2.5e-3}, "exact": {3: 0.1}, "str": {4: 11}, "choice": {5: 1}, "dtype": {6: 64}, "dtype of numpy": {6: 8},
                    "dtype of tenon": {6: 16}, "tuple": {7: 7}, "list": {7: 14}, "empty": {7: 0}, "floats": {8: 9}, "strs": {9: 4}, "dims": {10: 8}, "may": {11: 7},
                    "whole": {12: 3}, "real": {12: 2.5}, "truth": {12: 1}}
        for name in calls:
            with self.subTest(name):
                value = base.copy()
                for place, number in expected.get(name, {}).items():
                    value[place] = number
                np.testing.assert_array_equal(found[name], value)

    def test_many_sets_of_attributes(self):
        """There are more sets than are cached. Each is right, also when it comes again."""
        found = self.run_there("found['y'] = np.stack([nd.kit_times(nd.ones(1), by=i / 7).asnumpy() for i in list(range(1500)) + list(range(1500))])")
        np.testing.assert_array_equal(found["y"][:, 0], np.tile((np.arange(1500) / 7).astype(F32), 2))

    def test_errors_are_tenon_s_words(self):
        said = self.refusals({
            "unknown": "nd.kit_times(nd.ones(3), by=1, far=2)", "missing": "nd.kit_times(nd.ones(3))", "bad": "nd.kit_times(nd.ones(3), by='x')",
            "choice": "nd.kit_weigh(nd.ones(3), c='three')", "length": "nd.kit_weigh(nd.ones(3), floats=(1,))", "gpu": "nd.kit_weigh(nd.ones(3), on='gpu(0)')",
            "no count": "nd.kit_total(nd.ones(3), nd.ones(3))", "too few": "nd.kit_total(num_args=0)", "counts": "nd.kit_total(nd.ones(3), operand_counts=[1])",
            "count": "nd.kit_total(nd.ones(3), num_args='many')", "outputs": "nd.kit_times(nd.ones(3), by=1, num_outputs=2)", "symbol": "mx.sym.kit_times(mx.sym.Variable('x'), bye=1)"})
        self.assertIn("kit::times has no attribute 'far'; its schema is times(Tensor x, *, float by) -> Tensor", said["unknown"])
        self.assertIn("operator 'kit::times' needs a value for attribute 'by'", said["missing"])
        self.assertIn("attribute 'by': value 'x': column 1: expected a literal", said["bad"])
        self.assertIn("attribute 'c': expected one of 'one', 'two', found 'three'", said["choice"])
        self.assertIn("attribute 'floats'", said["length"])
        self.assertIn("attribute 'on'", said["gpu"])
        self.assertIn("list 'xs' can have any length, which MXNet does not report: pass num_args", said["no count"])
        self.assertIn("operator 'kit::total': the dtype of 'out' is that of the items of 'xs', which is an empty list", said["too few"])
        self.assertIn("operand_counts: expected 2 numbers, one for each tensor argument, found '[1]'", said["counts"])
        self.assertIn("attribute 'num_args': expected a number of arrays, 0 to 65536, found 'many'", said["count"])
        self.assertIn("num_outputs: expected 1, found 2", said["outputs"])
        self.assertIn("kit::times has no attribute 'bye'", said["symbol"])


class Errors(MXNet):
    def test_arguments_and_kernels(self):
        said = self.refusals({
            "dtype": "nd.kit_halves(nd.ones(3, dtype='int32'))", "dtypes": "nd.kit_blend(nd.ones(3), nd.ones(3, dtype='float16'))", "shapes": "nd.kit_blend(nd.ones(3), nd.ones(4))",
            "pattern": "nd.kit_decay(nd.ones(3), nd.ones(4))", "number": "nd.kit_blend(nd.ones(3))", "data": "nd.kit_positive(nd.ones(3))", "kernel": "nd.kit_fails(nd.ones(3)).asnumpy()",
            "unknown": "mx.sym.kit_blend(mx.sym.Variable('a'), mx.sym.Variable('b')).infer_shape(a=(3, 4))", "sparse": "nd.kit_halves(nd.ones((2, 3)).tostype('csr'))"})
        self.assertIn("operator 'kit::halves': input 'x': expected f32, found i32; cast it", said["dtype"])
        self.assertIn("input 'b': expected f32, the dtype of 'a', found f16; cast it", said["dtypes"])
        self.assertIn("kit::blend: extents: broadcast(3, 4) is impossible", said["shapes"])
        self.assertIn("kit::decay", said["pattern"])
        self.assertIn("Operator kit_blend expects 2 inputs, but got 1", said["number"])
        self.assertIn("kit::positive: extent 0 of result 'out' depends on data, but MXNet must know it before the call", said["data"])
        self.assertIn("kit::fails: the kernel of fails says no", said["kernel"])
        self.assertIn("kit::halves: array 0 is sparse, but the operator expects a dense array: call x.tostype('default')", said["sparse"])

    def test_a_message_belongs_to_one_failure_only(self):
        said = self.refusals({"first": "nd.kit_times(nd.ones(3))", "second": "nd.kit_fails(nd.ones(3)).asnumpy()"})
        self.assertNotIn("needs a value", said["second"])
        self.assertNotIn("[1]", said["second"])

    def test_names_that_mxnet_has_are_refused_and_loading_twice_is_not(self):
        taken = os.path.join(FOLDER, "taken.so")
        command("export", "--mxnet", KIT, "-o", taken, "--prefix", "linalg_", "core::det")
        bare = os.path.join(FOLDER, "bare.so")
        command("export", "--mxnet", KIT, "-o", bare, "--prefix", "", "core::relu")
        found = self.run_there(f"""
for path in ({EXPORTED!r}, {bare!r}):
    try:
        mx.library.load(path, verbose=False)
        found[os.path.basename(path)] = 'loaded'
    except mx.MXNetError as error:
        found[os.path.basename(path)] = str(error)
found['y'] = nd.relu(nd.array([-1, 2]))
""")
        self.assertEqual(str(found["kit_mxnet.so"]), "loaded")
        self.assertIn("MXNet already has an operator relu, which core::relu would replace: export the library with another --prefix", str(found["bare.so"]))
        self.close(found["y"], np.array([0, 2], F32))

    def test_two_libraries_in_one_process(self):
        other = os.path.join(FOLDER, "other.so")
        command("export", "--mxnet", KIT, "-o", other, "--prefix", "other_", "kit::times", "core::softmax")
        found = self.run_there(f"""
mx.library.load({other!r}, verbose=False)
x = nd.array(given['x'])
found['y'], found['z'], found['s'] = nd.kit_times(x, by=2), nd.other_times(x, by=3), nd.other_softmax(x, axis=1) - nd.softmax(x, axis=1)
""", x=A)
        self.close(found["y"], A * 2)
        self.close(found["z"], A * 3)
        self.close(found["s"], np.zeros_like(A))


GRADIENTS = {  # the call, arrays, heads for each result, gradients computed by hand
    "blend": ("F.kit_blend(a, b, weight=0.25)", [A, B], lambda h: [0.25 * h[0], (0.75 * h[0]).sum(0)]),
    "blend of one shape": ("F.kit_blend(a, b, weight=0.25)", [A, A], lambda h: [0.25 * h[0], 0.75 * h[0]]),
    "times": ("F.kit_times(a, by=1.5)", [A], lambda h: [1.5 * h[0]]),
    "halves": ("F.kit_halves(a)", [A], lambda h: [np.where(A < 0, h[0], 2 * A * h[1])]),
    "half of halves": ("F.kit_halves(a)[1]", [A], lambda h: [np.where(A < 0, 0, 2 * A * h[0])]),
    "row_mean": ("F.kit_row_mean(a)", [A], lambda h: [np.repeat(h[0][:, None], 3, 1) / 3]),
    "energy": ("F.kit_energy(a)", [A], lambda h: [2 * A * h[0]]),
    "total": ("F.kit_total(a, b, c, operand_counts=[2, 1])", [A, A, A], lambda h: [h[0], h[0], h[0]]),
    "counted": ("F.kit_counted(a, start=2)", [A], lambda h: [3 * h[0]]),
    "centre": ("F.kit_centre(a, b, c)[0]", [A, ONE, ONE], lambda h: [(h[0] - h[0].mean()) * ONE, (h[0] * (A - A.mean())).sum().reshape(1), np.zeros(1)]),
    "twice": ("F.broadcast_mul(F.kit_times(a, by=2), F.kit_row_mean(F.kit_times(a, by=3), keep=True))", [np.ones((1, 3), F32)], lambda h: [6 * h[0] + 2 * h[0].sum()]),
}


class Gradients(MXNet):
    CASE = "CASES = [" + "".join(f"({name!r}, lambda F, a, b=None, c=None: {case[0]}, {len(case[1])}),\n" for name, case in GRADIENTS.items()) + "]\n"
    GIVEN = {f"{name}_{letter}": array for name, case in GRADIENTS.items() for letter, array in zip(LETTERS, case[1])}
    SETUP = """
def heads(results):
    return [nd.array(np.random.default_rng(3).standard_normal(r.shape), dtype='float32') for r in results]
def listed(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]
def give(name, hs, grads):
    for i, h in enumerate(hs):
        found[f'{name}_head_{i}'] = h.asnumpy()
    for i, g in enumerate(grads):
        found[f'{name}_grad_{i}'] = g.asnumpy()
"""

    def check(self, program, names=GRADIENTS):
        found = self.run_there(self.CASE + self.SETUP + program, **self.GIVEN)
        for name in names:
            with self.subTest(name):
                hs = [found[key] for key in sorted(found) if key.startswith(name + "_head_")]
                for i, expected in enumerate(GRADIENTS[name][2](hs)):
                    self.close(found[f"{name}_grad_{i}"], expected, tolerance=1e-5)

    def test_by_autograd(self):
        self.check("""
for name, call, count in CASES:
    arrays = [nd.array(given[name + '_' + letter], dtype='float32') for letter in 'abc'[:count]]
    for array in arrays:
        array.attach_grad()
    with ag.record():
        results = listed(call(F, *arrays))
    hs = heads(results)
    ag.backward(results, hs)
    give(name, hs, [array.grad for array in arrays])
""")

    def test_of_bound_symbols(self):
        self.check("""
for name, call, count in CASES:
    if name == 'centre':
        continue
    arrays = [nd.array(given[name + '_' + letter], dtype='float32') for letter in 'abc'[:count]]
    grads = [nd.zeros(array.shape) for array in arrays]
    names = ['x', 'y', 'z'][:count]
    bound = call(mx.sym, *map(mx.sym.Variable, names)).bind(mx.cpu(), dict(zip(names, arrays)), args_grad=dict(zip(names, grads)))
    hs = heads(bound.forward(is_train=True))
    bound.backward(hs)
    give(name, hs, grads)
""", [name for name in GRADIENTS if name != "centre"])

    def test_hybridised(self):
        for how in ("", "static_alloc=True, static_shape=True"):
            self.check(f"""
for name, call, count in CASES:
    class Block(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, *arrays):
            return call(F, *arrays)
    block = Block()
    block.hybridize({how})
    arrays = [nd.array(given[name + '_' + letter], dtype='float32') for letter in 'abc'[:count]]
    for array in arrays:
        array.attach_grad()
    with ag.record():
        results = listed(block(*arrays))
    hs = heads(results)
    ag.backward(results, hs)
    give(name, hs, [array.grad for array in arrays])
""")

    def test_gradients_equal_tenon_s_own(self):
        """The same operators, arrays and heads as gradients by Tenon's own autograd, in this process."""
        calls = {"blend": ("kit::blend", {"weight": "0.3"}, [A, B]), "halves": ("kit::halves", {}, [A]), "row_mean": ("kit::row_mean", {"keep": "True"}, [A]), "energy": ("kit::energy", {}, [A])}
        for name, (op, attrs, arrays) in calls.items():
            results = [np.asarray(r) for r in listed(getattr(kit, name)(*arrays, **{key: eval(value) for key, value in attrs.items()}))]
            heads = [normal(*r.shape) for r in results]
            found = self.run_there(f"""
arrays = [nd.array(given[f'x{{i}}']) for i in range({len(arrays)})]
for array in arrays:
    array.attach_grad()
with ag.record():
    y = nd.kit_{name}(*arrays, **{attrs!r})
ag.backward(y if isinstance(y, list) else [y], [nd.array(given[f'h{{i}}']) for i in range({len(heads)})])
for i, array in enumerate(arrays):
    found[f'g{{i}}'] = array.grad
""", **{f"x{i}": x for i, x in enumerate(arrays)}, **{f"h{i}": h.reshape(h.shape or 1) for i, h in enumerate(heads)})
            for i, own in enumerate(own_gradients(op, attrs, arrays, heads)):
                with self.subTest(f"{name}, {i}"):
                    np.testing.assert_allclose(found[f"g{i}"], own, rtol=1e-6, atol=1e-7)

    def test_blocks_with_operators_without_a_gradient_can_be_hybridised(self):
        found = self.run_there("""
class Block(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        low, high = F.kit_split(F.BlockGrad(x), parts=2)
        return F.kit_times(x, by=3) + F.concat(F.kit_bits(F.BlockGrad(x)).astype('float32') * 0, dim=0), low
block, x = Block(), nd.array(given['x'])
block.hybridize()
x.attach_grad()
with ag.record():
    y, low = block(x)
y.backward()
found['x'], found['low'] = x.grad, low
""", x=A)
        self.close(found["x"], np.full((4, 3), 3, F32))
        self.close(found["low"], A[:2])

    def test_gradients_of_other_dtypes(self):
        found = self.run_there("""
x = nd.array(given['x'], dtype='float16')
x.attach_grad()
with ag.record():
    y = nd.kit_times(x, by=1.5)
y.backward()
found['x'] = x.grad
""", x=A)
        np.testing.assert_array_equal(found["x"], np.full((4, 3), 1.5, np.float16))

    def test_a_missing_gradient_is_reported(self):
        program = """
def there_and_back(call, *arrays):
    for array in arrays:
        array.attach_grad()
    with ag.record():
        y = call(*arrays)
    ag.backward(y if isinstance(y, list) else [y])
    nd.waitall()
"""
        calls = {"none": "there_and_back(lambda x: nd.kit_split(x, parts=1), nd.ones(3))", "writes": "there_and_back(lambda g: nd.kit_decay(nd.ones(3), g), nd.ones(3))",
                 "written": "there_and_back(lambda x: nd.kit_centre(x, nd.ones(1), nd.ones(1))[1], nd.ones(3))"}
        with unittest.mock.patch(f"{__name__}.LOAD", LOAD + program):
            said = self.refusals(calls)
        self.assertIn("kit::split has no gradient", said["none"])
        self.assertIn("kit::decay: it writes to w, which therefore has no gradient in MXNet; declare this gradient as 'none' to export the operator", said["writes"])
        self.assertIn("kit::centre: MXNet passed a gradient for result 'now', which is an argument that the operator wrote to", said["written"])


class State(MXNet):
    def test_a_state_lives_as_long_as_mxnet_keeps_that_of_the_node(self):
        """Each call of mx.nd has a state, and so have a bound symbol and a block with static_alloc."""
        found = self.run_there("""
x = nd.zeros(1)
found['calls'] = np.array([nd.kit_counted(x, start=5).asscalar() for _ in range(3)])
bound = mx.sym.kit_counted(mx.sym.Variable('x'), start=5).bind(mx.cpu(), {'x': x})
found['bound'] = np.array([bound.forward()[0].asscalar() for _ in range(3)])
two = mx.sym.kit_counted(mx.sym.kit_counted(mx.sym.Variable('x'))).bind(mx.cpu(), {'x': x})
found['two'] = np.array([two.forward()[0].asscalar() for _ in range(3)])
class Block(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.kit_counted(x)
for name, how in (('dynamic', {}), ('static', dict(static_alloc=True, static_shape=True))):
    block = Block()
    block.hybridize(**how)
    found[name] = np.array([block(x).asscalar() for _ in range(3)])
""")
        self.assertEqual(found["calls"].tolist(), [6, 6, 6])
        self.assertEqual(found["bound"].tolist(), [6, 7, 8])
        self.assertEqual(found["two"].tolist(), [2, 4, 6])
        self.assertEqual(found["dynamic"].tolist(), [1, 1, 1])
        self.assertEqual(found["static"].tolist(), [1, 2, 3])


class Random(MXNet):
    def test_mx_random_seed_repeats_and_calls_differ(self):
        found = self.run_there("""
x = nd.ones(1000)
for name in 'ab':
    mx.random.seed(11)
    found[name] = np.stack([nd.kit_drop(x, ratio=0.25)[0].asnumpy() for _ in range(3)])
mx.random.seed(12)
found['c'] = nd.kit_drop(x, ratio=0.25)[0]
x.attach_grad()
with ag.record():
    y, mask = nd.kit_drop(x)
    z = y * 3
z.backward()
found['grad'], found['mask'] = x.grad, mask
""")
        np.testing.assert_array_equal(found["a"], found["b"])
        self.assertFalse((found["a"][0] == found["a"][1]).all())
        self.assertFalse((found["a"][0] == found["c"]).all())
        self.assertLess(abs(found["a"].mean() - 0.75), 0.04)  # five times the deviation of 3,000 draws
        np.testing.assert_array_equal(found["grad"], 3 * found["mask"])
        self.assertEqual(set(np.unique(found["mask"])), {0, 1})

    def test_the_numbers_are_tenon_s_of_the_seed_that_mxnet_s_twister_gives(self):
        found = self.run_there("mx.random.seed(11, mx.cpu(0))\nfound['y'] = nd.kit_drop(nd.ones(64))[0]")
        twister = np.random.MT19937()
        twister._legacy_seeding(11 * 127)  # the first state of MXNet, which mx.random.seed seeds on a device
        first, second = twister.random_raw(2)
        ctypes.CDLL(os.path.join(BUILD, "libtenon.so.1")).tenon_random_seed(ctypes.c_uint64(int(first) << 32 | int(second)))
        np.testing.assert_array_equal(found["y"], np.asarray(kit.drop(np.ones(64, F32))[0]))


NET = """
class Net(mx.gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.gain = self.params.get('gain', shape=(1,), init='ones')
            self.running = self.params.get('running', shape=(1,), init='zeros', grad_req='null')
            self.dense = mx.gluon.nn.Dense(2, in_units=3)
    def hybrid_forward(self, F, x, gain, running):
        y = F.kit_centre(self.dense(x), gain, running, momentum=0.5)[0]
        return F.kit_row_mean(F.kit_blend(F.kit_halves(y)[1], y, weight=0.5))
def made():
    net = Net()
    net.initialize()
    net(nd.zeros((1, 3)))
    net.dense.weight.set_data(nd.array(given['w']))
    net.running.set_data(nd.zeros(1))
    return net
"""


class Gluon(MXNet):
    def expected(self, x, w, steps, rate):
        """The net and its training, computed by hand."""
        gain, bias, running = 1.0, np.zeros(2), 0.0
        w = w.astype(np.float64)
        for _ in range(steps):
            u = x @ w.T + bias
            y = (u - u.mean()) * gain
            running = 0.5 * running + 0.5 * u.mean()
            out = (0.5 * np.maximum(y, 0) ** 2 + 0.5 * y).mean(1)
            dy = (np.maximum(y, 0) + 0.5) / 2
            du = (dy - dy.mean()) * gain
            gain -= rate * (dy * (u - u.mean())).sum()
            w -= rate * du.T @ x
            bias -= rate * du.sum(0)
        return out, gain, w, running

    def test_a_net_is_trained_plain_and_hybridised_and_its_running_mean_is_kept(self):
        x, w = normal(5, 3), normal(2, 3)
        found = self.run_there(NET + """
for name, how in (('plain', None), ('hybrid', {}), ('static', dict(static_alloc=True, static_shape=True))):
    net = made()
    if how is not None:
        net.hybridize(**how)
    trainer = mx.gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.01}, kvstore=None)
    for _ in range(5):
        with ag.record():
            y = net(nd.array(given['x']))
        y.backward()
        trainer.step(1)
    found[name], found[name + '_gain'], found[name + '_w'] = y.asnumpy(), net.gain.data().asnumpy(), net.dense.weight.data().asnumpy()
    found[name + '_running'] = net.running.data().asnumpy()
""", x=x, w=w)
        out, gain, w, running = self.expected(x.astype(np.float64), w, 5, 0.01)
        for name in ("plain", "hybrid", "static"):
            self.close(found[name], out, tolerance=1e-5)
            self.close(found[name + "_gain"], np.array([gain]), tolerance=1e-5)
            self.close(found[name + "_w"], w, tolerance=1e-5)
            self.close(found[name + "_running"], np.array([running]), tolerance=1e-5)

    def test_a_net_is_exported_and_imported_in_another_process(self):
        x, w, folder = normal(5, 3), normal(2, 3), os.path.join(FOLDER, "net")
        first = self.run_there(NET + f"""
net = made()
net.hybridize()
found['y'] = net(nd.array(given['x'])).asnumpy()
net.export({folder!r})
""", x=x, w=w)
        second = self.run_there(f"""
net = mx.gluon.SymbolBlock.imports({folder + '-symbol.json'!r}, ['data'], {folder + '-0000.params'!r})
found['y'] = net(nd.array(given['x'])).asnumpy()
""", x=x)
        np.testing.assert_array_equal(first["y"], second["y"])


class Threads(MXNet):
    def test_calls_from_several_threads_are_right(self):
        """Threads of MXNet's engine and of the program make calls with new attributes each time, among them gradients and failures."""
        found = self.run_there("""
import threading
wrong = []
def work(seed):
    x = nd.array(np.random.default_rng(seed).standard_normal((50, 7)), dtype='float32')
    n = x.asnumpy()
    for i in range(60):
        by = seed + i / 16
        if not (nd.kit_times(x, by=by).asnumpy() == n * np.float32(by)).all():
            wrong.append((seed, i))
        a = x.copy()
        a.attach_grad()
        with ag.record():
            y = nd.kit_halves(nd.kit_times(a, by=2))[1]
        y.backward()
        if not np.allclose(a.grad.asnumpy(), np.where(n < 0, 0, 8 * n), rtol=1e-6):
            wrong.append((seed, i, 'gradient'))
        try:
            nd.kit_times(x, by='x%d' % seed)
            wrong.append((seed, i, 'no failure'))
        except mx.MXNetError as error:
            if "value 'x%d'" % seed not in str(error):
                wrong.append((seed, i, str(error)))
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 7)]
[t.start() for t in threads]
[t.join() for t in threads]
found['wrong'] = np.array([str(w) for w in wrong])
""", environment={"MXNET_CPU_WORKER_NTHREADS": "4", "TENON_THREADS": "1"})
        self.assertEqual(found["wrong"].tolist(), [])

    def test_the_engine_that_works_in_the_caller_s_thread(self):
        found = self.run_there("found['y'] = nd.kit_blend(nd.array(given['a']), nd.array(given['b']))", environment={"MXNET_ENGINE_TYPE": "NaiveEngine"}, a=A, b=B)
        self.close(found["y"], 0.5 * A + 0.5 * B)

    def test_memory_does_not_grow(self):
        """Few calls wait in MXNet's engine here: the memory that many waiting calls hold stays with the process."""
        found = self.run_there("""
def resident():
    return int(open('/proc/self/statm').read().split()[1]) * 4096
x = nd.ones((8, 8))
def round():
    for i in range(2000):
        a = x.copy()
        a.attach_grad()
        with ag.record():
            y = nd.kit_counted(nd.kit_blend(a, nd.kit_total(a, a, num_args=2), weight=0.5)) + nd.kit_energy(a)
        y.backward()
        nd.kit_drop(x)
        if i % 20 == 19:
            nd.waitall()
sizes = []
for i in range(4):
    round()
    sizes.append(resident())
found['grown'] = np.diff(sizes)
""", environment={"TENON_THREADS": "1"})
        self.assertLess(min(found["grown"]), 128 << 10, found["grown"])  # 64 bytes in each of 2,000 rounds, every time


if __name__ == "__main__":
    totals.main()
