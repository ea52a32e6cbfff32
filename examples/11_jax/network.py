"""A network that removes noise from signals. Its layer Ema uses the operator recur::ema."""
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import tenon
import tenon.jax

STEPS, CHANNELS = 64, 16


def register(path):
    """Loads the library; its operators are functions of JAX from then on."""
    global ops
    ops = tenon.jax.register(tenon.load(path))


class Ema(nnx.Module):
    """A moving average over time, with a decay of its own for each channel."""

    def __init__(self, channels):
        self.decay = nnx.Param(jnp.linspace(-2, 2, channels))

    def __call__(self, x):
        return ops.ema(x, jax.nn.sigmoid(self.decay[...]))


class Network(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(1, CHANNELS, rngs=rngs)
        self.ema = Ema(CHANNELS)
        self.last = nnx.Linear(CHANNELS, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.ema(jnp.tanh(self.first(x))))


def signals(seed, count):
    """Returns signals with and without noise: [count, STEPS, 1]."""
    numbers = np.random.default_rng(seed)
    phase, frequency = numbers.uniform(0, 2 * np.pi, (count, 1)), numbers.uniform(0.05, 0.25, (count, 1))
    clean = np.sin(phase + frequency * np.arange(STEPS))[..., None]
    return (clean + numbers.normal(0, 0.5, clean.shape)).astype(np.float32), clean.astype(np.float32)
