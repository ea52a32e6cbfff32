"""The operators of ai.onnx.ml, and TfIdfVectorizer, against ONNX Runtime on random attributes and inputs; hostile attributes give one error
that names the node."""
import itertools
import os
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper
from onnx.reference import ReferenceEvaluator

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(ROOT / "tests/adapters"), str(BUILD / "python")]
import tenon  # noqa: E402
import totals  # noqa: E402

TYPES = {np.dtype(np.float32): T.FLOAT, np.dtype(np.float64): T.DOUBLE, np.dtype(np.int64): T.INT64, np.dtype(np.int32): T.INT32}
ML = "ai.onnx.ml"


def model(node, values, outputs, version=3):
    inputs = [h.make_tensor_value_info(name, T.STRING if value.dtype.kind in "UO" else TYPES[value.dtype], [None, *value.shape[1:]])
              for name, value in values.items()]
    declared = [h.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    graph = h.make_graph([node], "g", inputs, declared)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18), h.make_opsetid(ML, version)], ir_version=9)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "m.onnx")

    def load(self, proto):
        onnx.save(proto, self.path)
        return tenon.graph.load(self.path)

    def agree(self, kind, values, outputs, version=3, domain=ML, tolerance=1e-5, runtime_numbers=None, **attributes):
        """`runtime_numbers`: an attribute that ONNX Runtime numbers otherwise than ONNX does, and its numbers."""
        node = h.make_node(kind, list(values), list(outputs), name="n0", domain=domain, **attributes)
        tenon_proto = proto = model(node, values, outputs, version)
        if runtime_numbers:
            name, numbers = runtime_numbers
            node = h.make_node(kind, list(values), list(outputs), name="n0", domain=domain, **{**attributes, name: numbers[attributes[name]]})
            proto = model(node, values, outputs, version)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        expected = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, values)
        found = self.load(tenon_proto).compile()(**values)
        for got, wanted in zip(found if isinstance(found, tuple) else (found,), expected):
            got, wanted = np.asarray(got), np.asarray(wanted)
            self.assertEqual(got.shape, wanted.shape)
            if wanted.dtype.kind in "OUS":
                self.assertEqual([str(text) for text in got.ravel()], [str(text) for text in wanted.ravel()])
                continue
            self.assertEqual(got.dtype, wanted.dtype)
            scale = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(wanted), wanted, 0)), initial=0)))
            self.assertTrue(np.allclose(got, wanted, 0, tolerance * scale, equal_nan=True), f"found {got[got != wanted].tolist()[:9]}, expected {wanted[got != wanted].tolist()[:9]}")

    def refuse(self, pattern, kind, values, outputs, version=3, domain=ML, **attributes):
        node = h.make_node(kind, list(values), list(outputs), name="n0", domain=domain, **attributes)
        with self.assertRaisesRegex(Exception, "(?s)node 'n0'.*" + pattern):
            self.load(model(node, values, outputs, version))


def grow(rng, trees, depth, features, modes, targets, weight=lambda rng: rng.standard_normal(), per_leaf=1, missing=False):
    """Random trees as the attributes nodes_* and the lists of leaves: (tree, node, target, weight)."""
    nodes, leaves = {key: [] for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")}, []

    def add(tree, **fields):
        for key, value in fields.items():
            nodes[key].append(value)
        nodes["treeids"].append(tree)

    for tree in range(trees):
        pending, number = [(0, 0)], 1
        while pending:
            name, level = pending.pop(0)
            if level >= depth or (level and rng.uniform() < 0.2):
                add(tree, nodeids=name, featureids=0, values=0.0, modes="LEAF", truenodeids=0, falsenodeids=0, missing_value_tracks_true=0)
                for target in rng.choice(targets, min(per_leaf, targets), replace=False):
                    leaves.append((tree, name, int(target), float(np.float32(weight(rng)))))
                continue
            add(tree, nodeids=name, featureids=int(rng.integers(features)), values=float(np.float32(rng.integers(-8, 8) / 4)), modes=str(rng.choice(modes)),
                truenodeids=number, falsenodeids=number + 1, missing_value_tracks_true=int(missing and rng.uniform() < 0.5))
            pending += [(number, level + 1), (number + 1, level + 1)]
            number += 2
    attributes = {f"nodes_{key}": value for key, value in nodes.items()}
    if not missing:
        del attributes["nodes_missing_value_tracks_true"]
    return attributes, leaves


def leaves_of(prefix, leaves):
    return {f"{prefix}_treeids": [leaf[0] for leaf in leaves], f"{prefix}_nodeids": [leaf[1] for leaf in leaves],
            f"{prefix}_ids": [leaf[2] for leaf in leaves], f"{prefix}_weights": [leaf[3] for leaf in leaves]}


def rows(rng, count, features, missing=False, dtype=np.float32):
    x = rng.integers(-10, 10, (count, features)) / 4  # often equal to a split
    x = np.where(rng.uniform(size=x.shape) < 0.2, np.nan, x) if missing else x
    return x.astype(dtype)


ORDERED = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]
ANY = ORDERED + ["BRANCH_EQ", "BRANCH_NEQ"]
COUNTS = (1, 3, 7, 8, 9, 63, 64, 65, 200)


class Trees(Case):
    def regress(self, rng, count, modes, missing=False, targets=1, trees=5, dtype=np.float32, depth=5, **more):
        nodes, leaves = grow(rng, trees, depth, 4, modes, targets, per_leaf=more.pop("per_leaf", 1), missing=missing)
        self.agree("TreeEnsembleRegressor", {"x": rows(rng, count, 4, missing, dtype)}, {"y": T.FLOAT}, n_targets=targets, **nodes,
                   **leaves_of("target", leaves), **more)

    def test_every_mode_and_missing_numbers(self):
        for seed, (modes, missing) in enumerate(itertools.product([[mode] for mode in ANY] + [ORDERED, ANY], (False, True))):
            for count in (1, 20):
                with self.subTest(modes=modes, missing=missing, count=count):
                    self.regress(np.random.default_rng(seed), count, modes, missing)

    def test_sizes_around_blocks_and_lanes(self):
        for count in COUNTS:
            for trees in (1, 7, 8, 9, 33):
                for threads in (1, 2):
                    with self.subTest(count=count, trees=trees, threads=threads), tenon.threads(threads):
                        self.regress(np.random.default_rng(count), count, ORDERED, trees=trees)

    def test_aggregates_targets_and_base_values(self):
        for seed, (aggregate, targets, based) in enumerate(itertools.product(("SUM", "AVERAGE", "MIN", "MAX"), (1, 3), (False, True))):
            base = {"base_values": [0.5 * (k + 1) for k in range(targets)]} if based else {}
            with self.subTest(aggregate=aggregate, targets=targets, based=based):
                self.regress(np.random.default_rng(seed), 30, ["BRANCH_LEQ"], targets=targets, aggregate_function=aggregate,
                             per_leaf=3, **base)  # ONNX Runtime leaves out the base value of a target that no leaf has

    def test_transforms(self):
        for transform, targets in itertools.product(("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"), (1, 3)):
            with self.subTest(transform=transform, targets=targets):
                self.regress(np.random.default_rng(7), 30, ["BRANCH_LEQ"], targets=targets, per_leaf=3, post_transform=transform)

    def test_dtypes_of_the_input(self):
        for dtype in (np.float32, np.float64):
            with self.subTest(dtype=dtype.__name__):
                self.regress(np.random.default_rng(5), 20, ORDERED, dtype=dtype)
        for dtype in (np.float32, np.float64, np.int64, np.int32):
            rng = np.random.default_rng(5)
            nodes, leaves = grow(rng, 5, 4, 4, ORDERED, 3, per_leaf=3)
            with self.subTest(classifier=dtype.__name__):
                self.agree("TreeEnsembleClassifier", {"x": rows(rng, 20, 4, dtype=dtype)}, {"label": T.INT64, "scores": T.FLOAT}, classlabels_int64s=[1, 2, 3],
                           **nodes, **leaves_of("class", leaves))

    def test_deep_chains_and_single_leaves(self):
        nodes, leaves = grow(np.random.default_rng(1), 3, 0, 4, ["BRANCH_LEQ"], 1)
        self.agree("TreeEnsembleRegressor", {"x": rows(np.random.default_rng(2), 9, 4)}, {"y": T.FLOAT}, n_targets=1, **nodes, **leaves_of("target", leaves))
        length = 500
        chain = dict(nodes_treeids=[0] * (2 * length + 1), nodes_nodeids=list(range(2 * length + 1)), nodes_featureids=[0] * (2 * length + 1),
                     nodes_values=[float(k) for k in range(length)] + [0.0] * (length + 1), nodes_modes=["BRANCH_LEQ"] * length + ["LEAF"] * (length + 1),
                     nodes_truenodeids=[length + k for k in range(length)] + [0] * (length + 1),
                     nodes_falsenodeids=[k + 1 for k in range(length - 1)] + [2 * length] + [0] * (length + 1))
        leaves = [(0, length + k, 0, float(k)) for k in range(length + 1)]
        self.agree("TreeEnsembleRegressor", {"x": np.linspace(-5, 510, 40, dtype=np.float32)[:, None]}, {"y": T.FLOAT}, n_targets=1, **chain,
                   **leaves_of("target", leaves))

    def test_classifiers(self):
        transforms = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
        for seed, (transform, classes, positive, bases, words) in enumerate(itertools.product(transforms, (2, 3), (False, True), (0, 1), (False, True))):
            rng = np.random.default_rng(seed)
            nodes, leaves = grow(rng, 6, 4, 4, ["BRANCH_LEQ"], classes, (lambda rng: rng.uniform()) if positive else (lambda rng: rng.standard_normal()), classes)
            labels = {"classlabels_strings": ["a", "b", "c"][:classes]} if words else {"classlabels_int64s": [4, 7, 9][:classes]}
            base = {"base_values": [0.1, -0.2, 0.3][:classes]} if bases else {}
            if classes == 2:
                continue  # see test_two_classes_with_two_scores
            with self.subTest(transform=transform, classes=classes, positive=positive, bases=bases, words=words):
                self.agree("TreeEnsembleClassifier", {"x": rows(rng, 40, 4)}, {"label": T.STRING if words else T.INT64, "scores": T.FLOAT},
                           post_transform=transform, **nodes, **leaves_of("class", leaves), **labels, **base)

    def test_binary_classifiers_with_one_score(self):
        for seed, (transform, one, positive, bases) in enumerate(itertools.product(("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"), (0, 1), (False, True), (0, 1))):
            rng = np.random.default_rng(seed)
            nodes, leaves = grow(rng, 6, 4, 4, ["BRANCH_LEQ"], 1, (lambda rng: rng.uniform(0, 0.2)) if positive else (lambda rng: rng.standard_normal()))
            leaves = [(tree, node, one, weight) for tree, node, _, weight in leaves]
            base = {"base_values": [0.25]} if bases and one == 0 else {}
            for count in (1, 30):
                with self.subTest(transform=transform, one=one, positive=positive, bases=bases, count=count):
                    self.agree("TreeEnsembleClassifier", {"x": rows(rng, count, 4)}, {"label": T.INT64, "scores": T.FLOAT}, post_transform=transform,
                               classlabels_int64s=[3, 8], **nodes, **leaves_of("class", leaves), **base)

    def test_two_classes_with_two_scores(self):
        """ONNX's reference chooses the greater score; ONNX Runtime compares the second one with 0 and writes 0 and 1, whatever the labels are."""
        for seed, bases in enumerate((0, 2)):
            rng = np.random.default_rng(seed)
            nodes, leaves = grow(rng, 6, 4, 4, ["BRANCH_LEQ"], 2, per_leaf=2)
            base = {"base_values": [0.1, -0.2]} if bases else {}
            node = h.make_node("TreeEnsembleClassifier", ["x"], ["label", "scores"], name="n0", domain=ML, classlabels_int64s=[4, 7], **nodes, **leaves_of("class", leaves), **base)
            values = {"x": rows(rng, 40, 4)}
            proto = model(node, values, {"label": T.INT64, "scores": T.FLOAT})
            label, scores = self.load(proto).compile()(**values)
            expected_label, expected_scores = ReferenceEvaluator(proto).run(None, values)
            self.assertEqual(label.tolist(), np.asarray(expected_label).tolist())
            self.assertTrue(np.allclose(scores, expected_scores, 1e-5, 1e-5))
            self.assertEqual(set(label.tolist()), {4, 7})

    def ensemble(self, rng, dtype, members=False, **more):
        """Random trees in the form of version 5."""
        numbers = {"BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4, "BRANCH_NEQ": 5}
        nodes, leaves = grow(rng, 4, 4, 4, ANY, 2)
        inner = [i for i, mode in enumerate(nodes["nodes_modes"]) if mode != "LEAF"]
        name = {(tree, node): i for i, (tree, node) in enumerate(zip(nodes["nodes_treeids"], nodes["nodes_nodeids"]))}
        number = {i: k for k, i in enumerate(inner)}
        leaf = {name[tree, node]: k for k, (tree, node, _, _) in enumerate(leaves)}
        children = {side: [name[nodes["nodes_treeids"][i], nodes[f"nodes_{side}nodeids"][i]] for i in inner] for side in ("true", "false")}
        modes = np.array([numbers[nodes["nodes_modes"][i]] for i in inner], np.uint8)
        if members:
            modes[::2] = 6
            sets = [rng.integers(-2, 3, 3) for _ in modes[::2]]
            more["membership_values"] = numpy_helper.from_array(np.concatenate([np.append(numbers, np.nan) for numbers in sets]).astype(dtype))
        kind = TYPES[np.dtype(dtype)]
        attributes = dict(tree_roots=[number[name[tree, 0]] for tree in range(4)], nodes_modes=numpy_helper.from_array(modes),
                          nodes_featureids=[nodes["nodes_featureids"][i] for i in inner],
                          nodes_splits=numpy_helper.from_array(np.array([nodes["nodes_values"][i] for i in inner], dtype)),
                          leaf_targetids=[entry[2] for entry in leaves], leaf_weights=numpy_helper.from_array(np.array([entry[3] for entry in leaves], dtype)), n_targets=2)
        for side in ("true", "false"):
            attributes[f"nodes_{side}nodeids"] = [number.get(child, leaf.get(child)) for child in children[side]]
            attributes[f"nodes_{side}leafs"] = [int(child in leaf) for child in children[side]]
        if members:
            return self.walk(rows(rng, 30, 4, dtype=dtype), modes, dict(zip(np.flatnonzero(modes == 6).tolist(), sets)), attributes, **more)
        self.agree("TreeEnsemble", {"x": rows(rng, 30, 4, dtype=dtype)}, {"y": kind}, version=5, runtime_numbers=("post_transform", (0, 2, 1)), **attributes, **more)

    def walk(self, x, modes, sets, attributes, **more):
        """Compares with a plain walk: ONNX Runtime and ONNX's reference read several sets in different ways."""
        node = h.make_node("TreeEnsemble", ["x"], ["y"], name="n0", domain=ML, **{**attributes, **more, "aggregate_function": 1, "post_transform": 0})
        found = self.load(model(node, {"x": x}, {"y": TYPES[x.dtype]}, version=5)).compile()(x)
        splits, weights = numpy_helper.to_array(attributes["nodes_splits"]), numpy_helper.to_array(attributes["leaf_weights"])
        tests = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
        expected = np.zeros((len(x), 2))
        for row, root in itertools.product(range(len(x)), attributes["tree_roots"]):
            at, is_leaf = root, False
            while not is_leaf:
                value = x[row, attributes["nodes_featureids"][at]]
                side = "true" if (value in sets[at] if at in sets else tests[modes[at]](value, splits[at])) else "false"
                at, is_leaf = attributes[f"nodes_{side}nodeids"][at], attributes[f"nodes_{side}leafs"][at]
            expected[row, attributes["leaf_targetids"][at]] += weights[at]
        self.assertTrue(np.allclose(found, expected, 1e-5, 1e-5))

    def test_version_5(self):
        for seed, (dtype, members, aggregate, transform) in enumerate(itertools.product((np.float32, np.float64), (False, True), (0, 1, 2, 3), (0, 1, 2))):
            if dtype == np.float64 and transform:
                continue  # scores are f32
            with self.subTest(dtype=dtype.__name__, members=members, aggregate=aggregate, transform=transform):
                self.ensemble(np.random.default_rng(seed), dtype, members, aggregate_function=aggregate, post_transform=transform)

    def test_hostile_attributes(self):
        x = {"x": np.zeros((2, 4), np.float32)}

        def broken(change, pattern):
            nodes, leaves = grow(np.random.default_rng(3), 2, 2, 4, ["BRANCH_LEQ"], 1)
            attributes = {**nodes, **leaves_of("target", leaves), "n_targets": 1}
            change(attributes)
            self.refuse(pattern, "TreeEnsembleRegressor", x, {"y": T.FLOAT}, **attributes)

        def put(name, at, value):
            def change(attributes):
                attributes[name][at] = value
            return change

        def cut(name):
            def change(attributes):
                attributes[name] = attributes[name][:-1]
            return change

        for name in ("nodes_treeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_values", "nodes_modes", "target_nodeids",
                     "target_treeids", "target_weights"):
            with self.subTest(shorter=name):
                broken(cut(name), f"'{name}' has .* items.*expected equal lengths")
        broken(put("nodes_featureids", 0, -1), "tests feature -1")
        broken(put("nodes_featureids", 0, 1 << 40), "tests feature 1099511627776")
        broken(put("nodes_featureids", 0, 400), "x has shape .* test feature 400")
        broken(put("nodes_truenodeids", 0, 0), "reached on two ways")
        broken(put("nodes_truenodeids", 1, 0), "reached on two ways")
        broken(put("nodes_falsenodeids", 0, -7), "has the child -7, which the tree does not have")
        broken(put("nodes_falsenodeids", 0, 1 << 62), "has the child 4611686018427387904")
        broken(put("nodes_nodeids", 1, 0), "is listed twice")
        broken(put("nodes_modes", 0, "BRANCH_MAYBE"), "'nodes_modes': item 0 is 'BRANCH_MAYBE'")
        broken(put("target_ids", 0, -1), "class or target -1")
        broken(put("target_ids", 0, 1), "class or target 1: expected .* 0 to 0")
        broken(put("target_nodeids", 0, 99), "is for node 99")
        broken(lambda a: a.update(n_targets=0), "0 targets")
        broken(lambda a: a.update(n_targets=1 << 40), "1099511627776 outputs")
        broken(lambda a: a.update(base_values=[1.0, 2.0]), "2 base values")
        broken(lambda a: a.update(aggregate_function="MEDIAN"), "'MEDIAN'")
        broken(lambda a: a.update(post_transform="CUBE"), "'CUBE'")
        broken(lambda a: [a.pop(key) for key in list(a) if key.startswith("nodes_")], "(has 0 items|no nodes)")


class Linear(Case):
    def test_regressors(self):
        rng = np.random.default_rng(1)
        for targets, dtype in itertools.product((1, 3), (np.float32,)):
            self.agree("LinearRegressor", {"x": rows(rng, 9, 5, dtype=dtype)}, {"y": T.FLOAT}, targets=targets, coefficients=list(map(float, rng.standard_normal(5 * targets))),
                       intercepts=list(map(float, rng.standard_normal(targets))))

    def test_classifiers(self):
        for seed, (transform, scores, words, dtype) in enumerate(itertools.product(("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"), (1, 2, 4), (False, True), (np.float32, np.int64))):
            rng = np.random.default_rng(seed)
            count = max(2, scores)
            labels = {"classlabels_strings": list("abcd")[:count]} if words else {"classlabels_ints": [5, 6, 9, -1][:count]}
            with self.subTest(transform=transform, scores=scores, words=words, dtype=dtype.__name__):
                self.agree("LinearClassifier", {"x": rows(rng, 25, 5, dtype=dtype)}, {"label": T.STRING if words else T.INT64, "scores": T.FLOAT}, post_transform=transform,
                           coefficients=list(map(float, rng.standard_normal(5 * scores))), intercepts=list(map(float, rng.standard_normal(scores))), **labels)

    def test_probit(self):
        rng = np.random.default_rng(2)
        self.agree("LinearClassifier", {"x": rng.uniform(0, 1, (20, 2)).astype(np.float32)}, {"label": T.INT64, "scores": T.FLOAT}, post_transform="PROBIT",
                   coefficients=[0.3, 0.3, 0.2, 0.1, 0.1, 0.4], intercepts=[0.1, 0.2, 0.3], classlabels_ints=[0, 1, 2])

    def test_hostile_attributes(self):
        x, y = {"x": np.zeros((2, 4), np.float32)}, {"label": T.INT64, "scores": T.FLOAT}
        self.refuse("7 coefficients for 3 targets", "LinearClassifier", x, y, coefficients=[1.0] * 7, intercepts=[0.0] * 3, classlabels_ints=[1, 2, 3])
        self.refuse("3 class labels for 2 scores", "LinearClassifier", x, y, coefficients=[1.0] * 8, intercepts=[0.0] * 2, classlabels_ints=[1, 2, 3])
        self.refuse("no class labels", "LinearClassifier", x, y, coefficients=[1.0] * 8, intercepts=[0.0] * 2)
        self.refuse("8 coefficients for 0 targets", "LinearRegressor", x, {"y": T.FLOAT}, coefficients=[1.0] * 8, targets=0)


class Vectors(Case):
    KERNELS = {"LINEAR": [0.0, 0.0, 0.0], "RBF": [0.3, 0.0, 0.0], "POLY": [0.2, 0.7, 3.0], "SIGMOID": [0.1, 0.3, 0.0]}

    def test_regressors(self):
        rng = np.random.default_rng(1)
        for kernel, one_class in itertools.product(self.KERNELS, (0, 1)):
            with self.subTest(kernel=kernel, one_class=one_class):
                self.agree("SVMRegressor", {"x": rows(rng, 12, 5)}, {"y": T.FLOAT}, kernel_type=kernel, kernel_params=self.KERNELS[kernel], n_supports=9,
                           support_vectors=list(map(float, rng.standard_normal(45))), coefficients=list(map(float, rng.standard_normal(9))), rho=[0.3], one_class=one_class)
        self.agree("SVMRegressor", {"x": rows(rng, 12, 5)}, {"y": T.FLOAT}, coefficients=[1.0, 2.0, -1.0, 0.5, 0.0], rho=[0.3], kernel_params=[0.0, 0.0, 0.0])

    def test_classifiers(self):
        for seed, (kernel, classes, sure, transform) in enumerate(itertools.product(self.KERNELS, (2, 3, 4), (False, True), ("NONE", "LOGISTIC", "SOFTMAX"))):
            rng = np.random.default_rng(seed)
            supports, pairs = [4, 3, 5, 2][:classes], classes * (classes - 1) // 2
            total = sum(supports)
            prob = {"prob_a": list(map(float, -rng.uniform(0.5, 2, pairs))), "prob_b": list(map(float, rng.uniform(-0.2, 0.2, pairs)))} if sure else {}
            with self.subTest(kernel=kernel, classes=classes, sure=sure, transform=transform):
                self.agree("SVMClassifier", {"x": rows(rng, 15, 5)}, {"label": T.INT64, "scores": T.FLOAT}, kernel_type=kernel, kernel_params=self.KERNELS[kernel],
                           vectors_per_class=supports, support_vectors=list(map(float, rng.standard_normal(5 * total))), post_transform=transform,
                           coefficients=list(map(float, rng.standard_normal((classes - 1) * total))), rho=list(map(float, rng.standard_normal(pairs))),
                           classlabels_ints=[3, 1, 7, 9][:classes], tolerance=1e-4, **prob)

    def test_linear_classifiers(self):
        for seed, (classes, positive) in enumerate(itertools.product((2, 3), (False, True))):
            rng = np.random.default_rng(seed)
            coefficients = rng.standard_normal(5 * classes)
            with self.subTest(classes=classes, positive=positive):
                self.agree("SVMClassifier", {"x": rows(rng, 15, 5)}, {"label": T.INT64, "scores": T.FLOAT}, rho=[0.2], kernel_params=[0.0, 0.0, 0.0],
                           coefficients=list(map(float, np.abs(coefficients) if positive else coefficients)), classlabels_ints=[3, 1, 7][:classes])

    def test_hostile_attributes(self):
        x, y = {"x": np.zeros((2, 5), np.float32)}, {"label": T.INT64, "scores": T.FLOAT}
        whole = dict(kernel_type="RBF", kernel_params=[0.3, 0.0, 0.0], vectors_per_class=[2, 1], support_vectors=[0.5] * 15, coefficients=[1.0] * 3, rho=[0.1], classlabels_ints=[0, 1])
        for change, pattern in ((dict(vectors_per_class=[2, -1]), "found -1"), (dict(vectors_per_class=[1 << 60, 1]), "'vectors_per_class'"), (dict(vectors_per_class=[3]), "found 1 numbers for 2 classes"),
                                (dict(coefficients=[1.0]), "1 coefficients"), (dict(support_vectors=[0.5] * 14), "14 numbers for 3 vectors"),
                                (dict(kernel_params=[1.0]), "found 1 numbers"), (dict(kernel_type="CUBE"), "'CUBE'"), (dict(prob_a=[1.0], prob_b=[1.0, 2.0]), "found 1 and 2 numbers")):
            with self.subTest(**change):
                self.refuse(pattern, "SVMClassifier", x, y, **{**whole, **change})
        self.refuse("1 coefficients", "SVMRegressor", x, {"y": T.FLOAT}, n_supports=1 << 50, support_vectors=[0.5] * 15, coefficients=[1.0], rho=[0.1], kernel_params=[0.3, 0.0, 0.0])


class Features(Case):
    def test_scaler(self):
        rng = np.random.default_rng(1)
        for dtype, count in itertools.product((np.float32, np.float64, np.int64), (1, 4)):
            with self.subTest(dtype=dtype.__name__, count=count):
                self.agree("Scaler", {"x": rows(rng, 6, 4, dtype=dtype)}, {"y": T.FLOAT}, offset=[0.5, 1.0, -1.0, 2.0][:count], scale=[2.0, 0.5, 1.0, 3.0][:count])

    def test_normaliser(self):
        rng = np.random.default_rng(1)
        for norm, dtype in itertools.product(("MAX", "L1", "L2"), (np.float32, np.float64, np.int64)):
            x = rows(rng, 6, 4, dtype=dtype)
            x[2] = 0
            with self.subTest(norm=norm, dtype=dtype.__name__):
                self.agree("Normalizer", {"x": x}, {"y": T.FLOAT}, norm=norm)

    def test_imputer(self):
        rng = np.random.default_rng(1)
        for values in ([1.5], [1.5, 2.5, 3.5, 4.5]):
            self.agree("Imputer", {"x": rows(rng, 8, 4, missing=True)}, {"y": T.FLOAT}, imputed_value_floats=values, replaced_value_float=float("nan"))
            self.agree("Imputer", {"x": rows(rng, 8, 4)}, {"y": T.FLOAT}, imputed_value_floats=values, replaced_value_float=0.5)
        self.agree("Imputer", {"x": rows(rng, 8, 4, dtype=np.int64)}, {"y": T.INT64}, imputed_value_int64s=[7], replaced_value_int64=1)

    def test_binariser_and_extractor(self):
        x = rows(np.random.default_rng(1), 6, 4)
        self.agree("Binarizer", {"x": x}, {"y": T.FLOAT}, threshold=0.3)
        for index in (np.array([2, 0, 2]), np.array([[3, 1]])):
            self.agree("ArrayFeatureExtractor", {"x": x, "i": index}, {"y": T.FLOAT})
        self.agree("ArrayFeatureExtractor", {"x": x[0], "i": np.array([1, 3])}, {"y": T.FLOAT})

    def test_feature_vectoriser(self):
        rng = np.random.default_rng(1)
        values = {"a": rows(rng, 3, 2), "b": rows(rng, 3, 4)}
        self.agree("FeatureVectorizer", values, {"y": T.FLOAT}, inputdimensions=[2, 4])
        self.agree("FeatureVectorizer", values, {"y": T.FLOAT}, inputdimensions=[3, 2])
        self.refuse("found -1", "FeatureVectorizer", values, {"y": T.FLOAT}, inputdimensions=[-1, 2])
        self.refuse("found 1 numbers for 2 inputs", "FeatureVectorizer", values, {"y": T.FLOAT}, inputdimensions=[1])

    def test_one_hot(self):
        words, numbers = np.array([["a", "c"], ["x", "b"]], object), np.array([[1, 3], [9, 2]])
        self.agree("OneHotEncoder", {"x": words}, {"y": T.FLOAT}, cats_strings=["a", "b", "c"], zeros=1)
        for dtype in (np.int64, np.float32, np.float64):
            self.agree("OneHotEncoder", {"x": numbers.astype(dtype)}, {"y": T.FLOAT}, cats_int64s=[1, 2, 3], zeros=1)
        self.agree("OneHotEncoder", {"x": numbers[:1]}, {"y": T.FLOAT}, cats_int64s=[1, 2, 3], zeros=0)
        node = h.make_node("OneHotEncoder", ["x"], ["y"], name="n0", domain=ML, cats_int64s=[1, 2, 3], zeros=0)
        executable = self.load(model(node, {"x": numbers}, {"y": T.FLOAT})).compile()
        with self.assertRaisesRegex(Exception, "element 2 of x is none of the 3 categories"):
            executable(numbers)
        self.refuse("no categories", "OneHotEncoder", {"x": numbers}, {"y": T.FLOAT})

    def test_keys_of_a_dtype_that_is_not_compared_are_refused(self):
        numbers = np.array([[1], [2]], np.uint8)
        for dtype in np.uint8, np.float16, np.bool_:
            keys = np.ones(300, dtype)
            with self.assertRaisesRegex(tenon.Error, "expected a row-major list of up to"):
                tenon.ops.core.label_encode(numbers.astype("i4"), keys=keys, values=np.ones(300, "f4"), otherwise=np.float32(0))
            with self.assertRaisesRegex(tenon.Error, "expected a row-major list of up to"):
                tenon.ops.core.category_one_hot(numbers.astype("i4"), categories=keys)

    def test_label_encoder(self):
        words, numbers = np.array([["a", "c"], ["x", "b"]], object), np.array([[1, 3], [9, 2]])
        reals = np.array([[0.5, np.nan], [-0.0, 7]], np.float32)
        self.agree("LabelEncoder", {"x": words}, {"y": T.INT64}, keys_strings=["a", "b", "c"], values_int64s=[4, 5, 6], default_int64=-9)
        self.agree("LabelEncoder", {"x": words}, {"y": T.FLOAT}, keys_strings=["a", "b", "c"], values_floats=[4.0, 5.0, 6.0])
        self.agree("LabelEncoder", {"x": words}, {"y": T.STRING}, keys_strings=["a", "b", "c"], values_strings=["", "é", "long text"], default_string="none")
        self.agree("LabelEncoder", {"x": numbers}, {"y": T.STRING}, keys_int64s=[1, 2, 3], values_strings=["one", "two", "three"])
        self.agree("LabelEncoder", {"x": numbers}, {"y": T.FLOAT}, keys_int64s=[1, 2, 3], values_floats=[0.5, 1.5, 2.5], default_float=3.5)
        self.agree("LabelEncoder", {"x": reals}, {"y": T.STRING}, keys_floats=[0.5, 0.0, float("nan")], values_strings=["half", "zero", "nothing"], version=4)
        self.agree("LabelEncoder", {"x": words}, {"y": T.INT64}, version=1, classes_strings=["a", "b", "c"], default_int64=-2)
        self.agree("LabelEncoder", {"x": numbers}, {"y": T.STRING}, version=1, classes_strings=["a", "b", "c"], default_string="?")
        pair = lambda values: numpy_helper.from_array(np.array(values))  # noqa: E731
        self.agree("LabelEncoder", {"x": numbers}, {"y": T.DOUBLE}, version=4, keys_tensor=pair([1, 2]), values_tensor=pair([0.1, 0.2]), default_tensor=pair([0.9]))
        self.refuse("2 keys and 1 values", "LabelEncoder", {"x": numbers}, {"y": T.INT64}, keys_int64s=[1, 2], values_int64s=[3])
        self.refuse("no keys", "LabelEncoder", {"x": numbers}, {"y": T.INT64}, values_int64s=[3])
        self.refuse("several attributes", "LabelEncoder", {"x": numbers}, {"y": T.INT64}, keys_int64s=[1], keys_floats=[1.0], values_int64s=[3])

    def test_many_keys(self):
        rng = np.random.default_rng(1)
        keys = [f"key {k}" for k in range(5000)]
        self.agree("LabelEncoder", {"x": np.array([f"key {k}" for k in rng.integers(0, 9000, 2000)], object)}, {"y": T.INT64}, keys_strings=keys, values_int64s=list(range(5000)))

    def test_category_mapper(self):
        self.agree("CategoryMapper", {"x": np.array(["a", "x"], object)}, {"y": T.INT64}, cats_strings=["a", "b"], cats_int64s=[7, 8])
        self.agree("CategoryMapper", {"x": np.array([8, 1])}, {"y": T.STRING}, cats_strings=["a", "b"], cats_int64s=[7, 8], default_string="-")

    def test_maps(self):
        scores = np.array([[0.1, 0.9], [0.7, 0.3]], np.float32)
        node = h.make_node("ZipMap", ["x"], ["z"], name="n0", domain=ML, classlabels_int64s=[3, 4])
        proto = model(node, {"x": scores}, {})
        kind = h.make_sequence_type_proto(h.make_map_type_proto(T.INT64, h.make_tensor_type_proto(T.FLOAT, None)))
        proto.graph.output.append(onnx.ValueInfoProto(name="z", type=kind))
        maps = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": scores})[0]
        found = self.load(proto).compile()(scores)
        self.assertEqual([[row[3], row[4]] for row in maps], found.tolist())


class Grams(Case):
    def test_counts(self):
        rng = np.random.default_rng(1)
        pools = {"pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]}
        for mode, least, most, skips, dtype in itertools.product(("TF", "IDF", "TFIDF"), (1, 2), (1, 2), (0, 1, 5), (np.int32, np.int64)):
            if most < least:
                continue
            for shape in ((12,), (3, 9), (2, 1)):
                with self.subTest(mode=mode, least=least, most=most, skips=skips, shape=shape, dtype=dtype.__name__):
                    self.agree("TfIdfVectorizer", {"x": rng.integers(2, 9, shape).astype(dtype)}, {"y": T.FLOAT}, domain="", mode=mode, min_gram_length=least, max_gram_length=most,
                               max_skip_count=skips, ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5, 6], weights=[1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 0.25], **pools)

    def test_words(self):
        x = np.array([["the", "cat", "sat", "the", "cat"], ["a", "cat", "the", "sat", "b"]], object)
        self.agree("TfIdfVectorizer", {"x": x}, {"y": T.FLOAT}, domain="", mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=1, ngram_counts=[0, 2],
                   ngram_indexes=[2, 0, 1], pool_strings=["the", "cat", "the", "cat"][:4])

    def test_hostile_attributes(self):
        whole = dict(mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0, ngram_counts=[0, 2], ngram_indexes=[0, 1, 2], pool_int64s=[1, 2, 3, 4])
        for change, pattern in ((dict(ngram_counts=[0, 9]), "begin at"), (dict(ngram_counts=[0, -1]), "begin at"), (dict(ngram_counts=[0, 1]), "whole n-grams"),
                                (dict(ngram_indexes=[0, -1, 2]), "column -1"), (dict(ngram_indexes=[0, 1 << 50, 2]), "column 1125899906842624"), (dict(ngram_indexes=[0]), "lists 1 columns"),
                                (dict(min_gram_length=0), "0 to 1 items"), (dict(max_gram_length=7), "1 to 7 items"), (dict(max_skip_count=-1), "-1 skips"),
                                (dict(weights=[1.0]), "1 weights"), (dict(mode="SOME"), "mode")):
            with self.subTest(**change):
                self.refuse(pattern, "TfIdfVectorizer", {"x": np.zeros((1, 3), np.int64)}, {"y": T.FLOAT}, domain="", **{**whole, **change})
        self.agree("TfIdfVectorizer", {"x": np.array([[1, 2, 1]])}, {"y": T.FLOAT}, domain="", **{**whole, "max_skip_count": 2})


if __name__ == "__main__":
    totals.main()
