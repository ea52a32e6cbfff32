#!/usr/bin/env python3
"""Arguments of a call that share memory: every built-in operator, and an operator of each kind of kernel, gives the values of a call on copies
or names both arguments.  overlap.c makes the calls; this file adds calls by out=, and graphs with outputs that are given."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.join(ROOT, "tests", "adapters")]

import numpy  # noqa: E402

import tenon  # noqa: E402
import totals  # noqa: E402


class Overlap(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.kinds = os.path.join(cls.folder.name, "kinds.so")
        cls.program = os.path.join(cls.folder.name, "overlap")
        subprocess.run([os.path.join(BUILD, "tenon"), "build", os.path.join(HERE, "overlap_kinds.c"), "-o", cls.kinds], check=True, capture_output=True)
        for name in "overlap", "overlap_graph":
            subprocess.run(["cc", "-O1", "-I" + os.path.join(ROOT, "include"), os.path.join(HERE, name + ".c"), "-o", os.path.join(cls.folder.name, name), "-L" + BUILD, "-ltenon", "-lm", "-Wl,-rpath," + BUILD],
                           check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def walk(self, library, namespace, least):
        run = subprocess.run([self.program, library, namespace], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout[-3000:] + run.stderr[-1000:])
        self.assertGreaterEqual(int(run.stdout.splitlines()[-1].split()[0]), least)

    def test_every_builtin_operator_gives_the_values_of_a_call_on_copies(self):
        self.walk("", "core", 250)

    def test_every_kind_of_kernel_gives_the_values_of_a_call_on_copies(self):
        self.walk(self.kinds, "kinds", 10)

    def test_the_check_of_a_library_calls_its_operators_with_overlapping_arguments(self):
        run = subprocess.run([os.path.join(BUILD, "tenon"), "check", self.kinds, "--case", "alias.overlap"], capture_output=True, text=True, timeout=600)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertGreaterEqual(int(run.stdout.split(" passed")[0].split()[-1]), 5)

    def test_outputs_of_a_graph_may_be_its_inputs(self):
        run = subprocess.run([self.program + "_graph"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (0, ""))

    def test_out_may_be_an_input_in_any_position(self):
        a, b = numpy.array([[1, 2], [3, 4]], "f4"), numpy.array([[0, 1], [1, 0]], "f4")
        core = tenon.ops.core
        self.assertEqual(core.matmul(a, b, out=a).tolist(), [[2, 1], [4, 3]])
        whole = numpy.arange(20, dtype="f4").reshape(5, 4)
        expected = numpy.concatenate([whole[:4], whole[:4]], 1)
        wide = numpy.zeros((4, 8), "f4")
        wide[:, :4] = whole[:4]
        core.concat([wide[:, :4], wide[:, :4]], axis=1, out=wide)
        self.assertEqual(wide.tolist(), expected.tolist())
        square = numpy.arange(9, dtype="f4").reshape(3, 3)
        turned = square.T.copy()
        self.assertEqual(core.transpose(square, perm=[1, 0], out=square).tolist(), turned.tolist())

    def test_out_may_be_an_input_also_in_memory_of_the_host(self):
        tenon.load(self.kinds)
        values = numpy.arange(24, dtype="f4").reshape(4, 6)
        for kind in "kernel", "source", "row":
            call = getattr(tenon.ops.kinds, kind)
            x = call(tenon.tensor(values))  # a result is in memory that the host allocated for it alone
            expected = call(x.numpy().copy()).tolist()
            call(x, out=x)
            self.assertEqual(x.tolist(), expected, kind)

    def test_an_input_that_is_written_reads_the_other_as_it_was(self):
        tenon.load(self.kinds)
        a = numpy.ones(6, "f4")
        tenon.ops.kinds.axpy_(a[1:], a[:-1])
        self.assertEqual(a.tolist(), [1, 3, 3, 3, 3, 3])

    def test_an_input_that_is_written_may_have_gaps(self):
        tenon.load(self.kinds)
        both = numpy.ones((4, 2), "f4")
        tenon.ops.kinds.axpy_(both[:, 0], numpy.arange(4, dtype="f4"))
        self.assertEqual(both.T.tolist(), [[1, 3, 5, 7], [1, 1, 1, 1]])

    def test_elements_that_share_an_address_are_refused(self):
        one = numpy.lib.stride_tricks.as_strided(numpy.zeros(3, "f4"), (3, 3), (0, 4))
        with self.assertRaisesRegex(tenon.Error, "out would be written to, but several of its elements share one address"):
            tenon.ops.core.add(numpy.ones((3, 3), "f4"), numpy.ones((3, 3), "f4"), out=one)

    def test_a_strided_output_in_the_gaps_of_another_is_no_overlap(self):
        tenon.load(self.kinds)
        both = numpy.zeros((5, 2), "f4")
        a, b = numpy.arange(5, dtype="f4"), numpy.ones(5, "f4")
        tenon.ops.kinds.loops(a, b, out=(both[:, 0], both[:, 1]))
        self.assertEqual(both.T.tolist(), [(a + b).tolist(), (a - b).tolist()])
        with self.assertRaisesRegex(tenon.Error, "result sum overlaps result difference"):
            tenon.ops.kinds.loops(a, b, out=(both[:, 0], both[:, 0]))


if __name__ == "__main__":
    totals.main()
