"""Prints views.h: views of one array, broadcast and reduced by NumPy; which axes NumPy merges."""
import numpy as np

COUNT, RANK = 4096, 6
MEMORY = ((np.arange(COUNT) * 7 + 3) % 101 - 50).astype(np.int32)
random = np.random.default_rng(7)


def view(shape, plain=False):
    """A view of the memory with that shape: axes in any order, gaps, backwards, or standing still."""
    order, strides, room = random.permutation(len(shape)), [0] * len(shape), 1
    if plain or random.random() < 0.3:
        order = np.arange(len(shape))[::-1]
    kind, offset = random.random(), 0
    for axis in order:
        gap = 1 if plain or random.random() < 0.7 else int(random.integers(1, 3))
        strides[axis] = room * gap
        room *= max(shape[axis], 1) * gap
        if not plain and shape[axis] and random.random() < 0.15:
            offset, strides[axis] = offset + (shape[axis] - 1) * strides[axis], -strides[axis]
    if not plain and kind < 0.1 and shape:
        strides[random.integers(len(shape))] = 0
    assert 0 <= offset < COUNT and room <= COUNT
    return np.lib.stride_tricks.as_strided(MEMORY[offset:], shape, [s * 4 for s in strides]), offset


def part_of(shape):  # that broadcasts to it
    rank = len(shape) if random.random() < 0.7 else int(random.integers(len(shape) + 1))
    return [extent if random.random() < 0.7 else 1 for extent in shape[len(shape) - rank:]]


def a_shape():
    return [int(random.choice([0, 1, 2, 3, 4, 5], p=[0.04, 0.16, 0.2, 0.25, 0.2, 0.15])) for _ in range(random.integers(RANK))]


def checksum(array):
    flat = array.astype(np.int32).astype(np.int64).ravel()
    return int((flat * (np.arange(flat.size) + 1)).sum())


def merged(arrays):
    """Extents of the axes that are left when NumPy merged those that continue each other in every array."""
    if 0 in arrays[-1].shape:
        return []
    iterator = np.nditer(arrays, order="C", op_flags=[["readonly"]] * len(arrays))
    return list(iterator.shape)[::-1] or [1]  # it has the axis that varies fastest first


def braces(numbers):
    return "{" + ", ".join(map(str, numbers or [0])) + "}"


def text(array, offset):
    return f"{{{offset}, {array.ndim}, {braces(array.shape)}, {braces([s // 4 for s in array.strides])}}}"


def pointwise(plain):
    shape = a_shape()
    shapes = [shape, part_of(shape)] if random.random() < 0.5 else [part_of(shape), shape]
    (a, at_a), (b, at_b) = (view(s, plain) for s in shapes)
    out = a * b + a
    axes = merged([*np.broadcast_arrays(a, b), np.ascontiguousarray(out).reshape(out.shape)])
    return f"{{{text(a, at_a)},\n   {text(b, at_b)},\n   {len(axes)}, {braces(axes)}, {checksum(out)}}}"


def reduction(plain):
    shape = a_shape()
    x, at = view(shape, plain)
    axes = tuple(i for i in range(x.ndim) if random.random() < 0.5)
    keeps, none = bool(random.random() < 0.5), random.random() < 0.15
    out = x.sum(axis=axes if not none else None, keepdims=True, dtype=np.int32)
    if none:
        axes = ()
    elif not axes:
        axes = (-1,) if x.ndim else ()
        out = x.sum(axis=axes if axes else None, keepdims=True, dtype=np.int32)
    gone = [i for i in range(x.ndim) if not axes or i in axes or i - x.ndim in axes]
    order = sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))
    kept, lost = ([i for i in order if (i in gone) == is_gone] for is_gone in (False, True))
    out = out.copy()
    x_kept = x.transpose(kept + lost)[(slice(None),) * len(kept) + (0,) * len(lost)] if x.size else None
    x_lost = x.transpose(lost + kept)[(slice(None),) * len(lost) + (0,) * len(kept)] if x.size else None
    out_kept = out.transpose(kept + lost)[(slice(None),) * len(kept) + (0,) * len(lost)] if x.size else None
    first, second = (merged([x_kept, out_kept]), merged([x_lost])) if x.size else ([], [])
    return (f"{{{text(x, at)}, {len(axes)}, {braces(list(axes))}, {int(keeps)}, {len(first)}, {len(second)}, "
            f"{braces(first + second)}, {checksum(out)}}}")


def main():
    two, one = [pointwise(i % 5 == 0) for i in range(150)], [reduction(i % 5 == 0) for i in range(150)]
    print('''/* Made by views.py: views of an array of i32 whose element i is (i * 7 + 3) % 101 - 50. The
 * operations are a * b + a and sums over axes. The checksum of a result is the sum of each element
 * times its position, counted from 1. ndim and shape are the axes that are left after NumPy merged
 * them (0 axes: no elements). */
typedef struct view_case_t {
  int64_t offset;
  int32_t ndim;
  int64_t shape[6];
  int64_t strides[6]; /* in elements */
} view_case_t;
typedef struct pointwise_case_t {
  view_case_t a;
  view_case_t b;
  int32_t ndim;
  int64_t shape[6];
  int64_t checksum;
} pointwise_case_t;
typedef struct reduction_case_t {
  view_case_t x;
  int32_t axis_count; /* 0: all */
  int64_t axes[6];
  int32_t keeps;
  int32_t ndim;
  int32_t reduced;
  int64_t shape[8];
  int64_t checksum;
} reduction_case_t;
/* clang-format off */''')
    print("static const pointwise_case_t pointwise_cases[] = {\n  " + ",\n  ".join(two) + "};")
    print("static const reduction_case_t reduction_cases[] = {\n  " + ",\n  ".join(one) + "};")
    print("/* clang-format on */")


if __name__ == "__main__":
    main()
