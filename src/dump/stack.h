/* Finds calls of operators on the stack of a thread that has crashed. Nothing is recorded while
 * calls run: every structure that the host passes to functions of libraries starts with its size,
 * phase and host, and the search looks for these. Memory is read without trust, and nothing is
 * allocated or locked. */
#ifndef TN_RECORD_STACK_H
#define TN_RECORD_STACK_H

#include "operator/frame.h"

enum {
  TN_STACK_CALLS = 16,
  TN_STACK_FRAMES = 64,
};

/* Input: registers that may point to calls, the first being the stack pointer, and return
 * addresses. */
typedef struct tn_stack_t {
  uintptr_t registers[32];
  int register_count;
  void *frames[TN_STACK_FRAMES];
  void *functions[TN_STACK_FRAMES]; /* start of the function of each frame */
  int frame_count;
  const void *calls[TN_STACK_CALLS]; /* output: arguments of the functions, innermost first */
  int call_count;
  bool is_exact; /* input: only calls whose function is on the stack count */
} tn_stack_t;

/* Reads memory of this process. Returns: false if it is not accessible. */
bool tn_peek(const void *address, void *out, size_t size);
/* Reads a text of at most `capacity` - 1 printable bytes. Returns: false if there is none. */
bool tn_peek_text(const char *address, char *out, size_t capacity);

typedef struct tn_seen_t { /* the first fields of tenon_call_t, tenon_infer_t and others */
  uint32_t size;
  uint32_t phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs;
} tn_seen_t;

void tn_stack_search(tn_stack_t *stack);

#endif
