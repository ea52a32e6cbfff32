"""Runs in real MXNet: writes models, and the values that MXNet computes for them, into a folder: NAME-symbol.json, NAME-0000.params and NAME.npz."""
import json
import os
import subprocess
import sys
import warnings

os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"  # operators are not replaced
import numpy as np  # noqa: E402

warnings.simplefilter("ignore")
import mxnet as mx  # noqa: E402
from mxnet import gluon, nd  # noqa: E402

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
S, C = mx.sym, mx.sym.contrib
names = []


def numbers(shape, seed, low=None, high=None, dtype=np.float32):
    random = np.random.RandomState(seed)
    return (random.standard_normal(shape) if low is None else random.uniform(low, high, shape)).astype(dtype)


def var(name, *shape):
    return S.Variable(name, shape=shape) if shape else S.Variable(name)


def values_of(given, seed):
    return given if isinstance(given, np.ndarray) else numbers(given, seed)


def case(name, symbol, aux=None, save=True, **inputs):
    """Arguments that are not given become parameters with random values."""
    arrays = {key: values_of(value, 7 + i) for i, (key, value) in enumerate(inputs.items())}
    shapes, _, aux_shapes = symbol.infer_shape(**{key: value.shape for key, value in arrays.items()})
    types, _, _ = symbol.infer_type(**{key: value.dtype for key, value in arrays.items()})
    arguments, params = {}, {}
    for i, (key, shape, dtype) in enumerate(zip(symbol.list_arguments(), shapes, types)):
        value = arrays.get(key)
        arguments[key] = nd.array(numbers(shape, 100 + i, dtype=dtype) * 0.5 if value is None else value, dtype=dtype)
        if value is None and not key.endswith("label"):
            params["arg:" + key] = arguments[key]
    states = {key: nd.array(numbers(shape, 200 + i, 0.5, 1.5)) for i, (key, shape) in enumerate(zip(symbol.list_auxiliary_states(), aux_shapes))}
    params.update({"aux:" + key: value for key, value in states.items()})
    results = symbol.bind(mx.cpu(), arguments, aux_states=states).forward(is_train=False)
    symbol.save(os.path.join(FOLDER, name + "-symbol.json"), remove_amp_cast=False)
    nd.save(os.path.join(FOLDER, name + "-0000.params"), params)
    keep(name, {key: value for key, value in arrays.items() if not key.endswith("label")}, [value.asnumpy() for value in results], symbol.list_outputs())


def keep(name, inputs, outputs, output_names):
    np.savez(os.path.join(FOLDER, name + ".npz"), names=np.array(output_names), **{"in_" + key: value for key, value in inputs.items()},
             **{f"out_{i}": value for i, value in enumerate(outputs)})
    assert name not in names, name
    names.append(name)


x, y, z, i = var("x"), var("y"), var("z"), S.Variable("i", dtype="int32")
h, x2 = S.Variable("h", dtype="float16"), S.Variable("x2", dtype="float16")
POSITIVE = numbers((3, 4), 3, 0.2, 2.0)
GRID = np.array([[-2.5, -1.5, -0.5, -0.3, 0.0], [0.3, 0.5, 1.5, 2.5, 2.7]], np.float32)
WHOLE = np.array([[0, 2, 5, 1], [3, 1, 0, 4]], np.float32)
INT = np.array([[5, -3, 7], [0, 2, -8]], np.int32)


def pointwise():
    for op in ("abs negative sign exp square floor ceil sin cos tan arctan sinh cosh tanh arcsinh erf sigmoid relu softsign cbrt expm1 degrees radians fix trunc "
               "round rint logical_not hard_sigmoid identity BlockGrad make_loss zeros_like ones_like").split():
        case("unary_" + op, getattr(S, op)(x), x=GRID)
    for op in "log sqrt rsqrt reciprocal log1p log2 log10 rcbrt arccosh".split():
        case("unary_" + op, getattr(S, op)(x), x=POSITIVE + (1 if op == "arccosh" else 0))
    for op in "arcsin arccos arctanh".split():
        case("unary_" + op, getattr(S, op)(x), x=numbers((3, 4), 4, -0.9, 0.9))
    for op in ("add sub mul div mod power maximum minimum hypot equal not_equal greater greater_equal lesser lesser_equal logical_and logical_or "
               "logical_xor").split():
        b = np.round(numbers((4,), 5) * 2)
        case("broadcast_" + op, getattr(S, "broadcast_" + op)(x, y), x=POSITIVE if op == "power" else np.round(numbers((3, 4), 6) * 2), y=b)
    case("elemwise", S.elemwise_add(x, y) * S.elemwise_sub(x, y) / S.elemwise_mul(x, y), x=POSITIVE, y=POSITIVE + 1)
    case("scalars", ((x + 1.5) * 2 - 0.5) / 3 + (1 / x) + (2 - x) + x ** 3 + 2 ** x, x=POSITIVE)
    case("scalar_mod", S.Group([x % 2, 3 % x, x % 0]), x=GRID)
    case("scalar_compare", S.Group([x > 0.3, x >= 0.3, x < 0.3, x <= 0.3, x == 0.3, x != 0.3, S.maximum(x, 0.5), S.minimum(x, 0.5), S.hypot(x, 2.0)]), x=GRID)
    scalar = mx.sym._internal
    case("scalar_logic", S.Group([getattr(scalar, f"_logical_{op}_scalar")(x, scalar=1) for op in ("and", "or", "xor")]), x=np.round(GRID))
    case("integers", S.Group([i + 2, i * 3, i - 1, S.abs(i), i > 2, i % 3]), i=INT)
    case("smooth_l1", S.smooth_l1(x, scalar=2.0), x=GRID)
    case("clip", S.clip(x, a_min=-1, a_max=0.4), x=GRID)
    case("quadratic", C.quadratic(x, a=2, b=-1, c=0.5), x=GRID)
    case("cast", S.Group([S.Cast(x, dtype="float64"), S.Cast(x, dtype="int32"), S.Cast(S.Cast(x, dtype="float16"), dtype="float32")]), x=GRID)
    case("amp_cast", S.amp_cast(S.amp_cast(x, dtype="float16"), dtype="float32"), x=GRID)
    case("multicast", S.amp_multicast(x, S.Cast(x, dtype="float64"), num_outputs=2), x=GRID)
    case("dropout", S.Dropout(x, p=0.5), x=GRID)
    for kind in "relu sigmoid tanh softrelu softsign".split():
        case("activation_" + kind, S.Activation(x, act_type=kind), x=GRID)
    for kind in "leaky elu selu gelu rrelu".split():
        case("leaky_" + kind, S.LeakyReLU(x, act_type=kind)[0], x=GRID)
    case("prelu", S.LeakyReLU(var("x", 2, 4, 3, 3), var("g", 4), act_type="prelu"), x=(2, 4, 3, 3))
    case("prelu_one", S.LeakyReLU(x, var("g", 1), act_type="prelu"), x=(2, 4, 3))
    case("where", S.where(x, y, z), x=np.round(GRID), y=GRID, z=GRID * 2)
    case("where_rows", S.where(var("c", 2), var("y", 2, 5), z), c=np.array([0, 2], np.float32), y=GRID, z=GRID * 2)
    case("add_n", S.add_n(x, y, z), x=(2, 3), y=(2, 3), z=(2, 3))


def shapes():
    for name, shape in dict(plain=(2, 12), copy=(0, -1), rest=(-2,), rest_new=(2, -2, 1), merge=(-3, -2), merge_last=(0, -3), split=(-4, 1, 2, -2),
                            split_any=(0, -4, -1, 3, 0), mixed=(-3, -4, 2, -1)).items():
        case("reshape_" + name, S.Reshape(x, shape=shape), x=(2, 3, 4))
    case("reshape_reverse", S.Reshape(x, shape=(-1, 0), reverse=True), x=(10, 5, 4))
    case("reshape_reverse_rest", S.Reshape(x, shape=(-2, 20), reverse=True), x=(3, 2, 20))
    case("reshape_like", S.reshape_like(x, y), x=(2, 6), y=(3, 4))
    case("reshape_like_part", S.reshape_like(x, y, lhs_begin=0, lhs_end=2, rhs_begin=1, rhs_end=2), x=(2, 3, 4), y=(5, 6))
    case("flatten", S.Flatten(x), x=(2, 3, 4))
    case("transpose", S.Group([S.transpose(x), S.transpose(x, axes=(1, 0, 2))]), x=(2, 3, 4))
    case("swap", S.SwapAxis(var("x", 2, 3, 4), dim1=0, dim2=2), x=(2, 3, 4))
    case("expand_dims", S.Group([S.expand_dims(x, axis=1), S.expand_dims(x, axis=-1)]), x=(2, 3))
    case("squeeze", S.Group([S.squeeze(x), S.squeeze(x, axis=1), S.squeeze(x, axis=(1, 3))]), x=(2, 1, 3, 1))
    case("stack", S.Group([S.stack(x, y), S.stack(x, y, axis=-1)]), x=(2, 3), y=(2, 3))
    case("concat", S.Concat(x, y, dim=1), x=(2, 3), y=(2, 4))
    case("split", S.split(x, num_outputs=3, axis=1), x=(2, 6))
    case("split_squeeze", S.split(x, num_outputs=2, axis=1, squeeze_axis=True), x=(3, 2, 4))
    case("split_v2", S.split_v2(x, (1, 4), axis=1), x=(2, 6))
    case("split_v2_sections", S.split_v2(x, 3, axis=1), x=(2, 6))
    case("slice", S.Group([S.slice(x, begin=(1, None), end=(None, 3)), S.slice(x, begin=(None, 4), end=(None, 0), step=(2, -2)), S.slice(x, begin=(-2,), end=(-1,))]), x=(4, 5))
    case("slice_axis", S.Group([S.slice_axis(x, axis=1, begin=1, end=None), S.slice_axis(x, axis=-2, begin=-3, end=-1)]), x=(4, 5))
    case("slice_like", S.Group([S.slice_like(x, y), S.slice_like(x, y, axes=(-1,))]), x=(4, 5), y=(2, 3))
    case("crop_like", S.Crop(x, y, num_args=2, offset=(1, 2)), x=(1, 2, 6, 7), y=(1, 2, 3, 4))
    case("reverse", S.Group([S.reverse(x, axis=1), S.flip(x, axis=0)]), x=(3, 4))
    case("tile", S.tile(var("x", 2, 3), reps=(2, 1, 2)), x=(2, 3))
    case("tile_short", S.tile(var("x", 2, 3), reps=(2,)), x=(2, 3))
    case("repeat", S.Group([S.repeat(x, repeats=2), S.repeat(x, repeats=3, axis=1), S.repeat(x, repeats=2, axis=-2)]), x=(2, 3))
    for mode in "constant edge reflect".split():
        case("pad_" + mode, S.Pad(x, mode=mode, pad_width=(0, 0, 0, 0, 1, 2, 2, 1), constant_value=0.5 if mode == "constant" else 0), x=(1, 2, 4, 5))
    case("broadcast_to", S.broadcast_to(x, shape=(2, 0, 4)), x=(1, 3, 1))
    case("broadcast_axis", S.broadcast_axis(var("x", 1, 3, 1), axis=(0, 2), size=(2, 4)), x=(1, 3, 1))
    case("broadcast_like", S.broadcast_like(x, y), x=(1, 3), y=(4, 3))
    case("broadcast_like_axes", S.broadcast_like(var("x", 1, 3, 1), y, lhs_axes=(2,), rhs_axes=(0,)), x=(1, 3, 1), y=(5, 2))
    case("depth_to_space", S.depth_to_space(x, block_size=2), x=(1, 8, 2, 3))
    case("space_to_depth", S.space_to_depth(x, block_size=2), x=(1, 2, 4, 6))
    case("shape_array", S.Group([S.shape_array(x), S.size_array(x)]), x=(2, 3))
    case("filled", S.Group([S.zeros((2, 3)) + x, S.ones((2, 3)) * x, S.full((2, 3), 1.5) - x]), x=(2, 3))
    case("arange", S.Group([S.arange(5), S.arange(1, 3, 0.5, repeat=2), S.eye(3, 4, 1), x]), x=(2,))
    case("arange_like", S.Group([C.arange_like(x, axis=1, start=2, step=0.5), C.arange_like(x)]), x=(2, 3))


def indices():
    table = numbers((6, 3), 8)
    case("embedding", S.Embedding(x, var("w"), input_dim=6, output_dim=3), x=WHOLE)
    case("take", S.Group([S.take(x, y), S.take(x, y, axis=1, mode="wrap")]), x=table, y=np.array([[0, 7], [-2, 3]], np.float32))
    case("pick", S.Group([S.pick(x, y), S.pick(x, y, axis=1, keepdims=True)]), x=table, y=np.array([0, 2, 1, 5, 1, 0], np.float32))
    case("pick_first", S.pick(x, y, axis=0), x=table, y=np.array([0, 5, 1], np.float32))
    case("batch_take", S.batch_take(x, i), x=table, i=np.array([0, 2, 1, 1, 1, 0], np.int32))
    case("gather_nd", S.gather_nd(x, var("y", 2, 3)), x=table, y=np.array([[0, 5, 2], [1, 2, 0]], np.float32))
    case("scatter_nd", S.scatter_nd(x, var("y", 2, 3), shape=(4, 5)), x=numbers((3,), 1), y=np.array([[0, 3, 2], [1, 4, 0]], np.float32))
    case("one_hot", S.one_hot(x, depth=5, on_value=2, off_value=-1), x=np.array([[0, 4], [5, -1]], np.float32))
    export("boolean_mask", gluon.nn.HybridLambda(lambda F, a, b: F.contrib.boolean_mask(a, b)), table, np.array([0, 1, 1, 0, 0, 1], np.float32))
    case("topk", S.Group([S.topk(x, k=2), S.topk(x, k=2, ret_typ="value", axis=0), S.topk(x, k=1, is_ascend=True, dtype="int32")]), x=table)
    case("topk_both", S.topk(x, k=2, ret_typ="both"), x=table)
    case("sort", S.Group([S.sort(x), S.sort(x, is_ascend=False, axis=0), S.argsort(x), S.sort(x, axis=None), S.topk(x, axis=None, k=3)]), x=table)
    case("argmax", S.Group([S.argmax(x, axis=1), S.argmin(x, axis=0, keepdims=True), S.argmax(x), S.argmax_channel(x)]), x=table)
    lengths = np.array([2, 4, 1], np.float32)
    case("sequence_mask", S.SequenceMask(var("x", 4, 3, 2), y, use_sequence_length=True, value=-1), x=(4, 3, 2), y=lengths)
    case("sequence_mask_batch", S.SequenceMask(var("x", 3, 4, 2), y, use_sequence_length=True, axis=1), x=(3, 4, 2), y=lengths)
    case("sequence_last", S.SequenceLast(x, y, use_sequence_length=True), x=(4, 3, 2), y=lengths)
    case("sequence_last_batch", S.SequenceLast(x, y, use_sequence_length=True, axis=1), x=(3, 4, 2), y=lengths)
    case("sequence_last_all", S.SequenceLast(x), x=(4, 3, 2))
    case("sequence_reverse", S.SequenceReverse(x, y, use_sequence_length=True), x=(4, 3, 2), y=lengths)
    case("sequence_reverse_all", S.SequenceReverse(x), x=(4, 3, 2))


def reductions():
    for op in "sum mean max min prod".split():
        f = getattr(S, op)
        case("reduce_" + op, S.Group([f(x), f(x, axis=1), f(x, axis=(0, -1), keepdims=True)]), x=(2, 3, 4))
        case("reduce_others_" + op, f(var("x", 2, 3, 4), axis=1, exclude=True), x=(2, 3, 4))
    case("nansum", S.Group([S.nansum(x, axis=1), S.nanprod(x, axis=0)]), x=np.where(GRID == 0.5, np.nan, GRID))
    case("norm", S.Group([S.norm(x), S.norm(x, ord=1, axis=1), S.norm(x, axis=(0, 1), keepdims=True)]), x=(2, 3, 4))
    case("moments", S.Group(list(S.moments(x, axes=(0, 2)))), x=(2, 3, 4))
    case("cumsum", S.Group([S.cumsum(x, axis=1), S.cumsum(x)]), x=(2, 3))
    lengths = np.array([[1, 2, 3], [4, 3, 1]], np.int32)
    case("softmax_length", S.softmax(x, i, use_length=True), x=(2, 3, 4), i=lengths)
    case("softmax", S.Group([S.softmax(x), S.softmax(x, axis=1, temperature=2), S.log_softmax(x), S.softmin(x, axis=0)]), x=(2, 3, 4))
    case("softmax_output", S.SoftmaxOutput(x, name="softmax"), x=(3, 5))
    case("softmax_output_multi", S.SoftmaxOutput(x, multi_output=True, name="softmax"), x=(2, 3, 4))
    case("softmax_output_rows", S.SoftmaxOutput(x, preserve_shape=True, name="softmax"), x=(2, 3, 4))
    case("softmax_output_flat", S.SoftmaxOutput(x, S.Reshape(S.Variable("my_label"), shape=(-1,)), name="softmax"), x=(6, 5), my_label=np.zeros((2, 3), np.float32))
    case("softmax_activation", S.SoftmaxActivation(x, mode="channel"), x=(2, 3, 4, 2))
    case("softmax_instance", S.SoftmaxActivation(x), x=(2, 5))
    case("regression", S.Group([S.LinearRegressionOutput(x, name="a"), S.LogisticRegressionOutput(x, name="b"), S.MAERegressionOutput(x, name="c")]), x=(3, 2))


def layers():
    case("conv1d", S.Convolution(x, kernel=(3,), num_filter=4, pad=(1,)), x=(2, 3, 8))
    case("conv2d", S.Convolution(x, kernel=(3, 2), stride=(2, 1), pad=(1, 0), dilate=(1, 2), num_filter=4), x=(2, 3, 8, 9))
    case("conv2d_group", S.Convolution(x, kernel=(3, 3), num_group=2, num_filter=6, no_bias=True), x=(2, 4, 7, 7))
    case("conv3d", S.Convolution(x, kernel=(2, 2, 2), num_filter=3), x=(1, 2, 4, 5, 4))
    case("deconv", S.Deconvolution(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), adj=(1, 1), num_filter=4), x=(2, 3, 5, 5))
    case("deconv_group", S.Deconvolution(x, kernel=(4,), stride=(2,), num_group=3, num_filter=6, no_bias=False), x=(2, 3, 5))
    case("dense", S.FullyConnected(x, num_hidden=5), x=(2, 3, 4))
    case("dense_rows", S.FullyConnected(x, num_hidden=5, flatten=False, no_bias=True), x=(2, 3, 4))
    for kind in "max avg sum lp".split():
        more = {"p_value": 2} if kind == "lp" else {}
        case(f"pool_{kind}", S.Pooling(x, pool_type=kind, kernel=(3, 2), stride=(2, 2), pad=(1, 0), **more), x=(2, 3, 8, 9))
        case(f"pool_{kind}_1d", S.Pooling(x, pool_type=kind, kernel=(2,), **more), x=(2, 3, 7))
    for kind in "max avg".split():
        case(f"pool_{kind}_full", S.Pooling(x, pool_type=kind, kernel=(3, 3), stride=(2, 2), pooling_convention="full"), x=(1, 2, 8, 8))
        case(f"pool_{kind}_full_pad", S.Pooling(x, pool_type=kind, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pooling_convention="full"), x=(1, 2, 8, 7))
        case(f"pool_{kind}_global", S.Pooling(x, pool_type=kind, kernel=(1, 1), global_pool=True), x=(2, 3, 5, 6))
        case(f"pool_{kind}_3d", S.Pooling(x, pool_type=kind, kernel=(2, 2, 2), stride=(2, 2, 2)), x=(1, 2, 4, 4, 4))
    case("pool_avg_inner", S.Pooling(x, pool_type="avg", kernel=(3, 3), pad=(1, 1), count_include_pad=False), x=(1, 2, 6, 6))
    case("adaptive_pool", S.Group([C.AdaptiveAvgPooling2D(var("x", 1, 2, 6, 8), output_size=(3, 2))]), x=(1, 2, 6, 8))
    case("adaptive_pool_one", C.AdaptiveAvgPooling2D(x), x=(1, 2, 6, 8))
    case("batch_norm", S.BatchNorm(x), x=(2, 3, 4, 4))
    case("batch_norm_gamma", S.BatchNorm(x, fix_gamma=False, eps=1e-5, use_global_stats=True), x=(2, 3, 4))
    case("batch_norm_last", S.BatchNorm(var("x", 2, 4, 3), axis=-1, fix_gamma=False), x=(2, 4, 3))
    case("layer_norm", S.LayerNorm(x, eps=1e-4), x=(2, 3, 4))
    case("layer_norm_axis", S.LayerNorm(var("x", 2, 3, 4), axis=1), x=(2, 3, 4))
    case("instance_norm", S.InstanceNorm(x), x=(2, 3, 4, 4))
    case("group_norm", S.GroupNorm(x, num_groups=2), x=(2, 4, 3, 3))
    for mode in "instance channel spatial".split():
        case("l2_norm_" + mode, S.L2Normalization(x, mode=mode), x=(2, 3, 4, 2))
    case("lrn", S.LRN(x, nsize=3, alpha=0.1, beta=0.6, knorm=1.5), x=(2, 5, 3, 3))
    case("upsampling", S.UpSampling(x, scale=2, sample_type="nearest"), x=(1, 2, 3, 4))
    case("upsampling_two", S.UpSampling(x, y, scale=2, sample_type="nearest", num_args=2), x=(1, 2, 4, 4), y=(1, 3, 4, 4))
    case("upsampling_bilinear", S.UpSampling(x, var("w"), scale=2, sample_type="bilinear", num_filter=2, num_args=2), x=(1, 2, 3, 4), w=(2, 1, 4, 4))
    case("bilinear", C.BilinearResize2D(x, height=7, width=5), x=(1, 2, 3, 4))
    case("bilinear_centres", C.BilinearResize2D(x, height=6, width=3, align_corners=False), x=(1, 2, 3, 4))
    case("bilinear_like", C.BilinearResize2D(x, y, mode="like"), x=(1, 2, 3, 4), y=(1, 1, 5, 6))
    rois = np.array([[0, 0, 0, 4, 4], [1, 1, 2, 6, 5]], np.float32)
    case("roi_align", C.ROIAlign(x, y, pooled_size=(2, 3), spatial_scale=0.8, sample_ratio=2), x=(2, 3, 8, 8), y=rois)


def matrices():
    case("dot", S.Group([S.dot(x, y), S.dot(x, x, transpose_b=True), S.dot(x, x, transpose_a=True)]), x=(3, 4), y=(4, 5))
    case("dot_ranks", S.Group([S.dot(x, y), S.dot(y, x, transpose_a=True, transpose_b=True)]), x=(2, 3, 4), y=(4, 5))
    case("dot_vectors", S.dot(var("x", 4), var("y", 4)), x=(4,), y=(4,))
    case("batch_dot", S.Group([S.batch_dot(x, y), S.batch_dot(x, x, transpose_b=True), S.batch_dot(x, x, transpose_a=True)]), x=(2, 3, 4), y=(2, 4, 5))
    case("gemm", S.Group([S.linalg.gemm2(x, y, alpha=2), S.linalg.gemm(x, y, z, alpha=0.5, beta=3)]), x=(2, 3, 4), y=(2, 4, 5), z=(2, 3, 5))
    case("gemm_transposed", S.linalg.gemm2(x, y, transpose_a=True, transpose_b=True), x=(2, 3, 4), y=(2, 5, 3))
    case("syrk", S.Group([S.linalg.syrk(x, alpha=2), S.linalg.syrk(x, transpose=True)]), x=(2, 3, 4))
    case("det", S.linalg.det(x), x=(2, 3, 3))
    case("div_sqrt_dim", C.div_sqrt_dim(x), x=(2, 3, 7))
    case("self_attention", C.interleaved_matmul_selfatt_valatt(x, S.softmax(C.interleaved_matmul_selfatt_qk(x, heads=2)), heads=2), x=(5, 3, 24))
    case("cross_attention", C.interleaved_matmul_encdec_valatt(y, S.softmax(C.interleaved_matmul_encdec_qk(x, y, heads=2)), heads=2), x=(5, 3, 8), y=(4, 3, 16))


def recurrent():
    for mode in "lstm gru rnn_tanh rnn_relu".split():
        for bidirectional in (False, True):
            more = {"state_cell": var("c")} if mode == "lstm" else {}
            state = dict(x=(5, 2, 3), h=(2 * (1 + bidirectional), 2, 4), **({"c": (2 * (1 + bidirectional), 2, 4)} if more else {}))
            symbol = S.RNN(x, var("p"), var("h"), mode=mode, state_size=4, num_layers=2, bidirectional=bidirectional, state_outputs=True, name="rnn", **more)
            case(f"rnn_{mode}_{'both' if bidirectional else 'one'}", symbol, **state)
    cell = mx.rnn.SequentialRNNCell()
    cell.add(mx.rnn.LSTMCell(6, prefix="a_")), cell.add(mx.rnn.GRUCell(5, prefix="b_"))
    outputs, _ = cell.unroll(4, inputs=x, layout="NTC", merge_outputs=True)
    case("rnn_unrolled", outputs, x=(3, 4, 2))
    cell = mx.rnn.FusedRNNCell(6, num_layers=2, mode="lstm", prefix="f_")
    outputs, _ = cell.unroll(4, inputs=S.Embedding(x, input_dim=10, output_dim=5, name="e"), layout="NTC", merge_outputs=True)
    case("rnn_fused", outputs, x=np.array([[1, 2, 3, 4], [5, 6, 7, 0]], np.float32))


def double():
    """A model without a dtype in the file, which follows the dtype of the parameters."""
    case("double", S.Activation(S.Convolution(x, kernel=(3, 3), num_filter=4), act_type="relu"), x=numbers((1, 3, 6, 6), 5, dtype=np.float64))


def export(name, net, *inputs):
    """Exports a hybrid block with random weights and random running statistics."""
    net.initialize(mx.init.Xavier(magnitude=2))
    net.hybridize()
    arrays = [nd.array(value) for value in inputs]
    net(*arrays)
    for i, (key, param) in enumerate(sorted(net.collect_params().items())):
        if "running" in key:
            param.set_data(nd.array(numbers(param.shape, i, 0.5, 1.5)))
    result = net(*arrays)
    net.export(os.path.join(FOLDER, name))
    keys = ["data"] if len(inputs) == 1 else [f"data{i}" for i in range(len(inputs))]
    outputs = mx.sym.load(os.path.join(FOLDER, name + "-symbol.json")).list_outputs()
    keep(name, dict(zip(keys, inputs)), [value.asnumpy() for value in (result if isinstance(result, (list, tuple)) else [result])], outputs)


class Words(gluon.HybridBlock):
    """A language model: embedding, LSTM, and a layer on each step."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.embed, self.rnn, self.out = gluon.nn.Embedding(20, 8), gluon.rnn.LSTM(12, num_layers=2, bidirectional=True), gluon.nn.Dense(20, flatten=False)

    def hybrid_forward(self, F, tokens):
        return self.out(self.rnn(self.embed(F.transpose(tokens))))


class Block(gluon.HybridBlock):
    """A layer of BERT as GluonNLP writes it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        with self.name_scope():
            self.qkv, self.proj = gluon.nn.Dense(3 * width, flatten=False), gluon.nn.Dense(width, flatten=False)
            self.up, self.down = gluon.nn.Dense(4 * width, flatten=False), gluon.nn.Dense(width, flatten=False)
            self.norm, self.norm2, self.act, self.drop = gluon.nn.LayerNorm(), gluon.nn.LayerNorm(), gluon.nn.GELU(), gluon.nn.Dropout(0.1)

    def hybrid_forward(self, F, x, mask):
        qkv = self.qkv(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=self.heads)
        scores = self.drop(F.softmax(F.broadcast_add(scores, mask)))
        x = self.norm(x + self.proj(F.contrib.interleaved_matmul_selfatt_valatt(qkv, scores, heads=self.heads)))
        return self.norm2(x + self.down(self.act(self.up(x))))


class Bert(gluon.HybridBlock):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads = heads
        with self.name_scope():
            self.word, self.segment, self.norm = gluon.nn.Embedding(50, width), gluon.nn.Embedding(2, width), gluon.nn.LayerNorm()
            self.place = self.params.get("place", shape=(12, width))
            self.blocks, self.pool = [Block(width, heads) for _ in range(2)], gluon.nn.Dense(width, activation="tanh")
            for i, block in enumerate(self.blocks):
                self.register_child(block, f"block{i}")

    def hybrid_forward(self, F, tokens, segments, lengths, place):
        x = self.word(tokens) + self.segment(segments)
        steps = F.contrib.arange_like(tokens, axis=1)
        x = F.broadcast_add(x, F.expand_dims(F.Embedding(steps, place, input_dim=12, output_dim=16), axis=0))
        x = self.norm(F.transpose(x, axes=(1, 0, 2)))
        outside = F.broadcast_greater_equal(F.expand_dims(steps, axis=0), F.expand_dims(lengths, axis=1))
        mask = F.expand_dims(F.repeat(outside * -1e4, repeats=self.heads, axis=0), axis=1)
        for block in self.blocks:
            x = block(x, mask)
        return x, self.pool(F.squeeze(F.slice_axis(x, axis=0, begin=0, end=1), axis=0))


def nets():
    image = numbers((1, 3, 64, 64), 1)
    for name in "resnet18_v1 resnet18_v2 mobilenet_v2_0_25 vgg11".split():
        export(name, getattr(gluon.model_zoo.vision, name)(classes=10), image if name != "vgg11" else image[:, :, :32, :32])
    export("squeezenet", gluon.model_zoo.vision.squeezenet1_1(classes=10), numbers((1, 3, 224, 224), 1))
    export("densenet121", gluon.model_zoo.vision.densenet121(classes=10), numbers((1, 3, 224, 224), 2))
    export("words", Words(), np.array([[1, 5, 2, 9], [3, 3, 0, 19]], np.float32))
    export("bert", Bert(), np.array([[1, 5, 2, 9, 30], [3, 3, 0, 49, 2]], np.float32), np.array([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]], np.float32),
           np.array([3, 5], np.float32))


def checkpoint():
    """The Module API: trained for one step, with a label."""
    net = S.FullyConnected(S.Variable("data"), num_hidden=8, name="fc1")
    net = S.SoftmaxOutput(S.FullyConnected(S.Activation(S.BatchNorm(net, name="bn"), act_type="relu"), num_hidden=3, name="fc2"), name="softmax")
    module = mx.mod.Module(net)
    data, label = numbers((4, 5), 1), np.array([0, 1, 2, 0], np.float32)
    batches = mx.io.NDArrayIter(data, label, 4)
    module.fit(batches, num_epoch=1)
    module.save_checkpoint(os.path.join(FOLDER, "module"), 3)
    batches.reset()
    keep("module", {"data": data}, [module.predict(batches).asnumpy()], net.list_outputs())


def numpy():
    """The NumPy front end, which from here on is on for the whole process."""
    mx.npx.set_np()
    a, b, square = numbers((2, 3), 1, 0.2, 2), numbers((2, 3), 2, 0.2, 2), numbers((3, 3), 3)

    def net(name, function, *inputs):
        class Net(gluon.HybridBlock):
            def hybrid_forward(self, F, *values):
                return function(F.np, F.npx, *values)
        block = Net()
        block.hybridize()
        result = block(*[mx.np.array(value, dtype=value.dtype) for value in inputs])
        block.export(os.path.join(FOLDER, "numpy_" + name))
        keys = ["data"] if len(inputs) == 1 else [f"data{i}" for i in range(len(inputs))]
        results = result if isinstance(result, (list, tuple)) else [result]
        outputs = mx.sym.load(os.path.join(FOLDER, f"numpy_{name}-symbol.json")).list_outputs()
        keep("numpy_" + name, dict(zip(keys, inputs)), [value.asnumpy() for value in results], outputs)

    net("binary", lambda n, npx, x, y: [x + y, x - y, x * y, x / y, n.power(x, y), n.maximum(x, y), n.minimum(x, 0.5), n.mod(x, y), n.hypot(x, y)], a, b)
    net("scalars", lambda n, npx, x: [x + 1, 2 - x, x - 2, x * 3, x / 2, 1 / x, x ** 2, 2 ** x, x % 2], a)
    net("compare", lambda n, npx, x, y: [x > y, x >= 0.5, x < 1, n.logical_not(x), x == y, x != y, x <= y], a, b)
    net("unary", lambda n, npx, x: [n.exp(x), n.log(x), n.sqrt(x), n.tanh(x), n.square(x), n.abs(x), npx.relu(x), npx.sigmoid(x), n.rint(x), n.floor(x),
                                    n.clip(x, 0.3, 1), n.negative(x), n.reciprocal(x), n.log1p(x), n.expm1(x), n.sin(x), n.arctan(x), n.cbrt(x), n.sign(x)], a)
    net("reduce", lambda n, npx, x: [n.sum(x), n.mean(x, axis=1), n.max(x, axis=0), n.min(x, axis=0, keepdims=True), n.prod(x), n.std(x, axis=0), n.var(x, axis=1),
                                     n.argmax(x, axis=0), n.cumsum(x, axis=1)], a)
    net("shape", lambda n, npx, x: [n.swapaxes(npx.reshape(x, (2, -1)), 0, 1), npx.reshape(x, (-2, -1)), n.squeeze(n.expand_dims(x, 1), 1), n.transpose(x), n.flip(x, 0), n.broadcast_to(x, (2, 2, 3)),
                                    n.tile(npx.reshape(x, (2, 3)), (1, 2)), x[0:1], n.concatenate([x, x], axis=1), n.stack([x, x], axis=1), n.reshape(x, (3, -1)),
                                    npx.reshape(x, (-6, 1, 2, -4)), n.zeros_like(x), n.ones_like(x)], a)
    net("matrix", lambda n, npx, x, y: [n.matmul(x, y), n.einsum("ij,kj->ik", x, x), n.dot(x, npx.reshape(y, (3, 3)))], a, square)
    net("layers", lambda n, npx, x: [npx.softmax(x), npx.log_softmax(x, axis=0), npx.leaky_relu(x), n.where(x > 1, x, x * 2), n.full((2, 3), 2) + x, n.arange(3) + x,
                                     npx.one_hot(n.argmax(x, axis=1), 3), npx.pick(x, n.zeros((2,)))], a)


def plain():
    """Models that MXNet runs only without oneDNN, which is another process."""
    case("deconv_target", S.Deconvolution(x, kernel=(3, 4), stride=(2, 2), target_shape=(9, 11), num_filter=2), x=(1, 3, 5, 5))
    case("half", S.Group([h + x2, h * 3, S.relu(h), S.broadcast_greater(h, x2), S.sum(h, axis=1), S.Cast(h, dtype="float32")]),
         h=GRID.astype(np.float16), x2=GRID.astype(np.float16))
    case("multicast_half", S.Group([S.amp_multicast(x, h, num_outputs=2), S.amp_multicast(x, h, num_outputs=2, cast_narrow=True)]), x=GRID, h=GRID.astype(np.float16))


if __name__ == "__main__":
    if sys.argv[2:] == ["plain"]:
        plain()
        print(json.dumps(names))
        sys.exit()
    apart = subprocess.Popen([sys.executable, __file__, FOLDER, "plain"], env={**os.environ, "MXNET_MKLDNN_ENABLED": "0"}, stdout=subprocess.PIPE, text=True)
    for part in (pointwise, shapes, indices, reductions, layers, matrices, recurrent, double, nets, checkpoint, numpy):
        part()
    names += json.loads(apart.communicate()[0].splitlines()[-1])
    with open(os.path.join(FOLDER, "names.json"), "w") as file:
        json.dump(names, file)
