"""TensorFlow's dtypes by their names in Tenon, and the names by dtype."""
import tensorflow as tf
from tensorflow.python.framework import dtypes as _dtypes

_TYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
          "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool", "c64": "complex64", "c128": "complex128", "string": "string", "f8e5m2": "float8_e5m2",
          "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e4m3b11fnuz": "float8_e4m3b11fnuz", "f8e5m2fnuz": "float8_e5m2fnuz"}
DTYPES = {name: found for name, other in _TYPES.items() if (found := getattr(tf, other, getattr(_dtypes, other, None))) is not None}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
