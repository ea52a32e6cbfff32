"""`tenon bench`: what it measures, counts, compares and refuses.  No test looks at how long something took."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
TENON = os.path.join(BUILD, "tenon")
WORK = tempfile.TemporaryDirectory()
ENV = {**os.environ, "TENON_CACHE": os.path.join(WORK.name, "cache")}


def path(name):
    return os.path.join(WORK.name, name)


def tenon(*words, code=0):
    run = subprocess.run([TENON, *map(str, words)], cwd=WORK.name, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    assert run.returncode == code, f"{words}: status {run.returncode}: {run.stdout}{run.stderr}"
    return run.stdout if code == 0 else run.stderr


def bench(*words):
    """Runs `tenon bench` and returns its results, as they stand in its JSON."""
    tenon("bench", *words, "-s", "0.01", "--json", path("out.json"))
    with open(path("out.json"), encoding="utf-8") as file:
        return json.load(file)["results"]


LIBRARY = """
#include <tenon/check.h>
static tenon_status_t loop(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++) ((float *)loop->data[1])[i] = ((const float *)loop->data[0])[i] * (float)loop->attrs[0].as.f;
  return TENON_OK;
}
static tenon_status_t never(tenon_infer_t *infer) { return tenon_fail(infer, TENON_INVALID, "never right"); }
static tenon_status_t rows(tenon_call_t *call) { (void)call; return TENON_OK; }
TENON_LIBRARY(toy, "1.0.0",
  TENON_OP("scale(Tensor x, *, float by=2.0) -> Tensor", TENON_TYPES("x: f16|f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_SAMPLES("x: [3, 4]; x: [rows, columns], by = 3.0"), TENON_LOOP("f32 -> f32", loop)),
  TENON_OP("rotate(Tensor x, Tensor positions) -> Tensor", TENON_TYPES("x: f32; positions: i64; out = x"),
    TENON_SHAPES("x: [..., seq, dim]; positions: [seq]; out = x"), TENON_SAMPLES("x: [2, 3, 4], positions: [3]"), TENON_KERNEL("cpu", rows)),
  TENON_OP("never(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_INFER(never), TENON_KERNEL("cpu", rows)))
"""


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(path("toy.c"), "w", encoding="utf-8") as file:
            file.write(LIBRARY)
        tenon("build", "toy.c", "-o", "toy.so")

    def test_names_of_shapes_are_sizes_also_if_the_samples_state_numbers(self):
        found = bench("./toy.so", "rotate", "-d", "seq=16,100", "-d", "dim=8")
        self.assertEqual([one["arguments"] for one in found], [f"x f32[2, {n}, 8], positions i64[{n}], out f32[2, {n}, 8]" for n in (16, 100)])
        self.assertIn("no extent has this name", tenon("bench", "./toy.so", "rotate", "-d", "sec=16", code=1))

    def test_bytes_and_operations_are_counted(self):
        (one,) = bench("./toy.so", "scale", "-d", "rows=10", "-d", "columns=25", "--flops", "3 * x + rows - 2 * (x[1] - 20)")
        self.assertEqual((one["op"], one["device"], one["size"]), ("toy::scale", "cpu", "rows=10 columns=25"))
        self.assertEqual(one["arguments"], "x f32[10, 25], out f32[10, 25]")
        self.assertEqual((one["bytes"], one["operations"]), (2 * 1000, 750 + 10 - 2 * 5))
        self.assertTrue(0 < one["first_quartile_ns"] <= one["median_ns"] <= one["third_quartile_ns"])
        self.assertAlmostEqual(one["bytes_per_second"], one["bytes"] / one["median_ns"] * 1e9, delta=one["bytes_per_second"] * 1e-4)
        self.assertAlmostEqual(one["calls_per_second"] * one["median_ns"], 1e9, delta=1e5)

    def test_sizes_are_combined_and_found_by_magnitude(self):
        found = [(r["size"], r["bytes"]) for r in bench("./toy.so", "scale", "-d", "rows=1,2", "-d", "columns=8,16")]
        self.assertEqual(found, [("rows=1 columns=8", 64), ("rows=1 columns=16", 128), ("rows=2 columns=8", 128), ("rows=2 columns=16", 256)])
        found = [r["bytes"] / 8 for r in bench("./toy.so", "scale")]
        self.assertEqual(len(found), 3)
        for elements, wanted in zip(found, (1 << 10, 1 << 17, 1 << 22)):
            self.assertTrue(wanted / 1.3 < elements < wanted * 1.3, found)

    def test_arguments_may_be_given_in_every_form(self):
        (one,) = bench("./toy.so", "scale", "-i", "x=f32[rows, 6]", "-d", "rows=7", "-a", "by=5")
        self.assertEqual((one["arguments"], one["bytes"]), ("x f32[7, 6], out f32[7, 6]", 2 * 7 * 6 * 4))
        (one,) = bench("./toy.so", "scale", "-d", "rows=10", "-d", "columns=10", "--dtype", "f16")
        self.assertEqual(one["bytes"], 2 * 100 * 2)
        (one,) = bench("matmul", "-i", "a=f32[m,k]", "-i", "b=f32[k,n]", "-d", "m=8", "-d", "n=9", "-d", "k=10", "--flops", "2*m*n*k")
        self.assertEqual((one["op"], one["operations"], one["bytes"]), ("core::matmul", 1440, 4 * (80 + 90 + 72)))
        (one,) = bench("--builtin", "add", "-i", "a=f32[1000]", "-i", "b=f32[1]")
        self.assertEqual(one["bytes"], 4 * 2001)

    def test_every_named_device_is_measured(self):
        found = [r["device"] for r in bench("./toy.so", "scale", "-d", "rows=4", "-d", "columns=4", "--device", "cpu,sim")]
        self.assertEqual(found, ["cpu", "sim"])

    def test_a_baseline_adds_ratio_and_spread(self):
        words = ("./toy.so", "scale", "-d", "rows=64", "-d", "columns=64")
        bench(*words)
        for factor, verdict in ((1e6, "faster"), (1e-6, "slower")):
            with open(path("out.json"), encoding="utf-8") as file:
                text = file.read()
            for key in ("median_ns", "first_quartile_ns", "third_quartile_ns"):
                before = json.loads(text)["results"][0][key]
                text = text.replace(f'"{key}": {text.split(f"{key}")[1][3:].split(",")[0]}', f'"{key}": {before * factor}')
            with open(path(f"{verdict}.json"), "w", encoding="utf-8") as file:
                file.write(text)
            said = tenon("bench", *words, "-s", "0.01", "--baseline", f"{verdict}.json")
            self.assertIn(f"times its speed, {verdict}", said)
        self.assertIn("has no result for any of these operators, sizes and devices", tenon("bench", "./toy.so", "scale", "-d", "rows=3", "-d", "columns=3", "-s", "0.01", "--baseline", "faster.json", code=1))

    def test_an_operator_is_measured_beside_another_operator_and_another_library(self):
        words = ("bench", "./toy.so", "scale", "-d", "rows=64", "-d", "columns=64", "-s", "0.01", "--against")
        self.assertIn("the other operator took", tenon(*words, "core::abs"))
        self.assertIn("expected an operator with 1 inputs, as toy::scale has, found one with 2", tenon(*words, "core::add", code=1))
        shutil.copy(path("toy.so"), path("copy.so"))
        self.assertIn("the other operator took", tenon(*words, "./copy.so"))
        self.assertIn("no operator 'core::nothing'", tenon(*words, "core::nothing", code=1))
        self.assertIn("cannot load", tenon(*words, "./nothing.so", code=1))

    def test_a_roofline_is_drawn(self):
        said = tenon("bench", "./toy.so", "scale", "-d", "rows=64,128", "-d", "columns=64", "-s", "0.01", "--flops", "2*x", "--svg", "roof.svg")
        self.assertRegex(said, r"bound by (memory|arithmetic), \d+ % of the roof")
        self.assertRegex(said, r"(?m)^ +[\d.e+]+ \|.*[/-]")
        root = ElementTree.parse(path("roof.svg")).getroot()
        circles = [e for e in root.iter() if e.tag.endswith("circle")]
        self.assertEqual(len(circles), 2)
        self.assertLess(float(circles[0].get("cx")) - float(circles[1].get("cx")), 1)  # both have the same arithmetic intensity
        self.assertNotIn("roof\n", tenon("bench", "./toy.so", "scale", "-s", "0.01"))  # without a count of operations there is no roof

    def test_peaks_are_measured_once(self):
        tenon("bench", "./toy.so", "scale", "-d", "rows=8", "-d", "columns=8", "-s", "0.01")
        (kept,) = [name for name in os.listdir(ENV["TENON_CACHE"]) if name.startswith("machine-")]
        file = os.path.join(ENV["TENON_CACHE"], kept)
        with open(file, encoding="utf-8") as text:
            peaks = json.load(text)
        self.assertTrue(all(peaks[name] > 0 for name in ("bandwidth", "peak_f32", "peak_f64")), peaks)
        with open(file, "w", encoding="utf-8") as text:
            json.dump({**peaks, "bandwidth": 123.4e9}, text)
        self.assertIn("of 123.4 GB/s", tenon("bench", "./toy.so", "scale", "-s", "0.01"))
        os.remove(file)

    def test_a_whole_library_is_measured_except_what_cannot_be_called(self):
        run = subprocess.run([TENON, "bench", "./toy.so", "-s", "0.01"], cwd=WORK.name, env=ENV, capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn("toy::scale", run.stdout)
        self.assertRegex(run.stderr, "not measured: toy::never: .*never right")

    def test_errors_are_reported(self):
        for words, expected in (
            (("./toy.so", "scale", "-d", "width=3"), "--dim width: no extent has this name"),
            (("./toy.so", "scale", "-d", "rows=3x"), "--dim rows=3x: expected NAME=N"),
            (("./toy.so", "scale", "-i", "x=f33[2]"), "unknown dtype 'f33'"),
            (("./toy.so", "scale", "-i", "x=f32[2"), "expected a dtype and extents"),
            (("./toy.so", "scale", "-i", "x=f32[n]"), "add --dim n=N"),
            (("./toy.so", "scale", "--flops", "2 *"), "column 4: expected a number, a name or ("),
            (("./toy.so", "scale", "--flops", "foo"), "column 1: expected the name of an extent or of an argument"),
            (("./toy.so", "scale", "-a", "to=3"), "has no attribute 'to'"),
            (("./toy.so", "scal"), "did you mean 'toy::scale'"),
            (("./toy.so", "scale", "--svg", "x.svg"), "--svg needs --flops"),
            (("./toy.so", "scale", "--device", "nobody"), "nobody"),
            (("./toy.so", "scale", "--dtype", "f64"), "f64"),
        ):
            self.assertIn(expected, tenon("bench", *words, "-s", "0.01", code=1), words)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad - len(result.skipped)} passed, {bad} failed, {len(result.skipped)} skipped")
    sys.exit(bad > 0)
