"""Models of real size as programs of StableHLO, against JAX: each to 1e-5 of the largest element of each result.

    stablehlo_large_test.py [MODEL...]      these models of stablehlo_models.py; all: "all"

Without a model, one that the number of commits chooses runs, so that the suite stays short.  A model whose inputs have a
batch is exported with a symbolic batch, and runs with two batches.  Sums of float32 in another order differ; if a result
differs by more, the same function of float64 decides: Tenon's result must then be as near to it as XLA's, or nearer.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python")]
import tenon.graph

TOLERANCE = 1e-5
TRAINING_BATCH = 8


def load(text):
    """Returns the compiled graph of a program."""
    with tempfile.TemporaryDirectory(prefix="tenon-stablehlo-large-") as folder:
        path = os.path.join(folder, "program.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return tenon.graph.load(path).compile()


def program_of(model, batch):
    """Returns the text of a model's program, with a symbolic batch if the model has one."""
    import jax
    from jax import export
    if not model.shapes:
        return jax.jit(model.function, keep_unused=True).lower(*model.arguments(batch)).as_text()
    scope = export.SymbolicScope()
    inputs = [jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), dtype) for shape, dtype in model.shapes]
    weights = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), model.weights)
    return export.export(jax.jit(model.function, keep_unused=True))(weights, *inputs).mlir_module()


def run(compiled, arguments):
    import jax
    found = compiled(*jax.tree.leaves(arguments))
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def in_jax(model, arguments):
    import jax
    return [np.asarray(x) for x in jax.tree.leaves(jax.jit(model.function)(*arguments))]


def exactly(model, arguments):
    """Returns what the function gives in float64."""
    import jax
    wide = jax.tree.map(lambda a: a.astype(np.float64) if a.dtype == np.float32 else a, arguments)
    with jax.enable_x64(True):
        return [np.asarray(x) for x in jax.tree.leaves(jax.jit(model.function)(*wide))]


def distance(found, right):
    """Returns the largest difference, as a share of the largest element; integers are equal or infinitely far."""
    if right.dtype.kind != "f":
        return 0.0 if np.array_equal(found, right) else np.inf
    scale = np.abs(right.astype(np.float64)).max(initial=0)
    return float(np.abs(found.astype(np.float64) - right.astype(np.float64)).max(initial=0) / (scale or 1.0))


def check(name, model, compiled, batch):
    """Compares one batch. Returns what to print; raises AssertionError if a result is wrong."""
    arguments = model.arguments(batch)
    found, right = run(compiled, arguments), in_jax(model, arguments)
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in right], f"{name}: results of other types"
    errors = [distance(a, b) for a, b in zip(found, right, strict=True)]
    assert not any(np.isnan(errors)), f"{name}: NaN"
    told = f"batch {batch}: {max(errors):.1e}"
    if max(errors) <= TOLERANCE:
        return told
    exact = exactly(model, arguments)
    ours = max(distance(a, b) for a, b in zip(found, exact, strict=True))
    theirs = max(distance(a, b) for a, b in zip(right, exact, strict=True))
    told += f" (from float64: Tenon {ours:.1e}, XLA {theirs:.1e})"
    assert ours <= max(theirs, TOLERANCE), f"{name}: {told}"
    return told


def models_to_run(models):
    if sys.argv[1:] == ["all"]:
        return sorted(models)
    if sys.argv[1:]:
        return sys.argv[1:]
    done = subprocess.run(["git", "-C", ROOT, "rev-list", "--count", "HEAD"], capture_output=True, text=True)
    names = sorted(models)
    return [names[int(done.stdout or 0) % len(names)]]


def main():
    try:
        import stablehlo_models
    except ImportError as error:
        print(f"skipped: there is no JAX: {error}\n0 passed, 0 failed, 1 skipped")
        return 0
    passed, wrong = 0, 0
    for name in models_to_run(stablehlo_models.MODELS):
        start = time.monotonic()
        try:
            model = stablehlo_models.MODELS[name]()
            batches = (TRAINING_BATCH,) if model.is_training else (1, 2) if model.shapes else (1,)
            text = program_of(model, batches[0])
            compiled = load(text)
            told = [check(name, model, compiled, batch) for batch in batches]
            operations = len(re.findall(r" = \"?(?:stablehlo|chlo)\.", text))
            print(f"{name}: {operations} operations, {'; '.join(told)}; {time.monotonic() - start:.0f} s", flush=True)
            passed += 1
        except (AssertionError, tenon.Error) as error:
            print(f"failed: {name}: {error}", flush=True)
            wrong += 1
    if not sys.argv[1:]:
        print(f"skipped: the other {len(stablehlo_models.MODELS) - 1} large models, of which each commit takes one (make test-stablehlo-large)")
    print(f"{passed} passed, {wrong} failed, {int(not sys.argv[1:])} skipped")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
