"""Nodes of ONNX Runtime's own operators (domain com.microsoft): models of one node each, with random inputs, over the attributes and
optional inputs of the operator. nodes_test.py runs them beside ONNX Runtime.

Usage: nodes.py FOLDER: writes the models into the folder, as seeds of fuzzing."""
import dataclasses
import itertools
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

f32, f16, i32, i64, u8, i8 = np.float32, np.float16, np.int32, np.int64, np.uint8, np.int8


@dataclasses.dataclass
class Case:
    """One node. `inputs`: arrays in the order of the node's inputs, None for one that is left out. `constants`: the positions of those that are
    initialisers. `near`: for floats, the tolerance relative to the largest magnitude; for integers, the greatest difference, which
    `share` of the elements may have."""
    name: str
    kind: str
    inputs: list
    outputs: int = 1
    attributes: dict = dataclasses.field(default_factory=dict)
    constants: tuple = ()
    near: float = 1e-5
    share: float = 0.0
    skip: tuple = ()            # outputs that the node does not name
    domain: str = "com.microsoft"
    opset: int = 17
    instead: object = None      # the case that the reference runs
    undefined: tuple = ()       # (output, index): parts of outputs that have no defined value

    def model(self):
        names = ["" if x is None else f"x{i}" for i, x in enumerate(self.inputs)]
        results = ["" if i in self.skip else f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.kind, names, results, name="node", domain=self.domain, **self.attributes)
        ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                 for i, (n, x) in enumerate(zip(names, self.inputs)) if n and i not in self.constants]
        weights = [numpy_helper.from_array(self.inputs[i], names[i]) for i in self.constants if names[i]]
        graph = helper.make_graph([node], "g", ports, [helper.make_empty_tensor_value_info(r) for r in results if r], weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def feed(self):
        return {f"x{i}": x for i, x in enumerate(self.inputs) if x is not None and i not in self.constants}


class Maker:
    def __init__(self, seed=5):
        self.random = np.random.default_rng(seed)
        self.cases = []

    def add(self, kind, inputs, name="", **more):
        self.cases.append(Case(f"{kind} {name}".strip(), kind, [None if x is None else np.asarray(x) for x in inputs], **more))

    def x(self, *shape, dtype=f32, scale=1.0):
        return (self.random.standard_normal(shape) * scale).astype(dtype)

    def q(self, *shape, dtype=u8):
        bounds = np.iinfo(dtype)
        return self.random.integers(bounds.min, bounds.max + 1, shape).astype(dtype)

    def ids(self, most, *shape, dtype=i32):
        return self.random.integers(0, most, shape).astype(dtype)


def activations(m):
    for shape in [(7,), (2, 3, 8), (0, 4)]:
        m.add("Gelu", [m.x(*shape)], str(shape))
        m.add("QuickGelu", [m.x(*shape)], str(shape))
        m.add("QuickGelu", [m.x(*shape)], f"{shape} alpha", attributes={"alpha": 0.5})
        m.add("FastGelu", [m.x(*shape)], str(shape), near=2e-5)
        m.add("FastGelu", [m.x(*shape), m.x(shape[-1])], f"{shape} bias", near=2e-5)
    m.add("BiasGelu", [m.x(2, 3, 8), m.x(8)])


def norms(m):
    for dtype, near in [(f32, 1e-5), (f16, 4e-3)]:
        x, s, g, b, bias = m.x(2, 5, 16, dtype=dtype), m.x(2, 5, 16, dtype=dtype), m.x(16, dtype=dtype), m.x(16, dtype=dtype), m.x(16, dtype=dtype)
        of = f"{np.dtype(dtype)}"
        m.add("SkipLayerNormalization", [x, s, g], f"{of} gamma", near=near)
        m.add("SkipLayerNormalization", [x, s, g, b, bias], of, outputs=4, skip=(1, 2), near=near)
        m.add("SkipLayerNormalization", [x, s, g, None, bias], f"{of} epsilon", attributes={"epsilon": 0.1}, near=near)
        m.add("SkipLayerNormalization", [x, s[:1], g, b], f"{of} one skip for the batch", near=near)
        m.add("SkipLayerNormalization", [x, s[0], g, b], f"{of} skip of two axes", near=near)
        m.add("SkipSimplifiedLayerNormalization", [x, s, g], of, near=near)
        m.add("SkipSimplifiedLayerNormalization", [x, s, g, bias], f"{of} bias", outputs=4, skip=(1, 2), near=near)
        m.add("SimplifiedLayerNormalization", [x, g], of, domain="", near=near, attributes={"axis": -1, "epsilon": 1e-5, "stash_type": 1})
    m.add("LayerNormalization", [m.x(2, 5, 16), m.x(16), m.x(16)], "before operator set 17", domain="", opset=14)
    tables = [m.x(30, 16), m.x(12, 16), m.x(2, 16), m.x(16), m.x(16)]
    ids, segments, mask = m.ids(30, 2, 6), m.ids(2, 2, 6), np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], i32)
    m.add("EmbedLayerNormalization", [ids, segments, *tables, mask], outputs=3, attributes={"epsilon": 1e-5})
    m.add("EmbedLayerNormalization", [ids, None, tables[0], tables[1], None, *tables[3:]], "words and positions", outputs=2)
    m.add("EmbedLayerNormalization", [ids, segments, *tables, None, m.ids(12, 2, 6)], "position_ids", outputs=2)
    m.add("EmbedLayerNormalization", [ids, segments, *tables, mask, m.ids(12, 1, 6)], "shared position_ids", outputs=2)


def quantised_norms(m):
    ids, segments, mask = m.ids(30, 2, 6), m.ids(2, 2, 6), np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], i32)
    for dtype in (u8, i8):
        tables = [m.q(30, 16, dtype=dtype), m.q(12, 16, dtype=dtype), m.q(2, 16, dtype=dtype), m.q(16, dtype=dtype), m.q(16, dtype=dtype)]
        scales, zeros = list(m.random.uniform(0.01, 0.05, 5).astype(f32)), [m.q(dtype=dtype) for _ in range(5)]
        m.add("QEmbedLayerNormalization", [ids, segments, *tables, mask, *scales, *zeros], str(np.dtype(dtype)), outputs=2)
        for of in (tables, scales, zeros):
            of[2] = None
        m.add("QEmbedLayerNormalization", [ids, None, *tables, None, *scales, *zeros], f"{np.dtype(dtype)} without segments", outputs=2)


def products(m):
    flags = itertools.product((0, 1), (0, 1), (1.0, 0.25))
    for ta, tb, alpha in flags:
        a, b = m.x(2, 3, *((5, 4) if ta else (4, 5))), m.x(2, 3, *((6, 5) if tb else (5, 6)))
        attributes = {"transA": ta, "transB": tb, "alpha": alpha}
        m.add("FusedMatMul", [a, b], str(attributes), attributes=attributes)
        m.add("TransposeMatMul", [a, b], str(attributes), attributes=attributes)
    m.add("FusedMatMul", [m.x(4, 2, 3, 5), m.x(2, 3, 5, 6)], "transBatchA", attributes={"transBatchA": 1})
    m.add("FusedMatMul", [m.x(5, 2, 3, 4), m.x(2, 3, 5, 6)], "transBatchA, transA", attributes={"transBatchA": 1, "transA": 1})
    m.add("FusedMatMul", [m.x(2, 3, 4, 5), m.x(5, 2, 3, 6)], "transBatchB", attributes={"transBatchB": 1})
    m.add("FusedMatMul", [m.x(5), m.x(5, 6)], "a vector", attributes={"transA": 1})
    for kind, parameters in [("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.3}),
                             ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4})]:
        for c in [None, m.x(6), m.x(4, 6)]:
            attributes = {"activation": kind, "alpha": 0.5, "beta": 2.0, **parameters}
            m.add("FusedGemm", [m.x(4, 5), m.x(5, 6), c] if c is not None else [m.x(4, 5), m.x(5, 6)], f"{kind} {None if c is None else c.shape}",
                  attributes=attributes)
    m.add("FusedGemm", [m.x(5, 4), m.x(6, 5), m.x(6)], "transposed", attributes={"transA": 1, "transB": 1, "activation": "Relu"})
    for kind, parameters in [("Relu", None), ("Sigmoid", None), ("Tanh", None), ("LeakyRelu", [0.3]), ("Clip", [-0.2, 0.6]), ("HardSigmoid", [0.2, 0.5])]:
        attributes = {"activation": kind, "kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        if parameters:
            attributes["activation_params"] = parameters
        m.add("FusedConv", [m.x(1, 4, 7, 7), m.x(8, 4, 3, 3), m.x(8)], kind, attributes=attributes, constants=(1, 2))
    m.add("FusedConv", [m.x(2, 4, 7, 7), m.x(8, 4, 3, 3), m.x(8), m.x(2, 8, 7, 7)], "sum", constants=(1, 2),
          attributes={"activation": "Relu", "kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"})
    m.add("FusedConv", [m.x(1, 4, 7, 7), m.x(8, 2, 3, 3)], "groups", constants=(1,),
          attributes={"activation": "Relu", "group": 2, "strides": [2, 2], "dilations": [2, 2]})
    m.add("ConvTransposeWithDynamicPads", [m.x(1, 4, 5, 5), m.x(4, 6, 3, 3), np.array([1, 0, 1, 2], i64), m.x(6)], constants=(1, 2),
          attributes={"strides": [2, 2], "output_padding": [1, 0]})


def attention_inputs(m, hidden, heads, sizes):
    return m.x(2, 5, hidden), m.x(hidden, sum(sizes), scale=0.3), m.x(sum(sizes))


def attentions(m):
    x, w, b = attention_inputs(m, 12, 3, (12, 12, 12))
    lengths, ends = np.array([3, 5], i32), np.array([4, 5, 1, 0], i32)
    raw = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], i32)
    cube = (m.random.random((2, 5, 5)) < 0.7).astype(i32)
    cube[:, :, 0] = 1
    for name, mask in [("no mask", None), ("lengths", lengths), ("ends and beginnings", ends), ("mask", raw), ("mask for each query", cube)]:
        for causal in (0, 1):
            m.add("Attention", [x, w, b, mask] if mask is not None else [x, w, b], f"{name}, causal {causal}",
                  attributes={"num_heads": 3, "unidirectional": causal})
    m.add("Attention", [x, w, b, raw], "scale and filter", attributes={"num_heads": 3, "scale": 0.2, "mask_filter_value": -3.0})
    # ONNX Runtime 1.31 crashes without the bias, so there is no case without it.
    m.add("Attention", [x, w, b, None, None, m.x(2, 3, 5, 5)], "attention_bias", attributes={"num_heads": 3})
    m.add("Attention", [x, w, b, None, None, m.x(1, 3, 5, 5)], "attention_bias for all rows", attributes={"num_heads": 3})
    past = m.x(2, 2, 3, 4, 4)
    m.add("Attention", [x, w, b, None, past], "past", outputs=2, attributes={"num_heads": 3, "unidirectional": 1})
    m.add("Attention", [x, w, b, np.ones((2, 9), i32) - np.eye(2, 9, dtype=i32), past], "past and mask", outputs=2,
          attributes={"num_heads": 3, "unidirectional": 1})
    m.add("Attention", [x, w, b], "present", outputs=2, attributes={"num_heads": 3})
    x, w, b = attention_inputs(m, 12, 3, (6, 6, 15))
    m.add("Attention", [x, w, b], "sizes of its own", attributes={"num_heads": 3, "qkv_hidden_sizes": [6, 6, 15]})
    for dtype in (u8, i8):
        zero, wz = np.array(128, u8), np.array(3, dtype)
        w = m.q(12, 36, dtype=dtype) // dtype(4)  # no pair of products leaves 16 bits in ONNX Runtime's kernels
        args = [m.q(2, 5, 12) // u8(2), w, m.x(36), np.array(0.02, f32), np.array(0.01, f32), raw, zero, wz]
        m.add("QAttention", args, f"{np.dtype(dtype)}", attributes={"num_heads": 3}, constants=(1, 2, 3, 4, 6, 7), near=2e-4)
        m.add("QAttention", args[:5], f"{np.dtype(dtype)} without zero points", attributes={"num_heads": 3, "unidirectional": 1},
              constants=(1, 2, 3, 4), near=2e-4)
    m.add("QAttention", [m.q(2, 5, 12) // u8(2), m.q(12, 36, dtype=i8) // i8(4), m.x(36), np.array(0.02, f32), m.x(36) ** 2 * f32(0.02), None, np.array(7, u8), m.q(36, dtype=i8) // 8],
          "scales of columns", attributes={"num_heads": 3}, constants=(1, 2, 3, 4, 6, 7), near=2e-4)


def multi_heads(m):
    q, k, v = m.x(2, 4, 12), m.x(2, 6, 12), m.x(2, 6, 15)
    bias, mask, score = m.x(39), np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]], i32), m.x(2, 3, 4, 6)
    heads = {"num_heads": 3}
    m.add("MultiHeadAttention", [q, k, v], attributes=heads)
    m.add("MultiHeadAttention", [q, k, v, bias], "bias", attributes=heads)
    m.add("MultiHeadAttention", [q, k, v, bias, mask], "mask", attributes=heads)
    m.add("MultiHeadAttention", [q, k, v, None, np.array([2, 5], i32)], "lengths", attributes=heads)
    m.add("MultiHeadAttention", [q, k, v, None, None, score], "attention_bias", attributes={**heads, "scale": 0.4})
    m.add("MultiHeadAttention", [q, k, v, bias, mask, score], "all masks", attributes={**heads, "mask_filter_value": -2.0})
    m.add("MultiHeadAttention", [q, k[:, :4], v[:, :4]], "causal", attributes={**heads, "unidirectional": 1})
    m.add("MultiHeadAttention", [q, k, v], "present", outputs=3, attributes=heads)
    past = [m.x(2, 3, 5, 4), m.x(2, 3, 5, 4)]
    m.add("MultiHeadAttention", [q, k, m.x(2, 6, 12), None, None, None, *past], "past", outputs=3, attributes=heads)
    m.add("MultiHeadAttention", [q, m.x(2, 3, 6, 4), m.x(2, 3, 6, 4)], "cache of an encoder", attributes=heads)
    m.add("MultiHeadAttention", [q, m.x(2, 3, 6, 4), m.x(2, 3, 6, 4), m.x(36)], "cache of an encoder and bias", attributes=heads)


def group_queries(m):
    def cache(rot=16, most=32):
        angle = np.outer(np.arange(most), 1 / 100 ** (np.arange(rot // 2) / (rot // 2)))
        return np.cos(angle).astype(f32), np.sin(angle).astype(f32)
    heads = {"num_heads": 4, "kv_num_heads": 2}
    cos, sin = cache()
    full = np.array([4, 4], i32)
    q, k, v = m.x(2, 5, 64), m.x(2, 5, 32), m.x(2, 5, 32)
    tail = [full, np.array(5, i32)]
    empty = m.x(2, 2, 0, 16)
    m.add("GroupQueryAttention", [q, k, v, None, None, *tail], "prompt", outputs=3, attributes=heads)
    m.add("GroupQueryAttention", [q, k, v, empty, empty, *tail], "prompt with an empty past", outputs=3, attributes=heads)
    m.add("GroupQueryAttention", [q, k, v, None, None, *tail, cos, sin], "rotary", outputs=3, attributes={**heads, "do_rotary": 1})
    m.add("GroupQueryAttention", [q, k, v, None, None, *tail, cos, sin], "rotary interleaved", outputs=3,
          attributes={**heads, "do_rotary": 1, "rotary_interleaved": 1})
    m.add("GroupQueryAttention", [m.x(2, 5, 128), m.x(2, 5, 64), m.x(2, 5, 64), None, None, *tail, cos, sin], "rotary of a part", outputs=3,
          attributes={**heads, "do_rotary": 1})
    m.add("GroupQueryAttention", [m.x(2, 5, 128), None, None, None, None, *tail, cos, sin], "packed", outputs=3, attributes={**heads, "do_rotary": 1})
    m.add("GroupQueryAttention", [q, k, v, None, None, *tail], "scale and softcap", outputs=3, attributes={**heads, "scale": 0.2, "softcap": 2.0})
    for window in (1, 2, 4):
        m.add("GroupQueryAttention", [q, k, v, None, None, *tail], f"window {window}", outputs=3, attributes={**heads, "local_window_size": window})
    past = [m.x(2, 2, 7, 16), m.x(2, 2, 7, 16)]
    one = [m.x(2, 1, 64), m.x(2, 1, 32), m.x(2, 1, 32)]
    m.add("GroupQueryAttention", [*one, *past, np.array([7, 7], i32), np.array(8, i32), cos, sin], "one more word", outputs=3,
          attributes={**heads, "do_rotary": 1})
    m.add("GroupQueryAttention", [*one, *past, np.array([7, 7], i32), np.array(8, i32), cos, sin], "one more word, window", outputs=3,
          attributes={**heads, "do_rotary": 1, "local_window_size": 3})
    m.add("GroupQueryAttention", [*one, *past, np.array([4, 7], i32), np.array(8, i32), cos, sin], "rows of other lengths", outputs=3,
          attributes={**heads, "do_rotary": 1}, undefined=[(i, np.s_[0, :, 5:]) for i in (1, 2)])
    m.add("GroupQueryAttention", [m.x(1, 3, 64), m.x(1, 3, 32), m.x(1, 3, 32), past[0][:1], past[1][:1], np.array([9], i32), np.array(10, i32), cos, sin],
          "several more words", outputs=3, attributes={**heads, "do_rotary": 1})
    m.add("GroupQueryAttention", [q, k, v, None, None, *tail, cos, sin, np.tile(np.arange(3, 8, dtype=i64), (2, 1))], "position_ids", outputs=3,
          attributes={**heads, "do_rotary": 1})
    m.add("GroupQueryAttention", [q, k, v, None, None, *tail, None, None, None, m.x(2, 4, 5, 5)], "attention_bias", outputs=3, attributes=heads)


def quantised(m):
    scale = lambda: np.array(m.random.uniform(0.01, 0.05), f32)
    for dtype in (u8, i8):
        of = str(np.dtype(dtype))
        zero = lambda: m.q(dtype=dtype) // dtype(2)
        more = dict(near=1, share=0.02)
        for kind in ("QLinearAdd", "QLinearMul"):
            m.add(kind, [m.q(3, 40, dtype=dtype), scale(), zero(), m.q(3, 40, dtype=dtype), scale(), zero(), scale() * f32(2), zero()], of, **more)
            m.add(kind, [m.q(3, 40, dtype=dtype), scale(), zero(), m.q(40, dtype=dtype), scale(), zero(), scale()],
                  f"{of} without a zero point of the result, broadcast", **more)
        m.add("QLinearLeakyRelu", [m.q(3, 40, dtype=dtype), scale(), zero(), scale(), zero()], of, attributes={"alpha": 0.2}, constants=(1, 2, 3, 4), **more)
        m.add("QLinearSigmoid", [m.q(3, 40, dtype=dtype), scale(), zero(), np.array(1 / 256, f32), np.array(np.iinfo(dtype).min, dtype)], of,
              constants=(1, 2, 3, 4), **more)
        for axis, opset in [(-1, 13), (1, 13), (1, 11), (2, 11)]:
            m.add("QLinearSoftmax", [m.q(2, 3, 10, dtype=dtype), scale(), zero(), np.array(1 / 256, f32), np.array(np.iinfo(dtype).min, dtype)],
                  f"{of} axis {axis} of operator set {opset}", attributes={"axis": axis, "opset": opset}, constants=(1, 2, 3, 4), near=1, share=0.1)
        m.add("QLinearConcat", [scale(), zero(), *[y for n in (2, 3, 4) for y in (m.q(2, n, dtype=dtype), scale(), zero())]], of, attributes={"axis": 1},
              constants=(0, 1, 3, 4, 6, 7, 9, 10), **more)
        m.add("QLinearWhere", [m.random.random((3, 40)) < 0.5, m.q(3, 40, dtype=dtype), scale(), zero(), m.q(3, 40, dtype=dtype), scale(), zero(), scale(), zero()],
              of, constants=(2, 3, 5, 6, 7, 8), **more)
        for last in (0, 1):
            shape = (2, 6, 7, 4) if last else (2, 4, 6, 7)
            m.add("QLinearAveragePool", [m.q(*shape, dtype=dtype), scale(), zero(), scale(), zero()], f"{of} channels_last {last}",
                  attributes={"channels_last": last, "kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "count_include_pad": last}, **more)
            m.add("QLinearGlobalAveragePool", [m.q(*shape, dtype=dtype), scale(), zero(), scale(), zero()], f"{of} channels_last {last}",
                  attributes={"channels_last": last}, near=1, share=0.2)
            shape = (2, 6, 7, 4) if last else (2, 4, 6, 7)
            m.add("QLinearConv", [m.q(*shape, dtype=dtype), scale(), zero(), m.q(8, 4, 3, 3, dtype=i8) // i8(4), scale(), np.array(0, i8), scale() * f32(50),
                                  zero(), m.q(8, dtype=i8).astype(i32)], f"{of} channels_last {last}",
                  attributes={"channels_last": last, "kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, constants=(1, 2, 3, 4, 5, 6, 7, 8), near=1, share=0.002)
            m.add("NhwcMaxPool", [m.q(2, 6, 7, 4, dtype=dtype)], f"{of} ceil_mode {last}",
                  attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "ceil_mode": last}, near=0)
    narrow = lambda *s, dtype=i8: (m.q(*s, dtype=dtype) // dtype(4)).astype(dtype)  # no pair of products leaves 16 bits in ONNX Runtime's kernels
    for dtype in (u8, i8):
        a, b, az, bz = narrow(5, 12, dtype=u8), narrow(12, 7, dtype=dtype), np.array(20, u8), np.array(3, dtype)
        of = str(np.dtype(dtype))
        m.add("MatMulIntegerToFloat", [a, b, scale(), scale(), az, bz, m.x(7)], of, constants=(1,))
        m.add("MatMulIntegerToFloat", [a, b, scale(), m.x(7) ** 2, az, narrow(7, dtype=dtype)], f"{of} columns", constants=(1,))
        m.add("MatMulIntegerToFloat", [a, b, scale(), scale()], f"{of} without zero points", constants=(1,))
        m.add("DynamicQuantizeMatMul", [m.x(5, 12), b, scale(), bz, m.x(7)], of, constants=(1, 2, 3), near=1e-4)
        m.add("DynamicQuantizeMatMul", [m.x(2, 5, 12), b, m.x(7) ** 2, narrow(7, dtype=dtype)], f"{of} columns", constants=(1, 2, 3), near=1e-4)
    for ta, tb in itertools.product((0, 1), (0, 1)):
        a, b = narrow(*((12, 5) if ta else (5, 12)), dtype=u8), narrow(*((7, 12) if tb else (12, 7)))
        attributes = {"transA": ta, "transB": tb, "alpha": 0.7}
        c = m.random.integers(-900, 900, (7,)).astype(i32)
        m.add("QGemm", [a, scale(), np.array(20, u8), b, scale(), np.array(0, i8), c, scale() * f32(5), np.array(100, u8)], f"{attributes}",
              attributes=attributes, constants=(3, 6), near=0)
        m.add("QGemm", [a, scale(), np.array(20, u8), b, scale(), np.array(0, i8), c], f"{attributes} to floats", attributes=attributes, constants=(3, 6))
    m.add("QGemm", [narrow(5, 12, dtype=u8), scale(), np.array(20, u8), narrow(12, 7), m.x(7) ** 2, narrow(7), None, scale() * f32(5), np.array(100, u8)], "columns",
          constants=(3,), near=1, share=0.03)
    for dtype in (u8, i8, np.uint16, np.int16):
        bounds = np.iinfo(dtype)
        zero = np.array((bounds.max + bounds.min) // 2 + 3, dtype)
        m.add("QuantizeLinear", [m.x(4, 6), np.array(0.01, f32), zero], str(np.dtype(dtype)), near=0)
        m.add("DequantizeLinear", [m.q(4, 6, dtype=dtype), np.array(0.01, f32), zero], str(np.dtype(dtype)))
    m.add("QuantizeLinear", [m.x(4, 6), np.full(6, 0.01, f32), m.q(6)], "columns", attributes={"axis": 1}, near=0)
    m.add("DequantizeLinear", [m.q(4, 6), m.x(4) ** 2, m.q(4)], "rows", attributes={"axis": 0})


def packed(m):
    for bits, block, k, n, zeros, bias, dtype in [(4, 16, 64, 10, None, 0, f32), (4, 32, 96, 12, "u8", 1, f32), (4, 16, 40, 9, "u8", 0, f32), (8, 32, 64, 8, None, 0, f32),
                                                  (8, 32, 96, 8, "u8", 1, f32), (4, 32, 64, 8, "float", 0, f32), (4, 32, 64, 8, "u8", 1, f16), (4, 128, 256, 16, None, 0, f32),
                                                  (2, 32, 64, 8, None, 0, f32), (2, 16, 96, 8, "u8", 0, f32)]:
        blocks = -(-k // block)
        args = [m.x(3, k, dtype=dtype), m.q(n, blocks, block * bits // 8), (m.random.uniform(0.01, 0.05, n * blocks)).astype(dtype)]
        if zeros == "u8":
            args.append(m.q(n * -(-blocks * bits // 8)))
        elif zeros:
            args.append(m.random.uniform(5, 10, n * blocks).astype(dtype))
        if bias:
            args += [None] * (5 - len(args)) + [m.x(n, dtype=dtype)]
        m.add("MatMulNBits", args, f"{bits} bits, blocks of {block}, k {k}, zero points {zeros}, {np.dtype(dtype)}{', bias' * bias}",
              attributes={"K": k, "N": n, "bits": bits, "block_size": block}, constants=tuple(i for i in range(1, len(args)) if args[i] is not None),
              near=1e-5 if dtype == f32 else 5e-3)
    order = m.random.permutation(np.arange(64) // 16).astype(i32)
    args = [m.x(2, 3, 64), m.q(8, 4, 8), m.random.uniform(0.01, 0.05, 32).astype(f32), None, order]
    sizes = {"K": 64, "N": 8, "bits": 4, "block_size": 16}
    m.add("MatMulNBits", args, "groups", attributes=sizes, constants=(1, 2, 4))
    # ONNX Runtime 1.31 ignores the zero points if there are groups, so the weights come from the definition.
    zeros = m.q(8 * 2)
    codes, biases = (np.stack([v & 15, v >> 4], -1).reshape(8, -1).astype(f32) for v in (args[1], zeros))
    weights = (codes - biases[:, order]) * args[2].reshape(8, 4)[:, order]
    m.add("MatMulNBits", [*args[:3], zeros, order], "groups and zero points", attributes=sizes, constants=(1, 2, 3, 4),
          instead=Case("", "MatMul", [args[0], weights.T.copy()], domain=""))
    for bits, zeros, dtype in itertools.product((4, 8), (0, 1), (f32, f16)):
        rows, width, block = 20, 64, 16
        args = [m.q(rows, width * bits // 8), m.ids(rows, 2, 3, dtype=i64), m.random.uniform(0.01, 0.05, (rows, 4)).astype(dtype)]
        if zeros:
            args.append(m.q(rows, 4 * bits // 8))
        m.add("GatherBlockQuantized", args, f"{bits} bits, zero points {zeros}, {np.dtype(dtype)}", constants=(0, 2, 3)[:2 + zeros],
              attributes={"block_size": block, "bits": bits, "gather_axis": 0, "quantize_axis": 1}, near=1e-6 if dtype == f32 else 1e-3)


def others(m):
    cos, sin = m.x(16, 4), m.x(16, 4)
    for shape in [(2, 5, 24), (2, 3, 5, 8)]:
        for interleaved in (0, 1):
            for ids in [np.array([3], i64), m.ids(16, 2, 5, dtype=i64)]:
                m.add("RotaryEmbedding", [m.x(*shape), ids, cos, sin], f"{shape} interleaved {interleaved} ids {ids.shape}", constants=(2, 3),
                      attributes={"interleaved": interleaved})
    m.add("RotaryEmbedding", [m.x(2, 5, 30), m.ids(16, 2, 5, dtype=i64), cos, sin], "a part of the head", constants=(2, 3),
          attributes={"num_heads": 3, "rotary_embedding_dim": 8})
    m.add("RotaryEmbedding", [m.x(2, 5, 24, dtype=f16), np.array([0], i64), cos.astype(f16), sin.astype(f16)], "float16", constants=(2, 3), near=4e-3)
    m.add("CDist", [m.x(4, 6), m.x(5, 6)], attributes={"metric": "sqeuclidean"})
    m.add("CDist", [m.x(4, 6), m.x(5, 6)], "euclidean", attributes={"metric": "euclidean"})
    m.add("ExpandDims", [m.x(4, 6), np.array(1, i32)], constants=(1,), near=0)
    m.add("ExpandDims", [m.x(4, 6), np.array(-1, i32)], "at the end", constants=(1,), near=0)
    m.add("GatherND", [m.x(4, 6, 2), m.ids(4, 3, 2, dtype=i64)], near=0)
    for mode in ("bilinear", "nearest", "bicubic"):
        m.add("GridSample", [m.x(1, 2, 6, 7), m.random.uniform(-1, 1, (1, 4, 5, 2)).astype(f32)], mode, attributes={"mode": mode, "padding_mode": "zeros"})
    m.add("Pad", [m.x(2, 3), np.array([0, 1, 2, 3], i64), np.array([0.5], f32)], constants=(1, 2), near=0)
    m.add("Pad", [m.x(2, 3), np.array([0, 1, 1, 2], i64)], "reflect", constants=(1,), attributes={"mode": "reflect"}, near=0)
    m.add("Range", [np.array([1], f32), np.array([9], f32), np.array([2.5], f32)], constants=(0, 1, 2), near=0)
    m.add("Range", [np.array(1, i64), np.array(9, i64)], "without a step", constants=(0, 1), near=0)
    m.add("SampleOp", [m.x(3)], near=0)
    m.add("Trilu", [m.x(4, 5)], near=0, attributes={"upper": 0})
    m.add("Trilu", [m.x(4, 5), np.array(1, i64)], "k", constants=(1,), near=0)
    m.add("Unique", [m.ids(4, 12).astype(f32)], outputs=3, near=0)


def states(m):
    heads = {"q_num_heads": 4, "kv_num_heads": 4}
    q, k, v = m.x(2, 5, 32), m.x(2, 5, 32, scale=0.3), m.x(2, 5, 16)
    decay, beta, past = -np.abs(m.x(2, 5, 4)), np.abs(m.x(2, 5, 4)), m.x(2, 4, 8, 4)
    for rule, more in {"linear": [None, None], "gated": [decay, None], "delta": [None, beta], "gated_delta": [decay, beta]}.items():
        for state in (None, past):
            m.add("LinearAttention", [q, k, v, state, *more], f"{rule}, {'a' if state is not None else 'no'} state", outputs=2,
                  attributes={**heads, "update_rule": rule, "scale": 0.4})
    m.add("LinearAttention", [q, k, v, past, decay, beta], "of the default rule and scale", outputs=2, attributes={**heads, "chunk_size": 16})
    x, w = m.x(2, 6, 9), m.x(6, 1, 4)
    for activation in ("none", "silu", "swish"):
        m.add("CausalConvWithState", [x, w, m.x(6), m.x(2, 6, 3)], activation, outputs=2, attributes={"activation": activation, "ndim": 1})
    m.add("CausalConvWithState", [x, w], "without bias and state", outputs=2)
    for dtype in (f32, f16):
        near = 1e-5 if dtype == f32 else 4e-3
        a, b = m.x(2, 5, 6, dtype=dtype), m.x(2, 5, 6, dtype=dtype)
        m.add("LinearAttentionGate", [a, m.x(6), -np.abs(m.x(6)), b], f"{np.dtype(dtype)}", outputs=2, near=near)
        m.add("LinearAttentionGate", [a, m.x(6), -np.abs(m.x(6))], f"{np.dtype(dtype)} without beta", near=near)
        for activation in ("silu", "swish", "sigmoid"):
            m.add("GatedRMSNorm", [m.x(2, 5, 12, dtype=dtype), m.x(6, dtype=dtype), m.x(2, 5, 12, dtype=dtype)], f"{activation} {np.dtype(dtype)}", near=near,
                  attributes={"activation": activation, "epsilon": 1e-3})
        m.add("GatedAdd", [a, b, m.x(2, 5, 1, dtype=dtype)], f"{np.dtype(dtype)}", near=near)
        m.add("ScaledSiLU", [a], f"{np.dtype(dtype)}", attributes={"alpha": 1.5}, near=near)
        m.add("ScaledSiLU", [a, np.array(0.7, f32)], f"scale {np.dtype(dtype)}", near=near)


def windows(m):
    for dim, size, step in ((-1, 3, 1), (0, 2, 2), (1, 5, 1), (1, 2, 3)):
        m.add("UnfoldTensor", [m.x(4, 5, 7)], f"axis {dim}, {size} by {step}", attributes={"dim": dim, "size": size, "step": step}, near=0)
    for n in (1, 2, 3, 4):
        m.add("NGramRepeatBlock", [m.ids(3, 4, 24, dtype=i64), m.x(4, 3)], f"{n}", attributes={"ngram_size": n}, near=0)
    m.add("NGramRepeatBlock", [np.array([[0, 1, 2, 0, 1, 3, 0, 1], [2, 2, 2, 2, 2, 2, 2, 2]], i64), m.x(2, 5)], "seen", attributes={"ngram_size": 3}, near=0)
    m.add("NGramRepeatBlock", [m.ids(3, 2, 2, dtype=i64), m.x(2, 3)], "of few tokens", attributes={"ngram_size": 5}, near=0)
    boxes = np.array([[0.1, 0.2, 0.7, 0.9], [0, 0, 1, 1], [-0.2, 0.3, 1.3, 0.8], [0.8, 0.9, 0.2, 0.1]], f32)
    for size in ((3, 4), (1, 5), (4, 1)):
        m.add("CropAndResize", [m.x(2, 3, 6, 7), boxes, np.array([0, 1, 1, 0], i32), np.array(size, i32)], f"{size}", constants=(3,),
              attributes={"extrapolation_value": 0.25})
    for shape, dtype in (((3, 3), f32), ((2, 5, 4, 4), f32), ((2, 4, 4), np.float64), ((40, 40), f32)):
        m.add("Inverse", [(m.x(*shape) + 3 * np.eye(shape[-1])).astype(dtype)], f"{shape} {np.dtype(dtype)}", near=1e-5)


def lstms(m):
    """The weights are the floats that the integers stand for; the activations are not quantised, as in an LSTM of these weights."""
    for directions, of in itertools.product((1, 2), ("tensor", "column")):
        direction, h, n = {1: "forward", 2: "bidirectional"}[directions], 6, 5
        scales = [m.random.uniform(0.001, 0.004, (directions, 4 * h) if of == "column" else (directions,)).astype(f32) for _ in range(2)]
        zeros = [m.q(*s.shape, dtype=i8) // i8(8) for s in scales]
        x, w, r, b = m.x(7, 2, n, scale=0.5), m.q(directions, n, 4 * h, dtype=i8), m.q(directions, h, 4 * h, dtype=i8), m.x(directions, 8 * h, scale=0.1)
        floats = [((v.astype(f32) - z.reshape(directions, 1, -1)) * s.reshape(directions, 1, -1)).transpose(0, 2, 1).copy()
                  for v, z, s in zip((w, r), zeros, scales)]
        attributes = {"hidden_size": h, "direction": direction}
        plain = Case("", "LSTM", [x, *floats, b], 3, attributes, (1, 2, 3), domain="", opset=14)
        m.add("DynamicQuantizeLSTM", [x, w, r, b, None, None, None, None, scales[0], zeros[0], scales[1], zeros[1]], f"{direction}, scales of each {of}",
              outputs=3, attributes=attributes, constants=(1, 2, 3, 8, 9, 10, 11), near=2e-5, instead=plain)


def cases():
    m = Maker()
    for family in (activations, norms, quantised_norms, products, attentions, multi_heads, group_queries, quantised, packed, others, states, windows, lstms):
        family(m)
    return m.cases


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(cases()):
        (folder / f"{number}.onnx").write_bytes(case.model().SerializeToString())
