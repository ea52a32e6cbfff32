"""Writes a page of documentation that is made from tables, or checks that the page is what the tables say."""
import os
import sys

DOCS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs")


def write(name, text):
    """Writes docs/NAME, or compares it if the program was called with --check; returns the exit status."""
    path = os.path.join(DOCS, name)
    if "--check" not in sys.argv:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(path, encoding="utf-8") as file:
        if file.read() == text:
            return 0
    print(f"docs/{name} is not what its tables say: run `make support`")
    return 1
