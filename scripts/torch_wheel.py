"""Writes the wheel libtenon-torch: the C++ parts of a Tenon device and of the autograd node, compiled for the release of PyTorch that runs this.

    PYTHONPATH=build/python .venv-zoo/bin/python scripts/torch_wheel.py FOLDER      (make torch-wheel)

The libraries are those of tenon/torch/device/build.py, which compiles them or takes them from the cache.  Their names say which PyTorch and which Tenon
they fit.  The wheel holds no other code, and serves every Python for which that PyTorch exists.
"""
import base64
import hashlib
import os
import sys
import sysconfig
import zipfile

import tenon
from tenon.torch.device import build

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAME = build.PACKAGE
INFO = f"{NAME}-{tenon.__version__}.dist-info"
PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")
METADATA = f"""Metadata-Version: 2.1
Name: {NAME.replace("_", "-")}
Version: {tenon.__version__}
Summary: The C++ parts of Tenon for PyTorch {build.release()}, compiled
Requires-Python: >=3.9
Requires-Dist: libtenon=={tenon.__version__}
Requires-Dist: torch=={build.release()}
"""
WHEEL = f"""Wheel-Version: 1.0
Generator: scripts/torch_wheel.py
Root-Is-Purelib: false
Tag: py3-none-{PLATFORM}
"""


def read(path):
    with open(path, "rb") as file:
        return file.read()


def files():
    """Returns {name in the wheel: contents}."""
    return {f"{NAME}/__init__.py": b'"""The C++ parts of Tenon for PyTorch, which tenon.torch finds here."""\n',
            **{f"{NAME}/{build.prebuilt_name(part)}": read(build.library(part)) for part in ("torch_device", "torch_autograd")},
            f"{INFO}/METADATA": METADATA.encode(),
            f"{INFO}/WHEEL": WHEEL.encode(),
            f"{INFO}/LICENSE": read(os.path.join(ROOT, "LICENSE"))}


def record(contents):
    """Returns the list of the files and their hashes, which the wheel contains as well."""
    lines = [f"{INFO}/RECORD,,\n"]
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(lines).encode()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    contents = files()
    contents[f"{INFO}/RECORD"] = record(contents)
    os.makedirs(sys.argv[1], exist_ok=True)
    path = os.path.join(sys.argv[1], f"{NAME}-{tenon.__version__}-py3-none-{PLATFORM}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name)  # without the time, so that the same library gives the same wheel
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    print(f"{path}: {os.path.getsize(path) / 1e6:.1f} MB, for PyTorch {build.release()}")


if __name__ == "__main__":
    main()
