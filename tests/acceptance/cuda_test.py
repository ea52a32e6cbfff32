"""CUDA. On every machine with nvcc, every source kernel of the tree, in the form that a device receives, compiles to PTX, and hand-written kernels
compile. On every machine with NVRTC, the device's own compile function compiles each kernel alone. On a machine with a GPU: the device suite,
the source kernels and operators against those of the CPU, whole models, and figures. What cannot run is skipped with the reason."""
import ast
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
TENON = os.path.join(BUILD, "tenon")
NVCC = shutil.which("nvcc") or (os.path.exists("/usr/local/cuda/bin/nvcc") and "/usr/local/cuda/bin/nvcc")
ARCHS = ("80", "90")
CUDA = "2"  # TENON_SOURCE_CUDA
PROBE = """#include <tenon/source.h>
#undef TENON_CODE
#define TENON_CODE(code, ...) TENON_KERNELS_ARE [__VA_ARGS__]
"""
BROKEN = "tests/libraries/source/broken.c"
UNUSED = "-diag-suppress=177,550"  # functions of the prelude, and variables that only other uses of a macro need
counts = {"passed": 0, "failed": 0, "skipped": 0}


def count(name, why):
    counts["failed" if why else "passed"] += 1
    if why:
        print(f"FAILED: {name}: {why}")


def skip(name, why):
    counts["skipped"] += 1
    print(f"skipped: {name}: {why}")


def call(command, **options):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=1200, **options)


def snippets(folder):
    """Writes the source kernels of the documentation to files."""
    for page in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(page, encoding="utf-8") as file:
            blocks = re.findall(r"^```c\n(.*?)^```", file.read(), re.S | re.M)
        for i, block in enumerate(b for b in blocks if "TENON_CODE(" in b):
            own = re.search(r'^#include "(\w+\.c)"', block, re.M)  # a source that includes itself
            path = os.path.join(folder, own[1] if own else f"{os.path.basename(page)[:-3]}_{i}.c")
            with open(path, "w", encoding="utf-8") as file:
                file.write(block)
            yield path


def sources(folder):
    found = []
    for place in ("ops/source/*.c", "examples/*/*.c", "tests/libraries/**/*.c", "tests/unit/**/*.c"):
        for path in sorted(glob.glob(os.path.join(ROOT, place), recursive=True)):
            with open(path, encoding="utf-8") as file:
                if "\nTENON_CODE(" in file.read() and not path.endswith(BROKEN):
                    found.append(os.path.relpath(path, ROOT))
    return found + list(snippets(folder))


def suite_kernels():
    """Returns the CUDA C++ source that the device suite compiles."""
    with open(os.path.join(ROOT, "tests/conformance/device/sources.c"), encoding="utf-8") as file:
        literals = re.search(r"static const char cuda\[\] =\n(.*?);\n", file.read(), re.S)[1]
    return "".join(ast.literal_eval(literal) for literal in re.findall(r'"(?:[^"\\]|\\.)*"', literals))


def kernels_of(path, folder):
    """Returns the kernels that TENON_CODE lists after preprocessing, for each set of constants."""
    probe = os.path.join(folder, "probe.h")
    with open(probe, "w", encoding="utf-8") as file:
        file.write(PROBE)
    done = call(["cc", "-E", "-P", "-DTENON_STATIC", "-Iinclude", "-Iops", "-include", probe, path], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    listed = re.search(r"TENON_KERNELS_ARE\s*\[(.*?)\]", done.stdout, re.S)[1]
    found, whenever = {}, []  # whenever: kernels without a function of the CPU, so with all constants
    for name, function, constants in re.findall(r'\{\s*("[^,}]*")(?:\s*,\s*(\w+)\s*(?:,\s*"([^"]*)")?)?\s*\}', listed):
        if function:
            found.setdefault(constants, []).append("".join(re.findall(r"\w+", name)))
        else:
            whenever.append(name.strip('"'))
    return {constants: sorted({*names, *whenever}) for constants, names in found.items()}


def text_of(path, kernel, constants, kernels, out):
    """Writes the source that a device receives, for one kernel or for all of them (kernel "")."""
    done = subprocess.run([os.path.join(BUILD, "tests", "source_text"), CUDA, path, kernel, constants, *kernels], capture_output=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    with open(out, "wb") as file:
        file.write(done.stdout)


def to_ptx(text, arch, out):
    return call([NVCC, "-ptx", "-std=c++17", "--fmad=false", UNUSED, "-Werror=all-warnings", f"-arch=sm_{arch}", "-o", out, text], cwd=ROOT)


def check_ptx(path, constants, kernels, folder, arch):
    text, ptx = os.path.join(folder, "text.cu"), os.path.join(folder, "text.ptx")
    text_of(path, "", constants, kernels, text)
    done = to_ptx(text, arch, ptx)
    if done.returncode:
        return (done.stdout + done.stderr)[:2000]
    with open(ptx, encoding="utf-8") as file:
        code = file.read()
    entries = re.findall(r"\.entry (\w+)\(", code)
    if sorted(entries) != sorted("tenon_k_" + name for name in kernels):
        return f"entries {sorted(entries)}, expected those of {sorted(kernels)}"
    # Without words for it a kernel has no double: where one is, a function of doubles was taken, which is slow.  CUDA's own sinf has a
    # product.
    with open(path, encoding="utf-8") as file:
        asks = re.search(r"TENON_HAS_DOUBLES|TENON_SOURCE\w*\([^)]*\bdouble\b", file.read())
    if "double" in constants or asks:
        return None
    for name, body in re.findall(r"\.entry tenon_k_(\w+)\((.*?)\n}", code, re.S):
        found = re.search(r".*\w\.f64\s.*", body)
        if found and not name.endswith(("_sin", "_cos", "_tan", "function_of")):
            return f"{name} computes in doubles: {found[0].strip()}"
    return None


def check_nvcc(folder):
    if not NVCC:
        skip("source kernels to PTX, hand-written kernels", "nvcc is not installed")
        return
    for path in sources(folder):
        for constants, kernels in kernels_of(path, folder).items():
            for arch in ARCHS:
                count(f"{os.path.basename(path)} {constants} to PTX for sm_{arch}", check_ptx(path, constants, kernels, folder, arch))
    text = os.path.join(folder, "broken.cu")
    text_of(BROKEN, "spoil", "", ["spoil"], text)
    done = to_ptx(text, ARCHS[0], os.path.join(folder, "broken.ptx"))
    said = done.stdout + done.stderr
    count("a syntax error has the author's file and line", None if done.returncode and BROKEN + "(8): error" in said and "wrong_word" in said else said[:800])
    text = os.path.join(folder, "suite.cu")
    with open(text, "w", encoding="utf-8") as file:
        file.write(suite_kernels())
    for arch in ARCHS:
        done = to_ptx(text, arch, os.path.join(folder, "suite.ptx"))
        count(f"the device suite's kernels to PTX for sm_{arch}", (done.stdout + done.stderr)[:2000] if done.returncode else None)
    for path in sorted(glob.glob(os.path.join(ROOT, "examples", "*", "*.cu"))):
        for arch in ARCHS:
            done = call([NVCC, "-ptx", "-std=c++17", f"-arch=sm_{arch}", "-I" + os.path.join(ROOT, "include"), "-o", os.path.join(folder, "own.ptx"), path])
            count(f"{os.path.relpath(path, ROOT)} to PTX for sm_{arch}", done.stderr[:2000] if done.returncode else None)
    count("examples/09_cuda is built and gives NumPy's results on the CPU", check_example(folder, "cpu"))


def check_example(folder, device):
    """Checks sizes that the hand-written kernel takes, and sizes that it leaves to the source kernel."""
    library = os.path.join(folder, "softcap.so")
    example = os.path.join(ROOT, "examples", "09_cuda")
    done = call([TENON, "build", os.path.join(example, "softcap.c"), os.path.join(example, "softcap.cu"), "-o", library])
    if done.returncode:
        return done.stderr[:2000]
    for n in (1, 4, 1000, 100003):
        node = helper.make_node("softcap", ["x"], ["y"], domain="demo", cap=3.0)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [n])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [n])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("demo", 1)])
        onnx.save(model, os.path.join(folder, "softcap.onnx"))
        x = np.random.default_rng(n).normal(0, 4, n).astype(np.float32)
        np.save(os.path.join(folder, "x.npy"), x)
        done = call([TENON, "run", "softcap.onnx", "--ops", library, "--device", device, "-i", "x=@x.npy", "-o", "."], cwd=folder)
        if done.returncode:
            return done.stderr[:800]
        worst = np.abs(np.load(os.path.join(folder, "y.npy")) - 3 * np.tanh(x.astype(np.float64) / 3)).max()
        if not worst < 2e-6:
            return f"of {n} elements one differs by {worst}"
    return None


def check_nvrtc(folder):
    program = os.path.join(BUILD, "tests", "cuda_compile")
    probe = call([program, ARCHS[0]])
    if probe.returncode == 77:
        skip("source kernels by NVRTC", probe.stdout.strip()[:300])
        return
    texts = {}
    for path in sources(folder):
        for constants, kernels in kernels_of(path, folder).items():
            for kernel in kernels:
                text = os.path.join(folder, f"{os.path.basename(path)[:-2]}.{constants}.{kernel}.cu")
                text_of(path, kernel, constants, kernels, text)
                texts[text] = kernel
    done = call([program, ARCHS[1], *texts])
    good = len(re.findall(r": CUBIN of [1-9]\d* bytes$", done.stdout, re.M))
    count(f"{len(texts)} kernels alone, by NVRTC, to machine code", None if good == len(texts) and done.returncode == 0 else done.stdout[:2000])
    print(f"  NVRTC: {good} kernels of {len(texts)}")
    done = call([program, "999", next(iter(texts))])
    count("for a GPU that NVRTC does not know it makes PTX", None if ": PTX of " in done.stdout else done.stdout[:800])
    text = os.path.join(folder, "broken.nvrtc.cu")
    text_of(BROKEN, "spoil", "", ["spoil"], text)
    done = call([program, ARCHS[0], text])
    good = done.returncode == 1 and BROKEN + "(8): error" in done.stdout and "wrong_word" in done.stdout
    count("NVRTC's errors have the author's file and line", None if good else done.stdout[:800])


def check_absent():
    """Without a driver `tenon devices` says so, and lists the other devices."""
    done = call([TENON, "devices"])
    if "cuda:0" in done.stdout:
        return True
    why = re.search(r"^cuda: does not work: (.*)", done.stdout, re.M)
    good = done.returncode == 0 and why and re.search(r"^null: \d", done.stdout, re.M)
    count("without CUDA `tenon devices` says why, and lists the others", None if good else done.stdout + done.stderr)
    skip("the suite, source kernels and models on cuda", why[1] if why else "no GPU")
    return False


def check_gpu():
    def run(name, command, **environment):
        done = call(command, cwd=ROOT, env=dict(os.environ, **environment))
        print(done.stdout[-3000:])
        count(name, None if done.returncode == 0 else f"status {done.returncode}: {done.stderr[-800:]}")

    print(call([TENON, "devices"]).stdout)
    suite = [os.path.join(BUILD, "tests", "check_device"), os.path.join(BUILD, "devices", "cuda.so")]
    run("the device suite on cuda", suite + ["--settings", os.environ.get("TENON_CUDA", "")])
    run("source kernels on cuda", [os.path.join(BUILD, "tests", "test_device_source")])
    for how, first in (("", ""), (" by source kernels alone", "cublas=off,cudnn=off,")):
        settings = (first + os.environ.get("TENON_CUDA", "")).strip(",")
        run("operators on cuda" + how, [os.path.join(BUILD, "tests", "test_device_source_ops")], TENON_CUDA=settings)
        run("models on cuda" + how, [sys.executable, os.path.join(ROOT, "tests/acceptance/device_models_test.py"), "cuda"], TENON_CUDA=settings)
    run("figures", [sys.executable, os.path.join(ROOT, "bench/cuda.py")])
    if NVCC:
        with tempfile.TemporaryDirectory() as folder:
            count("the kernel by hand on cuda", check_example(folder, "cuda"))


def main():
    os.environ["PATH"] += ":/usr/local/cuda/bin"
    has_gpu = check_absent()
    targets = ["source_text", "cuda_compile"]
    if has_gpu:
        targets += ["check_device", "cuda", "test_device_source", "test_device_source_ops"]
    made = call(["cmake", "--build", BUILD, "--target", *targets])
    if made.returncode:
        print(made.stdout[-3000:], "\n0 passed, 1 failed, 0 skipped")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        check_nvcc(folder)
        check_nvrtc(folder)
    if has_gpu:
        check_gpu()
    print(", ".join(f"{counts[name]} {name}" for name in counts))
    return counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
