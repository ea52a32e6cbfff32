"""Loading of operator libraries, and the namespaces that give access to their operators."""
import atexit
import functools
import itertools
import keyword
import os

from . import _core

STRICT, UNLOADABLE = 1, 2  # TENON_LOAD_...


def spelled(name):
    """Returns the operator's name: without the underscore that was added to a Python keyword (`if_` means `if`)."""
    return name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name


def adapter(framework):
    """Returns the path of the library that connects Tenon to a framework: adapter("torch") finds libtenon_torch.so."""
    package = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.join(package, "lib"), os.path.dirname(os.path.dirname(package))]  # of a wheel, of a build
    for folder in folders:
        path = os.path.join(folder, f"libtenon_{framework}.so")
        if os.path.exists(path):
            return path
    raise _core.NotFoundError(f"libtenon_{framework}.so was not found in {' or '.join(folders)}: reinstall Tenon")


def bridge(system):
    """Returns the path of a bridge that also has functions of its own: bridge("tvm_ffi") finds bridges/libtenon_tvm_ffi.so."""
    package = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.join(package, "lib", "tenon", "bridges"), os.path.join(os.path.dirname(os.path.dirname(package)), "bridges")]  # of a wheel, of a build
    for folder in folders:
        path = os.path.join(folder, f"libtenon_{system}.so")
        if os.path.exists(path):
            return path
    raise _core.NotFoundError(f"libtenon_{system}.so was not found in {' or '.join(folders)}: reinstall Tenon")


_loaded = {}  # name of a library: the files and the settings of load


def _load_again(files, settings):
    return load(*files, **settings)


def _find_operator(name, loaded):
    """Restores a pickled operator: loads its library unless a loaded library has the operator."""
    if loaded and name not in _core.names():
        _load_again(*loaded)
    return _core.find(name)


def _reduce_operator(self):
    files, settings = _loaded.get(self.library, (None, {}))
    return _find_operator, (self.name, (files, settings) if files else None)


_core.Operator.__copy__ = _core.Operator.__deepcopy__ = lambda self, memo=None: self  # a type defined in C
_core.Operator.__reduce__ = _reduce_operator


class Library:
    """A loaded library.  Its operators are attributes; `dir(library)` lists them and `for op in library` iterates over them."""

    def __init__(self, core, sources=(), options=(), settings=None):
        self._core, self._sources, self._options = core, sources, options
        self._settings = settings or {}  # the arguments of load besides the files
        self._note()

    def _note(self):
        """Notes how the library was loaded, for pickles of the library and of its operators."""
        try:
            name, path = self._core.name, self._core.path
        except _core.Error:
            return  # another thread has unloaded it meanwhile
        if self._sources:
            _loaded[name] = self._sources, {**self._settings, "options": self._options}
        else:
            _loaded[name] = (os.path.abspath(path),) if path else None, self._settings

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        files, settings = _loaded[self.name]
        if files is None:
            raise TypeError(f"cannot pickle library {self._name()}: it is part of the program and has no file")
        return _load_again, (files, settings)

    def __getattr__(self, name):
        operators = self._core.operators
        found = operators.get(spelled(name))  # one look-up: another thread may unload the library
        if found is not None:
            return found
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"library {self._name()} has no operator {name!r}; it has: {', '.join(sorted([*operators])) or 'none, because it was unloaded'}")

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

    name = property(lambda self: self._core.name, doc="The namespace of the operators.")
    version = property(lambda self: self._core.version, doc="The version that the library declares.")
    path = property(lambda self: self._core.path, doc="The path of the library's file; '' if it is linked into the program.")

    def reload(self, path=None):
        """Replaces the library by a new build, atomically.

        A library that was loaded from sources is built again from them; otherwise its file is read again.
        path: a file to read instead.

        Existing operators, bound calls and executables continue with the new kernels.
        Errors: a compile error, or a changed schema of an operator that a graph or an executable holds, is
        raised; the library then stays as it was.
        """
        if self._sources and path is None:
            path = _build_file(self._core.name, self._sources, self._options)
        self._core.reload(None if path is None else os.fsencode(path))

    def empty(self, shape, dtype="f32"):
        """Creates an uninitialised tensor in the memory that an isolated library shares with its worker processes.

        The library's operators use such a tensor without a copy.
        """
        return self._core.empty(shape, dtype)

    def unload(self):
        """Unloads the code of a library that was loaded with unloadable=True.

        Raises an error that names what still holds the library.  Afterwards, calling one of its operators raises.
        """
        self._core.unload()


ALLOWANCES = {"read": 1, "write": 2, "network": 4, "processes": 8, "extend": 16}  # TENON_ALLOW_...
NONE = 0xFFFFFFFF  # TENON_ISOLATION_NONE


def _isolation_of(settings):
    """Converts `isolated=`, True or a dict, to the fields of tenon_isolation_t."""
    settings = {} if settings is True else dict(settings)
    known = _isolation.__code__.co_varnames[:_isolation.__code__.co_argcount]
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise TypeError(f"isolated: there is no setting {unknown[0]!r}; there are {', '.join(known)}")
    return _isolation(**settings)


def _isolation(allow=(), deadline=10.0, spin=50e-6, processes=0, calls=0, threads=0, memory=0, shared=0, readable=(), writable=()):
    """Converts the settings of `isolated=` to the fields of tenon_isolation_t.

    deadline, spin: seconds; deadline=None means no deadline, spin=None or 0 means no spinning.
    memory, shared: bytes.  readable, writable: absolute folders.
    """
    unknown = set(allow) - set(ALLOWANCES)
    if unknown:
        raise ValueError(f"allow: expected some of {', '.join(ALLOWANCES)}; found {', '.join(map(repr, sorted(unknown)))}")
    return {"allow": sum(ALLOWANCES[name] for name in set(allow)), "deadline_ms": NONE if deadline is None else max(1, round(deadline * 1e3)),
            "spin_us": round(spin * 1e6) or NONE if spin else NONE, "processes": processes, "calls": calls, "threads": threads,
            "memory": memory, "shared": shared, "readable": tuple(map(os.fsencode, readable)), "writable": tuple(map(os.fsencode, writable))}


SOURCES = (".c", ".cc", ".cpp", ".cxx", ".s", ".S", ".cu", ".o", ".a")


def load(path, *more, options=(), fresh=False, strict=False, unloadable=False, isolated=False):
    """Loads a library of operators and returns it as a tenon.Library.

        load("./gelu.so")
        load("gelu.c")                                          # compiles the source first
        load("a.c", "b.cc", options=["-DN=4", "-lz"])           # one library from several sources

    path: a shared library, as a path or as a name that is looked up in the folders of TENON_LIBRARY_PATH; or a source file.
    more: further source files.
    options: options for the compiler and the linker.
    fresh: compile even if the cache holds a build of the same sources, headers, options and compilers.
    strict: apply the stricter checks of TENON_LOAD_STRICT.
    unloadable: allow Library.unload.
    isolated: True, or a dict of settings such as {"deadline": 2.0, "memory": 1 << 30, "allow": ["read"]}, runs the
        library's code in worker processes; a crash there becomes an error of the call (docs/isolation.md).

    Compiler errors are raised and compiler warnings become Python warnings.  Loading the same library twice
    returns the same library.
    """
    flags = (STRICT if strict else 0) | (UNLOADABLE if unloadable else 0)
    settings = {"strict": strict, "unloadable": unloadable, "isolated": isolated}
    limits = None if isolated is False else _isolation_of(isolated)
    if os.fsdecode(path).endswith(SOURCES):
        given, words = tuple(map(os.fsencode, (path, *more))), tuple(map(os.fsencode, options))
        sources = tuple(os.fsencode(os.path.abspath(os.fsdecode(name))) for name in (path, *more))
        made = _core.load_build(given, words, int(fresh), flags) if limits is None else _load_built_apart(given, words, int(fresh), flags, limits)
        return Library(made, sources, words, settings)
    if more or options or fresh:
        raise TypeError(f"{path!r} is not a source file ({' '.join(SOURCES)}): further files, options= and fresh= are for source files only")
    path = os.fspath(path)
    return Library(_core.load(path, flags) if limits is None else _core.load_isolated(path, flags, **limits), settings=settings)


_numbers = itertools.count(1)


@functools.lru_cache(None)
def _build_folder():
    """The folder of the files that this process builds; the end of the process removes it."""
    import shutil  # these two are not needed to import tenon, and import much themselves
    import tempfile
    folder = tempfile.mkdtemp(prefix="tenon-")
    atexit.register(shutil.rmtree, folder, True)
    return folder


def _build_file(name, sources, options, fresh=0):
    """Builds a library to a new file, which exists until the process ends, and returns its path."""
    path = os.path.join(_build_folder(), f"{name}-{next(_numbers)}.so")
    _core.build(sources, options, fresh, os.fsencode(path))
    return path


def _load_built_apart(sources, options, fresh, flags, limits):
    """Builds a library and loads it into worker processes, which open its file again when they are started again."""
    name = os.path.splitext(os.path.basename(os.fsdecode(sources[0])))[0]
    return _core.load_isolated(_build_file(name, sources, options, fresh), flags, **limits)


PRIVATE, INERT = 1, 2  # TENON_POLICY_...


def policy(folders=(), hashes=(), private=False, inert=False):
    """Restricts which library files this process may load from now on; without arguments every readable file is allowed.

    folders: the file must lie in one of these folders or below, after symbolic links are resolved.
    hashes: the SHA-256 of the file, in hexadecimal, must be among these.
    private: the file and all folders above it must belong to this user or root, and be writable by nobody else.
    inert: opening the file must not run code of the file.

    Loading a file that breaks a rule raises tenon.DeniedError.  `tenon.doctor()` shows the rules in effect.
    """
    if isinstance(folders, (str, bytes, os.PathLike)) or isinstance(hashes, (str, bytes)):
        raise TypeError("folders and hashes: expected sequences, as in folders=['/opt/ops']; found a single value")
    places = tuple(os.fsencode(os.path.abspath(folder)) for folder in folders)
    _core.policy(places, tuple(map(os.fsencode, hashes)), (PRIVATE if private else 0) | (INERT if inert else 0))


class Namespace:
    """The operators of one namespace.  Each access looks the operator up, so it succeeds only while the library is loaded."""

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
    """The operators of all loaded libraries, by namespace (tenon.ops); make(op) converts each operator that is looked up."""

    def __init__(self, make=lambda op: op):
        self._make = make

    def __getattr__(self, name):
        if name.startswith("__") or not any(known.startswith(name + "::") for known in _core.names()):
            raise AttributeError(f"no loaded operator is in the namespace {name}::; the namespaces are: {', '.join(dir(self))}")
        return Namespace(name, self._make)

    def __getitem__(self, name):
        return self._make(_core.find(name))

    def __dir__(self):
        return sorted({name.split("::", 1)[0] for name in _core.names()})

    def __repr__(self):
        return f"<tenon operators of {', '.join(dir(self))}>"
