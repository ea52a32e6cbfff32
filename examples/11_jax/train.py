"""Trains the network with Optax, and exports it: train.py LIBRARY FOLDER [STEPS]"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import export

import network
import tenon.jax


@nnx.jit
def step(model, optimizer, noisy, clean):
    loss, grads = nnx.value_and_grad(lambda model: ((model(noisy) - clean) ** 2).mean())(model)
    optimizer.update(model, grads)
    return loss


def export_model(model, folder):
    """Writes the network for any number of signals, and its weights for the test."""
    graph, state = nnx.split(model)
    np.savez(f"{folder}/weights.npz", **{".".join(map(str, path)): value[...] for path, value in nnx.to_flat_state(state)})
    count, = export.symbolic_shape("count")
    shape = jax.ShapeDtypeStruct((count, network.STEPS, 1), jnp.float32)
    program = export.export(jax.jit(lambda x: nnx.merge(graph, state)(x)), disabled_checks=tenon.jax.disabled_checks())(shape)
    with open(f"{folder}/network.bin", "wb") as file:
        file.write(program.serialize())


def main(library, folder, steps=300):
    network.register(library)
    model = network.Network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    for i in range(int(steps)):
        loss = step(model, optimizer, *network.signals(i, 32))
        if i % 50 == 0:
            print(f"step {i:3}  loss {loss:.4f}")
    noisy, clean = network.signals(10**6, 500)
    print(f"new signals: error {((model(noisy) - clean) ** 2).mean():.4f}, before {((noisy - clean) ** 2).mean():.4f}")
    export_model(model, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
