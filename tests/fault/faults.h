/* Makes what a program asks of its system fail: the n-th request, that and all after it, or a
 * random share of them.  Every request of Tenon's own code comes through here, because programs
 * that link faults.c have the linker send the names below there (--wrap,
 * tests/fault/CMakeLists.txt); libtenon itself knows nothing of it.  Requests of other libraries,
 * of libc's inside too, do not: see allocator.c for those.  Of threads: all count, on any of them.
 * FAULT_SAY=1 in the environment shows from where the first request that fails of each plan
 * came. */
#ifndef TENON_TESTS_FAULTS_H
#define TENON_TESTS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* kind, what it is */
#define FAULT_EACH_KIND(X)                                                                         \
  X(MEMORY, "allocation")                                                                          \
  X(FILE, "open file")                                                                             \
  X(MAP, "map")                                                                                    \
  X(LIBRARY, "library")                                                                            \
  X(THREAD, "thread")                                                                              \
  X(PROCESS, "process")                                                                            \
  X(PIECE, "piece of a device's memory")                                                           \
  X(ALLOCATE, "allocation on a device")                                                            \
  X(COPY, "copy")                                                                                  \
  X(LAUNCH, "launch")                                                                              \
  X(STREAM, "stream")                                                                              \
  X(EVENT, "event")

typedef enum fault_kind_t {
#define FAULT_ENUM(name, text) FAULT_##name,
  FAULT_EACH_KIND(FAULT_ENUM)
#undef FAULT_ENUM
      FAULT_KINDS
} fault_kind_t;

enum { FAULT_ALL = (1 << FAULT_KINDS) - 1 };

typedef struct fault_plan_t {
  uint32_t kinds; /* that count and fail: bits 1 << kind */
  int64_t at;     /* the first of them that fails, from 1; 0: by chance */
  int64_t times;  /* how many fail from there, one after the other; 0: one */
  uint64_t seed;  /* of chance */
  uint32_t share; /* by chance one in so many fails; 0: none, all are counted */
} fault_plan_t;

/* Counts from 0 and fails by plan, until fault_end.  The calling thread keeps no free blocks
 * meanwhile, so that each it needs is asked for. */
void fault_begin(const fault_plan_t *plan);
void fault_end(void);
int64_t fault_count(
    fault_kind_t kind); /* requests since fault_begin; FAULT_KINDS: of all kinds of the plan */
int64_t fault_failures(void);      /* those that failed */
bool fault_ask(fault_kind_t kind); /* true: this request fails */
const char *fault_name(fault_kind_t kind);
/* The calling thread's requests do not count and do not fail until the other is called: for what
 * tests need themselves. */
void fault_pause(void);
void fault_resume(void);
/* Allocations from now on fail once they sum up to more, freed ones included: a bound on work; 0:
 * off. */
void fault_limit(int64_t bytes);

/* The n-th allocation from now fails, and those after it if `sticky`. */
static inline void fault_memory(int64_t n, bool sticky) {
  fault_plan_t plan = {.kinds = 1 << FAULT_MEMORY, .at = n, .times = sticky ? INT64_MAX : 1};
  fault_begin(&plan);
}

#endif
