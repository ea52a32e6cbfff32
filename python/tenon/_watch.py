"""Libraries that are built and put in place again whenever a source is saved."""
import os
import re
import time

from . import _core

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)


def _files(path, folders, found):
    """The file and what it includes by #include "...", as far as it is found."""
    if path in found:
        return
    found.append(path)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return
    for name in _INCLUDE.findall(text):
        for folder in (os.path.dirname(path), *folders):
            header = os.path.normpath(os.path.join(folder, name))
            if os.path.isfile(header):
                _files(header, folders, found)
                break


def _state(library):
    """What is compared: each file's identity, size and time."""
    folders, found = [option[2:] for option in map(os.fsdecode, library._options) if option.startswith("-I")], []
    for path in map(os.fsdecode, library._sources or [library.path]):
        _files(path, folders, found) if library._sources else found.append(path)
    state = []
    for path in found:
        try:
            info = os.stat(path)
            state.append((path, info.st_ino, info.st_size, info.st_mtime_ns))
        except OSError:
            state.append((path,))
    return state


def watch(library, interval=0.1):
    """Yields at once, and then each time that a source of the library, or a header that it includes, was saved and the library was
    built anew and put in place (`library.reload()`); of one that was loaded from a file, when that file was replaced.

        ops = tenon.load("gelu.c")
        for error in tenon.watch(ops):
            print(error or ops.gelu(x))

    What is yielded is None, or the error if it did not compile or was refused: then the library is as it was.  Ends never; `break` ends it.
    `interval`: seconds between two looks.
    """
    state = _state(library)
    yield None
    while True:
        time.sleep(interval)
        now = _state(library)
        if now == state:
            continue
        time.sleep(interval)  # editors write several files
        state = _state(library)
        try:
            library.reload()
            error = None
        except _core.Error as failure:
            error = failure
        yield error
