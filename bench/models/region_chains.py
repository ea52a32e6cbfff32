"""Chains of pointwise nodes that bench/regions.py gives to Tenon and to other runtimes. A module of operators `m` has neg, abs,
tanh, add, mul and max of values and numbers."""
SHIFT = 0.125


def one(m, x):
    return m.neg(x)


def twelve(m, x, affine=None):
    """Twelve nodes; two of them, which may be a library's, shift."""
    for node in range(5):
        x = m.add(m.mul(x, 0.5), 0.25) if node % 2 else m.neg(m.max(x, -2.0))
        if node % 3 == 1:
            x = affine(x) if affine else m.add(x, SHIFT)
    return x


def many(m, x):
    """260 nodes of an instruction or two for each vector."""
    for _ in range(65):
        x = m.add(m.mul(x, 0.9), m.mul(m.abs(x), 0.05))
    return x


def many_with_tanh(m, x):
    """260 nodes, 14 of them tanh."""
    for node in range(68):
        if node % 5 == 0 and node < 66:
            x = m.tanh(m.add(m.mul(x, 1.01), 0.1))
        else:
            x = m.add(m.mul(x, 0.9), m.mul(m.abs(x), 0.05))
    return m.neg(m.neg(x))


LARGE, MEDIUM, SMALL = 8 << 20, 1 << 20, 256
CHAINS = {  # text: graph, number of floats
    "one node, 8 Mi floats": (one, LARGE),
    "12 nodes, 8 Mi floats": (twelve, LARGE),
    "260 nodes, 1 Mi floats": (many, MEDIUM),
    "260 nodes with 14 tanh, 1 Mi floats": (many_with_tanh, MEDIUM),
    "260 nodes, 256 floats": (many, SMALL),
}
