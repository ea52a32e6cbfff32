"""Checks how the C sources are laid out, and prints the place and the remedy of each finding.

    scripts/style.py              the findings, and a line "N passed, M failed, K skipped" (files)
    scripts/style.py --counts     the counts of each folder instead
    scripts/style.py FILE...      the same over these files only

Rules: no comma operator outside `for`, no `return a, b`, at most one `?:` in a statement, at most
100 columns, functions of at most 60 lines, and no function name defined in more than three files.
No compiled file is in the tree.
"""
import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COUNTED = ("src", "ops", "companions", "devices", "tools", "bridges", "python/src")
ALSO = ("tests", "bench", "examples")  # comma statements and long lines only
HEADERS = ("include",)  # long lines only: macros and fold expressions of C++ need commas
KINDS = ("comma", "return", "conditionals", "columns", "length", "name", "binary")
COLUMNS = 100
LINES = 60
FILES = 3
TOKEN = re.compile(r"""
  (?P<space>\\\n|\s+)
 |(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
 |(?P<text>(?:u8|[uUL])?R"(?P<fence>[^ ()\\\n]*)\(.*?\)(?P=fence)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
 |(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)
 |(?P<word>[A-Za-z_]\w*)
 |(?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&^|]=|\#\#|::|.)
""", re.S | re.X)
CONTROL = {"if", "while", "switch"}
OPEN, CLOSE = {"(", "[", "{"}, {")", "]", "}"}
TYPE_WORDS = {"const", "static", "struct", "union", "enum", "unsigned", "signed", "int", "char", "long", "short",
              "float", "double", "void", "bool", "size_t", "register", "volatile", "extern", "typedef", "_Atomic",
              "_Thread_local", "__thread", "inline", "auto", "using", "template", "constexpr", "namespace"}
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}


class Token:
    __slots__ = ("kind", "text", "line")

    def __init__(self, kind, text, line):
        self.kind, self.text, self.line = kind, text, line


def split_tokens(text, line=1):
    """The significant tokens of `text`; a preprocessor line is one token of the kind "define" or "directive"."""
    found, at, fresh = [], 0, True
    while at < len(text):
        start = re.compile(r"[ \t]*#").match(text, at) if fresh else None
        if start:
            end = at
            while end < len(text) and text[end] != "\n":
                if text.startswith("/*", end):
                    end = text.index("*/", end) + 2
                else:
                    end += 2 if text.startswith("\\\n", end) else 1
            directive = text[at:end]
            kind = "define" if re.match(r"\s*#\s*define\b", directive) else "directive"
            found.append(Token(kind, directive, line))
            line += directive.count("\n")
            at = end
            continue
        match = TOKEN.match(text, at)
        kind = "text" if match.lastgroup == "fence" else match.lastgroup
        piece = match.group()
        if kind not in ("space", "comment"):
            found.append(Token(kind, piece, line))
        fresh = "\n" in piece if kind == "space" else fresh and kind == "comment"
        line += piece.count("\n")
        at = match.end()
    return found


def is_declaration(tokens):
    """Does a statement that begins with these tokens declare something?"""
    if not tokens or tokens[0].kind != "word" or tokens[0].text in ("return", "goto", "delete", "throw"):
        return False
    if tokens[0].text in TYPE_WORDS:
        return True
    at = 1
    while at + 1 < len(tokens) and tokens[at].text in ("##", "::"):
        at += 2
    if at < len(tokens) and tokens[at].text == "(":
        at = matching(tokens, at) + 1
        if at >= len(tokens) or not (tokens[at].kind == "word" or tokens[at].text == "*"):
            return False
    while at < len(tokens) and tokens[at].text in ("*", "&", "const", "restrict", "volatile"):
        at += 1
    return at + 1 < len(tokens) and tokens[at].kind == "word" and tokens[at + 1].text in ("=", ",", "[", ";", "(", "##")


def is_enum(tokens):
    """Do these tokens stand before the list of an enum, and not before a function that returns one?"""
    texts = [token.text for token in tokens]
    return "enum" in texts and "(" not in texts[len(texts) - texts[::-1].index("enum"):]


def matching(tokens, at):
    """The index of the bracket that closes the one at `at`; the last token where none does."""
    depth = 0
    for index in range(at, len(tokens)):
        if tokens[index].kind == "sign":
            depth += (tokens[index].text in OPEN) - (tokens[index].text in CLOSE)
            if depth == 0:
                return index
    return len(tokens) - 1


def has_effect(tokens):
    """Is this, one side of a comma, a statement in its own right: an assignment, an increment, a call?"""
    if not tokens or tokens[0].text in (".", "{", "[") or tokens[0].kind == "text":
        return False
    depth = 0
    for token in tokens:
        if token.kind == "sign":
            if depth == 0 and (token.text in ASSIGN or token.text in ("++", "--")):
                return True
            depth += (token.text in OPEN) - (token.text in CLOSE)
    if tokens[0].text == "(" and len(tokens) > 2 and tokens[1].text == "void":
        return True
    return tokens[0].kind == "word" and tokens[-1].text == ")" and any(c.islower() for c in tokens[0].text)


class Statements:
    """Walks over statements, and calls `see(tokens)` for each simple one."""

    def __init__(self, tokens, see):
        self.tokens, self.see, self.at = [t for t in tokens if t.kind not in ("define", "directive")], see, 0

    def run(self):
        while self.at < len(self.tokens):
            before = self.at
            self.statement()
            if self.at == before:
                self.at += 1

    def statement(self):
        tokens, start = self.tokens, self.at
        if start >= len(tokens):
            return
        first = tokens[start]
        if first.text in ("{", "}", ";") and first.kind == "sign":
            self.at += 1
            return
        if first.kind == "word" and first.text in CONTROL | {"for"} and start + 1 < len(tokens) and tokens[start + 1].text == "(":
            end = matching(tokens, start + 1)
            if first.text != "for":
                self.see(tokens[start:end + 1])
            self.at = end + 1
            return
        if first.kind == "word" and first.text in ("else", "do"):
            self.at += 1
            return
        if first.kind == "word" and first.text in ("case", "default"):
            while self.at < len(tokens) and tokens[self.at].text != ":":
                self.at += 1
            self.at += 1
            return
        depth, assigned, questions = 0, False, 0
        for index in range(start, len(tokens)):
            token = tokens[index]
            if token.kind != "sign":
                continue
            is_list = assigned or first.text == "return" or is_enum(tokens[start:index])
            if token.text == "{" and depth == 0 and index > start and not is_list:
                self.at = index + 1  # a body: its statements come next
                return
            if token.text in OPEN:
                depth += 1
            elif token.text in CLOSE:
                depth -= 1
                if depth < 0:
                    self.see(tokens[start:index])
                    self.at = index
                    return
            elif depth == 0 and token.text in ASSIGN:
                assigned = True
            elif depth == 0 and token.text == "?":
                questions += 1
            elif depth == 0 and token.text == ":" and index == start + 1:
                self.at = index + 1  # a label
                return
            elif depth == 0 and token.text == ";":
                self.see(tokens[start:index])
                self.at = index + 1
                return
        self.see(tokens[start:])
        self.at = len(tokens)


def commas_of(tokens):
    """The indices of commas outside every bracket, and outside the middle of `?:`."""
    depth, questions, found = 0, 0, []
    for index, token in enumerate(tokens):
        if token.kind != "sign":
            continue
        depth += (token.text in OPEN) - (token.text in CLOSE)
        if depth == 0:
            questions += (token.text == "?") - (token.text == ":" and questions > 0)
            if token.text == "," and not questions:
                found.append(index)
    return found


def has_inner_comma(tokens):
    """Is there a comma operator within parentheses: `(a, b)` that are no call's, or the middle of `?:`?"""
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        if token.text != "(" or token.kind != "sign":
            continue
        is_control = before is not None and before.text in ("if", "while", "switch", "return")
        is_call = before is not None and not is_control and (before.kind == "word" or before.text in (")", "]", "##"))
        is_attribute = index > 1 and before.text == "(" and tokens[index - 2].text == "__attribute__"
        if is_call or is_attribute:  # `__attribute__((a, b(c)))` lists attributes
            continue
        inside = tokens[index + 1:matching(tokens, index)]
        commas = commas_of(inside)
        if commas and has_effect(inside[:commas[0]]) and not is_declaration(inside):
            return True
    return False


def count_conditionals(tokens):
    """The most `?:` in one expression of a statement. The elements of a braced list count one by one, and so do the
    arguments of macro calls in a table of rows, `X(...) X(...)`."""
    is_table = len(tokens) > 1 and tokens[0].kind == "word" and tokens[0].text.isupper() and tokens[1].text == "("
    opened, most, count = [], 0, 0
    for token in tokens:
        if token.kind != "sign":
            continue
        if token.text == "?":
            count += 1
        is_end = token.text in ("{", "}") or (token.text == "," and opened and opened[-1] == "{")
        if is_end or (is_table and len(opened) <= 1 and token.text in (",", "(", ")")):
            most, count = max(most, count), 0
        if token.text in OPEN:
            opened.append(token.text)
        elif token.text in CLOSE and opened:
            opened.pop()
    return max(most, count)


def check_statements(tokens, add):
    def see(statement):
        line = statement[0].line if statement else 0
        while statement and statement[0].kind == "word" and statement[0].text in ("else", "do"):
            statement = statement[1:]
        if not statement:
            return
        if count_conditionals(statement) > 1:
            add("conditionals", line, "two ?: in one statement: use if, a table or a second variable")
        commas = commas_of(statement)
        if statement[0].text == "return":
            if commas:
                add("return", line, "`return a, b`: give each effect its own statement")
        elif commas and not is_declaration(statement):
            sides = [statement[a:b] for a, b in zip([0] + [c + 1 for c in commas], commas + [len(statement)])]
            if all(has_effect(side) for side in sides):
                add("comma", line, "statements joined by a comma: give each its own line")
        elif has_inner_comma(statement):
            add("comma", line, "a comma operator: give each effect its own statement")

    Statements(tokens, see).run()
    for token in tokens:
        if token.kind != "define":
            continue
        head = re.match(r"\s*#\s*define\s+\w+(?:\([^)]*\))?", token.text).group()
        body = re.sub(r"\\\n", " \n", token.text[len(head):])
        Statements(split_tokens(body, token.line + head.count("\n")), see).run()


FUNCTION = re.compile(r"^(?!\s|#|typedef\b|struct\b[^(]*\{|else\b|return\b|enum\b)[^;{}=]*?\b([A-Za-z_]\w*)\s*\((?:[^;{}]|\{\s*\})*\)\s*\{", re.M)


def functions_of(text):
    """(name, line, lines) of each function that is defined at the left margin; comments and texts are blanked."""
    blank = re.sub(TOKEN, lambda m: re.sub(r"[^\n]", " ", m.group()) if m.lastgroup in ("comment", "text", "fence") else m.group(), text)
    blank = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: re.sub(r"[^\n]", " ", m.group()), blank, flags=re.M)
    for match in FUNCTION.finditer(blank):
        depth, end = 0, match.end() - 1
        while end < len(blank):
            depth += (blank[end] == "{") - (blank[end] == "}")
            if depth == 0:
                break
            end += 1
        if match.group(1) in ("defined", "if", "for", "while", "switch", "__attribute__") or match.group(1).isupper():
            continue
        start = blank.rfind("\n", 0, match.start(1)) + 1
        yield match.group(1), text.count("\n", 0, start) + 1, text.count("\n", start, end) + 1


def sources(folders):
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", *folders], capture_output=True, text=True, check=False)
    for path in sorted(set(listed.stdout.split("\n"))):
        if path.endswith((".c", ".h", ".cc", ".hpp")) and os.path.exists(os.path.join(ROOT, path)):
            yield path


def is_exempt(lines, number):
    """A table that says why its lines are long: between `clang-format off: WHY` and `clang-format on`."""
    for line in reversed(lines[:number]):
        if "clang-format on" in line:
            return False
        if re.search(r"clang-format off: \w", line):
            return True
    return False


def check(paths):
    """Findings as (path, line, kind, text)."""
    found, names = [], collections.defaultdict(set)
    for path in paths:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS and not is_exempt(lines, number):
                found.append((path, number, "columns", f"{len(line)} columns: at most {COLUMNS}"))
        check_statements(split_tokens(text), lambda kind, line, why: found.append((path, line, kind, why)))
        counted = path.startswith(COUNTED)
        for name, line, length in functions_of(text):
            if not counted:
                continue
            if length > LINES:
                found.append((path, line, "length", f"{name} has {length} lines: at most {LINES}; split it"))
            if path.endswith((".c", ".cc")):
                names[name].add((path, line))
    for name, places in sorted(names.items()):
        if len({path for path, _ in places}) > FILES and name != "main":
            for path, line in sorted(places):
                found.append((path, line, "name", f"{name} is defined in {len(places)} files: name its object (find_backend)"))
    kinds = {path: ("columns",) if path.startswith(HEADERS) else ("comma", "return", "columns") for path, *_ in found}
    return [f for f in found if f[0].startswith(COUNTED) or f[2] in kinds[f[0]]]


def binaries():
    """Compiled files that git keeps or would add; the corpus of the fuzz targets has broken ones."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True, check=False)
    for path in filter(None, listed.stdout.split("\0")):
        whole = os.path.join(ROOT, path)
        if os.path.isfile(whole) and not path.startswith("tests/fuzz/corpus/"):
            with open(whole, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def folder_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] in ("src", "tests") else parts[0]


def counts_of(found):
    """The number of findings of each kind, by folder."""
    counts = collections.defaultdict(collections.Counter)
    for path, _, kind, _ in found:
        counts[folder_of(path)][kind] += 1
    return counts


def print_counts(counts):
    print("folder".ljust(22) + "".join(kind.rjust(14) for kind in KINDS))
    total = sum(counts.values(), collections.Counter())
    for folder, row in [*sorted(counts.items()), ("total", total)]:
        print(folder.ljust(22) + "".join(str(row[kind]).rjust(14) for kind in KINDS))


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    paths = [os.path.relpath(os.path.abspath(a), ROOT) for a in arguments if os.path.isfile(a)]
    paths = paths or list(sources(arguments or COUNTED + ALSO + HEADERS))
    found = sorted(check(paths))
    if not arguments:
        found += [(path, 1, "binary", "a compiled file: remove it") for path in binaries()]
    counts = counts_of(found)
    if "--counts" in sys.argv:
        print_counts(counts)
        return 0
    for path, line, _, why in found:
        print(f"{path}:{line}: {why}")
    bad = {path for path, _, _, _ in found}
    print(f"{len(paths) - len(bad)} passed, {len(bad)} failed, 0 skipped")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
