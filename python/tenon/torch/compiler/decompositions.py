"""The operators that PyTorch takes apart before Tenon sees them."""
import functools

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._prims_common import is_non_overlapping_and_dense_or_false

from .calls import ROWS, aten

# Not in PyTorch's list of core operators, but in its table of decompositions.
_MORE = [aten._native_batch_norm_legit_functional, aten._native_batch_norm_legit, aten.native_batch_norm, aten.batch_norm_backward,
         aten._batch_norm_with_update_functional]


def _filled_like(x, fill, dtype=None):
    """Random numbers for a tensor that depend on its shape alone, in the order of its memory, as PyTorch draws them."""
    if not is_non_overlapping_and_dense_or_false(x):
        return NotImplemented
    return fill(torch.empty_strided(x.shape, x.stride(), dtype=dtype or x.dtype, device=x.device))


def _native_dropout(x, p, train):
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    mask = _filled_like(x, lambda empty: torch.ops.aten.bernoulli.p(empty, 1 - p))
    return NotImplemented if mask is NotImplemented else (x * mask * (1 / (1 - p)), mask.to(torch.bool))


@functools.lru_cache(maxsize=1)
def decompositions():
    """PyTorch's list of operators to take apart, without those that Tenon lowers whole."""
    found = {**core_aten_decompositions(), **get_decompositions(_MORE)}
    found = {overload: function for overload, function in found.items() if overload not in ROWS}
    found[aten.native_dropout.default] = _native_dropout
    return found
