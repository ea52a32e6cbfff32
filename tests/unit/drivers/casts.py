"""Prints casts.h: the conversions between floating-point types, by NumPy and ml_dtypes."""
import math
import textwrap

import ml_dtypes as m
import numpy as np

KINDS = [("F64", np.float64), ("F32", np.float32), ("F16", np.float16), ("BF16", m.bfloat16), ("F8E3M4", m.float8_e3m4),
         ("F8E4M3", m.float8_e4m3), ("F8E5M2", m.float8_e5m2), ("F8E4M3FN", m.float8_e4m3fn),
         ("F8E4M3FNUZ", m.float8_e4m3fnuz), ("F8E4M3B11FNUZ", m.float8_e4m3b11fnuz), ("F8E5M2FNUZ", m.float8_e5m2fnuz),
         ("F8E8M0", m.float8_e8m0fnu)]
COUNT = 12


def bits_of(array):
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize])


def numbers(name, kind):  # that the kind has exactly, and f32 too
    if name == "F8E8M0":
        return np.array([0, 1, 120, 126, 127, 128, 130, 140, 200, 253, 254, 255], np.uint8).view(kind)
    limits = m.finfo(kind) if name not in ("F64", "F32") else np.finfo(np.float32)
    some = [0.0, -0.0, 1.0, -1.5, 0.1, -2.7, 3.3, float(limits.max), -float(limits.max), float(limits.tiny),
            float(limits.smallest_subnormal), math.nan]
    return np.array(some, np.float32).astype(kind)


def cast(x, name, kind):
    x = x.astype(np.float32)
    if name == "F8E8M0":  # the nearest power of two, halves up
        out = []
        for value in np.abs(x.astype(np.float64)):
            if math.isnan(value):
                out.append(255)
                continue
            mantissa, exponent = math.frexp(value) if value else (0.5, -1000)
            out.append(min(254, max(0, exponent + 126 + (mantissa >= 0.75))))
        return np.array(out, np.uint8)
    if "FN" in name:
        largest = float(m.finfo(kind).max)
        x = np.where(np.isnan(x), x, np.clip(x, -largest, largest)).astype(np.float32)
    return bits_of(x.astype(kind))


def wrapped(text, indent):
    return "\n".join(textwrap.wrap(text, 100, initial_indent=indent, subsequent_indent=indent + " "))


np.seterr(all="ignore")
print("/* Made by casts.py: for each floating-point type, twelve numbers, and the bit patterns that NumPy\n"
      " * and ml_dtypes give for them in every other type. A type without an infinity clips to its largest\n"
      " * number; f8e8m0 stores the magnitude, with halves rounded up. Any NaN pattern equals any other. */")
print(f"#define CAST_COUNT {COUNT}\n#define CAST_KINDS {len(KINDS)}\n/* clang-format off */")
print(wrapped("static const uint32_t cast_ids[CAST_KINDS] = {" + ", ".join(f"TENON_{n}" for n, _ in KINDS) + "};", ""))
print("static const uint64_t cast_table[CAST_KINDS][1 + CAST_KINDS][CAST_COUNT] = {")
for name, kind in KINDS:
    x = numbers(name, kind)
    print(f"  /* {name} */")
    print(wrapped("{{" + ", ".join(hex(int(b)) for b in bits_of(x)) + "},", "  "))
    for other, to in KINDS:
        print(f"   /* {name} -> {other} */")
        print(wrapped("{" + ", ".join(hex(int(b)) for b in cast(x, other, to)) + "},", "   "))
    print("  },")
print("};\n/* clang-format on */")
