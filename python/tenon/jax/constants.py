"""Tensors as attributes of calls."""
import dataclasses

import numpy as np

from .dtypes import DTYPES, NAMES


@dataclasses.dataclass(frozen=True)
class Constant:
    """A tensor that is an attribute: hashable, and equal to another one with the same contents.

    dtype: Tenon's name.  data: the elements in row-major order.
    """
    dtype: str
    shape: tuple
    data: bytes

    @classmethod
    def of(cls, array):
        native = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="), copy=False)
        return cls(NAMES[native.dtype], array.shape, native.tobytes())

    def array(self):
        return np.frombuffer(self.data, DTYPES[self.dtype]).reshape(self.shape)

    def literal(self):
        """The constant in the text of a custom call; bridges/common/call_text.c reads it."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}] {self.data.hex()}"
