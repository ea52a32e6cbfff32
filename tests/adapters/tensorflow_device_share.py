"""Which part of the long tests of a device in TensorFlow a run takes."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def share(cases):
    """Returns all cases, or those of TENSORFLOW_SHARE: "2/5" is every fifth case, from the third on; "commit/5" the share of this commit."""
    wanted = os.environ.get("TENSORFLOW_SHARE")
    if not wanted:
        return list(cases)
    index, of = wanted.split("/")
    if index == "commit":
        index = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return list(cases)[int(index) % int(of)::int(of)]
