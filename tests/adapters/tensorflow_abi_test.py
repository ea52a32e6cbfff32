"""What the bridge declares of TensorFlow's C interface, beside the headers of the installed release."""
import os
import shutil
import subprocess
import tempfile
import unittest

import totals

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.dirname(os.path.abspath(__file__))
COMPILER = shutil.which(os.environ.get("CXX", "c++"))


def package():
    """The folder of TensorFlow, which need not be imported."""
    import importlib.util
    return os.path.dirname(importlib.util.find_spec("tensorflow").origin)


@unittest.skipUnless(COMPILER, "there is no compiler for C++")
class Headers(unittest.TestCase):
    def compiled(self, source, folder, *options):
        """Compiles and runs the comparison with a changed tf.h; returns the finished process."""
        bridges = os.path.join(folder, "bridges")
        shutil.copytree(os.path.join(ROOT, "bridges", "tensorflow"), os.path.join(bridges, "tensorflow"))
        with open(os.path.join(bridges, "tensorflow", "tf.h"), "w", encoding="utf-8") as file:
            file.write(source)
        include = ["-I" + bridges, "-I" + os.path.join(ROOT, "include"), "-isystem", os.path.join(package(), "include")]
        text, program = os.path.join(folder, "text.o"), os.path.join(folder, "abi")
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", *include, "-c", os.path.join(bridges, "tensorflow", "text.c"), "-o", text], check=True)
        built = subprocess.run([COMPILER, "-std=c++17", "-w", *options, *include, os.path.join(HERE, "tensorflow_abi.cc"), text, "-o", program], capture_output=True, text=True, check=False)
        return built if built.returncode else subprocess.run([program], capture_output=True, text=True, check=False)

    def test_declarations_agree_with_the_headers_and_a_changed_one_does_not(self):
        with open(os.path.join(ROOT, "bridges", "tensorflow", "tf.h"), encoding="utf-8") as file:
            source = file.read()
        import tensorflow as tf
        older = ["-DTENSORFLOW_2_15_TO_2_19"] if tuple(map(int, tf.__version__.split(".")[:2])) < (2, 20) else []
        with tempfile.TemporaryDirectory() as folder:
            done = self.compiled(source, folder, *older)
            self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-3000:])
        changes = {"TF_HALF = 19": "TF_HALF = 18", "  int32_t stop;        /*": "  int64_t stop;        /*", "X(int, TF_NumInputs, (tf_context_t *))": "X(int, TF_NumInputs, (tf_context_t *, int))"}
        changed = source
        for before, after in changes.items():
            self.assertIn(before, changed)
            changed = changed.replace(before, after)
        with tempfile.TemporaryDirectory() as folder:
            done = self.compiled(changed, folder, *older)
            self.assertNotEqual(done.returncode, 0)
            for name in "TF_HALF", "TF_InputRange_Args", "TF_NumInputs":
                self.assertIn(name, done.stderr)


if __name__ == "__main__":
    totals.main()
