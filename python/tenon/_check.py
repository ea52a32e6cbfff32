"""`python -m tenon check LIB.so --with FILE.py`: checks operators with example calls and reference results in Python (docs/check.md).

FILE.py defines functions whose names end in an operator's name, without the namespace and with "_" for ".":
    def samples_gelu(): yield {"x": numpy.ones((2, 3), "f4"), "approximate": "tanh"}    # a call: inputs and attributes by name
    def reference_gelu(x, approximate="none"): return ...                              # the result, or a tuple of results
Without a samples function the example calls of the operator are used.  Every call is saved in a folder (docs/debugging.md) together
with the reference results, and `tenon check --samples` then runs it.  A reference that returns NotImplemented is not compared."""
import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy

from . import _command


def _module(path):
    spec = importlib.util.spec_from_file_location("tenon_check_with", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _inputs(schema):
    """Returns the names of the tensor arguments, in the order of the schema."""
    text, depth, parts, last = schema[schema.index("(") + 1:], 0, [], 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if (c == "," and depth == 0) or depth < 0:
            parts.append(text[last:i].strip())
            last = i + 1
        if depth < 0:
            break
    tensors = [p for p in parts if re.match(r"Tensor\b", p)]
    return [re.match(r".*?(\w+)\s*(=.*)?$", p)[1] for p in tensors]


def _text(value):
    """Returns an attribute as JSON stores it: lists and tuples become texts of the schema language."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(list(value))


def _value(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}.get(text, text)


def _save(folder, stem, array):
    name = f"{stem}.npy"
    numpy.save(os.path.join(folder, name), numpy.ascontiguousarray(array) if array.ndim else array)
    return name


def _write(folder, call):
    with open(os.path.join(folder, "call.json"), "w", encoding="utf-8") as file:
        json.dump(call, file)


def _save_example(folder, op, example):
    os.makedirs(folder)
    names, inputs, left = _inputs(op["schema"]), [], dict(example)
    for i, name in enumerate(names):
        given = left.pop(name, None)
        if given is None:
            inputs.append(None)
        elif isinstance(given, (list, tuple)) and all(isinstance(g, numpy.ndarray) for g in given):
            inputs.append({"items": [{"file": _save(folder, f"input_{i}_{k}", g)} for k, g in enumerate(given)]})
        else:
            inputs.append({"file": _save(folder, f"input_{i}", numpy.asarray(given))})
    _write(folder, {"format": 1, "operator": op["name"], "inputs": inputs, "attributes": {n: _text(v) for n, v in left.items()}})


def _load(folder, tensor):
    if tensor is None:
        return None
    if "items" in tensor:
        return [_load(folder, t) for t in tensor["items"]]
    array = numpy.load(os.path.join(folder, tensor["file"]))
    if tensor.get("dtype") == "bf16":
        return (array.astype(numpy.uint32) << 16).view(numpy.float32)
    if array.dtype.kind == "u" and tensor.get("dtype", "u")[0] not in "ub":
        return NotImplemented  # NumPy has no such dtype
    return array


def _describe(folder, index, array, narrow):
    array = numpy.asarray(array)
    if not narrow or array.dtype != numpy.float32:
        return {"file": _save(folder, f"output_{index}", array)}
    bits = array.view(numpy.uint32).astype(numpy.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)
    rounded = numpy.where(numpy.isnan(array), numpy.uint16(0x7FC0), rounded)
    return {"file": _save(folder, f"output_{index}", rounded), "dtype": "bf16", "shape": list(array.shape)}


def _add_results(folder, op, reference):
    """Saves the reference results beside the call; saves nothing if NumPy or the reference cannot compute them."""
    with open(os.path.join(folder, "call.json"), encoding="utf-8") as file:
        call = json.load(file)
    arrays = [_load(folder, tensor) for tensor in call["inputs"]]
    if any(a is NotImplemented for a in arrays):
        return
    named = {n: a for n, a in zip(_inputs(op["schema"]), arrays) if a is not None}
    named.update({n: _value(v) if isinstance(v, str) else v for n, v in call.get("attributes", {}).items() if not isinstance(v, dict)})
    results = reference(**named)
    if results is NotImplemented:
        return
    narrow = any(t and t.get("dtype") == "bf16" for t in call["inputs"])
    results = results if isinstance(results, tuple) else (results,)
    call["outputs"] = [None if r is None else _describe(folder, i, r, narrow) for i, r in enumerate(results)]
    _write(folder, call)


def _prepare(library, module, to):
    """Saves a folder for each call of the operators for which the module has a samples or reference function."""
    listed = subprocess.run([_command.path(), "ops", library, "--json"], capture_output=True, text=True)
    if listed.returncode:
        raise SystemExit(listed.stderr.strip() or f"tenon ops {library} failed")
    known = {}
    for op in json.loads(listed.stdout):
        known.setdefault(op["name"].split("::")[1].replace(".", "_"), op)
    functions = {n: f for n, f in vars(module).items() if re.match("(samples|reference)_", n) and callable(f)}
    if not functions:
        raise SystemExit(f"{module.__file__}: expected at least one function samples_NAME or reference_NAME; found none")
    strange = [n for n in functions if n.split("_", 1)[1] not in known]
    if strange:
        raise SystemExit(f"{module.__file__}: {', '.join(strange)}: {library} has no such operator; its operators are {', '.join(sorted(known))}")
    for name, op in known.items():
        samples, reference = functions.get(f"samples_{name}"), functions.get(f"reference_{name}")
        if not samples and not reference:
            continue
        if samples:
            for i, example in enumerate(samples()):
                _save_example(os.path.join(to, f"{name}.{i:03}"), op, example)
        elif subprocess.run([_command.path(), "check", library, op["name"], "--save", to]).returncode:
            raise SystemExit(2)
        for folder in sorted(os.listdir(to)):
            if reference and folder.rsplit(".", 1)[0] in (name, op["name"]):
                _add_results(os.path.join(to, folder), op, reference)


def main(arguments):
    rest, file = [], None
    words = iter(arguments)
    for word in words:
        if word == "--with":
            file = next(words, None)
        elif word.startswith("--with="):
            file = word[len("--with="):]
        else:
            rest.append(word)
    library = next((w for w in rest if not w.startswith("-")), None)
    if not file or not library:
        raise SystemExit("usage: python -m tenon check LIB.so [OP]... --with FILE.py [option of tenon check]...")
    with tempfile.TemporaryDirectory(prefix="tenon-check-") as to:
        _prepare(library, _module(file), to)
        return subprocess.run([_command.path(), "check", *rest, "--samples", to, "--with", file]).returncode
