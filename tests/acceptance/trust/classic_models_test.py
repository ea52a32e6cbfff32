"""Models of scikit-learn, XGBoost and LightGBM agree with ONNX Runtime at each size of their inputs.

The models come from tests/models_gen/make_classic.py, in the environment that TENON_CLASSIC_PYTHON names (default: .venv-classic), or from the folder
TENON_CLASSIC_MODELS, where it has been run before.  A list of maps is compared as the matrix of its values."""
import os
from pathlib import Path

from generated_models import ROOT, GeneratedModels
import totals


class ClassicModels(GeneratedModels):
    FOLDER = "TENON_CLASSIC_MODELS"
    PYTHON = Path(os.environ.get("TENON_CLASSIC_PYTHON", ROOT / ".venv-classic/bin/python"))
    GENERATOR = ["make_classic.py"]

    def test_every_model(self):
        self.compare_all(sorted(self.folder.glob("*.onnx")), 61)


if __name__ == "__main__":
    totals.main()
