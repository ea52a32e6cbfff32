"""PyTorch dtypes by their names in Tenon, and the names by dtype."""
import torch

DTYPES = {"f16": torch.float16, "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
           "i64": torch.int64, "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64, "bool": torch.bool, "c64": torch.complex64,
           "c128": torch.complex128, "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
