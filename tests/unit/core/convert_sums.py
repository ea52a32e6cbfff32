"""Prints the sums of convert_test.c: FNV-1a over tables that NumPy and ml_dtypes make."""
import ml_dtypes as m
import numpy as np

KINDS = [("F16", np.float16), ("BF16", m.bfloat16), ("F8E3M4", m.float8_e3m4), ("F8E4M3", m.float8_e4m3),
         ("F8E5M2", m.float8_e5m2), ("F8E4M3FN", m.float8_e4m3fn), ("F8E4M3FNUZ", m.float8_e4m3fnuz),
         ("F8E4M3B11FNUZ", m.float8_e4m3b11fnuz), ("F8E5M2FNUZ", m.float8_e5m2fnuz), ("F8E8M0", m.float8_e8m0fnu)]


def fnv(data):
    value = 14695981039346656037
    for byte in data:
        value = ((value ^ byte) * 1099511628211) & (2**64 - 1)
    return value


def widened(kind, patterns):
    wide = patterns.view(kind).astype(np.float32)
    return np.where(np.isnan(wide), np.uint32(0x7FC00000), wide.view(np.uint32))


def narrowed(name, kind, patterns):
    x = (np.arange(65536, dtype=np.uint64) * 0x10001).astype(np.uint32).view(np.float32)
    largest = float(m.finfo(kind).max)
    if name == "F8E8M0":
        clipped = np.clip(np.abs(x), np.float32(2.0**-126), np.float32(2.0**127))
    elif "FN" in name:
        clipped = np.clip(x, -largest, largest)
    else:
        clipped = x
    out = np.where(np.isnan(x), x, clipped).astype(np.float32).astype(kind)
    ones = patterns.dtype.type(-1 & (0xFFFF if patterns.itemsize == 2 else 0xFF))
    return np.where(np.isnan(out.astype(np.float32)), ones, out.view(patterns.dtype))


np.seterr(all="ignore")
for name, kind in KINDS:
    unsigned = np.uint16 if np.dtype(kind).itemsize == 2 else np.uint8
    patterns = np.arange(65536 if unsigned is np.uint16 else 256, dtype=unsigned)
    print(f"    {{TENON_{name}, 0x{fnv(widened(kind, patterns).tobytes()):016x}u,"
          f" 0x{fnv(narrowed(name, kind, patterns).tobytes()):016x}u}},")
