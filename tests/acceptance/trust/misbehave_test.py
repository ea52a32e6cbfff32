"""Libraries that exit, abort, overflow the stack or hang - in constructors, TENON_OPEN, functions of operators and destructors - against every
verb of `tenon` that runs code of a library, and against `tenon.load` of Python. Each verb must end within its limit, with a status other than 0
and a sentence that names the library or the operator; JSON stays JSON."""
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
TENON = os.path.join(BUILD, "tenon")
LIMIT = "3"  # seconds that loading may take; a verb that takes ten times as long is a failure
ENVIRONMENT = {**os.environ, "TENON_LOAD_LIMIT": LIMIT, "TERM": "dumb"}

LIBRARY = r"""
#include <stdint.h>
#include <stdlib.h>
#include <signal.h>
#include <unistd.h>
#include <sys/resource.h>
#include <tenon/op.h>
static __attribute__((noinline, unused)) int deeper(volatile char *above) {
  volatile char room[4096];
  room[0] = above ? above[0] : 0;
  return deeper(room) + room[0];
}
static __attribute__((unused)) void does_exit(void) { exit(0); }
static __attribute__((unused)) void does__exit(void) { _exit(0); }
static __attribute__((unused)) void does_abort(void) { abort(); }
static __attribute__((unused)) void does_hang(void) { for (;;) pause(); }
static __attribute__((unused)) void does_overflow(void) { deeper(0); }
#ifdef CONSTRUCTOR
__attribute__((constructor)) static void begin(void) { CONSTRUCTOR(); }
#endif
#ifdef DESTRUCTOR
__attribute__((destructor)) static void end(void) { DESTRUCTOR(); }
#endif
#ifndef KERNEL
#define KERNEL return TENON_OK
#endif
#ifndef INFER
#define INFER return TENON_OK
#endif
#ifndef CREATE
#define CREATE return TENON_OK
#endif
#ifndef OPEN
#define OPEN return TENON_OK
#endif
static __attribute__((noinline, unused)) void fill(volatile float *at, long count) {
  for (long i = 0; i < count; i++) at[i] = 1.5f;
}
static tenon_status_t f(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    ((float *)call->outputs[0]->data)[i] = ((const float *)call->inputs[0]->data)[i];
  KERNEL;
}
static tenon_status_t infer(tenon_infer_t *call) { (void)call; INFER; }
static tenon_status_t create(tenon_node_t *node) { (void)node; CREATE; }
static tenon_status_t open_library(tenon_node_t *node) { (void)node; OPEN; }
static void close_library(void *context) { (void)context; }
static void destroy(void *state) { (void)state; }
TENON_LIBRARY(NAME, "1.0.0", TENON_OPEN(open_library, close_library),
  TENON_OP("f(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("x: [n]; out = x"), TENON_TRAITS(TENON_PURE),
           TENON_INFER(infer),
#ifdef STATE
           TENON_STATE(create, destroy),
#endif
           TENON_KERNEL("cpu", f)))
"""

passed = failed = skipped = 0


def tell(sentence, fine, found=""):
    global passed, failed
    passed, failed = passed + bool(fine), failed + (not fine)
    if not fine:
        print(f"FAIL {sentence}\n  found: {str(found)[-700:]}", flush=True)


def skip(sentence, why):
    global skipped
    skipped += 1
    print(f"skip: {sentence}: {why}")


class Kit:
    def __init__(self, folder):
        self.folder = folder
        self.model = os.path.join(folder, "plain.onnx")

    def path(self, name, ending=".so"):
        return os.path.join(self.folder, name + ending)

    def build(self, name, **macros):
        """Builds LIBRARY with the compiler alone, so that building runs none of its code."""
        source = self.path(name, ".c")
        with open(source, "w", encoding="utf-8") as to:
            to.write("".join(f"#define {key} {value}\n" for key, value in macros.items()) + LIBRARY.replace("NAME", name))
        run = subprocess.run(["cc", "-O0", "-g", "-w", "-fPIC", "-shared", "-I", os.path.join(ROOT, "include"), source, "-o", self.path(name)],
                             capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return self.path(name)

    def model_of(self, name):
        """A model with one node, name::f, written without loading the library: the name is put into a model of a library that behaves."""
        with open(self.model, "rb") as file:
            model = file.read()
        assert len(name) == len("plainlib"), name
        path = self.path(name, ".onnx")
        with open(path, "wb") as to:
            to.write(model.replace(b"plainlib", name.encode()))
        return path


def run(*words, env=None, timeout=10 * float(LIMIT)):
    """Returns the exit status (None: it did not end in time), stdout and stderr."""
    try:
        end = subprocess.run([TENON, *words], capture_output=True, text=True, errors="replace", timeout=timeout, env={**ENVIRONMENT, **(env or {})})
        return end.returncode, end.stdout, end.stderr
    except subprocess.TimeoutExpired as late:
        return None, str(late.stdout), "it did not end in time"


def is_json(text):
    try:
        return isinstance(json.loads(text), (dict, list))
    except ValueError:
        return False


def fails(sentence, end, *words):
    """The verb has failed, in time, and says each of the words."""
    status, out, error = end
    tell(sentence, status not in (0, None) and all(re.search(word, out + error) for word in words), end)


def loading(kit):
    """A library that misbehaves while it is loaded, in a constructor or in TENON_OPEN, against every verb that loads one."""
    ways = {"does_exit": "exit|ended the process", "does__exit": "exit|ended the process", "does_abort": "Aborted", "does_hang": "did not end within 3 s",
            "does_overflow": "crashed|stack"}
    for number, (way, words) in enumerate(ways.items()):
        for place in "CONSTRUCTOR", "OPEN":
            name = f"loading{number}" if place == "CONSTRUCTOR" else f"opening{number}"
            library = kit.build(name, **{place: way if place == "CONSTRUCTOR" else f"{way}(); return TENON_OK"})
            verbs = {"check": ("check", library, "--limit", LIMIT), "ops": ("ops", library), "run": ("run", kit.model_of(name), "--ops", library, "-i", "ones")}
            if place == "CONSTRUCTOR":
                verbs.update({"show": ("show", name + "::f", "--ops", library), "doctor": ("doctor", "--load", library),
                              "bench": ("bench", library, "f", "-s", "0.01"), "model": ("model", name + "::f", "--ops", library, "-i", "x=f32[4]", "-o", kit.path("new", ".onnx")),
                              "build": ("build", kit.path(name, ".c"), "-o", kit.path("built_" + name))})
            for verb, line in verbs.items():
                file = os.path.basename(kit.path("built_" + name) if verb == "build" else library)
                fails(f"tenon {verb} of a library of which {place} {way} fails, and says which and how", run(*line), re.escape(file), words)
            status, out, error = run("check", library, "--limit", LIMIT, "--json")
            tell(f"tenon check --json of such a library ({place} {way}) prints JSON with the error, status 2", status == 2 and is_json(out) and "error" in json.loads(out), (status, out, error))


def devices(kit):
    """`tenon check --device` of a library that ends the process, or hangs, while it is loaded."""
    for way, words in {"does__exit": "ended the process", "does_hang": "did not end within", "does_abort": "crashed"}.items():
        library = kit.build("devicelib", CONSTRUCTOR=way)
        for extra in (), ("--json",):
            end = run("check", "--device", library, "--limit", LIMIT, *extra)
            fails(f"tenon check --device {' '.join(extra)} of a library whose constructor {way} fails", end, words)
            if extra:
                tell(f"and prints JSON ({way})", is_json(end[1]), end)


def kernels(kit):
    """exit and _exit in a kernel are errors of every command that runs it."""
    for name, way in {"kexitlib": "exit(0)", "k_exitli": "_exit(0)"}.items():
        library = kit.build(name, KERNEL=way)
        model = kit.model_of(name)
        words = [f"{name}::f"] if way == "exit(0)" else ["tenon_fail"]
        for verb, line in {"run": ("run", model, "--ops", library, "-i", "ones"), "bench": ("bench", library, "f", "-s", "0.01")}.items():
            status, out, error = run(*line)
            tell(f"tenon {verb} with a kernel that calls {way} is an error, and says so", status == 1 and "exit" in error and all(w in error for w in words), (status, out, error))
        fails(f"tenon check finds a kernel that calls {way}", run("check", library, "--limit", LIMIT), "crash.exit")
    for name, place in {"iexitlib": "INFER", "cexitlib": "CREATE"}.items():
        library = kit.build(name, STATE="1", **{place: "exit(0)"})
        status, out, error = run("run", kit.model_of(name), "--ops", library, "-i", "ones")
        tell(f"tenon run with exit(0) in {place} is an error that names the operator", status == 1 and f"{name}::f" in error and "exit" in error, (status, out, error))


def selections(kit):
    """A --case that selects nothing is an error, for operators as for devices, and a prefix is enough for both."""
    library = kit.path("plainlib")
    for words, suggestion in (["--case", "nosuchcase"], ""), (["--case", "call.plian"], "call.plain"), (["--case", "call.plain@nolabel"], ""):
        for extra in [], ["--json"]:
            status, out, error = run("check", library, *words, *extra)
            tell(f"tenon check {' '.join(words + extra)} is refused", status == 2 and "--case" in error and suggestion in error and (not extra or is_json(out)), (status, out, error))
    for words in ["--case", "nosuchcase"], ["--case", "copied"]:
        status, out, error = run("check", "--device", library, *words)
        tell(f"tenon check --device {' '.join(words)} is refused", status == 2 and "no case begins so" in error and ("copies." in error or words[1] != "copied"), (status, out, error))
    device = os.path.join(BUILD, "tests", "vx.so")
    if not os.path.isfile(device):
        return skip("prefixes of cases of devices", "the target vx is not built")
    counts = {}
    for case in "copies", "copies.", "copies.o":
        status, out, error = run("check", "--device", device, "--case", case, "--quick", timeout=120)
        counts[case] = int(re.search(r"(\d+) passed", out)[1]) if status == 0 else 0
    tell("a prefix selects cases of devices, with and without its dot", counts["copies"] == counts["copies."] > counts["copies.o"] > 2, counts)


def silence(kit):
    """An operator of which no call succeeds has not passed; a status that does not exist, and a failure without a reason, are findings."""
    for number, (kernel, finding) in enumerate({'return tenon_fail(call, TENON_INTERNAL, "always")': "samples.missing", "return (tenon_status_t)77": "failure.status",
                                                "return (tenon_status_t)-5": "failure.status", "return TENON_INTERNAL": "failure.silent"}.items()):
        library = kit.build(f"silent{number}", KERNEL=kernel)
        for extra in [], ["--no-notes"], ["--json"], ["-j", "1"]:
            status, out, error = run("check", library, *extra)
            passed = json.loads(out)["passed"] if "--json" in extra else int(re.search(r"(\d+) passed", out)[1])
            tell(f"tenon check {' '.join(extra)} does not pass a kernel that does {kernel}", status == 1 and finding in out and passed == 0, (status, out, error))
    library = kit.build("silent9", INFER="return TENON_INVALID")
    status, out, error = run("check", library)
    tell("tenon check does not pass an operator whose infer refuses every call", status == 1 and "0 passed" in out, (status, out, error))
    status, out, error = run("check", library, "--except", "samples.missing", "--except", "failure.silent")
    tell("but findings that are known can be excepted", status == 0, (status, out, error))


def overruns(kit):
    """A kernel that writes far past its result destroys the heap, and sometimes the stack. The report still names what crashed."""
    for count in 1000, 20000, 100000, 10000000:
        name = f"ov{count // 1000:06d}"
        library = kit.build(name, KERNEL=f"fill(call->outputs[0]->data, {count}); return TENON_OK")
        status, out, error = run("run", kit.model_of(name), "--ops", library, "-i", "ones")
        at = "(crashed in |#0 +)fill .*|in " + name + "::f" if count >= 100000 else "crashed in |in " + name + "::f"
        tell(f"a kernel that writes {count} floats to a result of one: the report says what crashed", status not in (0, None) and re.search(at, error), (status, out, error))
    library = kit.build("stackove", KERNEL="volatile float room[4]; fill(room, 40000000); return TENON_OK")
    status, out, error = run("run", kit.model_of("stackove"), "--ops", library, "-i", "ones")
    tell("a kernel that overwrites the whole stack: the report names its function", status not in (0, None) and re.search(r"\bfill\b.*stackove", error), (status, out, error))


def destructors(kit):
    """A destructor that ends the process or hangs cannot be prevented, but its command does not succeed."""
    ways = {"does__exit": None, "does_abort": "destructor", "does_hang": "destructor"}
    for number, (way, word) in enumerate(ways.items()):
        name = f"destroy{number}"
        library = kit.build(name, DESTRUCTOR="_exit(7); does_exit" if way == "does__exit" else way)
        for verb, line in {"ops": ("ops", library), "run": ("run", kit.model_of(name), "--ops", library, "-i", "ones"), "check": ("check", library, "--limit", LIMIT)}.items():
            fails(f"tenon {verb} of a library whose destructor {way} fails, and says so", run(*line), word or "destructor")


def python(kit):
    """`tenon.load` in a process of its own. In the process of the program nothing can outlive _exit (docs/isolation.md)."""
    if not os.path.isdir(os.path.join(BUILD, "python", "tenon")):
        return skip("tenon.load", "the package is not built")
    for number, way in enumerate(("does_exit", "does__exit", "does_abort", "does_hang", "does_overflow")):
        library = kit.build(f"python{number}", CONSTRUCTOR=way)
        code = f"import tenon, sys\ntry: tenon.load({library!r}, isolated={{'deadline': 3}})\nexcept tenon.Error as e: print(e); sys.exit(3)"
        try:
            end = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={**ENVIRONMENT, "PYTHONPATH": os.path.join(BUILD, "python")})
        except subprocess.TimeoutExpired:
            tell(f"tenon.load(isolated) of a library whose constructor {way} ends", False, "not in time")
            continue
        tell(f"tenon.load(isolated) of a library whose constructor {way} raises an error that names it", end.returncode == 3 and f"python{number}" in end.stdout and "not found" not in end.stdout, (end.returncode, end.stdout, end.stderr))


def main():
    with tempfile.TemporaryDirectory() as folder:
        kit = Kit(folder)
        library = kit.build("plainlib")
        status, out, error = run("model", "plainlib::f", "--ops", library, "-i", "x=f32[4]", "-o", kit.model)
        tell("a library that behaves can be used", status == 0 and run("run", kit.model, "--ops", library, "-i", "ones")[0] == 0, error)
        tell("and is checked", run("check", library)[0] == 0, run("check", library))
        for part in loading, devices, kernels, selections, silence, overruns, destructors, python:
            part(kit)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
