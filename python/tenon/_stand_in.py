"""Keeps tvm_ffi out of a process in which Tenon's replacement for libtvm_ffi is global.

A library that uses functions of libtvm_ffi without being linked to it needs them to be global symbols.  The
symbols of the replacement would also take the place of those inside the real libtvm_ffi, which ends the process.
"""
import sys


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "tvm_ffi":
            return None
        import ctypes
        if hasattr(ctypes.CDLL(None), "tenon_tvm_ffi_stand_in"):
            raise ImportError("tvm_ffi cannot be imported any more, because Tenon has loaded a library that needs its own replacement for libtvm_ffi: "
                              "import tvm_ffi before tenon.load", name=name)
        return None


def install():
    """Checks every later import of tvm_ffi."""
    sys.meta_path.insert(0, _Finder)
