"""The vocabulary of the cases of jax_builtins_test.py. A case is a built-in operator, a function that computes the same by jax.numpy, the tensor
arguments that both take, and the attributes that both take by name. An argument is a NumPy array, a list of arrays, None, or Python numbers, which stay
known while the program is traced. The function returns what the operator returns, with None for results that are not compared."""
import itertools
from typing import Any, Callable, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Case(NamedTuple):
    """wanted: the arguments whose gradients are compared.  only: arguments for the operator alone, as key and size.
    units: the tolerance, in units of the dtype's rounding and of the largest element.  narrow: whether f32 is compared, too."""
    name: str
    function: Callable
    attrs: dict
    args: list
    wanted: tuple
    only: dict
    units: float
    narrow: bool

    @property
    def arrays(self):
        """The arrays of all arguments, as (number of the argument, array)."""
        return [(i, a) for i, arg in enumerate(self.args) for a in (arg if isinstance(arg, list) else [arg]) if isinstance(a, np.ndarray)]

    def call(self, function, arrays, **more):
        """Calls a function with other arrays in place of the case's; returns a flat list of results."""
        rest = iter(arrays)

        def replaced(arg):
            return [replaced(a) for a in arg] if isinstance(arg, list) else next(rest) if isinstance(arg, np.ndarray) else arg
        return flat(function(*map(replaced, self.args), **self.attrs, **more))


CASES: "list[Case]" = []
rng = np.random.default_rng(7)


def flat(results):
    return [r for result in results for r in flat(result)] if isinstance(results, (tuple, list)) else [results]


def away(shape, low=-2.0, high=2.0, kinks=(), gap=0.02):
    """Uniform numbers that stay away from the kinks; all are different."""
    x = rng.uniform(low, high, shape)
    for k in kinks:
        x = np.where(np.abs(x - k) < gap, x + 2 * gap, x)
    return np.asarray(x)


def case(name, function, *args, wanted=None, only=None, units=256, narrow=None, **attrs):
    """Adds a case. Gradients are compared for all arguments of floats unless `wanted` says otherwise; f32 is compared in an operator's first case."""
    args = [np.asarray(a) if isinstance(a, np.generic) else a for a in args]
    floats = tuple(i for i, a in enumerate(args) for a in (a if isinstance(a, list) else [a])[:1] if isinstance(a, np.ndarray) and a.dtype == np.float64)
    first = all(c.name != name for c in CASES)
    CASES.append(Case(name, function, attrs, args, floats if wanted is None else tuple(wanted), only or {}, units, first if narrow is None else narrow))


def gradient_of(function, count):
    """Returns the function of the cotangent and the inputs that computes the gradients of the first `count` inputs, by JAX."""
    def backward(dy, *args, **attrs):
        def of_some(*some):
            made = function(*some, *args[count:], **attrs)
            return made[0] if isinstance(made, tuple) else made
        grads = jax.vjp(of_some, *args[:count])[1](dy)
        return grads[0] if count == 1 else grads
    return backward


def case_and_backward(name, function, *args, count=1, **more):
    """Adds a case, and one for the operator NAME_backward, which takes the cotangent and then the same arguments."""
    case(name, function, *args, **more)
    attrs = {k: v for k, v in more.items() if k not in ("wanted", "only", "units", "narrow")}
    shape = jax.eval_shape(lambda: flat(function(*args, **attrs))[0]).shape
    options = {k: v for k, v in more.items() if k in ("units",)}
    case(name + "_backward", gradient_of(function, count), away(shape), *args, **attrs, **options)


_others = itertools.cycle([(), (0, 3), (2, 1, 4)])
_pairs = itertools.cycle([((4, 1, 3), (2, 1)), ((0, 3), (3,)), ((), (5,)), ((3, 4), ())])


def one(name, function, low=-2.5, high=2.5, kinks=(), add=case, **attrs):
    """Adds cases of a pointwise operator with one input."""
    for shape in (2, 3), next(_others):
        add(name, function, away(shape, low, high, kinks), **attrs)


def two(name, function, low=-2.5, high=2.5, low_b=None, high_b=None, kinks=(), **attrs):
    """Adds cases of a pointwise operator with two inputs that are broadcast."""
    low_b, high_b = low if low_b is None else low_b, high if high_b is None else high_b
    for a, b in ((2, 3), (2, 3)), next(_pairs), next(_pairs):
        case(name, function, away(a, low, high, kinks), away(b, low_b, high_b, kinks), **attrs)


# ---- evaluation ------------------------------------------------------------------------------------------------------


def floats_of(case):
    """The positions among the case's arrays of those whose gradients are wanted."""
    return [k for k, (i, a) in enumerate(case.arrays) if i in case.wanted and a.dtype.kind == "f"]


def weighted(results):
    """A weighted sum of the float results, to be differentiated."""
    total = 0.0
    for r in results:
        if r is not None and jnp.issubdtype(r.dtype, jnp.floating):
            total = total + jnp.sum(r * jnp.sin(1 + jnp.arange(r.size, dtype=r.dtype)).reshape(r.shape))
    return total


def results_and_gradients(case, function, **more):
    """Returns a function of the case's arrays that computes the results, and the gradients of their weighted sum."""
    def results(arrays):
        return case.call(function, arrays, **more)

    def differentiated(arrays):
        places = floats_of(case)
        if not places:
            return results(arrays), []

        def loss(floats):
            mixed = list(arrays)
            for k, f in zip(places, floats):
                mixed[k] = f
            made = results(mixed)
            return weighted(made), made
        grads, made = jax.grad(loss, has_aux=True)([arrays[k] for k in places])
        return made, grads
    return differentiated


def kept_results(case):
    """Which results the reference computes."""
    return [r is not None for r in jax.eval_shape(lambda arrays: case.call(case.function, arrays), [a for _, a in case.arrays])]


def masked(function, kept):
    """The function with None for the results that are not kept."""
    def some(*args, **named):
        made = flat(function(*args, **named))
        return [r if k else None for r, k in zip(made, kept, strict=False)]
    return some


def converted(case, dtype):
    """The case's arrays, with those of f64 in another dtype."""
    return [a.astype(dtype) if a.dtype == np.float64 else a for _, a in case.arrays]
