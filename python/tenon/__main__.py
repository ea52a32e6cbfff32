"""`python -m tenon VERB ...`: the `tenon` command; `python -m tenon check LIB.so --with FILE.py` with samples and references in Python."""
import sys

from . import _check, _command

if __name__ == "__main__":
    if sys.argv[1:2] == ["check"] and any(a == "--with" or a.startswith("--with=") for a in sys.argv):
        sys.exit(_check.main(sys.argv[2:]))
    _command.main()
