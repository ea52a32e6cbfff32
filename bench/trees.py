#!/usr/bin/env python3
"""Measures tree ensembles beside ONNX Runtime, in blocks that alternate in one process, at 1 and 2 threads and several numbers of rows.

Usage: trees.py [--blocks N]. The trees are random: complete, 200 of depth 6 and 30 of depth 10, over 30 features. Rows differ in each
call, since a walk over the same few rows measures branch prediction."""
import argparse
import os
import sys
import time

import numpy as np
import onnx
import onnxruntime
import report
from onnx import TensorProto, helper

sys.path.insert(0, os.path.join(report.BUILD, "python"))
import tenon  # noqa: E402

FEATURES = 30
FORESTS = (200, 6), (30, 10)
ROWS = 1, 8, 100, 10000
CALLS = 20  # of a block
PAUSE = 0.03  # seconds, longer than idle threads spin


def forest(trees, depth, seed=0):
    """A TreeEnsembleRegressor of complete trees with random tests and weights."""
    random = np.random.default_rng(seed)
    inner, every = 2**depth - 1, 2 ** (depth + 1) - 1
    modes = (["BRANCH_LEQ"] * inner + ["LEAF"] * (every - inner)) * trees
    node = np.tile(np.arange(every), trees)
    child = np.where(node < inner, node, 0)
    leaves = np.flatnonzero(np.arange(every) >= inner)
    body = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, nodes_treeids=np.repeat(np.arange(trees), every).tolist(),
        nodes_nodeids=node.tolist(), nodes_modes=modes, nodes_featureids=random.integers(0, FEATURES, every * trees).tolist(),
        nodes_values=random.standard_normal(every * trees).astype("f4").tolist(), nodes_truenodeids=np.where(node < inner, 2 * child + 1, 0).tolist(),
        nodes_falsenodeids=np.where(node < inner, 2 * child + 2, 0).tolist(), target_treeids=np.repeat(np.arange(trees), len(leaves)).tolist(),
        target_nodeids=np.tile(leaves, trees).tolist(), target_ids=[0] * (len(leaves) * trees),
        target_weights=random.standard_normal(len(leaves) * trees).astype("f4").tolist())
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name, width in (("x", FEATURES), ("y", 1))]
    graph = helper.make_graph([body], "forest", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=9)


def alternate(ours, theirs, rows, blocks):
    """Seconds of a call: medians of ours and of theirs. Each block begins when the threads of the other runtime have stopped to spin."""
    random = np.random.default_rng(1)
    times = [], []
    for block in range(blocks):
        inputs = [random.standard_normal((rows, FEATURES)).astype("f4") for _ in range(CALLS)]
        values = [], []
        for run, seconds, results in zip((ours, theirs), times, values):
            time.sleep(PAUSE)
            for x in inputs:
                begin = time.perf_counter()
                results.append(run(x))
                seconds.append(time.perf_counter() - begin)
            del seconds[-len(inputs) : 3 - len(inputs)]  # the first calls wake up the threads
        np.testing.assert_allclose(values[0], values[1], rtol=1e-4, atol=1e-4)
    return [report.median(seconds) for seconds in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--blocks", type=int, default=15)
    options = parser.parse_args()
    report.warn_when_busy()
    figures, table = {}, []
    path = os.path.join(report.SCRATCH, "forest.onnx")
    os.makedirs(report.SCRATCH, exist_ok=True)
    for trees, depth in FORESTS:
        onnx.save(forest(trees, depth), path)
        for threads in 1, 2:
            tenon.threads(threads)
            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = threads
            session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
            executable = tenon.graph.load(path).compile()
            for rows in ROWS:
                name = f"{trees} trees of depth {depth}, {threads} thread{'s' * (threads > 1)}, {rows} rows"
                report.progress(f"trees: {name}")
                ours, theirs = alternate(lambda x: np.asarray(executable(x=x)), lambda x: session.run(None, {"x": x})[0], rows, options.blocks)
                figures[name] = {"tenon": ours, "onnxruntime": theirs}
                table.append([name, f"{1e6 * ours:.1f}", f"{1e6 * theirs:.1f}", f"{theirs / ours:.2f}"])
    report.print_table("tree ensembles, microseconds a call", ["", "Tenon", "ONNX Runtime", "times as fast"], table)
    ratios = [f["onnxruntime"] / f["tenon"] for f in figures.values()]
    report.save("trees", figures, [["tree ensembles beside ONNX Runtime, least and greatest ratio", f"{min(ratios):.2f} to {max(ratios):.2f}"]], "onnx", "onnxruntime", "numpy")


if __name__ == "__main__":
    main()
