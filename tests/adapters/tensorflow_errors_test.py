"""Errors of Tenon's operators in TensorFlow: a table with a row for each error, tried outside of graphs, in tf.function, in functions that XLA compiles, and
where a SavedModel is loaded in a new process.  Each message names the operator and the argument, what was expected, and what was found."""
import atexit
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-tensorflow-")
atexit.register(shutil.rmtree, FOLDER)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.dirname(os.path.abspath(__file__))]
import numpy as np
import tensorflow as tf

import tenon
import tenon.tensorflow
import totals
from tensorflow_xla import compiles

# The library of the models; in VERSIONS, a model is loaded with another version of it.
SCALE = 'scale(Tensor x, Tensor? bias=None, *, float by, int n=3, str[\'one\', \'two\'] how=\'one\') -> Tensor'
SOURCE = """#include <tenon/op.h>
static tenon_status_t run(tenon_call_t *c) {
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) ((float *)c->outputs[0]->data)[i] = ((const float *)c->inputs[0]->data)[i] * (float)c->attrs[0].as.f;
  return TENON_OK;
}
static tenon_status_t positive_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = infer->host->dim(infer, TENON_DIM_BOUND, infer->inputs[0]->dims[0], (tenon_dim_t){0});
  return TENON_OK;
}
TENON_LIBRARY(NAME, "1.0.0",
  TENON_OP("SCALE", TENON_TYPES("x: f32|f64; bias = x; out = x"), TENON_SHAPES("x: [rows, 3]; out = x"), TENON_TRAITS(TENON_PURE), TENON_GRADIENT("x: core::mul(grad, by); bias: none"),
    TENON_KERNEL("cpu", run)),
  TENON_OP("join(Tensor[] xs, *, str text='', int[] axes=[0]) -> Tensor", TENON_TYPES("xs: f32; out = xs"), TENON_SHAPES("out: []"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", run)),
  TENON_OP("noise(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_RANDOM), TENON_KERNEL("cpu", run)),
  TENON_OP("borrows(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_GRADIENT("x: elsewhere::slope(grad)"), TENON_KERNEL("cpu", run)),
  TENON_OP("view(Tensor x) -> Tensor", TENON_TYPES("x: any; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", run)),
  TENON_OP("positive(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_INFER(positive_infer), TENON_KERNEL("cpu", run)))
"""
Invalid, Missing, Unimplemented = tf.errors.InvalidArgumentError, tf.errors.NotFoundError, tf.errors.UnimplementedError


def source(name, before="", after=""):
    """Writes a version of the library with another namespace; returns its path."""
    path = os.path.join(FOLDER, name + ("" if not before else "_other") + ".c")
    text = SOURCE.replace("SCALE", SCALE)
    if before not in text:
        raise AssertionError(f"{before} is not in the library")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(before, after, 1 if before else 0).replace("NAME", name))
    return path


err = tenon.tensorflow.register(tenon.load(source("err")))
X, WHOLE = tf.ones([2, 3]), tf.ones([2, 3], tf.int32)


def sloped(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = err.borrows(x)
    return tape.gradient(y, x)


class Call(NamedTuple):
    """A wrong call.  where: the places in which it is an error."""
    what: str
    kind: type
    message: str
    function: object
    inputs: tuple = ()
    where: tuple = ("outside of graphs", "tf.function", "jit_compile")


CALLS = [
    Call("wrong dtype", Invalid, "err::scale: argument x: expected a tensor of dtype float32, float64, found int32", lambda x: err.scale(x, by=1.0), (WHOLE,)),
    Call("wrong dtype of an optional argument", Invalid, "err::scale: argument bias: expected a tensor of dtype float32, found int32", lambda x, b: err.scale(x, b, by=1.0), (X, WHOLE)),
    Call("wrong dtype in a list", Invalid, "err::join: argument xs: expected a tensor of dtype float32, found int32", lambda x, y: err.join([x, y]), (X, WHOLE)),
    Call("a string", Invalid, "err::scale: argument x: expected a tensor of dtype float32, float64, found string", lambda: err.scale("text", by=1.0)),
    Call("no value for a tensor", Invalid, "err::scale: argument x: .*object", lambda: err.scale(object(), by=1.0)),
    Call("rows of several lengths", Invalid, "err::scale: argument x: ", lambda: err.scale([[1.0], [2.0, 3.0]], by=1.0)),
    Call("a dtype that Tenon lacks", Invalid, "err::view: argument x: Tenon has no tensors of dtype quint8: convert it, or pass its integers", err.view,
         (tf.quantization.quantize([1.0], 0.0, 2.0, tf.quint8).output,)),
    Call("a handle", Invalid, "err::view: argument x: Tenon has no tensors of dtype resource", lambda: err.view(VARIABLE.handle)),
    Call("a ragged tensor", Invalid, "err::scale: argument x: expected a tensor, found a RaggedTensor: pass its parts", lambda x: err.scale(x, by=1.0), (tf.ragged.constant([[1.0], [2.0, 3.0]]),)),
    Call("a sparse tensor", Invalid, "err::join: argument xs: expected a tensor, found a SparseTensor: pass its parts", lambda x: err.join([x]), (tf.sparse.from_dense([[1.0]]),)),
    Call("no tensor", Invalid, "err::scale: argument x: expected a tensor, found None", lambda: err.scale(None, by=1.0)),
    Call("a tensor for a list", Invalid, "err::join: argument xs: expected a list of tensors, found a tensor", err.join, (X,)),
    Call("an empty list", Invalid, "err::join.*the items of 'xs', which is an empty list", lambda: err.join([])),
    Call("wrong extent", Invalid, r"err::scale.* 'x': expected shape \[rows, 3\], found \[2, 4\]", lambda x: err.scale(x, by=1.0), (tf.ones([2, 4]),)),
    Call("wrong rank", Invalid, r"err::scale.* 'x': expected shape \[rows, 3\], found \[3\]", lambda x: err.scale(x, by=1.0), (tf.ones([3]),)),
    Call("wrong seed", Invalid, "err::noise: argument seed: expected two integers.*; found float32 of shape .2,.", lambda x: err.noise(x, seed=[1.5, 2.5]), (X,)),
    Call("wrong shape of a seed", Invalid, "err::noise: argument seed: expected two integers.*; found int32 of shape .3,.", lambda x: err.noise(x, seed=[1, 2, 3]), (X,)),
    Call("wrong attribute", Invalid, "err::scale: attribute n: expected int of 64 bits, found 'a'", lambda x: err.scale(x, by=1.0, n="a"), (X,)),
    Call("an attribute of more than 64 bits", Invalid, "err::scale: attribute n: expected int of 64 bits, found 9223372036854775808", lambda x: err.scale(x, by=1.0, n=1 << 63), (X,)),
    Call("a list for an attribute", Invalid, r"err::scale: attribute n: expected int of 64 bits, found \[1, 2\]", lambda x: err.scale(x, by=1.0, n=np.array([1, 2])), (X,)),
    Call("wrong items of an attribute", Invalid, r"err::join: attribute axes: expected int\[\] of 64 bits, found \['a'\]", lambda x: err.join([x], axes=["a"]), (X,)),
    Call("wrong choice", Invalid, "err::scale: attribute how: expected one of 'one', 'two', found 'three'", lambda x: err.scale(x, by=1.0, how="three"), (X,)),
    Call("an attribute that is not known", Invalid, "err::scale: attribute n: expected int of 64 bits, found a tensor whose value is not known when the function is traced: pass",
         lambda x, n: err.scale(x, by=1.0, n=n), (X, tf.constant(1)), ("tf.function", "jit_compile")),
    Call("unknown attribute", TypeError, r"scale\(\) got an unexpected keyword argument 'foo'", lambda x: err.scale(x, by=1.0, foo=1), (X,)),
    Call("missing attribute", TypeError, r"scale\(\) missing 1 required keyword-only argument: 'by'", lambda x: err.scale(x), (X,)),
    Call("missing tensor", TypeError, r"scale\(\) missing 1 required positional argument: 'x'", lambda: err.scale(by=1.0)),
    Call("unknown operator", AttributeError, "no operator 'err::scall'; did you mean 'err::scale'", lambda x: err.scall(x), (X,)),
    Call("library of a gradient missing", Missing, "the gradient of err::borrows: no operator 'elsewhere::slope'", sloped, (X,)),
    Call("text that XLA does not carry", Unimplemented, "err::join: a text in its attributes has a character 0.*: call it outside of functions with jit_compile=True",
         lambda x: err.join([x], text="a\0b"), (X,), ("jit_compile",)),
    Call("shape that depends on data", Invalid, "err::positive: the (shape|rank) of its result depends on values.*: (pass constants, or )?call it outside of functions with jit_compile=True", err.positive,
         (tf.ones([3]),), ("jit_compile",)),
    Call("strings", Unimplemented, "err::view: XLA has no tensors of dtype string: call it outside of functions with jit_compile=True", err.view, (tf.constant(["a"]),), ("jit_compile",)),
]
VARIABLE = tf.Variable(1.0)


class Calls(unittest.TestCase):
    def check(self, where, compiled):
        for row in CALLS:
            if where in row.where:
                with self.subTest(row.what), self.assertRaisesRegex(row.kind, row.message):
                    compiled(row.function)(*row.inputs)

    def test_outside_of_graphs(self):
        self.check("outside of graphs", lambda function: function)

    def test_in_functions(self):
        self.check("tf.function", tf.function)

    def test_in_functions_that_xla_compiles(self):
        jit_compile = compiles()
        self.check("jit_compile", lambda function: tf.function(function, jit_compile=jit_compile))

    def test_the_rows_name_an_operator_and_an_argument(self):
        self.assertEqual(len({row.what for row in CALLS}), len(CALLS))
        with self.assertRaises(AssertionError):  # a row that is no error is noticed
            with self.assertRaisesRegex(Invalid, "err::scale"):
                err.scale(X, by=1.0)


# ---- models in a new process ----


class Version(NamedTuple):
    """A model that is loaded with another version of the library, in which `before` is `after`."""
    name: str
    kind: str
    message: str
    before: str = ""
    after: str = ""


OTHER = "was saved with other versions of operators than those that are loaded here: load the libraries with which it was saved:\n  "
VERSIONS = [
    Version("dtypes", "InvalidArgumentError", OTHER + "dtypes::scale: argument x, bias: expected float64; found float32", "f32|f64", "f64"),
    Version("removed", "InvalidArgumentError", OTHER + "removed::scale: attribute n: the model has it, and the operator has: by, how", "int n=3, ", ""),
    Version("added", "InvalidArgumentError", OTHER + "added::scale: attribute more: the operator needs it, and the model has no value", "float by,", "float by, int more,"),
    Version("kinds", "InvalidArgumentError", OTHER + "kinds::scale: attribute n: expected string, found 4", "int n=3", "str n='3'"),
    Version("choices", "InvalidArgumentError", OTHER + "choices::scale: attribute how: expected 'one', 'three'; found 'two'", "'two'", "'three'"),
    Version("inputs", "InvalidArgumentError", OTHER + r"inputs::scale: expected 2 tensors \(x, bias, tenon_seed\), found 1", "TENON_PURE", "TENON_RANDOM"),
    Version("gone", "NotFoundError", "needs what is missing here:\n  Tenon>Gone>Scale: the library that is loaded does not have them: load the version", "scale(", "scales("),
    Version("absent", "NotFoundError", "needs what is missing here:\n  Tenon>Absent>Scale: no library with these operators is loaded: call tenon.load with it"),
    Version("same", "InvalidArgumentError", r"same::scale.* 'x': expected shape \[rows, 3\], found \[2, 4\]"),
]
PROGRAM = """
    import json, os, sys
    import tensorflow as tf, tenon, tenon.tensorflow
    found = {}

    def note(name, function):
        try:
            found[name] = ["", str(function())]
        except Exception as error:
            found[name] = [type(error).__name__, str(error)]
    for name in sys.argv[1:]:
        if name != "absent":
            tenon.load(name + ".c" if name in ("same", "compiled") else name + "_other.c")
        if name != "compiled":
            note(name, lambda: tenon.tensorflow.load(name).run(tf.ones([2, 4])))
    note("loaded by TensorFlow", lambda: tf.saved_model.load("absent"))
    note("no model", lambda: tenon.tensorflow.load("nothing"))
    if os.path.exists("compiled"):
        note("compiled, absent", lambda: tenon.tensorflow.load("compiled"))
        tenon.load("compiled.c")
        note("compiled", lambda: tenon.tensorflow.load("compiled").run(tf.ones([2, 3])).numpy().tolist())
    print(json.dumps(found))
"""


def save_model(name, **options):
    """Saves a model that calls a version of the library, with unknown shapes."""
    ops, module = tenon.tensorflow.register(source(name)), tf.Module()
    module.run = tf.function(lambda x: ops.scale(x, by=0.25, n=4, how="two"), input_signature=[tf.TensorSpec([None, None], tf.float32)], **options)
    tf.saved_model.save(module, os.path.join(FOLDER, name))


class SavedModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for version in VERSIONS:
            save_model(version.name)
            if version.before:
                source(version.name, version.before, version.after)
        with contextlib.suppress(unittest.SkipTest):
            save_model("compiled", jit_compile=compiles())
        env = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM), *(v.name for v in VERSIONS)], capture_output=True, text=True, env=env, cwd=FOLDER, check=False, timeout=300)
        if done.returncode:
            raise AssertionError(done.stderr[-3000:])
        cls.found = json.loads(done.stdout.splitlines()[-1])

    def check(self, name, kind, message):
        with self.subTest(name):
            self.assertEqual(self.found[name][0], kind, self.found[name][1])
            self.assertRegex(self.found[name][1], message)

    def test_models_and_libraries_that_do_not_fit(self):
        for version in VERSIONS:
            self.check(version.name, version.kind, version.message)

    def test_a_missing_model(self):
        self.check("no model", "NotFoundError", "nothing is no SavedModel that can be read")

    def test_tensorflow_names_the_operator_when_it_loads_a_model_itself(self):
        self.assertIn("Op type not registered 'Tenon>Absent>Scale'", self.found["loaded by TensorFlow"][1])

    def test_operators_in_functions_that_xla_compiled_are_found(self):
        compiles()
        self.check("compiled, absent", "NotFoundError", "needs what is missing here:\n  compiled::scale: no library with this operator is loaded: call tenon.load with it")
        self.check("compiled", "", r"\[\[0.25, 0.25, 0.25\], \[0.25, 0.25, 0.25\]\]")


# ---- registration ----

NEWER = """#include <tenon/op.h>
#undef TENON_REQUIRED
#define TENON_REQUIRED 0x40000000u
static tenon_status_t run(tenon_call_t *c) { return c ? TENON_OK : TENON_INVALID; }
TENON_LIBRARY(newer, "1.0.0", TENON_OP("f(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", run)))
"""
# A library of operators of TensorFlow that has one of Tenon's.
TAKEN = """
typedef struct builder_t builder_t;
typedef struct status_t status_t;
builder_t *TF_NewOpDefinitionBuilder(const char *name);
void TF_OpDefinitionBuilderAddInput(builder_t *builder, const char *spec);
void TF_OpDefinitionBuilderAddOutput(builder_t *builder, const char *spec);
void TF_RegisterOpDefinition(builder_t *builder, status_t *status);
status_t *TF_NewStatus(void);
__attribute__((constructor)) static void define(void) {
  builder_t *builder = TF_NewOpDefinitionBuilder("Tenon>Taken>Scale");
  TF_OpDefinitionBuilderAddInput(builder, "x: float");
  TF_OpDefinitionBuilderAddOutput(builder, "y: float");
  TF_RegisterOpDefinition(builder, TF_NewStatus());
}
"""


def written(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


class Registration(unittest.TestCase):
    def refused(self, kind, message, library):
        with self.subTest(message), self.assertRaisesRegex(kind, message):
            tenon.tensorflow.register(library)

    def test_libraries_that_are_missing_damaged_or_too_new(self):
        self.refused(Missing, "no loaded library has operators in the namespace 'nope': load it first", "nope")
        self.refused(Missing, "cannot load .*/nowhere/gelu.so: No such file", "/nowhere/gelu.so")
        self.refused(tf.errors.OpError, "cannot load .*damaged.so", written("damaged.so", "no library"))
        self.refused(tf.errors.OpError, "newer.*requires features .*, none of which this host has: update libtenon", written("newer.c", NEWER))

    def test_a_path_registers_the_library_of_the_file(self):
        ops = tenon.tensorflow.register(source("path"))
        self.assertEqual(ops.scale(X, by=2.0).numpy().tolist(), [[2.0] * 3] * 2)
        self.assertIs(tenon.tensorflow.register(tenon.load(source("path"))), ops)

    def test_a_second_library_with_operators_of_the_first(self):
        tenon.tensorflow.register(source("twice"))
        self.refused(tf.errors.OpError, "operator twice::scale is there already, from library twice", source("twice", "* (float)", "+ (float)"))

    def test_operators_that_are_added_after_the_registration(self):
        ops = tenon.tensorflow.register(source("late"))
        tenon.load(written("later.c", NEWER.replace("0x40000000u", "0").replace("newer", "late")))
        with self.assertRaisesRegex(AttributeError, "late::f cannot be called in TensorFlow: it was added after the first call of register for late: load all libraries"):
            ops.f

    def test_a_name_that_another_library_has_registered_with_tensorflow(self):
        package = os.path.dirname(tf.__file__)
        subprocess.run(["cc", "-shared", "-fPIC", written("taken_other.c", TAKEN), "-o", os.path.join(FOLDER, "taken.so"), "-L" + package, "-l:libtensorflow_framework.so.2"], check=True)
        tf.load_op_library(os.path.join(FOLDER, "taken.so"))
        ops = tenon.tensorflow.register(source("taken"))
        with self.assertRaisesRegex(AttributeError, "taken::scale cannot be called in TensorFlow: TensorFlow has an operator Tenon>Taken>Scale already, from another library"):
            ops.scale
        self.assertEqual(ops.join([X]).shape, [])

    def test_unloading(self):
        library = tenon.load(source("unloaded"), unloadable=True)
        library.unload()
        self.refused(Missing, "the library was unloaded: load it again", library)
        self.refused(Missing, "no loaded library has operators in the namespace 'unloaded'", "unloaded")
        library = tenon.load(source("held"), unloadable=True)
        ops = tenon.tensorflow.register(library)
        with self.assertRaisesRegex(tenon.Error, "cannot unload library held: it is held by 1 more handle"):
            library.unload()
        self.assertEqual(ops.scale(X, by=2.0).numpy().tolist(), [[2.0] * 3] * 2)

    def test_a_library_that_is_reloaded_with_other_arguments(self):
        path = source("again")
        library = tenon.load(path)
        ops = tenon.tensorflow.register(library)
        ops.scale(X, by=2.0)
        os.replace(source("again", "int n=3", "int m=3"), path)
        library.reload()
        with self.assertRaisesRegex(tf.errors.FailedPreconditionError, "again::scale: its library was reloaded, and has no operator of this schema any more"):
            ops.scale(X, by=2.0)


if __name__ == "__main__":
    totals.main()
