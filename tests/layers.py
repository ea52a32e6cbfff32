"""Includes never climb: the order of rooms in the architecture, checked over every source file."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ORDER = ["base", "toolchain", "core", "device", "dispatch", "isolation", "loader", "autograd", "graph", "import", "record"]
PARALLEL = {("loader", "autograd"), ("autograd", "loader")}  # neither may see the other
PUBLIC = {"ops": {"tenon/op.h", "tenon/check.h", "tenon/iterator.h", "tenon/source.h", "tenon/device.h"}, "devices": {"tenon/op.h", "tenon/device.h", "tenon/iterator.h"}, "tools": {"tenon/op.h", "tenon/tenon.h"},
          "bridges": {"tenon/op.h", "tenon/bridge.h", "tenon/graph.h", "tenon/tenon.h", "tenon/torch.h"}, "python": {"tenon/op.h", "tenon/tenon.h"},
          "examples": {"tenon/op.h", "tenon/check.h", "tenon/iterator.h", "tenon/source.h", "tenon/device.h", "tenon/tenon.h", "tenon/tenon.hpp"}}
LEAVES = {"base/arena.h", "base/json.h", "base/memory.h", "base/status.h"}  # which a bridge compiles into itself
POSIX = re.compile(r'#\s*include\s*<(unistd|pthread|dlfcn|fcntl|sched|dirent|regex|sys/[a-z]+)\.h>')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def offences(path, text):
    room = path.split("/")
    for kind, name in INCLUDE.findall(text):
        top = name.split("/")[0]
        if room[0] == "src" and len(room) > 2 and top in ORDER and kind == '"':
            mine = ORDER.index(room[1])
            if ORDER.index(top) > mine or (room[1], top) in PARALLEL:
                yield f"{path}: {room[1]} includes {name}, which is above it"
        public = "tenon/tenon.h" if name.startswith("tenon/api/") else name  # the parts of tenon.h
        if room[0] in PUBLIC and name.startswith("tenon/") and public not in PUBLIC[room[0]]:
            yield f"{path}: {room[0]} sees {name}; it may see {', '.join(sorted(PUBLIC[room[0]]))}"
        if room[0] in PUBLIC and kind == '"' and (top in ORDER or name.startswith("../src")) and not (room[0] == "bridges" and name in LEAVES):
            yield f"{path}: {room[0]} includes {name}, which is internal"
        if room[0] == "include" and not (kind == "<" or name.startswith("tenon/")):
            yield f"{path}: a public header includes {name}"
    if room[0] == "src" and room[-1] != "environment_posix.c" and re.search(r"\bgetenv\(", text):
        yield f"{path}: getenv belongs in src/base/environment_posix.c: tn_environment does not heed it in set-uid programs"
    if room[0] in ("devices", "ops", "bridges") and re.search(r"\bgetenv\(", text):
        yield f"{path}: what libtenon loads asks by secure_getenv, which gives nothing in set-uid programs"
    if room[0] in ("src", "tools") and not path.endswith("_posix.c") and POSIX.search(text):
        yield f"{path}: POSIX headers belong in *_posix.c"


def main():
    found, count = [], 0
    for folder, _, names in os.walk(ROOT):
        path = os.path.relpath(folder, ROOT)
        if path.split("/")[0].startswith((".", "build")) and path != ".":
            continue
        for name in names:
            if name.endswith((".c", ".h", ".cc", ".cpp", ".hpp")):
                file = os.path.normpath(os.path.join(path, name))
                count += 1
                with open(os.path.join(ROOT, file), encoding="utf-8") as source:
                    found += offences(file, source.read())
    print("\n".join(found))
    print(f"{count - len({f.split(':')[0] for f in found})} passed, {len({f.split(':')[0] for f in found})} failed, 0 skipped")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
