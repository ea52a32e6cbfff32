"""The operators that PyTorch takes apart before Tenon sees them."""
import functools

import torch
import torch.nn.functional as F
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._prims_common import is_contiguous_or_false

from .calls import ROWS, aten

# Operators that the core set of ATen keeps, and that PyTorch's own decompositions take apart as Tenon needs it.
_MORE = [aten.batch_norm_backward, aten.dist, aten.lcm, aten.linalg_vector_norm, aten.tril_indices, aten.triu_indices,
         aten.upsample_bilinear2d.vec, aten.upsample_nearest2d.vec]


# Random numbers that depend on a shape alone are drawn by PyTorch before the graph runs.  For tensors that are not row-major PyTorch draws in another
# order, so that the whole operator stays with PyTorch.

def _drawn(x, draw, dtype=None):
    if not is_contiguous_or_false(x):
        return NotImplemented
    return draw(torch.empty(x.shape, dtype=dtype or x.dtype, device=x.device))


def _native_dropout(x, p, train):
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    mask = _drawn(x, lambda empty: aten.bernoulli.p(empty, 1 - p))
    return NotImplemented if mask is NotImplemented else (x * mask * (1 / (1 - p)), mask.to(torch.bool))


def _rand_like(x, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return _drawn(x, lambda empty: aten.uniform(empty, 0, 1), dtype) if memory_format in (None, torch.preserve_format) else NotImplemented


def _randn_like(x, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return _drawn(x, lambda empty: aten.normal_functional(empty, 0, 1), dtype) if memory_format in (None, torch.preserve_format) else NotImplemented


def _encoder_layer(x, width, heads, qkv_weight, qkv_bias, out_weight, out_bias, use_gelu, norm_first, eps, scale1, shift1, scale2, shift2,
                   weight1, bias1, weight2, bias2, mask=None, mask_type=None):
    """The one operator that nn.TransformerEncoderLayer becomes in inference."""
    if mask is not None or x.dim() != 3:
        return NotImplemented

    def attention(x):
        parts = F.linear(x, qkv_weight, qkv_bias).unflatten(-1, (3, heads, width // heads)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        return F.linear(mixed.transpose(1, 2).flatten(2), out_weight, out_bias)

    def feed_forward(x):
        hidden = F.linear(x, weight1, bias1)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), weight2, bias2)

    def norm1(x):
        return F.layer_norm(x, (width,), scale1, shift1, eps)

    def norm2(x):
        return F.layer_norm(x, (width,), scale2, shift2, eps)
    if norm_first:
        x = x + attention(norm1(x))
        return x + feed_forward(norm2(x))
    x = norm1(x + attention(x))
    return norm2(x + feed_forward(x))


_OWN = {aten.native_dropout.default: _native_dropout, aten.rand_like.default: _rand_like, aten.randn_like.default: _randn_like,
        aten._transformer_encoder_layer_fwd.default: _encoder_layer}


@functools.lru_cache(maxsize=1)
def decompositions():
    """PyTorch's list of operators to take apart, without those that Tenon lowers whole."""
    found = {**core_aten_decompositions(), **get_decompositions(_MORE)}
    found.pop(aten.bernoulli.default, None)  # eager PyTorch draws other numbers
    return {**{overload: function for overload, function in found.items() if overload not in ROWS}, **_OWN}
