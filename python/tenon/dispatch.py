"""Queries of the dispatcher: which kernel would run for a dispatch key, which library it comes from, and what is registered.

Every function takes an operator or its name.

    print(tenon.dispatch.table("core::matmul"))
    tenon.dispatch.slot("core::add", "opencl")["rule"]        # "kernel", "fallback", "missing", ...
"""
from ._core import keys, registrations
from ._core import op_check as check
from ._core import op_dump as dump
from ._core import op_has_computed_kernel as has_computed_kernel
from ._core import op_has_kernel as has_kernel
from ._core import op_is_fallthrough as is_fallthrough
from ._core import op_slot as slot
from ._core import op_table as table

__all__ = ["check", "dump", "has_computed_kernel", "has_kernel", "is_fallthrough", "keys", "registrations", "slot", "table"]
