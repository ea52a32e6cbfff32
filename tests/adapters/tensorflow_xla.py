"""Whether XLA calls operators of Tenon in the release of TensorFlow that the tests run with."""
import unittest

from tenon.tensorflow import xla


def compiles():
    """The argument jit_compile: True. Skips the test, or the rest of it, with a release whose XLA cannot call operators."""
    if xla.reason():
        raise unittest.SkipTest(xla.reason())
    return True
