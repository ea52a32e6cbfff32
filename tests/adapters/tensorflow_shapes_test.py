"""The shapes of nodes in models that are loaded again, beside what `shapes()` says about the operators, and the table in docs/tensorflow.md."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.dirname(os.path.abspath(__file__))]
import tensorflow as tf

import tenon
import tenon.tensorflow
import totals
from tensorflow_builtins_test import KNOWN, arranged, arrays_of, flat, operator
from tensorflow_cases import CASES

core = tenon.tensorflow.register("core")
ALL = [case for case in {c.name: c for c in reversed(CASES)}.values() if case.name not in KNOWN]  # the first case of each operator
SPECS = [tf.TensorSpec([None] * a.ndim if a.dtype.kind == "f" else a.shape, a.dtype) for case in ALL for a in arrays_of(case)]


class Model(tf.Module):
    """A function that calls the operators with unknown extents."""

    @tf.function(input_signature=SPECS, autograph=False)
    def every(self, *tensors):
        rest, made = iter(tensors), []
        for case in ALL:
            made += flat(operator(case)(*arranged(case, [next(rest) for _ in arrays_of(case)])))
        return [t for t in made if t is not None]


def nodes(graph):
    """The shapes of the results of each node that calls an operator: {name: (operator, [shape])}; None: the rank is not known."""
    names = {own: name for name, own in core._table.names.items()}
    return {o.name: (names[o.type], [None if t.shape.rank is None else t.shape.as_list() for t in o.outputs]) for o in graph.get_operations() if o.type in names}


class Shapes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = Model()
        cls.graph = cls.model.every.get_concrete_function().graph
        cls.expected = nodes(cls.graph)

    def test_the_model_has_operators_of_both_kinds(self):
        kinds = [core.shapes()[name] for name, _ in self.expected.values()]
        self.assertGreaterEqual(min(kinds.count("in C"), kinds.count("in Python")), 60)
        known = [name for name, shapes in self.expected.values() if None not in shapes]
        self.assertGreaterEqual(len(known), 120)

    def test_nodes_of_a_saved_model_have_the_shapes_that_were_stored(self):
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(self.model, folder)
            [function] = tf.saved_model.load(folder).every.concrete_functions
        self.assertEqual(nodes(function.graph), self.expected)

    def test_without_stored_shapes_the_nodes_have_those_that_the_table_promises(self):
        """Nothing but the shape functions in C runs when a graph is imported."""
        definition = self.graph.as_graph_def()
        for node in definition.node:
            node.attr.pop("_output_shapes", None)
        with tf.Graph().as_default() as imported:
            tf.graph_util.import_graph_def(definition, name="")
        found = nodes(imported)
        self.assertEqual(set(found), set(self.expected))
        for node, (name, shapes) in found.items():
            with self.subTest(op=name):
                is_in_c = core.shapes()[name] == "in C"
                self.assertEqual(shapes, self.expected[node][1] if is_in_c else [None] * len(shapes))

    def test_the_table_in_the_documentation_is_that_of_the_operators(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "tensorflow_shapes.py"), BUILD, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])


if __name__ == "__main__":
    totals.main()
