"""What JAX imports when it looks for plug-ins: every module of the namespace package jax_plugins, whose initialize() it calls."""
from tenon.jax.pjrt import initialize

__all__ = ["initialize"]
