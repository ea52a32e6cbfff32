/* How many processors this process may use, and what limits them. */
#ifndef TN_BASE_PROCESSORS_H
#define TN_BASE_PROCESSORS_H

#include <stdint.h>

typedef struct tn_processors_t {
  int32_t count;  /* the default number of threads: the least of the following, at least 1 */
  int32_t online; /* processors of the machine */
  int32_t mask;   /* those that the affinity mask allows; 0: unknown */
  /* Processors' worth of time that the quota of the control group, or of a group above it, allows;
   * 0: no quota. */
  double quota;
} tn_processors_t;

/* Reads the limits of the calling thread's process. Reads files: callers keep the result. */
tn_processors_t tn_processors(void);
/* The same with `prefix` before the paths of all files, for tests. */
tn_processors_t tn_processors_under(const char *prefix);

#endif
