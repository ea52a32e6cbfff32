"""Models of Keras of real size as graphs of Tenon, against TensorFlow: each to 1e-5 of the largest element of each result.

    tensorflow_convert_large_test.py [MODEL...]      these models of tensorflow_models.py; without names, all

A model is converted once, with an unknown batch, and runs with the batches 1 and 2.  Sums of float32 in another order differ; if a result differs by
more, the same model in float64 decides: Tenon's result must then be as near to it as TensorFlow's, or nearer.
"""
import os
import sys
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path[:0] = [os.path.join(BUILD, "python")]
import tensorflow as tf

import tenon.graph
import tenon.tensorflow

TOLERANCE = 1e-5
LEAST_SPREAD = 1e-3  # of the results of two inputs, as a share of the largest element: below, a comparison would say little


def listed(results):
    return [np.asarray(y) for y in (results if isinstance(results, (list, tuple)) else [results])]


def distance(found, right):
    """Returns the largest difference, as a share of the largest element."""
    assert found.shape == right.shape and found.dtype == right.dtype, f"expected {right.dtype} {right.shape}, found {found.dtype} {found.shape}"
    scale = np.abs(right.astype(np.float64)).max(initial=0)
    assert scale > 0, "all elements are 0"
    return float(np.abs(found.astype(np.float64) - right.astype(np.float64)).max(initial=0) / scale)


def exactly(make, model, inputs):
    """Returns what the model gives in float64."""
    import tensorflow_models
    wide = tensorflow_models.wide(make, model)
    return listed(tensorflow_models.function_of(wide)(*(x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs)))


def check(name, make, model, function, compiled, inputs):
    """Compares one batch. Returns what to print; raises AssertionError if a result is wrong."""
    found, right = listed(compiled(*inputs)), listed(function(*inputs))
    assert len(found) == len(right), f"{name}: expected {len(right)} results, found {len(found)}"
    for y in right:
        spread = np.abs(y[:1] - y[1:]).max(initial=0) / np.abs(y).max()
        assert len(y) == 1 or spread > LEAST_SPREAD, f"{name}: the results of two inputs differ by {spread:.1e} only"
    error = max(distance(a, b) for a, b in zip(found, right))
    told = f"batch {len(inputs[0])}: {error:.1e}"
    if error <= TOLERANCE:
        return told
    exact = [y.astype(np.float32) for y in exactly(make, model, inputs)]
    ours, theirs = (max(distance(a, b) for a, b in zip(of, exact)) for of in (found, right))
    told += f" (from float64: Tenon {ours:.1e}, TensorFlow {theirs:.1e})"
    assert ours <= max(theirs, TOLERANCE), f"{name}: {told}"
    return told


def run(name, make):
    import tensorflow_models
    model = make()
    start = time.monotonic()
    graph = tenon.tensorflow.convert(model.keras)
    compiled = graph.compile()
    ready = time.monotonic()
    function = tensorflow_models.function_of(model)
    told = "; ".join(check(name, make, model, function, compiled, model.inputs(batch)) for batch in (1, 2))
    weights = model.keras.count_params() / 1e6
    print(f"{name}: {weights:.1f} million weights, {len(graph.nodes)} nodes, {ready - start:.1f} s to convert; {told}", flush=True)


def main():
    import tensorflow_models
    tf.get_logger().setLevel("ERROR")  # it advises against tracing many functions
    names = sys.argv[1:] if sys.argv[1:] not in ([], ["all"]) else sorted(tensorflow_models.MODELS)
    passed = 0
    for name in names:
        try:
            run(name, tensorflow_models.MODELS[name])
            passed += 1
        except (AssertionError, tenon.Error, tf.errors.OpError) as error:
            print(f"failed: {name}: {error}", flush=True)
    print(f"{passed} passed, {len(names) - passed} failed, 0 skipped")
    return int(passed < len(names))


if __name__ == "__main__":
    sys.exit(main())
