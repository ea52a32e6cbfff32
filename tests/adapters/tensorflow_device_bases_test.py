"""The test bases of kernels that TensorFlow's wheel ships, on a device of Tenon.

All tests run on sim, also those that TensorFlow would run on the CPU, except for the ones that state a behaviour of its CPU.  What sim has no kernels for
(float64, float16) runs on the CPU inside of these tests.  Run with .venv-tensorflow's Python.  TEST_SHARE=all also runs the slow gradients.
"""
import contextlib
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path.insert(0, os.path.join(BUILD, "python"))
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tenon.tensorflow.device as td

KIND = td.enable("sim")
import tensorflow as tf

tf.compat.v1.disable_v2_behavior()  # the bases for depthwise convolutions skip all tests otherwise
from tensorflow.python.framework import ops
from tensorflow.python.kernel_tests.nn_ops import bias_op_base, depthwise_conv_op_base, xent_op_test_base
from tensorflow.python.kernel_tests.sparse_ops import sparse_xent_op_test_base

import totals
from tensorflow_device_share import loading

load_tests = loading()

ALL = os.environ.get("TEST_SHARE") == "all"


class OnDevice:
    @contextlib.contextmanager
    def _constrain_devices_and_set_default(self, sess, use_gpu, force_gpu):
        with sess.graph.as_default(), sess.as_default(), ops.device(f"/device:{KIND}:0"):
            yield sess

    def run(self, result=None):
        with ops.device(f"/device:{KIND}:0"):
            return super().run(result)


def slow(base, *names):
    """A class without the slow tests of a base, unless all are wanted."""
    skip = unittest.skipUnless(ALL, "takes minutes: run with TEST_SHARE=all")
    return {name: skip(getattr(base, name)) for name in names}


class CrossEntropy(OnDevice, xent_op_test_base.XentOpTestBase):
    pass


class SparseCrossEntropy(OnDevice, sparse_xent_op_test_base.SparseXentOpTestBase):
    @unittest.skip("an invalid label is an error on the CPU, and NaN on other devices, which testInvalidLabelGPU tests")
    def testInvalidLabelCPU(self):
        pass


class Bias(OnDevice, bias_op_base.BiasAddTestBase):
    locals().update(slow(bias_op_base.BiasAddTestBase, "testGradientTensor4D", "testGradientTensor5D"))


class Depthwise(OnDevice, depthwise_conv_op_base.DepthwiseConv2DBase):
    pass


if __name__ == "__main__":
    totals.main(lambda: 0)
