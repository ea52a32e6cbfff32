"""Numbers that are easy to get wrong, through the backend of torch.compile: NaN, infinities, zeros of both signs, numbers next to
the limits, against eager PyTorch."""
import os
import sys
import unittest

import totals

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python")]

import torch  # noqa: E402
from torch._functorch.aot_autograd import aot_function  # noqa: E402

from tenon.torch import compiler  # noqa: E402

NAN, INF = float("nan"), float("inf")
FLOATS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1e-30, -1e-30, 1e-7, -1e-7, 1e30, -1e30, 2.5, -2.5, 3.5, -3.5, 10.0,
          -10.25, 25.5, -25.5, 40.0, -40.0, 88.0, 89.0, -104.0, 100.0, 1000.0, -1000.5, 1e-3, -1e-3, 0.99999, 0.7, 15.0, -15.0, 1e5, -1e5,
          3.4e38, -3.4e38]
# PyTorch overflows earlier than it must: sinh, cosh and Bessel functions in e^x, hardswish before it divides.
LESS = {89.0: ("cosh", "sinh", "i0", "special.i1"), 3.4e38: ("nn.functional.hardswish",)}
INTS = [0, 1, -1, 2, -2, 7, -7, 2**31, -2**31, 2**62, -2**63, 2**63 - 1]

UNARY = """abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp floor log neg reciprocal round rsqrt sgn sigmoid sign sin sinh
sqrt tan tanh relu trunc frac exp2 log2 log10 log1p expm1 signbit isnan isinf isfinite isposinf isneginf digamma erfinv i0 nan_to_num logit
deg2rad rad2deg sinc square special.i0e special.i1 special.i1e special.erfcx special.log_ndtr special.ndtr special.entr positive angle isreal
nn.functional.silu nn.functional.mish nn.functional.softplus nn.functional.softsign nn.functional.hardswish nn.functional.hardsigmoid
nn.functional.elu nn.functional.celu nn.functional.selu nn.functional.leaky_relu nn.functional.logsigmoid nn.functional.hardshrink""".split()
BINARY = """add sub mul div atan2 hypot copysign floor_divide maximum minimum fmax fmin pow logaddexp xlogy eq ne lt le heaviside
special.xlog1py ldexp float_power nextafter""".split()
# The sign of a zero depends on which of two equal zeros is taken.
UNSIGNED = ("fmax", "fmin", "nn.functional.elu", "nn.functional.celu", "nn.functional.selu")
OF_INTS = "add sub mul maximum minimum bitwise_and bitwise_or bitwise_xor eq lt".split()
QUOTIENTS = ("floor_divide", "remainder", "fmod")
SHIFTS = ("bitwise_left_shift", "bitwise_right_shift")


def named(name):
    found = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found


def compiled(function, *arguments):
    """The results of a function, all of which Tenon must run."""
    explanation = compiler.Explanation()
    with compiler.recording(explanation):
        made = aot_function(function, fw_compiler=compiler.compile_graph, decompositions=compiler.decompositions())(*arguments)
    back = [item for graph in explanation.graphs for item in graph.handed_back]
    if back:
        raise AssertionError(f"handed back: {back}")
    return made


class Numbers(unittest.TestCase):
    def check(self, name, *arguments, function=None):
        function = function or named(name)
        expected, found = function(*arguments), compiled(function, *arguments)
        if expected.dtype.is_floating_point:
            tolerance = {torch.float32: 2e-5, torch.float64: 1e-7}[expected.dtype]
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=1e-37 if expected.dtype == torch.float32 else 1e-300, equal_nan=True)
            is_zero = (found == 0) & (expected == 0)
            if name not in UNSIGNED:
                self.assertFalse((is_zero & (found.signbit() != expected.signbit())).any(), "the sign of a zero")
        else:
            torch.testing.assert_close(found, expected)

    def test_functions_of_one_float_equal_eager_pytorch(self):
        for dtype in torch.float32, torch.float64:
            for name in UNARY:
                with self.subTest(name=name, dtype=dtype):
                    numbers = [x for x in FLOATS if name not in LESS.get(x, ())]
                    self.check(name, torch.tensor(numbers * 3, dtype=dtype))  # as many as PyTorch's vectors take

    def test_functions_of_two_floats_equal_eager_pytorch(self):
        x = torch.tensor(FLOATS)
        for name in BINARY:
            with self.subTest(name=name):
                self.check(name, x[:, None].contiguous(), x[None].contiguous())

    def test_functions_of_integers_wrap_and_round_as_in_eager_pytorch(self):
        i = torch.tensor(INTS)
        for name in OF_INTS:
            with self.subTest(name=name):
                self.check(name, i[:, None].contiguous(), i[None].contiguous())
        for name in QUOTIENTS:
            with self.subTest(name=name):
                self.check(name, i[:, None].contiguous(), i[None, 1:-2].contiguous())
        for name in SHIFTS:
            with self.subTest(name=name):
                self.check(name, i[:, None].contiguous(), torch.tensor([[0, 1, 2, 31, 32, 63, 64, 70]]))

    def test_searches_and_scans_treat_nan_as_eager_pytorch_does(self):
        x = torch.tensor(FLOATS)
        cases = {"argmax": lambda x: x.argmax(), "argmin": lambda x: x.argmin(), "max": lambda x: x.max(0)[1], "min": lambda x: x.min(0)[1],
                 "cummax": lambda x: x.flip(0).cummax(0)[1], "cummin": lambda x: x.flip(0).cummin(0)[1], "median": lambda x: x.median(),
                 "nanmedian": lambda x: x.nanmedian(), "sort": lambda x: x.sort(stable=True)[1], "logcumsumexp": lambda x: x[1:].logcumsumexp(0),
                 "descending": lambda x: x.sort(stable=True, descending=True)[1], "clamp": lambda x: x.clamp(-1, 2),
                 "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5, INF])), "logsumexp": lambda x: x[1:].logsumexp(0)}
        for name, function in cases.items():
            with self.subTest(name=name):
                self.check(name, x, function=function)


if __name__ == "__main__":
    totals.main()
