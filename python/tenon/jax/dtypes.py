"""JAX dtypes by their names in Tenon, and the names by dtype."""
import jax.numpy as jnp
import numpy as np

_TYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
          "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool", "c64": "complex64", "c128": "complex128", "f8e5m2": "float8_e5m2", "f8e4m3fn": "float8_e4m3fn",
          "f8e4m3b11fnuz": "float8_e4m3b11fnuz", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e4m3": "float8_e4m3", "f8e3m4": "float8_e3m4",
          "f8e8m0": "float8_e8m0fnu"}
DTYPES = {name: jnp.dtype(getattr(jnp, other, other)) for name, other in _TYPES.items() if hasattr(jnp, other) or hasattr(np, other)}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
