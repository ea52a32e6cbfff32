"""Complex tensors as pairs of real ones: their parts are computed side by side, and interleaved only at the edges of a graph."""
import math

import numpy as np
import torch

from .calls import ROWS, Tensor, aten, core, prims

COMPLEX_ROWS = {}  # {overload: function}, for nodes that read or make complex tensors
REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def complex_row(*overloads):
    def register(function):
        COMPLEX_ROWS.update(dict.fromkeys(overloads, function))
        return function
    return register


class Complex(Tensor):
    """A complex tensor.  pair: both parts, interleaved on a last axis; real, imag: the parts.  Each is made when it is needed."""
    __slots__ = ("scope", "_pair", "_real", "_imag")

    def __init__(self, scope, dtype, shape, real=None, imag=None, pair=None):
        self.scope, self.dtype, self.shape = scope, dtype, tuple(shape)
        self._real, self._imag, self._pair = real, imag, pair

    def _part(self, at):
        axis = self.scope.ints([self.rank])
        return core.squeeze(core.slice(self.pair, self.scope.ints([at]), self.scope.ints([at + 1]), axis), axis)

    @property
    def real(self):
        if self._real is None:
            self._real = self._part(0)
        return self._real

    @property
    def imag(self):
        if self._imag is None:
            self._imag = self._part(1)
        return self._imag

    @property
    def pair(self):
        if self._pair is None:
            at = self.scope.ints([self.rank])
            self._pair = core.concat([core.unsqueeze(v, at) for v in (self._real, self._imag)], axis=self.rank)
        return self._pair

    @property
    def value(self):
        return self.pair


def _real_node(c):
    """The node for one part of its complex tensors: it computes with the real dtype."""
    return c.in_dtype(REAL.get(c.dtype, c.dtype))


def _of(c, real, imag):
    return Complex(c.scope, c.dtype, c.shape, real, imag)


def _parts(c, x):
    """The two parts of a tensor or number, in the real dtype of the result; the second is None where it is 0."""
    part = _real_node(c)
    dtype = REAL.get(c.dtype, c.dtype)
    if isinstance(x, Complex):
        own = REAL[x.dtype]
        return tuple(part.value(Tensor(v, own, x.shape), dtype) for v in (x.real, x.imag))
    if isinstance(x, complex):
        return part.number(x.real, dtype), part.number(x.imag, dtype) if x.imag else None
    return part.value(x, dtype), None


def _zero(c):
    return _real_node(c).filled(0)


def _made(c, real, imag):
    return _of(c, real, _zero(c) if imag is None else imag)


# ---- operators that treat each part like a real tensor ----

_BY_PARTS = [aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims,
             aten.unsqueeze.default, aten.expand.default, aten.permute.default, aten.transpose.int, aten.t.default, aten.cat.default,
             aten.stack.default, aten.slice.Tensor, aten.select.int, aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int,
             aten.repeat.default, aten.flip.default, aten.roll.default, aten.constant_pad_nd.default, aten.diagonal.default,
             aten.alias.default, aten.clone.default, aten.detach.default, aten.lift_fresh_copy.default, aten.index_select.default,
             aten.index.Tensor, aten._unsafe_index.Tensor, aten.gather.default, aten.slice_scatter.default, aten.select_scatter.default,
             aten.diagonal_scatter.default, aten.index_put.default, aten._unsafe_index_put.default, aten.tril.default, aten.triu.default,
             aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.neg.default, aten.copy.default,
             aten.unfold.default, aten.as_strided.default, aten.cumsum.default, aten.scatter_add.default, aten.where.self,
             aten.view_copy.default, aten.expand_copy.default, aten.permute_copy.default, aten.slice_copy.Tensor, aten.select_copy.int,
             prims.view_of.default, prims.clone.default]


def _by_parts(function):
    def lower(c, *arguments, **named_arguments):
        made = []
        for at in (0, 1):
            part = _real_node(c)
            made.append(function(part, *(_part_of(c, a, at) for a in arguments), **{k: _part_of(c, v, at) for k, v in named_arguments.items()}))
        if isinstance(c.result, (list, tuple)):
            return [Complex(c.scope, r.dtype, r.shape, *both) for r, *both in zip(c.result, *made)]
        return _of(c, *made)
    return lower


def _part_of(c, argument, at):
    """A part of each complex tensor among the arguments; a real tensor has no imaginary part, but indices stay as they are."""
    if isinstance(argument, (list, tuple)):
        return [_part_of(c, a, at) for a in argument]
    if isinstance(argument, complex):
        return argument.imag if at else argument.real
    if isinstance(argument, Complex):
        return Tensor(argument.imag if at else argument.real, REAL[argument.dtype], argument.shape)
    if at and isinstance(argument, Tensor) and argument.dtype.is_floating_point:
        return Tensor(_real_node(c).filled(0, argument.dtype, argument.shape), argument.dtype, argument.shape)
    return argument


def register_parts():
    for overload in _BY_PARTS:
        COMPLEX_ROWS[overload] = _by_parts(ROWS[overload])


# ---- tensors from numbers ----

@complex_row(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default, aten.empty.memory_format, aten.empty_like.default,
             aten.new_empty.default)
def zeros(c, *arguments, **named_arguments):
    return _of(c, _zero(c), _zero(c))


@complex_row(aten.ones_like.default, aten.ones.default, aten.new_ones.default)
def ones(c, *arguments, **named_arguments):
    return _of(c, _real_node(c).filled(1), _zero(c))


@complex_row(aten.full.default, aten.new_full.default, aten.full_like.default)
def full(c, *arguments, **named_arguments):
    number = complex(arguments[2] if c.node.target is aten.new_full.default else arguments[1])
    return _of(c, _real_node(c).filled(number.real), _real_node(c).filled(number.imag))


# ---- between real and complex tensors ----

@complex_row(aten._to_copy.default, prims.convert_element_type.default)
def to_copy(c, x, *arguments, **named_arguments):
    if not c.dtype.is_complex:
        real = x.real
        return _real_node(c).value(Tensor(real, REAL[x.dtype], x.shape), c.dtype)
    if c.dtype not in REAL:
        c.refuse(f"Tenon has no tensors of {c.dtype}")
    return _made(c, *_parts(c, x))


@complex_row(aten.view_as_real.default, aten.view_as_real_copy.default)
def view_as_real(c, x):
    return core.identity(x.pair)


@complex_row(aten.view_as_complex.default, aten.view_as_complex_copy.default)
def view_as_complex(c, x):
    return Complex(c.scope, c.dtype, c.shape, pair=x.value)


@complex_row(aten.complex.default)
def complex_(c, real, imag):
    shape = c.shape
    return _of(c, *(v.value if tuple(v.shape) == tuple(shape) else c.expanded(v.value, shape) for v in (real, imag)))


@complex_row(aten.polar.default)
def polar(c, size, angle):
    return _of(c, core.mul(size.value, core.cos(angle.value)), core.mul(size.value, core.sin(angle.value)))


@complex_row(aten._conj.default, aten._conj_physical.default, aten.conj_physical.default, aten._neg_view.default)
def conj(c, x):
    return _of(c, core.identity(x.real), core.neg(x.imag))


@complex_row(aten.resolve_conj.default, aten.resolve_neg.default)
def resolve(c, x):
    return _of(c, core.identity(x.real), core.identity(x.imag))


@complex_row(aten.real.default)
def real(c, x):
    return core.identity(x.real)


@complex_row(aten.imag.default)
def imag(c, x):
    return core.identity(x.imag)


def _as_tensor(x, part):
    return Tensor(part, REAL[x.dtype], x.shape)


@complex_row(aten.abs.default)
def abs_(c, x):
    return ROWS[aten.hypot.default](c, _as_tensor(x, x.real), _as_tensor(x, x.imag))


@complex_row(aten.angle.default)
def angle(c, x):
    return ROWS[aten.atan2.default](c, _as_tensor(x, x.imag), _as_tensor(x, x.real))


# ---- arithmetic ----

def _sum(node):
    def lower(c, a, b, alpha=1):
        a, b = _parts(c, a), _parts(c, b)
        if alpha != 1:
            if isinstance(alpha, complex):
                c.refuse("a complex factor")
            factor = _real_node(c).number(alpha)
            b = tuple(v if v is None else core.mul(v, factor) for v in b)
        made = [_joined(c, node, *both) for both in zip(a, b)]
        return _of(c, *made)
    return lower


def _joined(c, node, a, b):
    """a and b combined, where None is 0."""
    if a is None and b is None:
        return _zero(c)
    if b is None:
        return c.expanded(a, c.shape)
    if a is None:
        return c.expanded(core.neg(b) if node is core.sub else b, c.shape)
    return node(a, b)


complex_row(aten.add.Tensor, aten.add.Scalar)(_sum(core.add))
complex_row(aten.sub.Tensor, aten.sub.Scalar)(_sum(core.sub))


@complex_row(aten.mul.Tensor, aten.mul.Scalar)
def mul(c, a, b):
    (a, b), (x, y) = _parts(c, a), _parts(c, b)
    if b is None:
        a, b, x, y = x, y, a, b
    if y is None:
        return _of(c, core.mul(a, x), core.mul(b, x) if b is not None else _zero(c))
    return _of(c, core.sub(core.mul(a, x), core.mul(b, y)), core.add(core.mul(a, y), core.mul(b, x)))


@complex_row(aten.div.Tensor, aten.div.Scalar)
def div(c, a, b):
    """The divisor is scaled by its greater part first, so that its square neither overflows nor vanishes."""
    (a, b), (x, y) = _parts(c, a), _parts(c, b)
    if y is None:
        return _of(c, core.div(a, x), core.div(b, x) if b is not None else _zero(c))
    b = b if b is not None else _real_node(c).number(0)
    scale = core.max(core.abs(x), core.abs(y))
    x, y = core.div(x, scale), core.div(y, scale)
    square = core.mul(core.add(core.mul(x, x), core.mul(y, y)), scale)
    return _of(c, core.div(core.add(core.mul(a, x), core.mul(b, y)), square), core.div(core.sub(core.mul(b, x), core.mul(a, y)), square))


@complex_row(aten.sgn.default)
def sgn(c, x):
    """The number of size 1 in the same direction; 0 for 0."""
    zero = _real_node(c).number(0)
    size = abs_(_real_node(c), x)
    return _of(c, *(core.where(core.equal(size, zero), zero, core.div(v, size)) for v in (x.real, x.imag)))


# ---- Fourier transforms ----

def _factor(c, shape, axes, normalisation, is_inverse):
    """What the transforms of Tenon, whose inverse divides by the length, are multiplied by."""
    count = 1
    for axis in axes:
        count = count * shape[axis]
    if not isinstance(count, int):
        c.refuse("the length of a Fourier transform is a symbol")
    return {0: 1.0, 1: 1 / math.sqrt(count), 2: 1.0 / count}[normalisation] * (count if is_inverse else 1)


def _times(c, value, factor, dtype):
    return value if factor == 1 else core.mul(value, c.number(factor, dtype))


def _transformed(c, pair, axes, is_inverse):
    for axis in axes:
        pair = core.dft(pair, None, c.number(axis, torch.int64), inverse=is_inverse)
    return pair


def _checked(c, x, axes):
    if 0 in c.shape or 0 in x.shape:
        c.refuse("a Fourier transform of an empty tensor")
    return [c.axis(a, x.rank) for a in axes]


@complex_row(aten._fft_r2c.default)
def fft_of_real(c, x, axes, normalisation, onesided):
    *others, last = _checked(c, x, axes)
    dtype = REAL[c.dtype]
    pair = core.unsqueeze(c.value(x, dtype), c.ints([x.rank]))
    pair = core.dft(pair, None, c.number(last, torch.int64), onesided=onesided)
    pair = _transformed(c, pair, others, False)
    return Complex(c.scope, c.dtype, c.shape, pair=_times(c, pair, _factor(c, x.shape, axes, normalisation, False), dtype))


@complex_row(aten._fft_c2c.default)
def fft(c, x, axes, normalisation, forward):
    axes, dtype = _checked(c, x, axes), REAL[c.dtype]
    pair = _transformed(c, x.pair, axes, not forward)
    factor = _factor(c, x.shape, axes, normalisation, not forward)
    return Complex(c.scope, c.dtype, c.shape, pair=_times(c, pair, factor, dtype) if axes else core.identity(pair))


@complex_row(aten._fft_c2r.default)
def fft_to_real(c, x, axes, normalisation, length):
    """The half that was left out is the mirrored conjugate of the other."""
    *others, last = _checked(c, x, axes)
    if not isinstance(length, int):
        c.refuse("the length of a Fourier transform is a symbol")
    pair = _transformed(c, x.pair, others, True)
    if length > 1:
        mirrored = np.arange(length - 1 - length // 2, 0, -1)
        signs = c.scope.constant(torch.tensor([1.0, -1.0], dtype=c.dtype))
        if len(mirrored):
            rest = core.mul(core.gather(pair, c.ints([int(i) for i in mirrored]), axis=last), signs)
            pair = core.concat([pair, rest], axis=last)
    pair = core.dft(pair, None, c.number(last, torch.int64), inverse=True)
    axis = c.ints([x.rank])
    value = core.squeeze(core.slice(pair, c.ints([0]), c.ints([1]), axis), axis)
    return _times(c, value, _factor(c, c.shape, [*others, last], normalisation, True), c.dtype)
