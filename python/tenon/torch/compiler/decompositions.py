"""The operators that PyTorch takes apart before Tenon sees them."""
import functools

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from .calls import ROWS

aten = torch.ops.aten

# Operators that the core set of ATen keeps, and that PyTorch's own decompositions take apart as Tenon needs it.
_MORE = [aten.batch_norm_backward, aten.lcm, aten.linalg_vector_norm, aten.tril_indices, aten.triu_indices]


@functools.lru_cache(maxsize=1)
def decompositions():
    """PyTorch's decompositions to the core set of ATen, and some more; without the operators that Tenon lowers whole."""
    found = dict(core_aten_decompositions())
    for packet in _MORE:
        for name in packet.overloads():
            overload = getattr(packet, name)
            if overload in decomposition_table:
                found[overload] = decomposition_table[overload]
    return {overload: function for overload, function in found.items() if overload not in ROWS}
