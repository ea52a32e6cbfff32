/* `tenon run --picture WHAT=FILE`: pictures of the graph that runs, of its plan, and of the plan's
 * memory. Graphs are laid out by Graphviz. */
#ifndef TOOLS_PICTURE_H
#define TOOLS_PICTURE_H

#include <tenon/tenon.h>

#include "text.h"

#define PICTURE_HELP                                                                               \
  "draw the graph that runs, the plan (which nodes run as one) or the memory of the plan; FILE "   \
  "ends with .svg (drawn by Graphviz's dot) or, except for memory, with .dot.  Blocks that "       \
  "repeat are drawn once; graph-whole and plan-whole draw each of them.  May be repeated"

/* Checks the option's values before anything runs: known pictures, files of a known kind, and
 * Graphviz if it is needed. */
bool pictures_check(const texts_t *pictures, text_t *why);
/* Whether one of the pictures needs a run. */
bool pictures_need_run(const texts_t *pictures);
/* Writes the files, and prints their names. */
bool pictures_write(const texts_t *pictures, tenon_executable_t *executable, text_t *why);

#endif
