"""Hostile nodes of ONNX Runtime's own operators: each ends in one error that names the node, what was expected and what was found.

The build is TENON_BUILD, else `build`; a build with the address sanitizer needs no Python package.  Run with a Python that has NumPy and onnx."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(ROOT / "tests/acceptance/contrib"), str(ROOT / "tests/adapters")]

import nodes  # noqa: E402
import totals  # noqa: E402

f32, i32, i64, u8 = np.float32, np.int32, np.int64, np.uint8
m = nodes.Maker()


def case(kind, inputs, constants=(), domain="com.microsoft", outputs=1, **attributes):
    inputs = [None if x is None else np.asarray(x) for x in inputs]
    return nodes.Case("", kind, inputs, outputs, attributes, constants, domain=domain)


X, W, B = m.x(2, 5, 12), m.x(12, 36), m.x(36)
Q = m.x(2, 4, 12)
PACKED = [m.x(3, 64), m.q(8, 2, 16), m.x(16)]
SIZES = {"K": 64, "N": 8, "bits": 4, "block_size": 32}


def packed(change=(), constants=(1, 2, 3, 4), **sizes):
    inputs = [*PACKED, None, None]
    for position, value in change:
        inputs[position] = value
    return case("MatMulNBits", inputs, tuple(i for i in constants if inputs[i] is not None), **{**SIZES, **sizes})


GROUP = [m.x(2, 5, 64), m.x(2, 5, 32), m.x(2, 5, 32), None, None, np.array([4, 4], i32), np.array(5, i32)]
HEADS = {"num_heads": 4, "kv_num_heads": 2}

# A title, the node, and texts that the message must contain.
FAULTS = [
    ("no inputs", case("Attention", [], num_heads=3), ["input 0 (`x`) is missing"]),
    ("no weights", case("Attention", [X], num_heads=3), ["input 1 (`w`) is missing"]),
    ("no heads", case("Attention", [X, W, B]), ["'num_heads' is 0", "from 1 to"]),
    ("zero heads", case("MultiHeadAttention", [Q, Q, Q], num_heads=0), ["'num_heads' is 0", "from 1 to"]),
    ("negative heads", case("MultiHeadAttention", [Q, Q, Q], num_heads=-4), ["'num_heads' is -4"]),
    ("2^62 heads", case("MultiHeadAttention", [Q, Q, Q], num_heads=1 << 62), [f"'num_heads' is {1 << 62}"]),
    ("heads that do not divide", case("MultiHeadAttention", [Q, Q, Q], num_heads=5), ["12", "not a multiple of its 5 heads"]),
    ("heads of a product", case("Attention", [X, W, B], num_heads=7), ["not a multiple of its 7 heads"]),
    ("query of two axes", case("MultiHeadAttention", [Q[0], Q, Q], num_heads=3), ["query and key have 2 and 3 axes"]),
    ("key of five axes", case("MultiHeadAttention", [Q, m.x(1, 1, 1, 1, 1), Q], num_heads=3), ["query and key have 3 and 5 axes"]),
    ("packed query", case("MultiHeadAttention", [m.x(2, 4, 3, 3, 4)], num_heads=3), ["packed in one input"]),
    ("mask of five axes", case("Attention", [X, W, B, np.ones((1, 1, 1, 1, 1), i32)], num_heads=3), ["the mask has 5 axes"]),
    ("mask of another length", case("Attention", [X, W, B, np.ones((2, 9), i32)], num_heads=3), ["core::attention", "attn_mask"]),
    ("lengths of three rows", case("Attention", [X, W, B, np.ones(3, i32)], num_heads=3), ["3 elements for 2 rows"]),
    ("past of two axes", case("Attention", [X, W, B, None, m.x(2, 3)], num_heads=3, outputs=2), ["past_key"]),
    ("sizes that do not add up", case("Attention", [X, W, B], num_heads=3, qkv_hidden_sizes=[12, 12, 13]), ["core::split"]),
    ("rotary attention", case("Attention", [X, W, B], num_heads=3, do_rotary=1), ["'do_rotary' is set"]),
    ("heads of a group", case("GroupQueryAttention", GROUP, num_heads=4, kv_num_heads=3), ["4", "not a multiple of kv_num_heads, 3"]),
    ("half a past", case("GroupQueryAttention", [*GROUP[:3], m.x(2, 2, 3, 16), None, *GROUP[5:]], **HEADS), ["past_key and past_value must be given together"]),
    ("group without a cache of angles", case("GroupQueryAttention", GROUP, **HEADS, do_rotary=1), ["cos_cache or sin_cache is missing"]),
    ("group of two axes", case("GroupQueryAttention", [m.x(5, 64), *GROUP[1:]], **HEADS), ["query has 2 axes"]),
    ("quantised cache", case("GroupQueryAttention", GROUP, **HEADS, kv_cache_bit_width=8), ["'kv_cache_bit_width' is 8"]),
    ("weights cut short", packed([(1, m.q(8, 2, 15))]), ["input `B` has 240 elements of u8: expected 256 of u8"]),
    ("weights of another type", packed([(1, PACKED[1].astype(np.int8))]), ["input `B` has 256 elements of i8"]),
    ("scales cut short", packed([(2, m.x(15))]), ["input `scales` has 15 elements of f32: expected 16"]),
    ("scales of integers", packed([(2, np.ones(16, i64))]), ["input `scales` has elements of i64"]),
    ("zero points cut short", packed([(3, m.q(7))]), ["input `zero_points` has 7 elements of u8: expected 8"]),
    ("groups outside", packed([(4, np.full(64, 2, i32))]), ["g_idx[0] is 2: expected a block from 0 to 1"]),
    ("groups below", packed([(4, np.full(64, -1, i32))]), ["g_idx[0] is -1"]),
    ("groups cut short", packed([(4, np.zeros(63, i32))]), ["input `g_idx` has 63 elements"]),
    ("K of 0", packed(K=0), ["K, N and block_size are 0, 8 and 32"]),
    ("negative N", packed(N=-8), ["K, N and block_size are 64, -8 and 32"]),
    ("K of 2^62", packed(K=1 << 62), [f"K, N and block_size are {1 << 62}, 8 and 32"]),
    ("N of 2^24", packed(N=1 << 24), ["input `B` has 256 elements of u8: expected"]),
    ("blocks of 0", packed(block_size=0), ["K, N and block_size are 64, 8 and 0"]),
    ("blocks of 48", packed(block_size=48), ["K, N and block_size are 64, 8 and 48"]),
    ("3 bits", packed(bits=3), ["'bits' is 3: expected 2, 4 or 8"]),
    ("weights that are an input", packed(constants=(2,)), ["input `B` is not a constant"]),
    ("windows of 0", case("UnfoldTensor", [X], size=0), ["dim, size and step are -1, 0 and 1", "from 1 to"]),
    ("windows of an axis that is not there", case("UnfoldTensor", [X], size=2, dim=3), ["dim, size and step are 3, 2 and 1", "one of 3 axes"]),
    ("windows longer than the axis", case("UnfoldTensor", [X], size=13), ["'size' is 13: expected at most the extent 12 of axis 2"]),
    ("n-grams of 0", case("NGramRepeatBlock", [np.zeros((2, 4), i64), B.reshape(2, 18)], ngram_size=0), ["'ngram_size' is 0", "from 1 to"]),
    ("n-grams of 2^40", case("NGramRepeatBlock", [np.zeros((2, 4), i64), B.reshape(2, 18)], ngram_size=1 << 40), ["'ngram_size' is 1099511627776", "from 1 to"]),
    ("crops of 0", case("CropAndResize", [m.x(1, 2, 4, 4), m.x(3, 4), np.zeros(3, i32), np.array([0, 3], i32)], (3,)), ["`crop_size`: expected two numbers from 1"]),
    ("crops of an unknown size", case("CropAndResize", [m.x(1, 2, 4, 4), m.x(3, 4), np.zeros(3, i32), np.array([2, 3], i32)]), ["`crop_size` is not a constant"]),
    ("crops in another mode", case("CropAndResize", [m.x(1, 2, 4, 4), m.x(3, 4), np.zeros(3, i32), np.array([2, 3], i32)], (3,), mode="nearest"), ["'mode' is 'nearest': expected bilinear"]),
    ("the inverse of a vector", case("Inverse", [B]), ["input `X` has 1 axes: expected at least 2"]),
    ("another activation", case("GatedRMSNorm", [X, B[:12], X], activation="relu"), ["'activation' is 'relu': expected silu"]),
    ("a dilated convolution", case("CausalConvWithState", [X, m.x(5, 1, 3)], outputs=2, dilation=2), ["'dilation' is 2: expected 1"]),
    ("K of another product", packed([(0, m.x(3, 65))]), ["core::matmul"]),
    ("gather along the blocks", case("GatherBlockQuantized", [m.q(4, 16), np.zeros(1, i64), m.x(4, 2)], (0, 2), gather_axis=1, quantize_axis=1, block_size=16),
     ["gather_axis and quantize_axis are both 1"]),
    ("gather axis outside", case("GatherBlockQuantized", [m.q(4, 16), np.zeros(1, i64), m.x(4, 2)], (0, 2), gather_axis=7, block_size=16),
     ["gather_axis and quantize_axis are 7 and 1, but data has 2 axes"]),
    ("unknown activation", case("FusedConv", [m.x(1, 2, 4, 4), m.x(2, 2, 3, 3)], activation="Frob"), ["activation 'Frob' with 0 parameters is unknown"]),
    ("unknown activation of a product", case("FusedGemm", [m.x(4, 5), m.x(5, 6)], activation="x" * 900), ["is unknown"]),
    ("one bound of two", case("FusedConv", [m.x(1, 2, 4, 4), m.x(2, 2, 3, 3)], activation="Clip", activation_params=[0.0]), ["'Clip' with 1 parameters"]),
    ("weights of a vector", case("NhwcFusedConv", [m.x(1, 4, 4, 2), m.x(3)]), ["w has 1 axes"]),
    ("batch axes of a matrix", case("FusedMatMul", [m.x(4, 5), m.x(6, 7)], transBatchA=1), ["core::matmul"]),
    ("pads that are an input", case("ConvTransposeWithDynamicPads", [m.x(1, 2, 4, 4), m.x(2, 2, 3, 3), np.zeros(4, i64)]), ["`Pads` is not a constant"]),
    ("seven pads", case("ConvTransposeWithDynamicPads", [m.x(1, 2, 4, 4), m.x(2, 2, 3, 3), np.zeros(7, i64)], (2,)), ["core::conv_transpose"]),
    ("segments without a table", case("EmbedLayerNormalization", [np.zeros((1, 3), i32), np.zeros((1, 3), i32), m.x(4, 8), m.x(4, 8), None, m.x(8), m.x(8)]),
     ["segment_ids and segment_embedding must be given together"]),
    ("skip of another size", case("SkipLayerNormalization", [m.x(2, 3, 8), m.x(2, 3, 7), m.x(8)]), ["core::add"]),
    ("rotary of two axes", case("RotaryEmbedding", [m.x(5, 24), np.zeros(1, i64), m.x(9, 4), m.x(9, 4)], (2, 3)), ["input has 2 axes"]),
    ("rotary size", case("RotaryEmbedding", [m.x(2, 5, 25), np.zeros(1, i64), m.x(9, 4), m.x(9, 4)], (2, 3)), ["25", "not a multiple of the head size 8"]),
    ("rotary without angles", case("RotaryEmbedding", [m.x(2, 5, 24), np.zeros(1, i64), m.x(9, 0), m.x(9, 0)], (2, 3)), ["not a multiple of the head size 0"]),
    ("negative rotary", case("RotaryEmbedding", [m.x(2, 5, 24), np.zeros(1, i64), m.x(9, 4), m.x(9, 4)], (2, 3), num_heads=-3), ["are -3 and 0"]),
    ("concat of four inputs", case("QLinearConcat", [np.array(1, f32), np.array(0, u8), m.q(2, 2), np.array(1, f32)], axis=0), ["the node has 4 inputs"]),
    ("concat of nothing", case("QLinearConcat", [np.array(1, f32), np.array(0, u8)], axis=0), ["the node has 2 inputs"]),
    ("concat without an axis", case("QLinearConcat", [np.array(1, f32), np.array(0, u8), m.q(2, 2), np.array(1, f32), np.array(0, u8)]), ["'axis' is missing"]),
    ("pool without a kernel", case("NhwcMaxPool", [m.q(1, 4, 4, 2)]), ["'kernel_shape' is missing"]),
    ("pool of a matrix", case("NhwcMaxPool", [m.q(4, 4)], kernel_shape=[2, 2]), ["x has 2 axes"]),
    ("quantised product of vectors", case("QGemm", [m.q(4), np.array(1, f32), np.array(0, u8), m.q(4), np.array(1, f32), np.array(0, u8)], transA=1),
     ["core::transpose"]),
    ("unknown metric", case("CDist", [m.x(2, 3), m.x(2, 3)], metric="taxi"), ["metric 'taxi' is unknown"]),
    ("training", case("BiasDropout", [m.x(2, 3), m.x(3), None, None, np.array(True)], (4,)), ["training_mode is not a constant false"]),
    ("surplus input", case("Gelu", [X, X]), ["at most 1 inputs, found 2"]),
    ("unknown attribute", case("Gelu", [X], loudly=1), ["no attribute 'loudly'"]),
    ("mean", case("SkipLayerNormalization", [m.x(2, 3, 8), m.x(2, 3, 8), m.x(8)], outputs=2), ["output 1 ('y1') is not supported"]),
    ("search", case("BeamSearch", [X]), ["this operator of ONNX Runtime is not supported", "export the decoder"]),
    ("layout of a processor", case("Conv", [X], domain="com.microsoft.nchwc"), ["ORT_ENABLE_EXTENDED"]),
    ("operator of a later version", case("Frobnicate", [X]), ["the operator is unknown"]),
]


class Hostile(unittest.TestCase):
    def check(self, case, parts):
        """The message names the node, and the command ends with 1, not with a signal or a finding of a sanitizer."""
        model = case.model()
        if case.domain == "com.microsoft.nchwc":
            model.opset_import.add(domain=case.domain, version=1)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.onnx"
            path.write_bytes(model.SerializeToString())
            run = subprocess.run([BUILD / "tenon", "run", path, "-i", "ones"], capture_output=True, text=True, timeout=60,
                                 env={**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1"})
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        for part in ["node", *parts]:
            self.assertIn(part, run.stderr)
        self.assertNotRegex(run.stderr, "(?i)sanitizer|assert|internal error|bug in the importer")


for title, fault, parts in FAULTS:
    name = "test_" + "".join(c if c.isalnum() else "_" for c in title)
    assert not hasattr(Hostile, name), title
    setattr(Hostile, name, lambda self, fault=fault, parts=parts: self.check(fault, parts))

if __name__ == "__main__":
    totals.main()
