"""The documentation: every link between pages leads somewhere, docs/README.md lists every page, docs/support.md is what
the registry says, and no word that scripts/retired.txt retires stands in comments, messages, identifiers or pages."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```", re.S | re.M)


def listed(*patterns):
    run = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", *patterns], capture_output=True, text=True, check=True)
    return sorted({path for path in run.stdout.split("\n") if path and os.path.isfile(os.path.join(ROOT, path))})


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def anchors_of(text):
    """The fragments that GitHub and other readers give to headings."""
    found = {}
    for heading in re.findall(r"^#+ +(.+?) *$", CODE.sub("", text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = found.get(anchor, 0)
        found[anchor] = count + 1
        yield anchor if not count else f"{anchor}-{count}"


def broken_links():
    pages = listed("*.md")
    for page in pages:
        if page.startswith("share/templates/"):  # its links are those of the folder that `tenon new` makes
            continue
        for target in LINK.findall(CODE.sub("", read(page))):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, fragment = target.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(os.path.join(ROOT, file)):
                yield f"{page}: there is no {target}"
            elif fragment and file.endswith(".md") and fragment not in set(anchors_of(read(file))):
                yield f"{page}: {file} has no heading #{fragment}"


def unlinked_pages():
    """Pages under docs/ that the table of contents, docs/README.md, does not link to."""
    linked = {os.path.normpath(os.path.join("docs", target.partition("#")[0])) for target in LINK.findall(read("docs/README.md"))}
    for page in listed("docs/*.md"):
        if page != "docs/README.md" and page not in linked:
            yield f"{page} is not in docs/README.md"


def retired_words():
    """scripts/retired.txt: a line for each pattern, `PATTERN | FOLDERS | USE INSTEAD`."""
    files = {}
    for number, line in enumerate(read("scripts/retired.txt").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 3:
            yield f"scripts/retired.txt:{number}: expected PATTERN | FOLDERS | USE INSTEAD"
            continue
        pattern, folders, instead = parts
        where = re.compile(pattern)
        for path in listed(*folders.split()):
            if path == "scripts/retired.txt" or path.startswith("abi/"):
                continue
            text = files.setdefault(path, read(path))
            for match in where.finditer(text):
                yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()!r} is retired in this sense: {instead}"


def main():
    checks = [("links", list(broken_links())), ("pages", list(unlinked_pages())), ("retired words", list(retired_words()))]
    build = os.environ.get("TENON_BUILD", os.path.join(ROOT, "build"))
    skipped = 0
    if os.path.exists(os.path.join(build, "tenon")):
        run = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "support.py"), build, "--check"], capture_output=True, text=True, check=False)
        checks.append(("supported combinations", [run.stdout + run.stderr] if run.returncode else []))
        run = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "onnxruntime_operators.py"), build, "--check"], capture_output=True, text=True, check=False)
        checks.append(("operators of ONNX Runtime", [run.stdout + run.stderr] if run.returncode else []))
    else:
        print(f"skip: docs/support.md: {build}/tenon is missing (make build)")
        skipped = 1
    failed = 0
    for name, found in checks:
        for line in found[:40]:
            print(f"{name}: {line}")
        if len(found) > 40:
            print(f"{name}: {len(found) - 40} more")
        failed += bool(found)
    print(f"{len(checks) - failed} passed, {failed} failed, {skipped} skipped")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
