"""What this package uses of JAX beyond its documented interface, in one place; each use has an alternative for releases that lack it."""
import jax

try:
    from jax.extend.core import Primitive
except ImportError:  # before JAX 0.4.36
    from jax.core import Primitive
try:
    from jax.core import ShapedArray
except ImportError:
    from jax._src.core import ShapedArray

from jax._src import core, effects
from jax.sharding import PartitionSpec

__all__ = ["Primitive", "ShapedArray", "allow_donation", "effects_of", "explicit_shardings", "ffi", "lowered_with_devices", "register_plugin", "result_aval",
           "typed_like", "unified"]

ffi = getattr(jax, "ffi", None)
if ffi is None:  # before JAX 0.5.0
    from jax.extend import ffi


class _Effect(effects.Effect):
    """The effect of operators whose results do not follow from their inputs alone: JAX must neither drop nor repeat such calls."""

    def __str__(self):
        return "Tenon"

    def __repr__(self):  # in JAX's messages
        return "an operator of Tenon that is not declared as pure (TENON_PURE in C, traits= in Python)"


_effect = _Effect()
effects.lowerable_effects.add_type(_Effect)
effects.control_flow_allowed_effects.add_type(_Effect)


def effects_of(has_effects):
    return {_effect} if has_effects else core.no_effects


def result_aval(shape, dtype, avals, spec=None):
    """The abstract value of a result; inside of shard_map it varies over the mesh axes over which the operands vary.

    spec: how it is split, where JAX's types say so (explicit sharding); None: it is whole.
    """
    if not hasattr(core, "standard_vma_rule"):
        return ShapedArray(shape, dtype)
    varying = core.standard_vma_rule("tenon_call", *avals)
    fields = {"sharding": core.get_cur_mesh_sharding(PartitionSpec(*(spec or [None] * len(shape))))}
    if varying:
        kind = getattr(core, "ManualAxisType", None)
        fields.update({"manual_axis_type": kind(varying=varying)} if kind else {"vma": varying})
    return ShapedArray(shape, dtype, **fields)


def explicit_shardings(avals):
    """Returns the shardings of operands where JAX's types state them, otherwise None."""
    mesh = jax.sharding.get_abstract_mesh() if hasattr(jax.sharding, "get_abstract_mesh") else None
    if mesh is None or mesh.empty or not getattr(mesh, "are_all_axes_explicit", False):
        return None
    return [aval.sharding for aval in avals]


def typed_like(x, aval):
    """Splits an array as a type states, where types state it."""
    if explicit_shardings([aval]) is None or jax.typeof(x).sharding == aval.sharding:
        return x
    return getattr(jax, "reshard", getattr(jax.sharding, "reshard", None))(x, aval.sharding)


def unified(operands):
    """Makes all operands vary over the same mesh axes inside of shard_map."""
    for name in ("auto_insert_reshard", "standard_insert_pvary", "standard_insert_pbroadcast"):
        if hasattr(core, name):
            return getattr(core, name)(*operands)
    return operands


def lowered_with_devices(primitive):
    """Lets the lowering of a primitive see the devices, which partitioning needs."""
    from jax._src import dispatch
    getattr(dispatch, "prim_requires_devices_during_lowering", set()).add(primitive)


def register_plugin(name, **options):
    """Registers a platform of JAX; JAX documents this function for plug-ins."""
    from jax._src import xla_bridge
    xla_bridge.register_plugin(name, **options)


def allow_donation(platform):
    """Lets programs for a platform state which arguments are donated; JAX has a list of the platforms that can take them."""
    from jax._src.interpreters import mlir
    platforms = getattr(mlir, "_platforms_with_donation", None)
    if platforms is not None and platform not in platforms:
        platforms.append(platform)
