"""Starts the `tenon` command of the installed package, or of the build folder that contains the package."""
import os
import sys


def path():
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(here, "bin", "tenon"), os.path.join(here, "..", "..", "tenon")]
    return next((p for p in places if os.path.isfile(p)), places[0])


def main():
    os.execv(path(), [path(), *sys.argv[1:]])
