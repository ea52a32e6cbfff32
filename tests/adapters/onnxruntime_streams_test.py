"""Tenon's devices in ONNX Runtime: streams, notifications and copies of the simulated device, whose work waits for random times.

Usage: onnxruntime_streams_test.py [failing]. With `failing` it only prints how often a session fails, for settings of TENON_SIM.
"""
import os
import subprocess
import sys
import threading
import unittest

os.environ.setdefault("TENON_SIM", "delay=300,seed=5")
import numpy as np
import onnxruntime

from onnxruntime_provider_test import BUILD, F, alone, first, floats, model, node, provider
import totals


def around():
    """Two groups around a Softmax, the second of which also reads a result of the first."""
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "b"), node("Softmax", "b", "c", axis=-1), node("Mul", "c b", "d"), node("MatMul", "d v", "y")]
    return model(nodes, {"x": (F, ["n", 6])}, {"b": (F, ["n", 5]), "y": (F, ["n", 4])}, w=floats(6, 5), v=floats(5, 4))


def memory(device):
    return provider.devices(device)[0].memory_info(onnxruntime.OrtDeviceMemoryType.DEFAULT)


def on_device(device, shape):
    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, memory_info=memory(device))


class Streams(unittest.TestCase):
    def same(self, found, expected):
        for y, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, right, rtol=1e-5, atol=1e-6)

    def test_groups_and_a_node_of_the_processor_between_them(self):
        made = around()
        session, lines = first(made, device="sim:0", leave=["Softmax"])
        self.assertIn("took 4 in 2 groups; left 1", lines[0])
        for rows in range(1, 30):
            x = floats(rows, 6)
            self.same(session.run(None, {"x": x}), alone(made).run(None, {"x": x}))

    def test_several_threads_run_one_session(self):
        made = around()
        session, _ = first(made, device="sim:0", leave=["Softmax"])
        feeds = [floats(k + 1, 6) for k in range(4)]
        expected = [alone(made).run(None, {"x": x}) for x in feeds]
        wrong = []

        def work(k):
            for _ in range(15):
                try:
                    self.same(session.run(None, {"x": feeds[k]}), expected[k])
                except Exception as error:
                    wrong.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_two_devices_in_one_session(self):
        made = around()
        options = provider.options(device="sim:0", leave=["Softmax", "Mul"])
        provider.report(clear=True)
        session = onnxruntime.InferenceSession(made.SerializeToString(), provider.options(options, device="sim:1", leave=["Softmax"]))
        self.assertEqual([line[line.index("took"):line.index(" groups")] for line in provider.report(clear=True)], ["took 3 in 2", "took 1 in 1"])
        for rows in range(1, 20):
            x = floats(rows, 6)
            self.same(session.run(None, {"x": x}), alone(made).run(None, {"x": x}))

    def test_values_stay_on_the_device_between_runs(self):
        made = model([node("MatMul", "x w", "a"), node("Relu", "a", "y")], {"x": (F, ["n", 6])}, {"y": (F, ["n", 6])}, w=floats(6, 6))
        session, _ = first(made, device="sim:0")
        x = floats(7, 6)
        values = [on_device("sim:0", x.shape) for _ in range(2)]
        onnxruntime.copy_tensors([onnxruntime.OrtValue.ortvalue_from_numpy(x)], values[:1])
        expected = x
        options = onnxruntime.RunOptions()
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        for _ in range(6):
            binding = session.io_binding()
            binding.bind_ortvalue_input("x", values[0])
            binding.bind_ortvalue_output("y", values[1])
            session.run_with_iobinding(binding, options)
            expected, = alone(made).run(None, {"x": expected})
            values.reverse()
        found = onnxruntime.OrtValue.ortvalue_from_shape_and_type(x.shape, np.float32)
        onnxruntime.copy_tensors(values[:1], [found])
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)

    def test_copies_in_a_stream_of_the_program(self):
        stream = provider.devices("sim:0")[0].create_sync_stream()
        middle = [on_device("sim:0", [5, 3]) for _ in range(2)]
        found = onnxruntime.OrtValue.ortvalue_from_shape_and_type([5, 3], np.float32)
        for _ in range(10):
            x = floats(5, 3)
            source = x.copy()
            onnxruntime.copy_tensors([onnxruntime.OrtValue.ortvalue_from_numpy(source)], middle[:1], stream)
            source[:] = 0  # the copy has read it already
            onnxruntime.copy_tensors(middle[:1], middle[1:], stream)
            onnxruntime.copy_tensors(middle[1:], [found], stream)
            np.testing.assert_array_equal(found.numpy(), x)

    def test_the_library_is_unloaded_and_loaded_again(self):
        made = around()
        x = floats(3, 6)
        for _ in range(3):
            session, _ = first(made, device="sim:1")
            self.same(session.run(None, {"x": x}), alone(made).run(None, {"x": x}))
            del session
            onnxruntime.unregister_execution_provider_library("tenon:sim:1")
            self.assertNotIn("tenon:sim:1", [one.ep_name for one in onnxruntime.get_ep_devices()])

    def test_work_that_fails_later_fails_one_run_only(self):
        failed = 0
        for fault in range(3, 13):
            env = {**os.environ, "TENON_SIM": f"delay=300,seed={fault},fault={fault}", "PYTHONPATH": os.path.join(BUILD, "python")}
            done = subprocess.run([sys.executable, __file__, "failing"], capture_output=True, text=True, env=env, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            messages = done.stdout.splitlines()
            self.assertLessEqual(len(messages), 1, f"fault={fault}: {done.stdout}")
            for message in messages:
                self.assertRegex(message, r"tenon.* failed on sim:0 .*\(fault=N\)")
            failed += len(messages)
        self.assertGreaterEqual(failed, 7)


def print_failures():
    """Prints the message of each run that fails, in one line. Results of the others are compared."""
    made = around()
    session, _ = first(made, device="sim:0", leave=["Softmax"])
    for rows in range(1, 8):
        x = floats(rows, 6)
        try:
            found = session.run(None, {"x": x})
        except Exception as error:
            print(" ".join(str(error).split()))
            continue
        for y, right in zip(found, alone(made).run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(y, right, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    if sys.argv[1:] == ["failing"]:
        print_failures()
    else:
        totals.main()
