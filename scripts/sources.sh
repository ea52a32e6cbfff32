#!/usr/bin/env bash
# Prints the path of every C and C++ source file that clang-format lays out. include/tenon/op.h is laid out by hand.
cd "$(dirname "$0")/.." || exit
find include src devices ops tools bridges python examples tests bench \
  \( -name '*.[ch]' -o -name '*.hpp' -o -name '*.cc' -o -name '*.cpp' \) ! -path include/tenon/op.h | sort
