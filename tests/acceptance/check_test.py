"""`tenon check`: the built-in operators, those of the examples and those of an MXNet library pass. Also tested: every form of its report about an
operator that fails, saved calls, and example inputs and references in Python. The planted defects are in check_defects_test.py."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
TENON = os.path.join(BUILD, "tenon")

EXAMPLES = {  # example: its sources
    "gelu": ["01_gelu/gelu.c"],
    "stubs": ["06_stubs/stubs.c"],
    "reader": ["10_line_reader/ctc.c", "10_line_reader/decode.c"],
    "recur": ["11_jax/recur.c"],
    "block": ["12_sharding/block.c"],
}

# its declared gradient is that of the logits, from which log_softmax computed the input, as in PyTorch
KNOWN = {"reader": ["--except", "reader::ctc_loss:gradient.differences"]}

WRONG = r"""
#include <tenon/check.h>
static tenon_status_t run(tenon_call_t *call) { /* the last element is left out where there are several */
  const tenon_tensor_t *x = call->inputs[0], *out = call->outputs[0];
  int64_t n = tenon_count(x);
  for (int64_t i = 0; i < (n > 1 ? n - 1 : n); i++) ((float *)out->data)[i] = 2 * ((const float *)x->data)[i];
  return TENON_OK;
}
static tenon_status_t fine(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0], *out = call->outputs[0];
  for (int64_t i = 0; i < tenon_count(x); i++) ((float *)out->data)[i] = 3 * ((const float *)x->data)[i];
  return TENON_OK;
}
TENON_LIBRARY(planted, "1.0.0",
  TENON_OP("twice(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE), TENON_SHAPES("x: [n]; out = x"),
           TENON_KERNEL("cpu", run)),
  TENON_OP("thrice(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE), TENON_SHAPES("x: [n]; out = x"),
           TENON_KERNEL("cpu", fine)))
"""

WITH = """
import numpy
def samples_thrice(): yield {"x": numpy.arange(5, dtype="f4")}
def reference_thrice(x): return 3 * x
def reference_twice(x): return (2 * x).astype("f4")
"""

passed = failed = skipped = 0


def tell(sentence, fine, found=""):
    global passed, failed
    passed, failed = passed + bool(fine), failed + (not fine)
    if not fine:
        print(f"FAIL {sentence}\n  found: {str(found)[-1500:]}")


def skip(sentence, why):
    global skipped
    skipped += 1
    print(f"skip: {sentence}: {why}")


def check(*words, command=(TENON, "check"), env=None):
    run = subprocess.run([*command, *words], capture_output=True, text=True, timeout=600, env=env)
    return run.returncode, run.stdout, run.stderr


def build(folder, name, sources):
    path = os.path.join(folder, name + ".so")
    run = subprocess.run([TENON, "build", *sources, "-o", path], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return path


def examples(folder):
    """Libraries of the examples, by name. Of the training program, only the part before the code that needs libtenon is a library."""
    libraries = {name: build(folder, name, [os.path.join(ROOT, "examples", s) for s in sources]) for name, sources in EXAMPLES.items()}
    with open(os.path.join(ROOT, "examples", "04_training", "training.c"), encoding="utf-8") as program:
        library = program.read().split("static void must(")[0].replace("#define TENON_STATIC", "").replace("tenon/tenon.h", "tenon/op.h")
    source = os.path.join(folder, "training.c")
    with open(source, "w", encoding="utf-8") as to:
        to.write(library)
    return {**libraries, "training": build(folder, "training", [source])}


def passing(folder):
    code, out, _ = check("--builtin", "--no-notes")
    tell("every built-in operator passes every check", code == 0 and " 0 failed" in out, out)
    for name, library in examples(folder).items():
        code, out, error = check(library, *KNOWN.get(name, []))
        tell(f"the operators of example {name} pass", code == 0, out + error)
        tell(f"each operator of example {name} has calls that can be tried", "samples.missing" not in out, out)


def bridged(folder):
    """A library for MXNet's interface, plain.c of tests/adapters/mxnet, which can be built without MXNet."""
    library = os.path.join(folder, "libplain.so")
    if not os.path.isfile(os.path.join(BUILD, "bridges", "libtenon_mxnet.so")):
        return skip("a bridged library of MXNet's interface", "the bridge is not built")
    source = os.path.join(ROOT, "tests", "adapters", "mxnet", "plain.c")
    run = subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-DVERSION=11", source, "-o", library], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    # The interface of MXNet has no calls as examples, and the schema alone says neither that two shapes fit, nor that an
    # attribute is required, nor that an input is sparse.
    uncalled = ["t_csr_dense", "t_csr_scale", "t_gemm", "t_join", "t_rows_square"]
    code, out, error = check(library, "--no-notes")
    found = sorted(line.split()[1:] for line in out.splitlines() if line.startswith("FAIL"))
    tell("of a bridged library of MXNet's interface, operators that no call reaches are named", code == 1 and found == sorted([f"plain::{op}", "samples.missing"] for op in uncalled), out + error)
    code, out, error = check(library, "--no-notes", *(f"--except=plain::{op}:samples.missing" for op in uncalled))
    tell("the other operators of a bridged library of MXNet's interface pass", code == 0 and "passed" in out, out + error)


def reports(library, folder):
    code, out, error = check(library, "--no-notes")
    line = next((l for l in out.splitlines() if l.startswith("FAIL")), "")
    tell("a planted defect is named with its operator and check", code == 1 and line.startswith("FAIL planted::twice write.unwritten"), out + error)
    tell("the finding says what was called, expected and found", all(w in out for w in ("called:   planted::twice(x: f32[4])", "expected: ", "found:    ")), out)
    repeat = next((l.split(":", 1)[1].split() for l in out.splitlines() if l.startswith("  repeat:")), [])
    code, again, _ = check(*repeat[2:]) if repeat[:2] == ["tenon", "check"] else (0, "", "")
    tell("the line that repeats it does, and tries nothing else", code == 1 and again.count("FAIL") == 1 and "thrice" not in again, again)
    tell("the right operator beside it has no finding", "thrice" not in out, out)
    code, out, _ = check(library, "thrice")
    tell("operators can be named, and only they are tried", code == 0 and "twice" not in out, out)
    code, out, _ = check(library, "--json")
    report = json.loads(out)
    found = [r for r in report["results"] if r["kind"] == "finding"]
    tell("the report as JSON has the same", code == 1 and [(r["operator"], r["id"]) for r in found] == [("planted::twice", "write.unwritten")], out)
    path = os.path.join(folder, "junit.xml")
    code, _, error = check(library, "--junit", path)
    suite = xml.etree.ElementTree.parse(path).getroot()
    tell("the report as JUnit's has a failure, and a case for each check", code == 1 and len(suite.findall(".//failure")) == 1 and
         int(suite.get("tests")) == len(suite.findall("testcase")), error)


def refusals(library):
    for words, message in ((["/no/such.so"], "/no/such.so"), ([library, "trice"], "operator trice does not exist"), ([], "nothing to check: give LIB.so, --builtin, --device LIB or --list"),
                           ([library, "--samples", "/no/folder"], "/no/folder"), ([library, "--ordinal", "1"], "apply to devices: add --device LIB")):
        code, out, error = check(*words)
        tell(f"tenon check {' '.join(words[1:]) or words} cannot be done: status 2, and why", code == 2 and message in error, f"{code} {out}{error}")
    code, out, _ = check("--list")
    tell("the checks are listed with what they check", code == 0 and "write.outside" in out and "gradient.differences" in out, out)


def recordings(library, folder):
    calls = os.path.join(folder, "calls")
    code, _, error = check(library, "thrice", "--save", calls)
    names = sorted(os.listdir(calls)) if os.path.isdir(calls) else []
    tell("the calls that would be tried can be saved", code == 0 and names and all(n.startswith("planted::thrice") for n in names), error)
    code, out, error = check(library, "thrice", "--samples", calls, "--case", "recorded.", "-v")
    tell("and are tried from there", code == 0 and "ok   planted::thrice recorded.values" in out, out + error)
    file = os.path.join(folder, "with.py")
    with open(file, "w", encoding="utf-8") as to:
        to.write(WITH)
    if not glob.glob(os.path.join(BUILD, "python", "tenon", "_core.*")):
        return skip("samples and references in Python", "the package is not built (python3-dev)")
    python = (sys.executable, "-m", "tenon", "check")
    env = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}
    code, out, error = check(library, "--with", file, "--case", "recorded.", command=python, env=env)
    tell("a reference in Python finds what it does not give", code == 1 and out.count("FAIL") == 1 and "FAIL planted::twice recorded.values" in out, out + error)
    with open(file, "a", encoding="utf-8") as to:
        to.write("def reference_trice(x): return x\n")
    code, out, error = check(library, "--with", file, command=python, env=env)
    tell("a reference of no operator is refused, with the names that there are", code != 0 and "reference_trice" in error and "thrice, twice" in error, out + error)


def main():
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "planted.c")
        with open(source, "w", encoding="utf-8") as to:
            to.write(WRONG)
        library = build(folder, "planted", [source])
        reports(library, folder)
        refusals(library)
        recordings(library, folder)
        passing(folder)
        bridged(folder)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
