"""The built-in operators of Tenon, registered with TensorFlow, on a device of Tenon with random delays: values and gradients beside TensorFlow's own on the CPU.

The cases are those of tensorflow_builtins_test.py, in f32, because sim has kernels of f32 only.  Operators without kernels for sim run on the CPU, where
TensorFlow places them; how many run where is asserted.  Run with .venv-tensorflow's Python.  TENSORFLOW_SHARE=2/5 takes every fifth case, from the third on.
"""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.dirname(os.path.abspath(__file__))]
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ.setdefault("TENON_SIM", "delay=100,seed=1")
import tenon.tensorflow.device as td

KIND = td.enable("sim")
import numpy as np
import tensorflow as tf

import tensorflow_builtins_test as builtins
import totals
from tensorflow_device_share import share
from tensorflow_cases import CASES

# Cases whose results have the dtype f64 whatever their arguments have.
DOUBLE = {"bit_cast", "range"}


def narrowed(a):
    a = np.asarray(a)
    return a.astype(np.float32) if a.dtype == np.float64 else a


def arrays_of(case):
    arrays = builtins.arrays_of(case)
    return arrays if case.name in DOUBLE else [narrowed(a) for a in arrays]


def own_name(case):
    return builtins.core._table.names["core::" + case.name]


class OnDevice(unittest.TestCase):
    """The operator itself, and its gradients, on the device and on the CPU."""
    ran = {"device": set(), "cpu": set()}
    parts = 0

    def check(self, case):
        tensors = [tf.constant(a) for a in arrays_of(case)]
        with tf.device("CPU:0"):
            expected, slopes = builtins.compared(case, case.reference)(*tensors)
        with tf.device(f"{KIND}:0"), td.counting() as counts:
            tensors = [tf.constant(a) for a in arrays_of(case)]
            found, grads = builtins.compared(case, builtins.operator(case))(*tensors)
            found, grads = [f if f is None else f.numpy() for f in found], [tf.convert_to_tensor(g).numpy() for g in grads]
        own = own_name(case)
        self.assertEqual(counts[KIND][own] + counts["CPU"][own] > 0, True, f"{own} ran nowhere")
        self.ran["device" if counts[KIND][own] else "cpu"].add(case.name)
        for k, e in enumerate(expected):
            if e is not None:
                builtins.close(found[k], e, case.units, f"result {k}")
        self.assertEqual(len(grads), len(slopes))
        for k, (f, e) in enumerate(zip(grads, slopes)):
            builtins.close(f, tf.convert_to_tensor(e), 4 * case.units, f"gradient {k}")

    def test_values_and_gradients_are_those_of_tensorflow(self):
        for case in share(CASES):
            with self.subTest(op=case.name, attrs=case.attrs):
                self.check(case)
                OnDevice.parts += 1

    def test_with_these_cases_enough_operators_run_on_the_device(self):
        device, cpu = self.ran["device"], self.ran["cpu"] - self.ran["device"]
        if not device:
            self.skipTest("the test before it did not run")
        print(f"ran on {KIND}: {len(device)} operators; on the CPU: {len(cpu)}: {' '.join(sorted(cpu))}")
        if not os.environ.get("TENSORFLOW_SHARE"):
            self.assertEqual((len(device), len(cpu)), (121, 56))


if __name__ == "__main__":
    totals.main(lambda: OnDevice.parts)
