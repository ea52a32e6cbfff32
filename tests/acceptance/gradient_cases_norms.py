"""Cases for autograd_test.py: normalisations. Kinks are left out: inputs that are constant where they are normalised, or 0 where their norm is
taken."""
import torch.nn.functional as F

from gradients import away, several


def by_channel(x, t):
    return t.reshape(-1, *[1] * (x.dim() - 2))


def batch_norm(epsilon):
    def function(x, scale, bias, mean, var):
        normal = (x - by_channel(x, mean)) / (by_channel(x, var) + epsilon).sqrt()
        return normal * by_channel(x, scale) + by_channel(x, bias)
    return function


def lrn(size, alpha, beta, bias):
    def function(x):
        squares = F.pad((x * x).movedim(1, -1), ((size - 1) // 2, size // 2)).unfold(-1, size, 1).sum(-1).movedim(-1, 1)
        return x / (bias + alpha / size * squares) ** beta
    return function


def mean_variance(axes):
    def function(x):
        centred = x - x.mean(axes, True)
        return centred / ((centred * centred).mean(axes, True).sqrt() + 1e-9)
    return function


for shape in ((4, 3, 5), (2, 3, 2, 4), (5, 3), (0, 3, 2)):
    arrays = [away(shape, -2, 2)] + [away((3,), -2, 2) for _ in range(3)] + [away((3,), 0.3, 2)]
    several("batch_norm", batch_norm(1e-3), [(arrays, [0, 1, 2, 3, 4])], epsilon=1e-3)
    several("batch_norm", lambda x, s, b, m, v: F.batch_norm(x, m, v, s, b, False, 0.1, 1e-5), [(arrays, [0, 1, 2])])
for shape in ((2, 6, 5), (1, 6, 3, 4), (3, 6, 2, 2, 2), (0, 6, 4)):
    x, scale, bias = away(shape, -2, 2), away((6,), -2, 2), away((6,), -2, 2)
    several("group_norm", lambda x, s, b: F.group_norm(x, 3, s, b, 1e-3), [([x, scale, bias], [0, 1, 2])], groups=3, epsilon=1e-3)
    several("group_norm", lambda x: F.group_norm(x, 2), [([x], [0])], groups=2)
    several("instance_norm", lambda x, s, b: F.group_norm(x, 6, s, b), [([x, scale, bias], [0, 1, 2])])
    if shape[0]:
        several("instance_norm", lambda x, s, b: F.instance_norm(x, None, None, s, b, True, 0.1, 1e-3), [([x, scale, bias], [0, 1, 2])], epsilon=1e-3)
for shape in ((2, 7, 3), (1, 6, 2, 3), (0, 5, 4)):
    several("lrn", lambda x: F.local_response_norm(x, 3, 0.6, 0.75, 1.5), [([away(shape, -2, 2)], [0])], size=3, alpha=0.6, bias=1.5)
    several("lrn", lrn(4, 0.9, 0.5, 2.0), [([away(shape, -2, 2)], [0])], size=4, alpha=0.9, beta=0.5, bias=2.0)
for shape, axis in (((3, 4), -1), ((2, 3, 4), 1), ((5,), 0), ((0, 3), 1)):
    for p in (1, 2):
        several("lp_norm", lambda x, a=axis, p=p: F.normalize(x, p, a), [([away(shape, -2, 2, (0,))], [0])], axis=axis, p=p)
for shape, axes in (((2, 3, 4, 5), [0, 2, 3]), ((3, 4), [-1]), ((2, 3, 4), [0, 1, 2]), ((3, 0, 2), [2])):
    several("mean_variance_norm", mean_variance(axes), [([away(shape, -2, 2)], [0])], axes=axes)
