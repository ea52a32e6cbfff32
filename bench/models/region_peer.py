"""Runs the chains of region_chains.py by another runtime, in an environment of its own. bench/regions.py starts it.

Usage: region_peer.py max|openvino.  Compiles all chains and prints "ready" and the version. Then each line of the input is the
number of a chain and a number of runs; the answer is the seconds of a run, and the sum of the result's magnitudes."""
import importlib.metadata
import os
import sys
import time
import types

import numpy as np
from region_chains import CHAINS


def open_max():
    from max import driver, engine
    from max.dtype import DType
    from max.graph import DeviceRef, Graph, TensorType, ops

    session = engine.InferenceSession(devices=[driver.CPU()])
    m = types.SimpleNamespace(neg=lambda x: -x, abs=ops.abs, tanh=ops.tanh, add=lambda x, y: x + y, mul=lambda x, y: x * y, max=ops.max)

    def compile_chain(build, count):
        with Graph("chain", input_types=[TensorType(DType.float32, (count,), device=DeviceRef.CPU())]) as graph:
            graph.output(build(m, graph.inputs[0].tensor))
        model = session.load(graph)
        return lambda x: model.execute(x)[0]

    return compile_chain, driver.Buffer.from_numpy, lambda y: y.to_numpy()


def open_openvino():
    import openvino
    from openvino import opset13 as ops

    core = openvino.Core()

    def value(x):
        return ops.constant(np.float32(x)) if isinstance(x, float) else x

    m = types.SimpleNamespace(neg=ops.negative, abs=ops.abs, tanh=ops.tanh, **{
        name: lambda x, y, op=op: op(value(x), value(y)) for name, op in (("add", ops.add), ("mul", ops.multiply), ("max", ops.maximum))})

    def compile_chain(build, count):
        x = ops.parameter([count], np.float32)
        model = openvino.Model([build(m, x)], [x])
        # Results in full precision, as Tenon's are.
        compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
        request = compiled.create_infer_request()

        def run(x):
            request.infer([x], share_inputs=True)
            return request.get_output_tensor(0)

        return run

    return compile_chain, openvino.Tensor, lambda y: y.data


def main():
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # MAX has no setting for the number of threads
    compile_chain, wrap, unwrap = {"max": open_max, "openvino": open_openvino}[sys.argv[1]]()
    runs = []
    for build, count in CHAINS.values():
        x = np.random.default_rng(1).standard_normal(count).astype(np.float32)
        runs.append((compile_chain(build, count), wrap(x)))
    print("ready", importlib.metadata.version(sys.argv[1]), flush=True)
    for line in sys.stdin:
        number, repeats = map(int, line.split())
        run, x = runs[number]
        begin = time.perf_counter()
        for _ in range(repeats):
            y = run(x)
        seconds = (time.perf_counter() - begin) / repeats
        print(seconds, np.abs(unwrap(y)).sum(dtype=np.float64), flush=True)


if __name__ == "__main__":
    main()
