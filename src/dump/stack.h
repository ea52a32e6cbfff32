/* Calls of operators on the stack of a thread that has crashed.  Nothing is kept while calls run:
 * what the host gives to functions of libraries opens with its size, phase and host, which is
 * looked for.  Memory is read without trust, and nothing is allocated or locked. */
#ifndef TN_RECORD_STACK_H
#define TN_RECORD_STACK_H

#include "operator/frame.h"

enum {
  TN_STACK_CALLS = 16,
  TN_STACK_FRAMES = 64,
};

typedef struct
    /* in: the registers that may point to calls, the first the stack pointer; return addresses */
    tn_stack_t {
  uintptr_t registers[32];
  int register_count;
  void *frames[TN_STACK_FRAMES];
  void *functions[TN_STACK_FRAMES]; /* functions: where the function of each begins */
  int frame_count;
  const void *calls[TN_STACK_CALLS]; /* out: what functions were given, the innermost first */
  int call_count;
} tn_stack_t;

/* Reads memory of this process; false: there is none. */
bool tn_peek(const void *address, void *out, size_t size);
/* A text of at most `capacity` - 1 bytes that print; false: it is none. */
bool tn_peek_text(const char *address, char *out, size_t capacity);

typedef struct tn_seen_t { /* what tenon_call_t, tenon_infer_t and others open with */
  uint32_t size;
  uint32_t phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs;
} tn_seen_t;

void tn_stack_search(tn_stack_t *stack);

#endif
