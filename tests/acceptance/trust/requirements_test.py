"""Every package that scripts/venv.sh installs is pinned by version and by hash."""
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/adapters"))
import totals  # noqa: E402



class Requirements(unittest.TestCase):
    def test_every_package_has_a_version_and_a_hash(self):
        files = sorted((ROOT / "scripts").glob("requirements*.txt"))
        self.assertEqual(len(files), 12)
        for file in files:
            text = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", file.read_text()))
            lines = [line for line in text.splitlines() if line.strip()]
            self.assertGreaterEqual(len(lines), 2, file.name)
            for line in lines:
                self.assertRegex(line, r"^[A-Za-z0-9_.-]+==\S+( ; [^#]*?)?( +--hash=sha256:[0-9a-f]{64})+ *$", file.name)

    def test_the_script_that_installs_them_requires_hashes(self):
        self.assertIn("--require-hashes", (ROOT / "scripts/venv.sh").read_text())


if __name__ == "__main__":
    totals.main()
