/* Peak rates of this machine, measured once and cached: memory bandwidth by a triad (a = b + s c
 * over arrays that exceed every cache), arithmetic by multiply-adds in registers. Both use the
 * threads that calls use. Called by bench. */
#ifndef TOOLS_MACHINE_H
#define TOOLS_MACHINE_H

#include "text.h"

typedef struct machine_t {
  double bandwidth; /* bytes per second: two reads and one write of each element */
  double peak_f32;
  double peak_f64; /* operations per second */
  int32_t threads;
  char instructions[16]; /* instruction set of the multiply-adds */
  bool was_kept;         /* the values came from the cache */
} machine_t;

/* is_fresh: measures again even if the cache has values. */
bool machine_measure(machine_t *out_machine, bool is_fresh, text_t *why);

#endif
