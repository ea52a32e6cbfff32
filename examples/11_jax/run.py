"""Runs the exported network on signals, without Flax and without its source: run.py LIBRARY FOLDER IN.npy OUT.npy"""
import sys

import numpy as np
from jax import export

import tenon
import tenon.jax

library, folder, noisy, out = sys.argv[1:]
tenon.jax.register(tenon.load(library))
with open(f"{folder}/network.bin", "rb") as file:
    program = export.deserialize(bytearray(file.read()))
np.save(out, program.call(np.load(noisy)))
