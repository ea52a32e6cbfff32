"""The `tenon` command of the installed package."""
import os
import sys


def main():
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tenon")
    os.execv(command, [command, *sys.argv[1:]])
