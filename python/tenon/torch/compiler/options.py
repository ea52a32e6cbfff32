"""The options of torch.compile(model, backend="tenon", options={...})."""
from typing import NamedTuple

from ... import _core

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_NAMES = ("freeze", "hand_back")


class Options(NamedTuple):
    """What a user may choose.

    freeze: parameters become constants while nothing requires a gradient.  Programs notice parameters that are replaced, or written to by operators of
    PyTorch, but not writes through Tensor.data or NumPy.
    hand_back: names of operators that PyTorch runs, such as "aten.gelu" or "aten.gelu.default".
    """
    freeze: bool = False
    hand_back: tuple = ()
    tunes: bool = False  # the mode max-autotune: kernels and fusions are chosen by measuring


def read_options(mode, given):
    """Checks what torch.compile was called with."""
    if mode is not None and mode not in _MODES:
        raise _core.InvalidError(f"torch.compile(backend='tenon'): mode: expected one of {', '.join(_MODES)}; found {mode!r}")
    given = dict(given or {})
    unknown = sorted(set(given) - set(_NAMES))
    if unknown:
        raise _core.InvalidError(f"torch.compile(backend='tenon'): there is no option {unknown[0]!r}; the options are {', '.join(_NAMES)}")
    made = Options(**given, tunes=mode is not None and mode.startswith("max-autotune"))
    if not isinstance(made.freeze, bool):
        raise _core.InvalidError(f"torch.compile(backend='tenon'): option freeze: expected True or False, found {made.freeze!r}")
    names = made.hand_back
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise _core.InvalidError(f"torch.compile(backend='tenon'): option hand_back: expected a list of names such as 'aten.gelu', found {names!r}")
    return made._replace(hand_back=tuple(names))
