"""Whole models that ONNX Runtime's optimizer and quantisers have written agree with ONNX Runtime, at each size of their inputs.

tests/models_gen/make_exported.py exports the models in .venv-zoo, and make_models.py rewrites them in .venv.  A run takes one share of the exported
models, chosen by the number of commits; TENON_CONTRIB=whole takes all of them.  TENON_CONTRIB_MODELS names a folder with exported models to use."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "tests/adapters")]

import tenon  # noqa: E402
import totals  # noqa: E402

ZOO = ROOT / ".venv-zoo"
SHARES = [["bert-script"], ["gpt2-script", "t5-script"], ["vit-script", "llama-script"]]
WHOLE = ["bert", "bert-23", "bert-script", "distilbert-script", "gpt2", "gpt2-script", "t5", "t5-script", "whisper", "vit", "vit-script", "llama-script",
         "phi-script", "gemma-script", "resnet-script"]
# The largest difference, as a share of the largest element (or of 1). Quantised models: a sum that is rounded to the other side moves the result
# by a step of its scale, which the layers behind it multiply.
FLOATS, QUANTISED = 2e-5, 3e-2


def is_quantised(name):
    return any(word in name for word in ("dynamic", "qdq", "qoperator"))


def chosen():
    if os.environ.get("TENON_CONTRIB") == "whole":
        return WHOLE
    count = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return SHARES[int(count or 0) % len(SHARES)]


def run(*command):
    made = subprocess.run([*command], capture_output=True, text=True)
    print("".join(line + "\n" for line in made.stdout.splitlines() if line.startswith("skip: ")), end="")
    if made.returncode:
        raise AssertionError(made.stderr)


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (ZOO / "bin/python").exists():
            raise unittest.SkipTest(f"{ZOO} is missing (make setup makes it)")
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.exported = pathlib.Path(os.environ.get("TENON_CONTRIB_MODELS", f"{place.name}/exported"))
        cls.folder = pathlib.Path(place.name) / "rewritten"
        if "TENON_CONTRIB_MODELS" not in os.environ:
            run(ZOO / "bin/python", ROOT / "tests/models_gen/make_exported.py", cls.exported, *chosen())
        models = [cls.exported / f"{name}.onnx" for name in chosen()]
        packages = next((ZOO / "lib").glob("python3*/site-packages"))
        run(sys.executable, ROOT / "tests/acceptance/contrib/make_models.py", packages, cls.folder, *models)

    def agree(self, path):
        data = np.load(self.exported / f"{path.stem.split('+')[0]}.npz", allow_pickle=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        executable = tenon.graph.load(path).compile()
        names = [port.name for port in session.get_inputs()]
        most = QUANTISED if is_quantised(path.stem) else FLOATS
        for size in sorted({key.rsplit(".", 1)[1] for key in data}):
            values = {name: data[f"{name}.{size}"] for name in names}
            expected = session.run(None, values)
            found = executable(**values)
            for port, got, wanted in zip(session.get_outputs(), found if isinstance(found, tuple) else (found,), expected, strict=True):
                with self.subTest(model=path.stem, size=size, output=port.name):
                    got = np.asarray(got)
                    self.assertEqual((got.shape, got.dtype), (wanted.shape, wanted.dtype))
                    gap = np.max(np.abs(got - wanted)) / max(1.0, np.max(np.abs(wanted)))
                    if os.environ.get("VERBOSE"):
                        print(f"{path.stem} {size} {port.name}: {gap:.2g}")
                    self.assertLessEqual(gap, most)

    def test_rewritten_models(self):
        models = sorted(self.folder.glob("*.onnx"))
        self.assertGreaterEqual(len(models), 12 * len(chosen()))
        for path in models:
            with self.subTest(model=path.stem):
                self.agree(path)


if __name__ == "__main__":
    totals.main()
