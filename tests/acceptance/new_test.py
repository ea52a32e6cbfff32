"""`tenon new` as a new user tries it: Tenon is installed into an empty prefix, a project of each kind is created, and every command in its README
is run there. Results are compared with NumPy's, computed here. A command that needs a program that is not installed, or a verb that this build
lacks, is skipped with the reason."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
random = np.random.default_rng(7)
f4 = lambda *shape: random.normal(0, 3, shape).astype("f4")


def hann(row):
    window = np.array([0.25, 0.75, 1, 0.75, 0.25]) / 3
    return np.convolve(row, window, "same")


def light(levels):
    v = levels / 255
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


KINDS = {  # inputs of the model, and its expected outputs
    "pointwise": (dict(x=f4(6, 4)), lambda x: 2 * np.tanh(-x / 2)),
    "reduction": (dict(x=f4(6, 33)), lambda x: np.sqrt((x.astype("f8") ** 2).mean(1))),
    "stateful": (dict(x=f4(6, 33)), lambda x: np.abs([hann(row) for row in x.astype("f8")])),
    "mutating": (dict(mean=f4(6, 4), x=f4(6, 4)), lambda mean, x: -(0.75 * mean + 0.25 * x)),
    "composite": (dict(x=f4(6, 4), gate=f4(4)), lambda x, gate: -x / (1 + np.exp(-gate))),
    "source": (dict(x=f4(6, 4), b=f4(4)), lambda x, b: -0.75 * x + 0.25 * b),
    "library": (dict(x=random.integers(0, 256, (6, 4)).astype("u1"), by=f4(4)), lambda x, by: light(x) * by),
}
passed = failed = skipped = 0


def ok(good, sentence, words=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok  " if good else "FAIL", sentence, flush=True)
    if not good:
        print(words[-3000:])
    return good


def skip(sentence, why):
    global skipped
    skipped += 1
    print(f"skip: {sentence}: {why}")


class User:
    def __init__(self, work):
        self.prefix, self.work = os.path.join(work, "prefix"), work
        keep = {key: os.environ[key] for key in ("LANG", "LC_ALL", "CCACHE_DIR", "HOME") if key in os.environ}
        self.env = dict(keep, PATH=os.pathsep.join([f"{self.prefix}/bin", os.path.dirname(sys.executable), os.environ["PATH"]]), TENON_CACHE=f"{work}/cache")
        ok(*self.run(f"cmake --install {BUILD} --prefix {self.prefix}", ROOT, "Tenon is installed into an empty prefix"))

    def run(self, command, folder, sentence=None):
        result = subprocess.run(["bash", "-ec", command], cwd=folder, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        return (result.returncode == 0, sentence, result.stdout) if sentence else (result.returncode, result.stdout)

    def lacks(self, command):
        """Returns why a command cannot be tried, or None if it can."""
        words = command.split()
        if words[0] == "gdb" and not shutil.which("gdb"):
            return "gdb is not installed"
        if words[0] == "cmake" and not shutil.which("cmake"):
            return "cmake is not installed"
        if words[:2] == ["tenon", "check"] and "LIB.so" not in self.run("tenon check --help", self.work)[1].splitlines()[0]:
            return "this build's `tenon check` is for devices alone"
        return None


def commands_of(readme):
    with open(readme, encoding="utf-8") as file:
        blocks = re.findall(r"^```sh\n(.*?)^```", file.read(), re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def run_model(user, folder, kind, inputs, expected):
    command = f"tenon run model.onnx --ops ./my_{kind}.so -o results"
    for name, array in inputs.items():
        np.save(f"{folder}/{name}.npy", array)
        command += f" -i {name}=@{name}.npy"
    good, sentence, words = user.run(command, folder, f"{kind}: the model gives what NumPy does")
    if good:
        worst = np.abs(np.load(f"{folder}/results/out.npy") - expected(**inputs)).max()
        good, words = worst < 1e-5, f"largest difference {worst}"
    ok(good, sentence, words)


def check_kind(user, kind):
    name, folder = f"my_{kind}", f"{user.work}/my_{kind}"
    begin = time.monotonic()
    if not ok(*user.run(f"tenon new {name} --kind {kind}", user.work, f"{kind}: tenon new")):
        return
    ran, since = False, 0
    for command in commands_of(f"{folder}/README.md"):
        why = user.lacks(command)
        if why:
            skip(f"{kind}: {command}", why)
            continue
        code, words = user.run(command, folder)
        ok(code == 0, f"{kind}: {command}", words)
        if command.startswith("gdb"):
            ok(re.search(r"Breakpoint 1, \w", words), f"{kind}: gdb stops in the operator", words)
        if command.startswith("tenon run") and not ran:
            ran, since = True, time.monotonic() - begin
    print(f"{kind}: {since:.1f} s from tenon new to the model's result, with all commands between")
    run_model(user, folder, kind, *KINDS[kind])
    built = f"{folder}/build/{name}.so"
    exported = subprocess.run(["nm", "-D", "--defined-only", built], capture_output=True, text=True).stdout.split()[2::3]
    ok(exported == ["tenon_library"], f"{kind}: CMake's library exports one function", str(exported))
    for file in ("c_cpp_properties", "launch", "settings", "tasks"):
        with open(f"{folder}/.vscode/{file}.json", encoding="utf-8") as text:
            json.load(text)
    left = subprocess.run(["grep", "-rnE", "@[A-Z_]+@", folder, "--include=*", "-I"], capture_output=True, text=True).stdout
    ok(not left, f"{kind}: nothing of the template is left", left)


def check_refusals(user):
    for words, expected in (
        ("3d", "a name that begins with a letter"),
        ("a-b", "letters, digits and _ only"),
        ("double", "a name that is not reserved by C or Tenon"),
        ("core", "a name that is not reserved by C or Tenon"),
        ("", "a name that begins with a letter"),
        ("x" * 61, "a name of at most 60 characters"),
        ("fine --kind pontwise", "did you mean 'pointwise'"),
    ):
        code, said = user.run(f"tenon new {words or repr('')}", user.work)
        ok(code != 0 and expected in said, f"tenon new {words[:30]}: refused, {expected}", said)
    os.makedirs(f"{user.work}/full")
    for name in ("one.c", "two.c"):
        open(f"{user.work}/full/{name}", "w").close()
    code, said = user.run("tenon new fine --dir full", user.work)
    ok(code == 1 and "one.c, two.c" in said and sorted(os.listdir(f"{user.work}/full")) == ["one.c", "two.c"], "a folder with files is left alone, and the files are named", said)
    os.makedirs(f"{user.work}/empty")
    ok(*user.run("tenon new fine --dir empty && ls empty/fine.c", user.work, "an empty folder is taken"))
    code, said = user.run("tenon new --list", user.work)
    ok(code == 0 and all(re.search(rf"^{kind} ", said, re.M) for kind in KINDS), "--list has every kind", said)
    code, said = user.run(f"PATH={user.prefix}/bin {user.prefix}/bin/tenon new bare", user.work)
    ok(code == 0 and "model.onnx was not created" in said and os.path.exists(f"{user.work}/bare/bare.c"), "without a compiler the folder is made, and it says what lacks", said)


def main():
    with tempfile.TemporaryDirectory() as work:
        user = User(work)
        for kind in KINDS:
            check_kind(user, kind)
        check_refusals(user)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
