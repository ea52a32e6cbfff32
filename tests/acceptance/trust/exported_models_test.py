"""Small neural networks that PyTorch's exporters have written agree with ONNX Runtime at two sizes of their inputs.

The models come from tests/models_gen/make_exported.py in the environment .venv-zoo, or from the folder TENON_EXPORTED_MODELS, where it has been
run before.  A run takes one share of the architectures, chosen by the number of commits; TENON_TRUST=whole takes all of them."""
import os
import subprocess
import unittest

from generated_models import ROOT, GeneratedModels
import totals

SHARES = 12


def share():
    """Which share this run takes, as the generator expects it."""
    if os.environ.get("TENON_TRUST") == "whole":
        return "0/1"
    count = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return f"{int(count or 0) % SHARES}/{SHARES}"


class ExportedModels(GeneratedModels):
    FOLDER = "TENON_EXPORTED_MODELS"
    PYTHON = ROOT / ".venv-zoo/bin/python"
    GENERATOR = ["make_exported.py", "--share", share()]

    def test_every_exported_model(self):
        models = sorted(self.folder.glob("*.onnx"))
        self.compare_all(models, 250 if share() == "0/1" else 10)


if __name__ == "__main__":
    totals.main()
