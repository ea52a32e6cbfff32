"""Compares the layer and its gradients with the same recurrence as a scan of JAX: layer_check.py LIBRARY"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads

import network

network.register(sys.argv[1])


def scanned(x, decay):
    def step(y, x):
        y = decay * y + (1 - decay) * x
        return y, y
    return jnp.moveaxis(jax.lax.scan(step, jnp.zeros_like(x[:, 0]), jnp.moveaxis(x, 1, 0))[1], 0, 1)


def loss(f):
    return jax.jit(jax.value_and_grad(lambda x, decay: (f(x, decay) ** 2).sum(), (0, 1)))


x = jax.random.normal(jax.random.key(1), (5, 20, 7))
decay = jnp.linspace(0.1, 0.9, 7)
for found, expected in zip(jax.tree.leaves(loss(network.ops.ema)(x, decay)), jax.tree.leaves(loss(scanned)(x, decay))):
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)
check_grads(network.ops.ema, (x, decay), 1, ["rev"], atol=1e-2, rtol=1e-2)
np.testing.assert_allclose(jax.vmap(network.ops.ema, (None, 0))(x, jnp.stack([decay, decay / 2]))[1], scanned(x, decay / 2), rtol=1e-5, atol=1e-6)
