"""Special functions of PyTorch, computed in float64 from the elementary ones, so that the result is exact in float32."""
import math

import numpy as np
import torch

from .calls import aten, cast, core, named, row

_DOUBLE = torch.float64
_MOST = 1 << 26  # elements of a table with an axis for the terms of a sum


class _Doubles:
    """Arithmetic with float64 values; numbers become constants."""

    def __init__(self, c):
        self.c = c

    def of(self, x):
        return x if not isinstance(x, (int, float)) else self.c.number(float(x), _DOUBLE)

    def __getattr__(self, name):
        node = getattr(core, name)
        return lambda *operands: node(*map(self.of, operands))

    def where(self, condition, a, b):
        return core.where(condition, self.of(a), self.of(b))

    def both(self, a, b):
        return named("and")(a, b)

    def sum(self, *terms):
        made = self.of(terms[0])
        for term in terms[1:]:
            made = core.add(made, self.of(term))
        return made

    def product(self, *terms):
        made = self.of(terms[0])
        for term in terms[1:]:
            made = core.mul(made, self.of(term))
        return made

    def polynomial(self, x, coefficients):
        """The coefficients belong to falling powers."""
        made = self.of(coefficients[0])
        for coefficient in coefficients[1:]:
            made = self.add(self.mul(made, x), coefficient)
        return made


def _special(*overloads):
    """Registers a function of one float64 value, whose result is cast back."""
    def register(function):
        def lower(c, x):
            made = function(_Doubles(c), c.value(x, _DOUBLE))
            return made if c.dtype == _DOUBLE else cast(made, _DOUBLE, c.dtype)
        row(*overloads)(lower)
        return function
    return register


# ---- the gamma function and its relatives ----

_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
            -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)


def _offset(d, x):
    """How far x is from the next integer, which sines and tangents of pi x need to be exact."""
    return d.product(math.pi, d.sub(x, d.round(x)))


@_special(aten.lgamma.default)
def lgamma(d, x):
    """The sum of Lanczos right of 1/2; left of it by reflection."""
    is_left = d.less(x, 0.5)
    z = d.sub(d.where(is_left, d.sub(1, x), x), 1)
    series = d.sum(_LANCZOS[0], *(d.div(a, d.add(z, k)) for k, a in enumerate(_LANCZOS[1:], 1)))
    t = d.add(z, 7.5)
    right = d.sum(0.5 * math.log(2 * math.pi), d.mul(d.add(z, 0.5), d.sub(d.log(t), 1)), -7.0, d.log(series))
    left = d.sub(d.log(d.div(math.pi, d.abs(d.sin(_offset(d, x))))), right)
    return d.where(d.is_inf(x), math.inf, d.where(is_left, left, right))


_DIGAMMA = (8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3, -4.16666666666666666667e-3,
            3.96825396825396825397e-3, -8.33333333333333333333e-3, 8.33333333333333333333e-2)



def _digamma(d, x):
    """The asymptotic series 10 to the right, and the recurrence back; the reflection left of 1/2."""
    is_left = d.less(x, 0.5)
    z = d.where(is_left, d.sub(1, x), x)
    far = d.add(z, 10)
    inverse = d.div(1, d.mul(far, far))
    series = d.sub(d.sub(d.log(far), d.div(0.5, far)), d.mul(inverse, d.polynomial(inverse, _DIGAMMA)))
    right = d.sub(series, d.sum(*(d.div(1, d.add(z, k)) for k in range(10))))
    left = d.sub(right, d.div(math.pi, d.tan(_offset(d, x))))
    made = d.where(is_left, left, right)
    is_pole = d.both(is_left, d.equal(x, d.round(x)))
    made = d.where(is_pole, math.nan, made)
    made = d.where(d.equal(x, 0), d.neg(d.div(1, x)), made)
    return d.where(d.is_inf(x), d.where(d.less(x, 0), math.nan, math.inf), made)


_special(aten.digamma.default)(_digamma)


def _polygamma(d, x, n):
    """The sum of n! / (x + k)^(n+1) to the 20th term and the rest by Euler and Maclaurin, right of 1/2."""
    terms = [d.pow(d.add(x, k), -float(n + 1)) for k in range(20)]
    far = d.add(x, 20)
    rest = [d.div(d.pow(far, -float(n)), n), d.mul(0.5, d.pow(far, -float(n + 1)))]
    factor = n + 1.0
    for j, bernoulli in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730), 1):
        rest.append(d.mul(bernoulli * factor / math.factorial(2 * j), d.pow(far, -float(n + 2 * j))))
        factor *= (n + 2 * j) * (n + 2 * j + 1)
    return d.mul((-1.0) ** (n + 1) * math.factorial(n), d.sum(*terms, *rest))


def _cotangents(n):
    """The n-th derivative of cot(pi x) as a polynomial of cot(pi x), falling powers."""
    made = np.poly1d([1.0, 0.0])
    for _ in range(n):
        made = -math.pi * np.poly1d([1.0, 0.0, 1.0]) * made.deriv()
    return [float(v) for v in made.coeffs]


@row(aten.polygamma.default, aten.special_polygamma.default)
def polygamma(c, n, x):
    if n > 20:
        c.refuse("polygamma of a high order")
    d, v = _Doubles(c), c.value(x, _DOUBLE)
    if n == 0:
        made = _digamma(d, v)
    else:
        is_left = d.less(v, 0.5)
        right = _polygamma(d, d.where(is_left, d.sub(1, v), v), n)
        cotangent = d.div(1, d.tan(_offset(d, v)))
        left = d.sub(d.mul((-1.0) ** n, right), d.mul(math.pi, d.polynomial(cotangent, _cotangents(n))))
        is_pole = d.both(is_left, d.equal(v, d.round(v)))
        made = d.where(is_pole, math.inf if n % 2 or n == 1 else -math.inf, d.where(is_left, left, right))
        made = d.where(d.is_inf(v), d.where(d.less(v, 0), math.nan, 0.0 if n == 1 else math.nan), made)
    return made if c.dtype == _DOUBLE else cast(made, _DOUBLE, c.dtype)


# ---- the error function and its relatives ----

@_special(aten.special_erfcx.default)
def erfcx(d, x):
    """exp(x^2) erfc(x), far to the right the asymptotic series."""
    near = d.mul(d.exp(d.mul(x, x)), d.erfc(x))
    inverse = d.div(1, d.mul(x, x))
    series = d.polynomial(inverse, (6.5625, -1.875, 0.75, -0.5, 1.0))
    far = d.div(series, d.mul(math.sqrt(math.pi), x))
    return d.where(d.greater(x, 25), far, near)


_CENTRE = ((-0.140543331, 0.914624893, -1.645349621, 0.886226899), (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0))
_TAIL = ((1.641345311, 3.429567803, -1.624906493, -1.970840454), (1.637067800, 3.543889200, 1.0))


def _quotient(d, x, parts):
    return d.div(*(d.polynomial(x, p) for p in parts))


@_special(aten.erfinv.default)
def erfinv(d, y):
    """A quotient of polynomials, and two steps of Newton."""
    size = d.abs(y)
    centre = d.mul(size, _quotient(d, d.mul(y, y), _CENTRE))
    tail = _quotient(d, d.sqrt(d.neg(d.log(d.div(d.sub(1, size), 2)))), _TAIL)
    x = d.where(d.less_equal(size, 0.7), centre, tail)
    for _ in range(2):
        slope = d.mul(2 / math.sqrt(math.pi), d.exp(d.neg(d.mul(x, x))))
        x = d.sub(x, d.div(d.sub(d.erf(x), size), slope))
    x = d.where(d.equal(size, 1), math.inf, d.where(d.greater(size, 1), math.nan, x))
    return d.where(d.equal(y, 0), y, d.mul(d.sign(y), x))


@_special(aten.special_ndtri.default)
def ndtri(d, p):
    """The point below which a part p of the normal distribution lies: the tail's first guess, and steps of Newton."""
    is_right = d.greater(p, 0.5)
    q = d.where(is_right, d.sub(1, p), p)
    x = d.mul(-math.sqrt(2), _quotient(d, d.sqrt(d.neg(d.log(d.max(q, 1e-320)))), _TAIL))
    for _ in range(4):
        below = d.mul(0.5, d.erfc(d.mul(-math.sqrt(0.5), x)))
        density = d.mul(1 / math.sqrt(2 * math.pi), d.exp(d.mul(-0.5, d.mul(x, x))))
        step = d.div(d.sub(below, q), density)
        x = d.sub(x, d.div(step, d.add(1, d.mul(0.5, d.mul(x, step)))))
    x = d.where(d.equal(q, 0), -math.inf, d.where(d.less(q, 0), math.nan, x))
    return d.where(is_right, d.neg(x), x)


# ---- modified Bessel functions of the first kind ----

_NODES = 256
_EDGE = 60.0  # right of it the asymptotic series


def _bessel(d, x, order):
    """exp(-|x|) I(|x|): the mean of exp(|x| (cos t - 1)) cos(order t) over the circle, which converges faster than any power."""
    count = 1
    for extent in d.c.shape:
        count = count * extent
    if not isinstance(count, int) or count * _NODES > _MOST:
        d.c.refuse("a Bessel function of many elements")
    size = d.abs(x)
    angles = 2 * np.pi * np.arange(_NODES) / _NODES
    cosines, factors = (d.c.scope.constant(v) for v in (np.cos(angles) - 1, np.cos(order * angles) / _NODES))
    last = len(d.c.shape)
    near = core.unsqueeze(d.min(size, _EDGE), d.c.ints([last]))
    near = core.reduce_sum(core.mul(core.exp(core.mul(near, cosines)), factors), d.c.ints([last]), keepdims=False)
    if order == 1:  # the sum cancels where x is small
        quarter = d.div(d.mul(size, size), 4)
        terms = [1 / (math.factorial(k) * math.factorial(k + 1)) for k in range(11, -1, -1)]
        start = d.product(0.5, size, d.polynomial(quarter, terms), d.exp(d.neg(size)))
        near = d.where(d.less(size, 1), start, near)
    inverse, terms = d.div(1, d.max(size, 1)), [1.0]
    for k in range(1, 14):
        terms.append(-terms[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    far = d.div(d.polynomial(inverse, terms[::-1]), d.sqrt(d.mul(2 * math.pi, size)))
    made = d.where(d.greater(size, _EDGE), far, near)
    made = d.where(d.is_nan(x), x, d.where(d.is_inf(x), 0.0, made))
    return d.mul(made, d.sign(x)) if order == 1 else made


def _grown(d, x, order):
    """I(x) from exp(-|x|) I(|x|), in two factors, since exp overflows first."""
    half = d.exp(d.mul(0.5, d.abs(x)))
    made = d.product(_bessel(d, x, order), half, half)
    return d.where(d.is_inf(x), math.nan, made)  # as PyTorch does


_special(aten.special_i0e.default)(lambda d, x: _bessel(d, x, 0))
_special(aten.special_i1e.default)(lambda d, x: _bessel(d, x, 1))
_special(aten.i0.default, aten.special_modified_bessel_i0.default)(lambda d, x: _grown(d, x, 0))
_special(aten.special_i1.default, aten.special_modified_bessel_i1.default)(lambda d, x: _grown(d, x, 1))
