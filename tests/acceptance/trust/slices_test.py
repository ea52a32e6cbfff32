"""Products, convolutions and pools that are cut into slices (ops/dnn) give PyTorch's results, for random extents, strides, paddings and batches. Each
round draws sizes on both sides of the limits from which work is cut, and numbers of images and rows that the slices do not divide evenly."""
import os
import random
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.join(ROOT, "tests", "adapters")]

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

import numpy as np  # noqa: E402
import tenon  # noqa: E402
import totals  # noqa: E402
from torch.nn import functional  # noqa: E402

core = tenon.ops.core
ROUNDS, TOLERANCE = 40, 2e-5  # a share of the largest result


class Slices(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(11)
        torch.manual_seed(11)

    def check(self, what, found, expected):
        found, expected = np.asarray(found), expected.numpy()
        self.assertEqual(found.shape, expected.shape, what)
        self.assertLessEqual(np.abs(found - expected).max(), TOLERANCE * np.abs(expected).max(), what)

    def images(self):
        pick = self.random.choice
        x = torch.randn(pick((1, 2, 3, 5, 7, 9, 33)), pick((8, 16, 32, 64)), self.random.randint(9, 60), self.random.randint(9, 60))
        return x.to(memory_format=torch.channels_last) if self.random.random() < 0.5 else x

    def test_convolutions(self):
        for _ in range(ROUNDS):
            pick, x = self.random.choice, self.images()
            group, kernel, stride, dilation = pick((1, 1, 2, 8)), pick((1, 1, 3, 5)), pick((1, 1, 2, 3)), pick((1, 1, 2))
            padding = self.random.randint(0, kernel // 2)
            w, bias = torch.randn(pick((8, 24, 64, 104)), x.shape[1] // group, kernel, kernel), torch.randn(1)
            bias = bias.expand(w.shape[0]).contiguous()
            found = core.conv(x.numpy(), w.numpy(), bias.numpy(), strides=[stride] * 2, pads=[padding] * 4, dilations=[dilation] * 2, group=group)
            self.check((tuple(x.shape), tuple(w.shape), group, stride, padding, dilation), found, functional.conv2d(x, w, bias, stride, padding, dilation, group))

    def test_pools(self):
        for _ in range(ROUNDS):
            x, kernel, stride = self.images().to(memory_format=torch.channels_last), self.random.choice((2, 3, 5)), self.random.choice((1, 2, 3))
            padding = self.random.randint(0, kernel // 2)
            window = {"kernel": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
            what = (tuple(x.shape), kernel, stride, padding)
            self.check(what, core.max_pool(x.numpy(), **window)[0], functional.max_pool2d(x, kernel, stride, padding))
            for counts in True, False:
                found = core.average_pool(x.numpy(), count_include_pad=counts, **window)
                self.check((*what, counts), found, functional.avg_pool2d(x, kernel, stride, padding, count_include_pad=counts))

    def test_products(self):
        for _ in range(ROUNDS):
            pick = self.random.choice
            batch, m, k, n = pick((0, 0, 3, 6, 12)), pick((1, 3, 17, 64, 197, 900)), pick((16, 100, 384, 1000)), pick((5, 96, 333, 1000, 3072))
            a = torch.randn(*([batch] if batch else []), m, k)
            b = torch.randn(*([batch] if batch and self.random.random() < 0.7 else []), k, n)
            if self.random.random() < 0.3:
                a = a.mT.contiguous().mT
            self.check((tuple(a.shape), tuple(b.shape)), core.matmul(a.numpy(), b.numpy()), a @ b)


if __name__ == "__main__":
    totals.main()
