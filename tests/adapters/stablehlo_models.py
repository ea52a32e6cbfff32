"""Models of real size as functions of JAX, with their arguments: stablehlo_large_test.py and bench/stablehlo.py run them.

Weights are arguments, drawn from a fixed seed, so that the programs stay small.  The functions compute in the type of their
arguments, so that the same function with float64 arguments is the reference for both sides.
"""
import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@dataclasses.dataclass
class Model:
    """A function, its weights, and the other arguments as a function of the batch."""
    function: object
    weights: object
    inputs: object  # batch -> tuple of arrays
    shapes: tuple = ()  # of the inputs, with the symbol b for the batch; empty: the program is not exported so
    is_training: bool = False

    def arguments(self, batch=1):
        return self.weights, *self.inputs(batch)


class Weights:
    """Draws weights."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def normal(self, *shape, scale=1.0):
        return (self.random.standard_normal(shape, np.float32) * np.float32(scale)).astype(np.float32)

    def dense(self, inputs, outputs):
        return {"w": self.normal(inputs, outputs, scale=inputs ** -0.5), "b": self.normal(outputs, scale=0.02)}

    def conv(self, size, inputs, outputs):
        return {"w": self.normal(size, size, inputs, outputs, scale=(size * size * inputs) ** -0.5), "b": self.normal(outputs, scale=0.02)}

    def norm(self, width):
        return {"scale": 1 + self.normal(width, scale=0.1), "bias": self.normal(width, scale=0.1)}

    def batch_norm(self, width):
        return {**self.norm(width), "mean": self.normal(width, scale=0.1), "var": 1 + np.abs(self.normal(width, scale=0.2))}


def images(*shape, seed=1):
    return lambda batch: (Weights(seed).normal(batch, *shape),)


def tokens(count, vocabulary, seed=2):
    return lambda batch: (np.random.default_rng(seed).integers(0, vocabulary, (batch, count)).astype(np.int32),)


# ---- layers ------------------------------------------------------------------------------------

def dense(p, x):
    y = x @ p["w"]
    return y + p["b"] if "b" in p else y


def conv(p, x, stride=1, padding="SAME"):
    y = lax.conv_general_dilated(x, p["w"], (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p["b"] if "b" in p else y


def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-6) * p["scale"] + p["bias"]


def group_norm(p, x, groups=32):
    height, width, channels = x.shape[1:]
    y = x.reshape(-1, height, width, groups, channels // groups)
    mean = y.mean((1, 2, 4), keepdims=True)
    variance = ((y - mean) ** 2).mean((1, 2, 4), keepdims=True)
    return ((y - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape) * p["scale"] + p["bias"]


def batch_norm(p, x):
    return (x - p["mean"]) * (lax.rsqrt(p["var"] + 1e-5) * p["scale"]) + p["bias"]


def trained_batch_norm(p, x):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p["scale"] + p["bias"]


def max_pool(x, size, stride, padding="SAME"):
    return lax.reduce_window(x, -np.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), padding)


def attention(p, x, heads, mask=None):
    length, width = x.shape[1:]
    q, k, v = (dense(p[name], x).reshape(-1, length, heads, width // heads) for name in "qkv")
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(width // heads)
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return dense(p["out"], y.reshape(-1, length, width))


def attention_weights(w, width):
    return {name: w.dense(width, width) for name in ("q", "k", "v", "out")}


def block_weights(w, width):
    return {"attention": attention_weights(w, width), "norm1": w.norm(width), "norm2": w.norm(width), "up": w.dense(width, 4 * width),
            "down": w.dense(4 * width, width)}


def feed_forward(p, x):
    return dense(p["down"], jax.nn.gelu(dense(p["up"], x), approximate=False))


# ---- networks ----------------------------------------------------------------------------------

def perceptron():
    w = Weights(10)

    def function(p, x):
        for layer in p[:-1]:
            x = jax.nn.relu(dense(layer, x))
        return jax.nn.log_softmax(dense(p[-1], x))
    return Model(function, [w.dense(784, 512), w.dense(512, 512), w.dense(512, 10)], images(784), (("b, 784", np.float32),))


def convnet_weights(w):
    return {"convs": [w.conv(3, a, b) for a, b in ((3, 32), (32, 64), (64, 128))], "norms": [w.norm(width) for width in (32, 64, 128)],
            "dense": w.dense(128 * 16, 10)}


def convnet_logits(p, x):
    for layer, norm in zip(p["convs"], p["norms"], strict=True):
        x = max_pool(jax.nn.relu(conv(layer, x) * norm["scale"] + norm["bias"]), 2, 2)
    return dense(p["dense"], x.reshape(-1, 128 * 16))


def convnet():
    return Model(lambda p, x: jax.nn.log_softmax(convnet_logits(p, x)), convnet_weights(Weights(11)), images(32, 32, 3), (("b, 32, 32, 3", np.float32),))


def resnet50():
    """ResNet-50 (He and others 2015) with the stride in the 3x3 convolution: 25.6 million weights."""
    w, blocks, inputs = Weights(12), [], 64

    def unit(size, a, b):
        return {"conv": {"w": w.normal(size, size, a, b, scale=(2 / (size * size * a)) ** 0.5)}, "norm": w.batch_norm(b)}
    stem = unit(7, 3, 64)
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(count):
            block = {"a": unit(1, inputs, width), "b": unit(3, width, width), "c": unit(1, width, 4 * width)}
            block["c"]["norm"]["scale"] *= np.float32(0.3)  # so that the sums of the residual branches stay moderate
            if i == 0:
                block["short"] = unit(1, inputs, 4 * width)
            blocks.append(block)
            inputs = 4 * width

    def apply(p, x, stride=1):
        return batch_norm(p["norm"], conv(p["conv"], x, stride))

    def function(p, x):
        x = max_pool(jax.nn.relu(apply(p["stem"], x, 2)), 3, 2)
        for i, q in enumerate(p["blocks"]):
            stride = 2 if "short" in q and i else 1
            y = jax.nn.relu(apply(q["a"], x))
            y = apply(q["c"], jax.nn.relu(apply(q["b"], y, stride)))
            x = jax.nn.relu(y + (apply(q["short"], x, stride) if "short" in q else x))
        return dense(p["dense"], x.mean((1, 2)))
    return Model(function, {"stem": stem, "blocks": blocks, "dense": w.dense(2048, 1000)}, images(224, 224, 3), (("b, 224, 224, 3", np.float32),))


def vit_b16():
    """ViT-B/16 (Dosovitskiy and others 2020): 86.6 million weights."""
    w, width = Weights(13), 768
    weights = {"patch": w.conv(16, 3, width), "class": w.normal(1, 1, width, scale=0.02), "place": w.normal(1, 197, width, scale=0.02),
               "blocks": [block_weights(w, width) for _ in range(12)], "norm": w.norm(width), "head": w.dense(width, 1000)}

    def function(p, x):
        x = conv(p["patch"], x, 16, "VALID").reshape(-1, 196, width)
        x = jnp.concatenate([jnp.broadcast_to(p["class"], (x.shape[0], 1, width)), x], 1) + p["place"]
        for q in p["blocks"]:
            x = x + attention(q["attention"], layer_norm(q["norm1"], x), 12)
            x = x + feed_forward(q, layer_norm(q["norm2"], x))
        return dense(p["head"], layer_norm(p["norm"], x)[:, 0])
    return Model(function, weights, images(224, 224, 3), (("b, 224, 224, 3", np.float32),))


def bert_base():
    """The encoder of BERT (Devlin and others 2018), base size: 12 layers, width 768, 12 heads, 30522 words."""
    w, width, length = Weights(14), 768, 128
    weights = {"words": w.normal(30522, width, scale=0.02), "places": w.normal(512, width, scale=0.02), "kinds": w.normal(2, width, scale=0.02),
               "norm": w.norm(width), "blocks": [block_weights(w, width) for _ in range(12)], "pool": w.dense(width, width)}

    def function(p, ids, kinds, mask):
        x = layer_norm(p["norm"], p["words"][ids] + p["places"][:length] + p["kinds"][kinds])
        mask = mask[:, None, None, :] > 0
        for q in p["blocks"]:
            x = layer_norm(q["norm1"], x + attention(q["attention"], x, 12, mask))
            x = layer_norm(q["norm2"], x + feed_forward(q, x))
        return x, jnp.tanh(dense(p["pool"], x[:, 0]))

    def inputs(batch):
        ids, = tokens(length, 30522)(batch)
        kinds = np.repeat((np.arange(length) >= 40).astype(np.int32)[None], batch, 0)
        return ids, kinds, np.repeat((np.arange(length) < 100).astype(np.int32)[None], batch, 0)
    return Model(function, weights, inputs, (("b, 128", np.int32),) * 3)


def decoder():
    """Greedy generation with a cache of keys and values: 6 layers of width 512, 32 steps by lax.scan."""
    w, width, heads, steps, vocabulary = Weights(15), 512, 8, 32, 4096
    depth = width // heads
    weights = {"words": w.normal(vocabulary, width, scale=0.05), "places": w.normal(steps, width, scale=0.05), "norm": w.norm(width),
               "blocks": [block_weights(w, width) for _ in range(6)]}

    def attend(p, x, cache, place):
        q, k, v = (dense(p[name], x).reshape(-1, heads, depth) for name in "qkv")
        cache = lax.dynamic_update_slice_in_dim(cache, jnp.stack([k, v])[:, :, None], place, 2)
        scores = jnp.einsum("bhd,bthd->bht", q, cache[0]) / math.sqrt(depth)
        weights = jax.nn.softmax(jnp.where(jnp.arange(steps) <= place, scores, -1e9))
        return dense(p["out"], jnp.einsum("bht,bthd->bhd", weights, cache[1]).reshape(-1, width)), cache

    def function(p, start):
        def step(carry, place):
            token, caches = carry
            x = p["words"][token] + p["places"][place]
            kept = []
            for q, cache in zip(p["blocks"], caches, strict=True):
                y, cache = attend(q["attention"], layer_norm(q["norm1"], x), cache, place)
                x = x + y
                x = x + feed_forward(q, layer_norm(q["norm2"], x))
                kept.append(cache)
            logits = layer_norm(p["norm"], x) @ p["words"].T
            token = jnp.argmax(logits, -1).astype(jnp.int32)
            return (token, kept), (token, logits)
        caches = [jnp.zeros((2, start.shape[0], steps, heads, depth), p["words"].dtype) for _ in p["blocks"]]
        return lax.scan(step, (start, caches), jnp.arange(steps, dtype=jnp.int32))[1]
    return Model(function, weights, lambda batch: (np.arange(5, 5 + batch, dtype=np.int32),), (("b", np.int32),))


def unet():
    """The U-Net of DDPM for 32x32 images (Ho and others 2020): width 128, factors 1, 2, 2, 2, attention at 16x16, 35.7 million weights."""
    w, width, factors = Weights(16), 128, (1, 2, 2, 2)

    def res(a, b):
        p = {"norm1": w.norm(a), "conv1": w.conv(3, a, b), "time": w.dense(4 * width, b), "norm2": w.norm(b), "conv2": w.conv(3, b, b)}
        return {**p, "short": w.dense(a, b)} if a != b else p

    def attend(a):
        return {"norm": w.norm(a), "attention": attention_weights(w, a)}
    down, up, skips, a = [], [], [width], width
    for level, factor in enumerate(factors):
        for _ in range(2):
            down.append({"res": res(a, width * factor), **({"attend": attend(width * factor)} if level == 1 else {})})
            a = width * factor
            skips.append(a)
        if level < 3:
            down.append({"down": w.conv(3, a, a)})
            skips.append(a)
    middle = [res(a, a), attend(a), res(a, a)]
    for level, factor in reversed(list(enumerate(factors))):
        for i in range(3):
            up.append({"res": res(a + skips.pop(), width * factor), **({"attend": attend(width * factor)} if level == 1 else {})})
            a = width * factor
        if level:
            up.append({"up": w.conv(3, a, a)})
    weights = {"time": [w.dense(width, 4 * width), w.dense(4 * width, 4 * width)], "in": w.conv(3, 3, width), "down": down, "middle": middle, "up": up,
               "norm": w.norm(width), "out": w.conv(3, width, 3)}

    def apply_res(p, x, time):
        y = conv(p["conv1"], jax.nn.silu(group_norm(p["norm1"], x))) + dense(p["time"], jax.nn.silu(time))[:, None, None]
        y = conv(p["conv2"], jax.nn.silu(group_norm(p["norm2"], y)))
        return y + (dense(p["short"], x) if "short" in p else x)

    def apply_attend(p, x):
        height, breadth, channels = x.shape[1:]
        y = group_norm(p["norm"], x).reshape(-1, height * breadth, channels)
        return x + attention(p["attention"], y, 1).reshape(x.shape)

    def stage(q, x, time):
        x = apply_res(q["res"], x, time)
        return apply_attend(q["attend"], x) if "attend" in q else x

    def function(p, x, t):
        frequencies = jnp.exp(-math.log(10000) / (width // 2 - 1) * jnp.arange(width // 2)).astype(x.dtype)
        angles = t.astype(x.dtype)[:, None] * frequencies
        time = dense(p["time"][1], jax.nn.silu(dense(p["time"][0], jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))))
        x = conv(p["in"], x)
        kept = [x]
        for q in p["down"]:
            x = conv(q["down"], x, 2) if "down" in q else stage(q, x, time)
            kept.append(x)
        x = apply_res(p["middle"][2], apply_attend(p["middle"][1], apply_res(p["middle"][0], x, time)), time)
        for q in p["up"]:
            if "up" in q:
                size = x.shape[0], 2 * x.shape[1], 2 * x.shape[2], x.shape[3]
                x = conv(q["up"], jax.image.resize(x, size, "nearest"))
            else:
                x = stage(q, jnp.concatenate([x, kept.pop()], -1), time)
        return conv(p["out"], jax.nn.silu(group_norm(p["norm"], x)))

    def inputs(batch):
        return *images(32, 32, 3)(batch), np.arange(7, 7 + batch, dtype=np.int32)
    return Model(function, weights, inputs, (("b, 32, 32, 3", np.float32), ("b", np.int32)))


def lstm_weights(w, inputs, width):
    return {"x": w.dense(inputs, 4 * width), "h": {"w": w.normal(width, 4 * width, scale=width ** -0.5)}}


def run_lstm(p, xs):
    """Runs one layer over the first axis of xs, which is time."""
    width = p["h"]["w"].shape[0]

    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x + h @ p["h"]["w"], 4, -1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((xs.shape[1], width), xs.dtype)
    return lax.scan(step, (zero, zero), dense(p["x"], xs))[1]


def lstm():
    """Two layers of 512 cells over 100 steps."""
    w = Weights(17)

    def function(p, xs):
        for layer in p["layers"]:
            xs = run_lstm(layer, xs)
        return dense(p["dense"], xs)
    return Model(function, {"layers": [lstm_weights(w, 128, 512), lstm_weights(w, 512, 512)], "dense": w.dense(512, 50)},
                 lambda batch: (Weights(3).normal(100, batch, 128),), (("100, b, 128", np.float32),))


# ---- training ----------------------------------------------------------------------------------

def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()


def descent(loss, rate=0.1):
    """Returns a function that gives the loss, its gradients, and the weights after one step."""
    def function(p, *inputs):
        value, gradients = jax.value_and_grad(loss)(p, *inputs)
        return value, gradients, jax.tree.map(lambda a, g: a - rate * g, p, gradients)
    return function


def labelled(inputs, classes, *shape):
    return lambda batch: (*inputs(batch), np.random.default_rng(5).integers(0, classes, (batch, *shape)).astype(np.int32))


def perceptron_training():
    """A step of Adam."""
    w = Weights(20)
    p = [w.dense(784, 512), w.dense(512, 512), w.dense(512, 10)]

    def loss(p, x, y):
        for layer in p[:-1]:
            x = jax.nn.relu(dense(layer, x))
        return cross_entropy(dense(p[-1], x), y)

    def function(state, x, y):
        value, gradients = jax.value_and_grad(loss)(state["p"], x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], gradients)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state["v"], gradients)
        p = jax.tree.map(lambda a, m, v: a - 1e-3 * m / (jnp.sqrt(v) + 1e-8), state["p"], m, v)
        return value, gradients, {"p": p, "m": m, "v": v}
    state = {"p": p, "m": jax.tree.map(lambda a: 0.01 * a, p), "v": jax.tree.map(lambda a: np.float32(1e-4) + np.zeros_like(a), p)}
    return Model(function, state, labelled(images(784), 10), is_training=True)


def convnet_training():
    def loss(p, x, y):
        for layer, norm in zip(p["convs"], p["norms"], strict=True):
            x = max_pool(jax.nn.relu(trained_batch_norm(norm, conv(layer, x))), 2, 2)
        return cross_entropy(dense(p["dense"], x.reshape(-1, 128 * 16)), y)
    weights = convnet_weights(Weights(21))
    for layer in weights["convs"]:
        del layer["b"]  # the normalisation after it removes it, so its gradient would be nothing but rounding
    return Model(descent(loss), weights, labelled(images(32, 32, 3), 10), is_training=True)


def transformer_training():
    """A language model of 4 layers of width 256."""
    w, width, length, vocabulary = Weights(22), 256, 64, 1000
    weights = {"words": w.normal(vocabulary, width, scale=0.05), "places": w.normal(length, width, scale=0.05), "norm": w.norm(width),
               "blocks": [block_weights(w, width) for _ in range(4)]}

    for q in weights["blocks"]:
        del q["attention"]["k"]["b"]  # softmax removes it, so its gradient would be nothing but rounding

    def loss(p, ids, labels):
        x, mask = p["words"][ids] + p["places"], np.tril(np.ones((length, length), bool))
        for q in p["blocks"]:
            x = x + attention(q["attention"], layer_norm(q["norm1"], x), 4, mask)
            x = x + feed_forward(q, layer_norm(q["norm2"], x))
        return cross_entropy(layer_norm(p["norm"], x) @ p["words"].T, labels)
    return Model(descent(loss), weights, labelled(tokens(length, vocabulary), vocabulary, length), is_training=True)


def lstm_training():
    w = Weights(23)

    def loss(p, xs, y):
        return cross_entropy(dense(p["dense"], run_lstm(p["layer"], xs)[-1]), y)
    return Model(descent(loss), {"layer": lstm_weights(w, 32, 128), "dense": w.dense(128, 10)},
                 labelled(lambda batch: (Weights(4).normal(40, batch, 32),), 10), is_training=True)


# ---- algorithms --------------------------------------------------------------------------------

def algorithms():
    """Sorting, the largest elements, Fourier transforms, a loop until convergence, and random bits."""
    def function(a, key):
        spectrum = jnp.fft.rfft(a)

        def unfinished(state):
            return (state[0] < 200) & (jnp.abs(state[1] - state[2]).max() > 1e-4)

        def refine(state):
            count, x, _ = state
            return count + 1, 0.5 * (x + (1 + a * a) / x), x
        count, root, _ = lax.while_loop(unfinished, refine, (0, jnp.ones_like(a), jnp.zeros_like(a)))
        return (jnp.sort(a, 1), jnp.argsort(a, 1), lax.top_k(a, 40), jnp.real(spectrum), jnp.imag(spectrum), jnp.fft.irfft(spectrum), count, root,
                jax.random.bits(key, (64, 1000)))
    return Model(function, Weights(30).normal(64, 4096), lambda batch: (np.array([0, 7], np.uint32),))


MODELS = {"perceptron": perceptron, "convnet": convnet, "resnet50": resnet50, "vit_b16": vit_b16, "bert_base": bert_base, "decoder": decoder, "unet": unet,
          "lstm": lstm, "perceptron_training": perceptron_training, "convnet_training": convnet_training, "transformer_training": transformer_training,
          "lstm_training": lstm_training, "algorithms": algorithms}
