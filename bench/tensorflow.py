"""The cost of a call in TensorFlow: examples/01_gelu through Tenon, beside the same loop registered with TensorFlow by hand in C++ (compiled here, a minute).

    .venv-tensorflow/bin/python bench/tensorflow.py [BUILD]

Prints microseconds, and the ratio of both as the median of alternating rounds: one call outside of graphs, and one of a hundred calls in a function. The last line
is the time that `import tenon.tensorflow` and the registration of ten operators take after TensorFlow has been imported.
"""
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build"))
HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path[:] = [os.path.join(BUILD, "python"), *(p for p in sys.path if os.path.abspath(p) != HERE)]  # this file is called tensorflow.py
import tensorflow as tf

FOLDER = tempfile.mkdtemp(prefix="tenon-bench-")
TEN = os.path.join(FOLDER, "ten.so")
subprocess.run([os.path.join(BUILD, "tenon"), "build", os.path.join(ROOT, "tests", "libraries", "hosts", "ten.c"), "-o", TEN], check=True, stdout=subprocess.DEVNULL)
import tenon
import tenon.tensorflow

BEGINNING = """
import sys, time
import tensorflow
begin = time.perf_counter()
import tenon, tenon.tensorflow
tenon.tensorflow.register(tenon.load(sys.argv[1]))
print((time.perf_counter() - begin) * 1e3)
"""


def registered(rounds=6):
    """The time that a process needs to import and register ten operators, once Python has compiled the modules, as pip does."""
    env = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python"), "PYTHONPYCACHEPREFIX": os.path.join(FOLDER, "modules")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return min(float(subprocess.run([sys.executable, "-c", BEGINNING, TEN], check=True, capture_output=True, text=True, env=env, cwd=FOLDER).stdout) for _ in range(rounds))


def hand():
    """Builds and loads the operator in C++."""
    loop, library = os.path.join(FOLDER, "hand.o"), os.path.join(FOLDER, "hand.so")
    subprocess.run(["cc", "-O3", "-march=native", "-fPIC", "-c", os.path.join(HERE, "tensorflow_hand.c"), "-o", loop], check=True)
    subprocess.run(["c++", "-O2", "-w", "-fPIC", "-shared", *tf.sysconfig.get_compile_flags(), os.path.join(HERE, "tensorflow_hand.cc"), loop, "-o", library, *tf.sysconfig.get_link_flags()], check=True)
    return tf.load_op_library(library).hand_gelu


def cost(function, count):
    begin = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - begin) / count * 1e6


def compare(what, own, other, count, rounds=21):
    pairs = [(cost(own, count), cost(other, count)) for _ in range(rounds)][1:]
    ratios = sorted(a / b for a, b in pairs)
    print(f"{what:28} {min(a for a, _ in pairs):10.2f} {min(b for _, b in pairs):10.2f} {ratios[len(ratios) // 2]:8.3f}")


def repeated(operator):
    @tf.function
    def function(x):
        for _ in range(100):
            x = operator(x)
        return x
    return function


def main():
    own, other = tenon.tensorflow.register(tenon.load(os.path.join(ROOT, "examples", "01_gelu", "gelu.c"))).gelu, hand()
    print(f"{'microseconds':28} {'Tenon':>10} {'by hand':>10} {'ratio':>8}")
    for size in (10, 1000, 100000):
        x, count = tf.random.normal([size]), 2000 if size < 5000 else 100
        compare(f"a call, {size} elements", lambda: own(x), lambda: other(x), count)
        mine, theirs = repeated(own), repeated(other)
        compare(f"100 calls, {size} elements", lambda: mine(x), lambda: theirs(x), max(2, count // 100))
    print(f"import and registration of ten operators: {registered():.1f} ms")


if __name__ == "__main__":
    main()
