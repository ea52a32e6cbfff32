/* What this machine can do at most, measured once and kept in the cache: memory by a triad (a = b +
 * s c over arrays that no cache holds), arithmetic by multiply-adds in registers; both on the
 * threads that calls use.  Called by bench. */
#ifndef TOOLS_MACHINE_H
#define TOOLS_MACHINE_H

#include "text.h"

typedef struct machine_t {
  double bandwidth; /* bytes a second: two reads and a write of each element */
  double peak_f32;
  double peak_f64; /* operations a second */
  int32_t threads;
  char instructions[16]; /* of the multiply-adds */
  bool was_kept;         /* taken from the cache */
} machine_t;

/* is_fresh: measured again. */
bool machine_measure(machine_t *out_machine, bool is_fresh, text_t *why);

#endif
