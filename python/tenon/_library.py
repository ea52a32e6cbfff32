"""Libraries and the namespaces of their operators."""
import keyword
import os
import shutil
import tempfile
import weakref

from . import _core

STRICT, UNLOADABLE = 1, 2  # TENON_LOAD_...


def spelled(name):
    """`if_` is the operator `if`: of names that Python keeps for itself."""
    return name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name


class Library:
    """A loaded library: its operators are attributes.  `dir()` lists them, and `for op in library` goes over them."""

    def __init__(self, core, sources=(), options=()):
        self._core, self._sources, self._options = core, sources, options
        self._folder, self._built = None, 0  # of files that reload made

    def __getattr__(self, name):
        operators = self._core.operators
        found = operators.get(spelled(name))  # once: another thread may unload it
        if found is not None:
            return found
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"library {self._name()} has no operator {name!r}; it has: {', '.join(sorted([*operators])) or 'none: it was unloaded'}")

    def _name(self):
        try:
            return repr(self._core.name)
        except _core.Error:
            return "(unloaded)"

    def __dir__(self):
        return sorted([*self._core.operators, "name", "version", "path", "reload", "unload"])

    def __iter__(self):
        return iter(self._core.operators.values())

    def __len__(self):
        return len(self._core.operators)

    def __repr__(self):
        return f"<tenon library {self._name()}, {len(self)} operators>"

    name = property(lambda self: self._core.name, doc="Its namespace.")
    version = property(lambda self: self._core.version, doc="As it states it.")
    path = property(lambda self: self._core.path, doc="Its file; '' when it is linked in.")

    def reload(self, path=None):
        """Builds it anew from its sources, or reads its file (or another one) anew, and puts that in its place, at once and as a whole.

        Operators, bound calls and executables that are there go on with the new kernels.  What does not compile, and another schema of
        an operator that a graph or an executable holds, is raised, and the library is as it was.
        """
        if self._sources and path is None:
            if self._folder is None:
                self._folder = tempfile.mkdtemp(prefix="tenon-")
                weakref.finalize(self, shutil.rmtree, self._folder, True)
            self._built += 1
            path = os.path.join(self._folder, f"{self._core.name}-{self._built}.so")
            _core.build(self._sources, self._options, 0, os.fsencode(path))
        self._core.reload(None if path is None else os.fsencode(path))

    def empty(self, shape, dtype="f32"):
        """A tensor in the memory that an isolated library shares with its processes: its operators use it without a copy."""
        return self._core.empty(shape, dtype)

    def unload(self):
        """Unloads its code (load(..., unloadable=True)), or raises with what holds it; its operators raise when they are called then."""
        self._core.unload()


ALLOWANCES = {"read": 1, "write": 2, "network": 4, "processes": 8, "extend": 16}  # TENON_ALLOW_...
NONE = 0xFFFFFFFF  # TENON_ISOLATION_NONE


def _isolation(allow=(), deadline=10.0, spin=50e-6, processes=0, calls=0, threads=0, memory=0, shared=0, readable=(), writable=()):
    """Settings of tenon_isolation_t: times in seconds (None: without end; without spinning), sizes in bytes, folders absolute."""
    unknown = set(allow) - set(ALLOWANCES)
    if unknown:
        raise ValueError(f"allow={sorted(unknown)!r}: there are {', '.join(ALLOWANCES)}")
    return {"allow": sum(ALLOWANCES[name] for name in set(allow)), "deadline_ms": NONE if deadline is None else max(1, round(deadline * 1e3)),
            "spin_us": round(spin * 1e6) or NONE if spin else NONE, "processes": processes, "calls": calls, "threads": threads,
            "memory": memory, "shared": shared, "readable": tuple(map(os.fsencode, readable)), "writable": tuple(map(os.fsencode, writable))}


SOURCES = (".c", ".cc", ".cpp", ".cxx", ".s", ".S", ".cu", ".o", ".a")


def load(path, *more, options=(), fresh=False, strict=False, unloadable=False, isolated=False):
    """Loads a library of operators: a .so, by its path or by a name in the folders of TENON_LIBRARY_PATH, or sources, which are compiled.

    `load("./gelu.so")`, `load("gelu.c")`, `load("a.c", "b.cc", options=["-DN=4", "-lz"])`.  What was built from the same sources, headers,
    options and compilers is taken from the cache, unless fresh=True.  The compilers' errors are raised, their warnings warned.  Twice
    gives the same library.

    isolated=True, or settings, `isolated={"deadline": 2.0, "memory": 1 << 30, "allow": ["read"]}`: its code runs in a process of its
    own, and what goes wrong there is an error of the call (docs/isolation.md).
    """
    flags = (STRICT if strict else 0) | (UNLOADABLE if unloadable else 0)
    if isolated is not False and os.fsdecode(path).endswith(SOURCES):
        raise TypeError("isolated: expected a library, found sources: build them first (tenon build)")
    if isolated is not False and not (more or options or fresh):
        return Library(_core.load_isolated(os.fspath(path), flags, **_isolation(**({} if isolated is True else isolated))))
    if os.fsdecode(path).endswith(SOURCES):
        sources, words = tuple(os.fsencode(os.path.abspath(os.fsdecode(name))) for name in (path, *more)), tuple(map(os.fsencode, options))
        return Library(_core.load_build(tuple(map(os.fsencode, (path, *more))), words, int(fresh), flags), sources, words)
    if more or options or fresh:
        raise TypeError(f"{path!r} is no source ({' '.join(SOURCES)}): further files, options and fresh are for sources")
    return Library(_core.load(os.fspath(path), flags))


PRIVATE, INERT = 1, 2  # TENON_POLICY_...


def policy(folders=(), hashes=(), private=False, inert=False):
    """Sets which files this process loads from now on; without arguments all that may be read.

    folders: a file lies in one of these or below, links resolved.  hashes: its SHA-256, in hexadecimal, is among these.  private: it and
    all folders from the root to it belong to this user or root, and nobody else may write there.  inert: opening it runs no code of its
    own.  `tenon.doctor()` says what the rules are; a file that breaks one raises DeniedError.
    """
    if isinstance(folders, (str, bytes, os.PathLike)) or isinstance(hashes, (str, bytes)):
        raise TypeError("folders and hashes are sequences: folders=['/opt/ops']")
    places = tuple(os.fsencode(os.path.abspath(folder)) for folder in folders)
    _core.policy(places, tuple(map(os.fsencode, hashes)), (PRIVATE if private else 0) | (INERT if inert else 0))


class Namespace:
    """The operators of one namespace; each is looked up when it is asked for, so it is there while its library is loaded."""

    def __init__(self, name, make=lambda op: op):
        self._name, self._make = name, make

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._make(_core.find(f"{self._name}::{spelled(name)}"))
        except _core.NotFoundError as error:
            raise AttributeError(str(error)) from None

    def __dir__(self):
        return [name.split("::", 1)[1] for name in _core.names() if name.startswith(self._name + "::")]

    def __repr__(self):
        return f"<tenon operators {self._name}, {len(dir(self))}>"


class Namespaces:
    """tenon.ops: the operators of all libraries, by namespace.  make(op): what each is here."""

    def __init__(self, make=lambda op: op):
        self._make = make

    def __getattr__(self, name):
        if name.startswith("__") or not any(known.startswith(name + "::") for known in _core.names()):
            raise AttributeError(f"there is no operator whose name begins with {name}::; there are: {', '.join(dir(self))}")
        return Namespace(name, self._make)

    def __getitem__(self, name):
        return self._make(_core.find(name))

    def __dir__(self):
        return sorted({name.split("::", 1)[0] for name in _core.names()})

    def __repr__(self):
        return f"<tenon operators of {', '.join(dir(self))}>"
