#!/usr/bin/env python3
"""Failure dumps and their replay, the first NaN, and crash reports."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

import numpy as np

from debug_kit import *


def setUpModule():
    build_toy()


@unittest.skipUnless(has_python(), "the headers of Python are not installed (python3-dev)")
class Recordings(unittest.TestCase):
    def record(self, program, name, **env):
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        out, err = python(program, env={"TENON_RECORD": str(folder), **env})
        return recordings(folder) if folder.exists() else [], out, err

    def test_a_call_that_fails_is_saved_and_fails_again(self):
        saved, _, err = self.record("try: toy.limited(x * 6, most=4.5)\nexcept tenon.RangeError: pass", "failing")
        self.assertEqual([path.name for path in saved], ["000-toy.limited"])
        self.assertIn(f"`tenon replay {saved[0]}`", err)
        call = json.loads((saved[0] / "call.json").read_text())
        self.assertEqual((call["operator"], call["status"], call["attributes"]), ("toy::limited", "out of range", {"most": "4.5"}))
        self.assertIn("6 is above 4.5", call["error"])
        self.assertEqual(call["library_path"], str((HERE / "toy.so").resolve()))
        self.assertEqual(call["library_hash"], hashlib.sha256((HERE / "toy.so").read_bytes()).hexdigest())
        np.testing.assert_array_equal(np.load(saved[0] / call["inputs"][0]["file"]), np.full((2, 3), 6, np.float32))
        out, _ = tenon("replay", saved[0])
        self.assertIn("the same failure", out)

    def test_a_call_that_is_refused_is_saved_too(self):
        saved, _, _ = self.record("try: toy.limited(x.astype(np.float64))\nexcept tenon.Error: pass", "refused")
        self.assertIn("expected f32, found f64", json.loads((saved[0] / "call.json").read_text())["error"])
        self.assertIn("the same failure", tenon("replay", saved[0])[0])

    def test_calls_that_work_are_saved_when_asked_for_and_compared_with_another_build(self):
        saved, _, _ = self.record("toy.twice(x.T)\ntoy.logarithm(x)", "working", TENON_RECORD_OP="toy::tw*")
        self.assertEqual([path.name for path in saved], ["000-toy.twice"])
        self.assertIn("the same results", tenon("replay", saved[0])[0])
        out, _ = tenon("replay", saved[0], "--ops", "other.so", code=1)
        self.assertIn("expected 2, found 2.5", out)
        self.assertIn("a different outcome than was saved", out)
        saved, _, _ = self.record("toy.around(x)", "all", TENON_RECORD_ALL="1")
        self.assertEqual([path.name for path in saved], ["000-toy.twice", "001-toy.around"])  # the inner call ends first
        self.assertIn("2 calls, 0 with a different outcome", tenon("replay", HERE / "all")[0])

    def test_inputs_that_a_call_writes_to_are_saved_as_they_were(self):
        saved, _, _ = self.record("toy.count_up(x)\ntry: toy.count_up(x)\nexcept tenon.RangeError: pass", "written", TENON_RECORD_ALL="1")
        first, second = [json.loads((path / "call.json").read_text()) for path in saved]
        self.assertEqual(np.load(saved[0] / first["inputs"][0]["file"])[0, 0], 1)
        self.assertEqual(np.load(saved[0] / first["written"][0]["file"])[0, 0], 2)
        self.assertEqual(np.load(saved[1] / second["inputs"][0]["file"])[0, 0], 2)
        self.assertIn("0 with a different outcome", tenon("replay", HERE / "written")[0])

    def test_saved_calls_that_share_a_state_are_replayed_on_one_state(self):
        saved, _, _ = self.record("toy.counter(x)\ntoy.counter(x)\ntoy.counter(x)", "state", TENON_RECORD_ALL="1")
        calls = [json.loads((path / "call.json").read_text()) for path in saved]
        self.assertEqual(len({call["state"] for call in calls}), 1)
        self.assertEqual([np.load(path / "output_0.npy")[0, 0] for path in saved], [1, 2, 3])
        self.assertIn("3 calls, 0 with a different outcome", tenon("replay", HERE / "state")[0])
        tenon("replay", saved[2], code=1)  # alone it is the first call of the state

    def test_calls_are_replayed_in_the_order_of_their_numbers(self):
        saved, _, _ = self.record("toy.counter(x)\ntoy.counter(x)", "order", TENON_RECORD_ALL="1")
        for path, number in zip(saved, (999, 1000)):
            path.rename(path.with_name(f"{number}-toy.counter"))
        self.assertIn("2 calls, 0 with a different outcome", tenon("replay", HERE / "order")[0])

    def test_a_saved_call_names_the_kernel_of_its_device(self):
        path = model("kernel", node("MatMul", "x w", "h", "mm"), node("Erf", "h", "e", "next"), node("twice", "e", "y", "last", "toy"))
        for device, kernels in ("cpu", ["cpu", "cpu", "cpu"]), ("sim", ["sim", "source", None]):
            shutil.rmtree(HERE / "kernel", ignore_errors=True)
            tenon("run", path, "--ops", "toy.so", "--input", "random:0", "--device", device, "--claim", "off", "--optimize", "plain",
                  env={"TENON_RECORD": str(HERE / "kernel"), "TENON_RECORD_OP": "core::matmul,core::erf,toy::*"})
            found = [json.loads((folder / "call.json").read_text()).get("kernel") for folder in recordings(HERE / "kernel")]
            self.assertEqual([kernel and kernel.split()[0] for kernel in found], kernels)

    def test_a_replay_draws_the_random_numbers_of_the_saved_call(self):
        saved, out, _ = self.record("tenon.seed(7)\ny = [tenon.ops.core.randn(shape=[5]) for _ in range(2)]", "random",
                                    TENON_RECORD_ALL="1")
        calls = [json.loads((path / "call.json").read_text()) for path in saved]
        self.assertEqual(calls[0]["random"], {"seed": "7", "offset": "0"})
        self.assertGreater(int(calls[1]["random"]["offset"]), 0)
        self.assertIn("0 with a different outcome", tenon("replay", HERE / "random")[0])

    def test_the_node_of_a_model_is_named(self):
        path = model("limits", node("MatMul", "x w", "h", "mm"), node("limited", "h", "y", "the limit", "toy", most=-1000.0))
        shutil.rmtree(HERE / "node", ignore_errors=True)
        _, err = tenon("run", path, "--ops", "toy.so", "--input", "ramp", env={"TENON_RECORD": str(HERE / "node")}, code=1)
        self.assertIn("node 'the limit' (toy::limited)", err)
        call = json.loads((recordings(HERE / "node")[0] / "call.json").read_text())
        self.assertEqual((call["node"], call["operator"]), ("the limit", "toy::limited"))

    def test_python_gives_the_arguments_and_repeats_the_call(self):
        saved, _, _ = self.record("toy.limited(x[:, ::2], most=9.5)", "python", TENON_RECORD_ALL="1")
        out, _ = python(f"r = tenon.replay({str(saved[0])!r})\nprint(r)\nprint(r.op, r.status, r.attributes, r.inputs[0].shape)\n"
                        "print(r.inputs[0].numpy().strides, r()[0].numpy()[0, 0] == r.outputs[0].numpy()[0, 0])")
        self.assertEqual(out.splitlines(), ["<saved call of toy::limited(f32[2, 2])>",
                                            "toy::limited ok {'most': '9.5'} (2, 2)", "(12, 8) True"])

    def test_python_switches_recording_on_and_off(self):
        folder = HERE / "switched"
        shutil.rmtree(folder, ignore_errors=True)
        python(f"toy.twice(x)\nwith tenon.record({str(folder)!r}, ops='toy::twice'): toy.twice(x)\ntoy.twice(x)")
        self.assertEqual([path.name for path in recordings(folder)], ["000-toy.twice"])

    def test_calls_of_an_isolated_library_are_saved_and_traced_by_the_program_alone(self):
        program = ("import numpy as np, tenon\ntoy = tenon.load('./toy.so', isolated=True)\nx = np.ones((2, 3), np.float32)\n"
                   "print(toy.twice(x)[0, 0])\ntoy.logarithm(-x)\n"
                   "try: toy.limited(x * 6)\nexcept tenon.RangeError: print('limited')\n")
        folder = HERE / "isolated"
        shutil.rmtree(folder, ignore_errors=True)
        variables = {"TENON_RECORD": str(folder), "TENON_RECORD_ALL": "1", "TENON_RECORD_OP": "toy::*", "TENON_RECORD_MOST": "5",
                     "TENON_NAN": "report", "TENON_TRACE": "dispatch", "TENON_EXPLAIN": "all", "TENON_CRASH": "1"}
        out, err = run(sys.executable, "-c", program, env={"PYTHONPATH": str(build / "python"), **variables})
        self.assertEqual(out.splitlines(), ["2.0", "limited"])
        self.assertEqual([path.name for path in recordings(folder)], ["000-toy.twice", "001-toy.logarithm", "002-toy.limited"])
        self.assertEqual(err.count("call toy::twice"), 1, err)
        self.assertEqual(err.count("explain toy::twice"), 1, err)
        self.assertEqual(err.count("NaN"), 1, err)
        self.assertIn("0 with a different outcome", tenon("replay", folder)[0])

    def test_no_more_calls_are_saved_than_asked_for(self):
        saved, _, err = self.record("for _ in range(9): toy.twice(x)", "most", TENON_RECORD_ALL="1", TENON_RECORD_MOST="4")
        self.assertEqual(len(saved), 4)
        self.assertEqual(err.count("4 calls are saved in"), 1)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_a_call_is_repeated_under_valgrind(self):
        saved, _, _ = self.record("toy.twice(x)", "valgrind", TENON_RECORD_ALL="1")
        out, err = tenon("replay", saved[0], "--valgrind")
        self.assertIn("the same results", out)
        self.assertIn("ERROR SUMMARY: 0 errors", err)

    @unittest.skipUnless(shutil.which("gdb"), "gdb is not installed")
    def test_a_call_is_repeated_under_gdb_and_stops_where_the_kernel_begins(self):
        saved, _, _ = self.record("toy.twice(x)", "gdb", TENON_RECORD_ALL="1")
        done = subprocess.run([build / "tenon", "replay", saved[0], "--gdb"], input="tenon call\nkill\nquit\n", capture_output=True,
                              text=True, timeout=240, env={**os.environ, "DEBUGINFOD_URLS": ""})
        self.assertRegex(done.stdout, r"Breakpoint 1.*, twice \(call=")
        self.assertIn("input x = f32[2, 3] {1, 1, 1, 1, 1, 1}", done.stdout)


class Nan(unittest.TestCase):
    def setUp(self):
        self.model = model("logs", node("MatMul", "x w", "h", "mm"), node("logarithm", "h", "r", "the log", "toy"), node("Relu", "r", "y", "relu"))
        self.options = "run", self.model, "--ops", "toy.so", "--input", "random:1"

    def test_the_first_node_that_makes_a_nan_is_named_with_its_position(self):
        x = tenon(*self.options, "--values", "nan-values")[0]
        rows = [line.split("\t") for line in (HERE / "nan-values/values.txt").read_text().splitlines()]
        h = np.load(HERE / "nan-values" / next(row[1] for row in rows if row[3] == "h"))
        place = tuple(int(i[0]) for i in np.nonzero(h < 0))
        for command in (self.options + ("--nan", "stop"), self.options):
            _, err = tenon(*command, env={} if "--nan" in command else {"TENON_NAN": "stop"}, code=1)
            self.assertIn(f"node 'the log' (toy::logarithm): toy::logarithm: result out[{place[0]}, {place[1]}] is NaN", err)
            self.assertIn("its inputs have none: it begins here", err)

    def test_a_nan_is_reported_only_where_it_begins(self):
        out, err = tenon(*self.options, "--nan", "report")
        self.assertEqual(len(re.findall("^tenon: ", err, re.M)), 1)
        self.assertIn("nan", out)

    def test_an_infinity_counts_too_unless_only_nan_is_asked_for(self):
        path = model("zeros", node("Sub", "x x", "z", "zero"), node("logarithm", "z", "y", "the log", "toy"))
        _, err = tenon("run", path, "--ops", "toy.so", "--input", "ones", "--nan", "stop", code=1)
        self.assertIn("is infinite (the first of 16 among 16 numbers)", err)
        tenon("run", path, "--ops", "toy.so", "--input", "ones", "--nan", "stop,nan")

    def test_a_nan_that_an_input_already_had_is_told_apart(self):
        np.save(HERE / "bad.npy", np.array([[np.nan] + [1] * 15], np.float32))
        _, err = tenon("run", model("one", node("twice", "x", "y", "twice", "toy")), "--ops", "toy.so", "--input", "x=@bad.npy", "--nan",
                       "stop", code=1)
        self.assertIn("result out[0, 0] is NaN; before the call: input x[0, 0] is NaN", err)

    @unittest.skipUnless(has_python(), "the headers of Python are not installed (python3-dev)")
    def test_in_python_the_call_raises(self):
        out, _ = python("with tenon.nan():\n  try: toy.logarithm(-x)\n  except tenon.Error as error: print(error)\nprint(toy.logarithm(-x)[0, 0])")
        self.assertIn("toy::logarithm: result out[0, 0] is NaN (the first of 6 among 6 numbers)", out)
        self.assertIn("nan", out.splitlines()[-1])


@unittest.skipUnless(has_python(), "the headers of Python are not installed (python3-dev)")
class Crashes(unittest.TestCase):
    def crash(self, call, number=signal.SIGSEGV, prepare="", **env):
        _, err = python(f"{prepare}\n{call}", env={"TENON_CRASH": "1", **env}, code=-number)
        return err

    def test_the_report_has_operator_arguments_library_and_source_line(self):
        err = self.crash("toy.crash(x, at=24)")
        self.assertIn("tenon: SIGSEGV in toy::crash: there is no memory at 0x18", err)
        self.assertRegex(err, r"input x: f32\[2, 3\] at 0x")
        self.assertIn("attribute at: 24", err)
        self.assertIn("TENON_RECORD=FOLDER in the environment", err)
        self.assertIn(f"library toy 1.0.0 {(HERE / 'toy.so').resolve()}", err)
        self.assertRegex(err, rf"#0  crash at {re.escape(str(HERE / 'toy.c'))}:{line_of('/* in crash */')} in ")

    def test_each_kind_of_crash_has_its_own_description(self):
        cases = [("toy.divide(x)", signal.SIGFPE, "SIGFPE in toy::divide: an integer division by 0"),
                 ("toy.give_up(x)", signal.SIGABRT, "SIGABRT in toy::give_up: abort() was called"),
                 ("toy.overflow(x)", signal.SIGSEGV, "SIGSEGV in toy::overflow: the stack is full"),
                 ("toy.crash_loop(x)", signal.SIGSEGV, "SIGSEGV in toy::crash_loop: there is no memory at 0x28"),
                 ("toy.crash_infer(x)", signal.SIGSEGV, "SIGSEGV in toy::crash_infer (infer): there is no memory at 0x28")]
        for call, number, words in cases:
            with self.subTest(call):
                self.assertIn(words, self.crash(call, number))

    def test_another_thread_and_a_thread_of_the_pool_report_the_call_too(self):
        self.assertIn("SIGSEGV in toy::crash_apart", self.crash("toy.crash_apart(x)"))
        self.assertIn("SIGSEGV in toy::overflow: the stack is full",
                      self.crash("import threading\nt = threading.Thread(target=toy.overflow, args=(x,))\nt.start()\nt.join()"))

    def test_calls_around_the_crashing_call_are_named(self):
        err = self.crash("toy.crash_around(x)")
        self.assertIn("SIGSEGV in toy::crash: ", err)
        self.assertIn("called by toy::crash_around", err)
        self.assertNotIn("called by toy::crash\n", err)

    def test_old_calls_on_the_stack_are_not_taken_for_the_crashing_call(self):
        err = self.crash("for _ in range(50): toy.around(x), toy.twice(x), toy.logarithm(x)\ntoy.crash(x)")
        self.assertIn("SIGSEGV in toy::crash: ", err)
        self.assertNotIn("called by", err)

    def test_a_crash_in_a_model_names_the_running_node(self):
        path = model("crashing", node("MatMul", "x w", "h", "mm"), node("twice", "h", "t", "before", "toy"),
                     node("crash", "t", "c", "the crash", "toy"), node("twice", "c", "y", "after", "toy"))
        _, err = tenon("run", path, "--ops", "toy.so", "--input", "ones", code=-signal.SIGSEGV)  # the command switches crash reports on
        self.assertIn("tenon: SIGSEGV in toy::crash: there is no memory at 0x18\n  input x: f32[1, 16]", err)

    def test_the_previous_signal_handler_runs_afterwards(self):
        err = self.crash("toy.crash(x)", prepare="pass", PYTHONFAULTHANDLER="1")
        self.assertLess(err.index("SIGSEGV in toy::crash"), err.index("Fatal Python error: Segmentation fault"))

    def test_a_crash_outside_operators_is_left_alone(self):
        self.assertNotIn("tenon:", self.crash("toy.twice(x)\nimport ctypes\nctypes.string_at(8)"))

    def test_the_crashing_call_is_saved_and_crashes_again_in_a_replay(self):
        folder = HERE / "crashed"
        shutil.rmtree(folder, ignore_errors=True)
        err = self.crash("toy.crash(x * 3, at=32)", TENON_RECORD=str(folder))
        saved = recordings(folder)[0]
        self.assertIn(f"saved; to repeat the call: tenon replay --gdb {saved}", err)
        call = json.loads((saved / "call.json").read_text())
        self.assertEqual((call["attributes"], call["error"]), ({"at": "32"}, "SIGSEGV"))
        np.testing.assert_array_equal(np.load(saved / "input_0.npy"), np.full((2, 3), 3, np.float32))
        _, err = tenon("replay", saved, code=-signal.SIGSEGV)
        self.assertIn("there is no memory at 0x20", err)

    def test_crash_reports_are_off_unless_asked_for(self):
        _, err = python("toy.crash(x)", code=-signal.SIGSEGV)
        self.assertNotIn("toy::crash", err)
        _, err = python("tenon.crash_report()\ntoy.crash(x)", code=-signal.SIGSEGV)
        self.assertIn("toy::crash", err)
        _, err = python("tenon.crash_report()\ntenon.crash_report(False)\ntoy.crash(x)", code=-signal.SIGSEGV)
        self.assertNotIn("toy::crash", err)


if __name__ == "__main__":
    sys.exit(main())
