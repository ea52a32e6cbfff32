"""The test programs of StableHLO's own interpreter, run by Tenon.

    stablehlo_source_test.py [FILE] [PATTERN]      only that file (add, chlo/scan), and functions whose names contain PATTERN

STABLEHLO_SOURCE names a checkout of openxla/stablehlo.  Each function of stablehlo/tests/interpret there checks values with
the operations `check.expect_*`.  It becomes a program that returns these values, which Tenon loads, compiles and runs, and
which are compared here as the checks state.  Complex values become their real and imaginary parts.

A function that stablehlo_source_known.txt lists, with the reason, is expected to be refused or to fail.  The exit status is 0
if all others pass, and if no listed function passes.
"""
import fnmatch
import os
import re
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
SOURCE = os.environ.get("STABLEHLO_SOURCE", "")
KNOWN = os.path.join(HERE, "stablehlo_source_known.txt")
TOLERANCE = 1e-4  # that of the interpreter's checks
FUNCTION = re.compile(r"func\.func\s+(?:public\s+|private\s+)?@([\w.$-]+)\s*\(")
CHECK = re.compile(r"check\.expect_(\w+)\b")
NUMBER = re.compile(r"[-+]?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)|true|false")
NUMPY = {"i1": "bool", "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16"}


# ---- the programs of a file --------------------------------------------------------------------

def end_of(text, start, closing):
    """Returns the position behind the bracket that closes the one before `start`."""
    depth, pairs = 1, {")": "(", "}": "{", ">": "<"}
    opening = pairs[closing]
    for at in range(start, len(text)):
        if text[at] == opening:
            depth += 1
        elif text[at] == closing and not (closing == ">" and text[at - 1] == "-"):
            depth -= 1
        if depth == 0:
            return at + 1
    raise ValueError(f"no '{closing}' ends {text[start - 20:start + 20]!r}")


def functions_of(module):
    """Returns (name, arguments, body, begin, end) for each function of a module."""
    found = []
    for match in FUNCTION.finditer(module):
        after = end_of(module, match.end(), ")")
        brace = module.index("{", after)
        end = end_of(module, brace + 1, "}")
        found.append((match[1], module[match.end():after - 1].strip(), module[brace + 1:end - 1], match.start(), end))
    return found


def read_check(body, match):
    """Reads one check. Returns (kind, operands, literal or None, options, type, the position behind it)."""
    at, operands, literal = match.end(), [], None
    while part := re.compile(r"\s*,?\s*(%[\w#]+|dense<)").match(body, at):
        at = part.end()
        if part[1] == "dense<":
            at = end_of(body, at, ">")
            literal = body[part.end():at - 1]
        else:
            operands.append(part[1])
    options, colon = re.compile(r"([^:]*(?::\s*[fi]\d+\s*\})?)\s*:\s*tensor<").match(body, at), None
    if options[1].strip() == "":
        end = end_of(body, options.end(), ">")
        kind = body[options.end():end - 1]
        rest = re.compile(r"(?:\s*,\s*tensor<[^\n]*>)?(\s*\{[^}]*\})?").match(body, end)
        return match[1], operands, literal, numbers_of_options(rest[1] or ""), kind, rest.end()
    colon = options.end()
    end = end_of(body, colon, ">")
    rest = re.compile(r"(?:\s*,\s*tensor<[^\n]*>)?").match(body, end)
    return match[1], operands, literal, numbers_of_options(options[1]), body[colon:end - 1], rest.end()


def numbers_of_options(text):
    return {name: float(value) for name, value in re.findall(r"(\w+)\s*=\s*([-+\d.eE]+)", text)}


def checks_of(body):
    """Takes the checks out of a function. Returns (the rest of its body, [(kind, operands, literal, options, type)])."""
    checks, rest, at = [], "", 0
    while match := CHECK.search(body, at):
        *check, end = read_check(body, match)
        checks.append(tuple(check))
        rest += body[at:match.start()]
        at = end
    return rest + body[at:], checks


def programs_of(path):
    """Yields (name, program, checks) for each function of a file that checks values or returns something."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for module in re.split(r"^// -----.*$", text, flags=re.M):
        module = re.sub(r"//[^\n]*", "", module)
        for name, arguments, body, begin, end in functions_of(module):
            rest, checks = checks_of(body)
            if checks:
                yield name, module[:begin] + returning(rest, arguments, checks) + module[end:], checks


def returning(body, arguments, checks):
    """Returns the function @main that returns the checked values, in types that NumPy has."""
    values, lines = [], []

    def add(line, kind):
        values.append((f"%tenon_{len(values)}", f"tensor<{kind}>"))
        lines.append(f"  {values[-1][0]} = {line} -> tensor<{kind}>\n")

    for _, operands, _, _, kind in checks:
        bits = bits_of(kind)
        for operand in operands:
            if "complex" in kind:
                for function in "real", "imag":
                    add(f"stablehlo.{function} {operand} : (tensor<{kind}>)", re.sub(r"complex<(\w+)>", r"\1", kind))
            elif bits != kind:
                add(f"stablehlo.bitcast_convert {operand} : (tensor<{kind}>)", bits)
            else:
                values.append((operand, f"tensor<{kind}>"))
    types = ", ".join(kind for _, kind in values)
    done = f"  func.return {', '.join(name for name, _ in values)} : {types}\n"
    body = re.sub(r"\n\s*(?:func\.)?return\s*$", "\n", body.rstrip()) + "".join(lines) + done
    return f"func.func public @main({arguments}) -> ({types}) {{{body}}}"


def bits_of(kind):
    """Returns the type with unsigned integers for floats that NumPy alone does not have."""
    return re.sub(r"bf16$", "ui16", re.sub(r"f8E\w+$", "ui8", kind))


# ---- expected values ---------------------------------------------------------------------------

def dtype_of(element):
    """Returns NumPy's type for an element type of MLIR."""
    import ml_dtypes
    if match := re.fullmatch(r"(u?)s?i(\d+)", element):
        if element == "i1":
            return np.dtype(bool)
        return np.dtype(f"{'u' * bool(match[1])}int{max(8, int(match[2]))}")  # a graph has no integers below a byte
    name = NUMPY.get(element) or re.sub(r"^f(\d)E(\d)M(\d)(\w*)$", lambda m: f"float{m[1]}_e{m[2]}m{m[3]}{m[4].lower()}", element)
    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


def number_of(word, dtype):
    if word in ("true", "false"):
        return np.array(word == "true").astype(dtype)
    if "0x" in word and dtype.kind != "i" and dtype.kind != "u":
        return np.array([int(word, 16)], f"u{dtype.itemsize}").view(dtype)[0]
    if re.fullmatch(r"[-+]?\d+", word) and dtype.kind in "iu":
        return np.array(int(word), dtype)
    if dtype.name == "float8_e8m0fnu" and float(word) == 0:
        return np.array(0, np.uint8).view(dtype)  # the least number, since there is no 0
    return np.array(int(word, 16) if "0x" in word else float(word)).astype(dtype)


def expected_of(literal, kind):
    """Returns the arrays of a literal: one, or the real and the imaginary part."""
    extents, element = re.fullmatch(r"((?:\d+x)*)(.*)", kind).groups()
    shape, parts = tuple(map(int, re.findall(r"\d+", extents))), 1
    if match := re.fullmatch(r"complex<(\w+)>", element):
        element, parts = match[1], 2
    dtype = dtype_of(element)
    flat = np.array([number_of(word, dtype) for word in NUMBER.findall(literal)], dtype)
    split = [flat[i::parts] for i in range(parts)]
    return [np.full(shape, part[0]) if part.size == 1 else part.reshape(shape) for part in split]


def ulps_between(found, right):
    """Returns how many numbers of the type lie between two arrays of floats."""
    def ordinal(x):
        bits = x.view(f"i{x.itemsize}").astype(np.int64)
        return np.where(bits < 0, -(bits & (2 ** (8 * x.itemsize - 1) - 1)), bits)
    return np.abs(ordinal(found) - ordinal(right)).max(initial=0)


def compare(kind, found, right, options):
    """Raises AssertionError unless the values are as the check states."""
    assert found.shape == right.shape, f"shape {list(found.shape)}, expected {list(right.shape)}"
    assert found.dtype == right.dtype, f"element type {found.dtype}, expected {right.dtype}"
    if kind == "close":
        distance = ulps_between(found, right)
        assert distance <= options.get("max_ulp_difference", 3), f"{distance} units in the last place between {found} and {right}"
        return
    if found.dtype.kind in "biu" or kind.startswith("eq"):
        same = (found == right) | ((found != found) & (right != right))  # NaN is equal to NaN
        assert same.all(), f"found {found.tolist()}, expected {right.tolist()}"
        return
    tolerance = options.get("tolerance", TOLERANCE)
    np.testing.assert_allclose(found.astype(np.float64), right.astype(np.float64), rtol=0, atol=tolerance)


def run_program(program, checks, path):
    """Runs a program and compares what it returns."""
    import tenon.graph
    with open(path, "w", encoding="utf-8") as file:
        file.write(program)
    results = tenon.graph.load(path).compile()()
    values = [np.asarray(x) for x in (results if isinstance(results, tuple) else (results,))]
    for kind, operands, literal, options, element in checks:
        parts = 2 if "complex" in element else 1
        if bits_of(element) != element:
            dtype = dtype_of(element.rsplit("x", 1)[-1])
            values = [x.view(dtype) if i < len(operands) else x for i, x in enumerate(values)]
        found, values = values[:parts], values[parts:]
        if len(operands) == 2:
            right, values = values[:parts], values[parts:]
        else:
            right = expected_of(literal, element)
        for a, b in zip(found, right, strict=True):
            compare(kind, a, b, options)
    assert not values


# ---- the run -----------------------------------------------------------------------------------

def read_known():
    """Returns what stablehlo_source_known.txt lists: [(pattern, reason)]."""
    found, reason = [], ""
    with open(KNOWN, encoding="utf-8") as file:
        for line in file:
            if line.startswith("[") and line.rstrip().endswith("]"):
                reason = line.strip()[1:-1]
            elif line.strip() and not line.startswith("#"):
                found.append((line.strip(), reason))
    return found


def files_of(folder, only):
    """Returns the names, without the ending, of the files to run."""
    names = [name[:-5] for name in os.listdir(folder) if name.endswith(".mlir")]
    names += [f"chlo/{name[:-5]}" for name in os.listdir(os.path.join(folder, "chlo")) if name.endswith(".mlir")]
    return sorted(name for name in names if only in (None, name))


def main():
    if not SOURCE:
        print("skipped: STABLEHLO_SOURCE names no checkout of openxla/stablehlo: make stablehlo-source STABLEHLO_SOURCE=DIR")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    sys.path[:0] = [os.path.join(BUILD, "python")]
    folder = os.path.join(SOURCE, "stablehlo", "tests", "interpret")
    only, pattern = (sys.argv[1:] + [None, None])[:2]
    known, excluded, passed, wrong = read_known(), {}, 0, 0
    with tempfile.TemporaryDirectory(prefix="tenon-stablehlo-source-") as scratch:
        for name in files_of(folder, only):
            for function, program, checks in programs_of(os.path.join(folder, f"{name}.mlir")):
                full = f"{name}.{function}"
                if pattern and pattern not in function:
                    continue
                reason = next((reason for listed, reason in known if fnmatch.fnmatchcase(full, listed)), None)
                try:
                    run_program(program, checks, os.path.join(scratch, "program.mlir"))
                    problem = ""
                except Exception as error:  # whatever a program does is its result
                    problem = " ".join(str(error).replace(scratch, "").split()) or repr(error)
                if reason and problem:
                    excluded.setdefault(reason, []).append(full)
                elif reason:
                    wrong += 1
                    print(f"failed: {full} passes, but {os.path.basename(KNOWN)} lists it: {reason}")
                elif problem:
                    wrong += 1
                    print(f"failed: {full}: {problem[:300]}")
                else:
                    passed += 1
    for reason, functions in excluded.items():
        print(f"skipped: {len(functions)} functions: {reason}")
    print(f"{passed} passed, {wrong} failed, {sum(map(len, excluded.values()))} skipped")
    return int(wrong > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main())
