"""Reloading of a library whenever one of its source files is saved."""
import os
import re
import time

from . import _core

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)


def _files(path, folders, found):
    """Appends the file and the headers that it includes by #include "..." to `found`; headers that do not exist are skipped."""
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
    """Returns the inode, size and modification time of each watched file; a difference means that a file was saved."""
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
    """Reloads a library whenever its sources change; yields once at the start and after each reload.

    Watched are the library's sources and the headers that they include, or the library's file if it was not
    loaded from sources.

        ops = tenon.load("gelu.c")
        for error in tenon.watch(ops):
            print(error or ops.gelu(x))

    Yields None after a successful reload, and the exception after a failed one; the library then stays as it was.
    The iteration never ends by itself: leave the loop with `break`.
    interval: seconds between two checks of the files.
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
