/* Makes the requests of a program to the system fail: the n-th request, that one and all after it,
 * or a random share. Every request of Tenon's own code arrives here, because the linker redirects
 * the functions below in programs that link faults.c (--wrap, tests/fault/CMakeLists.txt); libtenon
 * itself is not changed. Requests of other libraries, and those inside libc, do not arrive here:
 * see allocator.c for those. The requests of all threads count.
 *
 * With FAULT_SAY=1 in the environment, the place of each plan's first failing request is
 * printed. */
#ifndef TENON_TESTS_FAULTS_H
#define TENON_TESTS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* kind, description */
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
  /* The kinds of requests that count and fail: bits 1 << kind. */
  uint32_t kinds;
  /* The number of the first request that fails, from 1; 0: at random. */
  int64_t at;
  /* How many requests fail from there, one after the other; 0: one. */
  int64_t times;
  uint64_t seed; /* the seed of the random choice */
  /* One request in so many fails at random; 0: none fails, and all are counted. */
  uint32_t share;
} fault_plan_t;

/* Counts requests from 0 and lets them fail by the plan, until fault_end. The calling thread keeps
 * no free blocks meanwhile, so that each block is a request. */
void fault_begin(const fault_plan_t *plan);
void fault_end(void);
int64_t fault_count(
    /* Requests since fault_begin; FAULT_KINDS: of all kinds in the plan. */
    fault_kind_t kind);
int64_t fault_failures(void);      /* requests that failed */
bool fault_ask(fault_kind_t kind); /* true: this request fails */
const char *fault_name(fault_kind_t kind);
/* The calling thread's requests neither count nor fail until the other function is called; for
 * requests that tests make themselves. */
void fault_pause(void);
void fault_resume(void);
/* From now on allocations fail once their sum exceeds the limit, freed ones included; this bounds
 * the work. 0: off. */
void fault_limit(int64_t bytes);

/* The n-th allocation from now on fails, and also all later ones if `sticky`. */
static inline void fault_memory(int64_t n, bool sticky) {
  fault_plan_t plan = {.kinds = 1 << FAULT_MEMORY, .at = n, .times = sticky ? INT64_MAX : 1};
  fault_begin(&plan);
}

#endif
