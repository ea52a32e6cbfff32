"""Writes docs/tensorflow_operators.md, the operators of TensorFlow that operators of Tenon compute on a device, from the table.

    scripts/tensorflow_operators.py BUILD             writes the page (TensorFlow is not needed)
    scripts/tensorflow_operators.py BUILD --check     fails if the page is not what the table says
"""
import ctypes
import os
import re
import sys

from page import write

HEAD = """# Operators of TensorFlow on a Tenon device

After reading this page you can tell which operators of Tenon compute an operator of TensorFlow on a
[Tenon device](devices.md#a-device-of-tensorflow), and so which kernels a device needs. `make support` writes this page from
`bridges/tensorflow_device/operators.c`; do not edit it by hand.

Names are inputs and attributes of TensorFlow's operator, or those of an earlier statement. A call without `core::` is a
function of the plug-in, for example `nchw` for a view with the channels first. A kernel is registered for those of the
dtypes for which the device has kernels of all operators in the formula; everything else runs on the CPU. Operators that
TensorFlow itself has for every device (`Reshape`, `Identity`, `Shape`, control flow) are not listed.

| operator of TensorFlow | dtypes | computed by |
|---|---|---|
"""
DTYPES = {"F": "f32", "D": "f64", "H": "f16", "B": "bf16", "L": "i64", "I": "i32", "O": "bool"}


class Row(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("op", "signature", "types", "formula")]


def rows(build):
    library = ctypes.CDLL(os.path.join(os.path.abspath(build), "libtenon_tensorflow_device.so"))
    library.tenon_tensorflow_rows.restype = ctypes.POINTER(Row)
    count = ctypes.c_int32()
    table = library.tenon_tensorflow_rows(ctypes.byref(count))
    return sorted(tuple(getattr(table[i], name).decode() for name, _ in Row._fields_) for i in range(count.value))


def described(types):
    names = [part.split("=") for part in types.split()]
    return "; ".join(f"{name}: {', '.join(DTYPES[letter] for letter in letters)}" for name, letters in names) or "bool"


def page(build):
    lines = []
    for op, _, types, formula in rows(build):
        parts = [re.sub(r"\s+", " ", part).strip() for part in formula.split(";")]
        lines.append(f"| `{op}` | {described(types)} | " + "<br>".join(f"`{part}`" for part in parts) + " |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    sys.exit(write("tensorflow_operators.md", page(sys.argv[1])))
