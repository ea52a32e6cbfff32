"""A small network of JAX: layers are pairs of weights and a bias. jax_pjrt_test.py compares its values, bench/jax_pjrt.py measures it."""
import jax.numpy as jnp


def network(layers, x):
    for weights, bias in layers[:-1]:
        x = jnp.tanh(x @ weights + bias)
    weights, bias = layers[-1]
    return x @ weights + bias


def loss(layers, x, y):
    return jnp.mean((network(layers, x) - y) ** 2)
