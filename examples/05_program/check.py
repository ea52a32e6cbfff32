"""Builds the program and compares what it prints with NumPy."""
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def main():
    build, compiler = os.path.dirname(os.path.abspath(sys.argv[1])), os.environ.get("CXX", "c++")
    if not shutil.which(compiler):
        print(f"skip: there is no {compiler} (apt-get install g++)")
        return
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program")
        subprocess.run([compiler, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-I", os.path.join(ROOT, "include"), os.path.join(HERE, "program.cc"), "-o", program,
                        "-L", build, "-ltenon", f"-Wl,-rpath,{build}"], check=True)
        out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    found = {line.split()[0]: np.array(line.split()[1:], np.float64) for line in out.splitlines()}
    x = np.array([-2, -1, -0.5, 0.5, 1, 2])
    expected = {"bend": x + np.sin(3 * x), "gradient": 1 + 3 * np.cos(3 * x), "distances": np.linalg.norm(x.reshape(2, 3) - [0, 1, 2], axis=1),
                "leaky": np.where(x < 0, 0.1 * x, x), "relu": np.maximum(x, 0), "again": found["noise"]}
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    assert len(found["noise"]) == 4 and len(set(found["noise"])) == 4
    print(f"{len(expected)} results of operators that a program defined equal NumPy's")


if __name__ == "__main__":
    main()
