"""What the tests torch_openreg*_test.py share: sim as the device of PyTorch, and programs in processes of their own.

These tests cover the public behaviours that PyTorch's reference backend, OpenReg, checks in its own tests
(docs/torch_openreg.md has the table).  The checker of sim is on: work that is out of order fails, and so does the test.
"""
import os
import subprocess
import sys
import textwrap
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
MORE = os.environ.get("TENON_SIM_MORE", "")  # further settings of sim, for all processes
os.environ["TENON_SIM"] = "delay=100,check=fail" + MORE
sys.path[:0] = [os.path.join(BUILD, "python")]
import torch

import tenon.torch.device as td

sim = td.enable("sim")
OPENING = f"""import sys
sys.path[:0] = [{os.path.join(BUILD, "python")!r}, {os.path.join(ROOT, "tests", "adapters")!r}]
import torch
import tenon.torch.device as td
sim = td.enable("sim")
"""


def numbers(*shape, dtype=torch.float32):
    return torch.linspace(-2, 3, torch.Size(shape).numel()).reshape(shape).to(dtype)


def there(tensor, index=0):
    return tensor.to(f"sim:{index}")


def program(text, settings="delay=100,check=fail", opening=OPENING, timeout=200):
    """Runs a program in a process of its own, after `opening`, and returns what it printed."""
    done = subprocess.run([sys.executable, "-c", opening + textwrap.dedent(text)], env={**os.environ, "TENON_SIM": settings + MORE},
                          capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    return done.stdout.strip()


def again(test, file):
    """Runs a test program again on a device whose memory has no addresses, whose handles are reused, and whose ordinals cannot copy to each other."""
    done = subprocess.run([sys.executable, os.path.abspath(file)], env={**os.environ, "TENON_SIM_MORE": ",handles=1,peers=0,reuse=1"},
                          capture_output=True, text=True, timeout=580)
    test.assertRegex(done.stdout.splitlines()[-1] if done.stdout else "", r"^\d\d passed, 0 failed, 1 skipped$", done.stderr[-3000:])


class Device(unittest.TestCase):
    """A test that begins and ends on device 0 with its default stream, and in which no work fails."""

    def setUp(self):
        warnings.simplefilter("ignore")  # unittest has reset the filter
        self.restore()

    def tearDown(self):
        self.restore()

    def restore(self):
        for index in 1, 0:
            torch.accelerator.set_stream(sim.default_stream(index))
            torch.accelerator.synchronize(index)
        self.assertEqual(torch.accelerator.current_device_index(), 0)

    def check(self, found, expected, device="sim:0", **limits):
        self.assertEqual(str(found.device), device)
        torch.testing.assert_close(found.detach().cpu(), expected.detach().cpu(), **limits)
