"""Built-in kernels that work by rows or blocks, against NumPy, at sizes around each block size, on 1 and 2 threads."""
import os
import sys
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(ROOT / "tests/adapters"), str(BUILD / "python")]
import tenon  # noqa: E402
import totals  # noqa: E402

core = tenon.ops.core
# The block sizes of the kernels are powers of two, from a vector of 8 lanes to 65,536 elements for a thread.
SIZES = sorted({1, 2, 3, 100003, 200000} | {size + more for power in (3, 4, 5, 6, 8, 9, 10, 11, 12, 14, 15, 16, 17)
                                               for size in [1 << power] for more in (-1, 0, 1)})
U32 = np.float32(2.0 ** -23)


def close(found, expected, terms=1):
    """Is each element within `terms` roundings of f32, relative to the larger of 1 and the greatest expected element?"""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
    return found.shape == expected.shape and bool(np.all(np.abs(found - expected) <= 4 * terms * U32 * scale))


def quantised(x, scale, zero, low, high):
    return np.clip(np.rint((x / scale).astype(np.float32)) + zero, low, high)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normalised(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


class Blocks(unittest.TestCase):
    def each(self, test, sizes=SIZES):
        """Runs test(n, random) for each size on 1 and on 2 threads."""
        for threads in (1, 2):
            with tenon.threads(threads):
                for n in sizes:
                    with self.subTest(threads=threads, n=n):
                        test(n, np.random.default_rng(n))

    def test_dynamic_quantize_linear(self):
        def test(n, random):
            x = (random.standard_normal(n) * 3).astype(np.float32)
            y, scale, zero = core.dynamic_quantize_linear(x)
            low, high = min(0, x.min()), max(0, x.max())
            expected_scale = np.float32((high - low) / np.float32(255)) if high > low else np.float32(1 / 255)
            expected_zero = np.rint(np.clip(-low / expected_scale, 0, 255))
            self.assertAlmostEqual(float(scale), float(expected_scale), delta=1e-6 * float(expected_scale))
            self.assertEqual(int(zero), int(expected_zero))
            self.assertTrue(np.array_equal(y, quantised(x, np.float32(scale), int(zero), 0, 255)))
        self.each(test)

    def test_quantize_with_one_scale(self):
        def test(n, random):
            x = (random.standard_normal(n) * 3).astype(np.float32)
            for dtype, low, high in ((np.uint8, 0, 255), (np.int8, -128, 127), (np.int16, -32768, 32767)):
                scale, zero = np.float32(0.037), dtype(7)
                y = core.quantize_linear(x, scale, zero)
                self.assertTrue(np.array_equal(y, quantised(x, scale, 7, low, high)), dtype)
                if dtype != np.int16:
                    self.assertTrue(close(core.dequantize_linear(y, scale, zero), (y.astype(np.float64) - 7) * scale), dtype)
        self.each(test)

    def test_quantize_with_a_scale_per_index_and_per_block(self):
        def test(n, random):
            for shape, axis in (((3, n), 0), ((n, 3), 0), ((3, n), 1)):
                x = (random.standard_normal(shape) * 3).astype(np.float32)
                scale = random.uniform(0.02, 0.05, shape[axis]).astype(np.float32)
                zero = random.integers(0, 255, shape[axis]).astype(np.uint8)
                lead = (slice(None),) + (None,) * (1 - axis)
                y = core.quantize_linear(x, scale, zero, axis=axis)
                self.assertTrue(np.array_equal(y, quantised(x, scale[lead], zero[lead].astype(np.float32), 0, 255)), (shape, axis))
            scale = random.uniform(0.02, 0.05, (3, (n + 31) // 32)).astype(np.float32)
            x = (random.standard_normal((3, n)) * 3).astype(np.float32)
            each = np.repeat(scale, 32, 1)[:, :n]
            y = core.quantize_linear(x, scale, None, axis=1, block_size=32)
            self.assertTrue(np.array_equal(y, quantised(x, each, 0, 0, 255)), "blocks")
        self.each(test)

    def test_pointwise(self):
        def test(n, random):
            x, y = random.standard_normal(n).astype(np.float32), random.standard_normal(n).astype(np.float32)
            self.assertTrue(np.array_equal(core.add(x, y), x + y))
            self.assertTrue(np.array_equal(core.relu(x), np.maximum(x, 0)))
            self.assertTrue(np.array_equal(core.where(x > 0, x, y), np.where(x > 0, x, y)))
            self.assertTrue(close(core.exp(x), np.exp(x.astype(np.float64)), 2))
            self.assertTrue(close(core.tanh(x), np.tanh(x.astype(np.float64)), 2))
            self.assertTrue(np.array_equal(core.mul(x[::2], y[::2]), x[::2] * y[::2]))
            wide = random.standard_normal((3, n)).astype(np.float32)
            self.assertTrue(np.array_equal(core.add(wide, x), wide + x))
            self.assertTrue(np.array_equal(core.mul(wide.T, wide.T[:, :1]), wide.T * wide.T[:, :1]))
            i = random.integers(-1000, 1000, n)
            self.assertTrue(np.array_equal(core.add(i, i), i + i))
        self.each(test)

    def test_casts(self):
        def test(n, random):
            x = random.uniform(-127, 127, n).astype(np.float32)
            for to, name in ((np.float16, "f16"), (np.float64, "f64"), (np.int32, "i32"), (np.int64, "i64"), (np.int8, "i8"), (bool, "bool")):
                self.assertTrue(np.array_equal(core.cast(x, to=name), x.astype(to)), name)
            half = x.astype(np.float16)
            self.assertTrue(np.array_equal(core.cast(half, to="f32"), half.astype(np.float32)))
            self.assertTrue(np.array_equal(core.add(half, half), half + half))
        self.each(test)

    def test_reductions(self):
        def test(n, random):
            for shape, axis in (((n,), 0), ((3, n), 1), ((n, 3), 0), ((2, n, 2), 1)):
                x = random.standard_normal(shape).astype(np.float32)
                wide, axes = x.astype(np.float64), np.array([axis])
                self.assertTrue(close(core.reduce_sum(np.abs(x), axes, keepdims=False), np.abs(wide).sum(axis), 8), (shape, axis))
                self.assertTrue(close(core.reduce_mean(x, axes, keepdims=False), wide.mean(axis), 8), (shape, axis))
                self.assertTrue(close(core.reduce_sum_square(x, axes, keepdims=False), (wide * wide).sum(axis), 8), (shape, axis))
                self.assertTrue(np.array_equal(core.reduce_max(x, axes, keepdims=False), x.max(axis)), (shape, axis))
                self.assertTrue(np.array_equal(core.reduce_min(x, axes, keepdims=False), x.min(axis)), (shape, axis))
                self.assertTrue(np.array_equal(core.arg_max(x, axis=axis, keepdims=False), x.argmax(axis)), (shape, axis))
                i = random.integers(-1000, 1000, shape)
                self.assertTrue(np.array_equal(core.reduce_sum(i, axes, keepdims=False), i.sum(axis)), (shape, axis))
        self.each(test)

    def test_rows(self):
        def test(n, random):
            x = random.standard_normal((3, n)).astype(np.float32)
            wide = x.astype(np.float64)
            self.assertTrue(close(core.softmax(x), softmax(wide), 2))
            self.assertTrue(close(core.log_softmax(x), np.log(softmax(wide)), 8))
            scale, bias = random.standard_normal(n).astype(np.float32), random.standard_normal(n).astype(np.float32)
            self.assertTrue(close(core.layer_norm(x, scale, bias)[0], normalised(wide) * scale + bias, 8))
            rms = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * scale
            self.assertTrue(close(core.rms_norm(x, scale), rms, 8))
            tall = np.ascontiguousarray(x.T)
            self.assertTrue(close(core.softmax(tall, axis=0), softmax(wide).T, 2))
            self.assertTrue(close(core.cum_sum(x.astype(np.float64), np.array(1)), np.cumsum(wide, 1), 1))
            i = random.integers(-9, 9, (3, n))
            self.assertTrue(np.array_equal(core.cum_sum(i, np.array(1)), np.cumsum(i, 1)))
        self.each(test)

    def test_channels(self):
        def test(n, random):
            x = random.standard_normal((2, 3, n)).astype(np.float32)
            wide = x.astype(np.float64)
            scale, bias, mean = (random.standard_normal(3).astype(np.float32) for _ in range(3))
            var = random.uniform(0.5, 2, 3).astype(np.float32)
            expected = (wide - mean[:, None]) / np.sqrt(var.astype(np.float64)[:, None] + 1e-5) * scale[:, None] + bias[:, None]
            self.assertTrue(close(core.batch_norm(x, scale, bias, mean, var), expected, 4))
            self.assertTrue(close(core.instance_norm(x, scale, bias), normalised(wide) * scale[:, None] + bias[:, None], 16))
            self.assertTrue(close(core.global_average_pool(x), wide.mean(-1, keepdims=True), 4))
            self.assertTrue(np.array_equal(core.global_max_pool(x), x.max(-1, keepdims=True)))
            kernel = min(n, 5)
            windows = np.lib.stride_tricks.sliding_window_view(wide, kernel, 2)
            self.assertTrue(close(core.average_pool(x, kernel=[kernel]), windows.mean(-1), 2))
            self.assertTrue(close(core.max_pool(x, kernel=[kernel])[0], windows.max(-1)))
            weight = random.standard_normal((2, 3, kernel)).astype(np.float32)
            self.assertTrue(close(core.conv(x, weight), np.einsum("bcnk,ock->bon", windows, weight.astype(np.float64)), 8))
        self.each(test)

    def test_products(self):
        def test(n, random):
            a, b = random.standard_normal((3, n)).astype(np.float32), random.standard_normal((n, 2)).astype(np.float32)
            self.assertTrue(close(core.matmul(a, b), a.astype(np.float64) @ b, 16))
            if n <= 4097:  # the result has n * n elements
                self.assertTrue(close(core.matmul(b, a[:2]), b.astype(np.float64) @ a[:2], 4))
            c, d = random.integers(0, 255, (3, n)).astype(np.uint8), random.integers(-128, 127, (n, 2)).astype(np.int8)
            self.assertTrue(np.array_equal(core.matmul_integer(c, d), c.astype(np.int32) @ d.astype(np.int32)))
        self.each(test)

    def test_movement(self):
        def test(n, random):
            x = random.standard_normal((3, n)).astype(np.float32)
            self.assertTrue(np.array_equal(core.contiguous(np.asarray(x).T), x.T))
            self.assertTrue(np.array_equal(core.concat([x, x], axis=1), np.concatenate([x, x], 1)))
            self.assertTrue(np.array_equal(core.pad(x, np.array([0, 1, 0, 2])), np.pad(x, ((0, 0), (1, 2)))))
            index = random.integers(0, n, n)
            self.assertTrue(np.array_equal(core.gather(x, index, axis=1), x[:, index]))
            self.assertTrue(np.array_equal(core.gather_elements(x, np.stack([index] * 3), axis=1), x[:, index]))
            self.assertTrue(np.array_equal(core.nonzero(x > 0), np.stack(np.nonzero(x > 0))))
            self.assertTrue(np.array_equal(core.compress(x, x[0] > 0, axis=1), x[:, x[0] > 0]))
            updates = random.standard_normal((3, n)).astype(np.float32)
            places = np.stack([random.permutation(n)] * 3)
            expected = x.copy()
            np.put_along_axis(expected, places, updates, 1)
            self.assertTrue(np.array_equal(core.scatter_elements(x, places, updates, axis=1), expected))
            count = min(n, 7)
            values, places = core.top_k(x, np.array([count]))
            self.assertTrue(np.array_equal(values, -np.sort(-x, 1)[:, :count]))
            self.assertTrue(np.array_equal(np.take_along_axis(x, np.asarray(places), 1), values))
        self.each(test)


if __name__ == "__main__":
    totals.main()
