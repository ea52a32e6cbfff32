/* Searches a stack for calls of operators; see stack.h. */
#include "dump/stack.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "dispatch/services.h"

/* Limits: words read at once, bytes of stack, reads, and addresses that are remembered. */
enum {
  CHUNK = 512,
  STACK_MOST = 16 << 20,
  TRIES_MOST = 30000,
  CACHE = 4096,
};

bool tn_peek(const void *address, void *out, size_t size) {
  struct iovec here = {out, size};
  struct iovec there = {(void *)(uintptr_t)address, size};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

bool tn_peek_text(const char *address, char *out, size_t capacity) {
  size_t i = 0;
  for (; i + 1 < capacity; i++) {
    if (!tn_peek(address + i, &out[i], 1) || (out[i] && (out[i] < ' ' || out[i] == 127))) {
      *out = 0;
      return false;
    }
    if (!out[i]) return true;
  }
  out[i] = 0;
  return true;
}

static bool is_op(const tenon_op_t *op) {
  const char *name;
  char text[300];
  return ((uintptr_t)op & 7) == 0 && tn_peek(&op->name, &name, sizeof name) &&
         tn_peek_text(name, text, sizeof text) && strstr(text, "::");
}

/* Size and phase share one word. */
static bool opens_call(uintptr_t word, uintptr_t next) {
  uint32_t size = (uint32_t)word;
  uint32_t phase = (uint32_t)(word >> 32);
  return next == (uintptr_t)&tn_host && phase >= TENON_PHASE_VALIDATE &&
         phase <= TENON_PHASE_LOOP && size >= 32 && size <= 4096;
}

static void add_address(tn_stack_t *stack, uintptr_t address) {
  tn_seen_t seen;
  for (int i = 0; i < stack->call_count; i++)
    if (stack->calls[i] == (const void *)address) return;
  if (stack->call_count < TN_STACK_CALLS && tn_peek((const void *)address, &seen, sizeof seen) &&
      is_op(seen.op))
    stack->calls[stack->call_count++] = (const void *)address;
}

static uintptr_t tried[CACHE]; /* addresses that were examined, indexed by their low bits */
static int read_count;

static bool is_plausible(uintptr_t address) {
  uintptr_t *place = &tried[address / 8 % CACHE];
  if (address < 65536 || address & 7 || address >> 47 || *place == address ||
      read_count >= TRIES_MOST)
    return false;
  *place = address;
  read_count++;
  return true;
}

/* Follows an address to a call, or, for `depth` more steps, to something that refers to a call, as
 * the jobs of a parallel loop do. */
static void follow_address(tn_stack_t *stack, uintptr_t address, int depth) {
  uintptr_t words[4] = {0};
  if (!is_plausible(address) || !tn_peek((const void *)address, words, sizeof words)) return;
  if (opens_call(words[0], words[1])) add_address(stack, address);
  for (int i = 0; i < 4 && depth; i++)
    follow_address(stack, words[i], depth - 1);
}

static void search_stack(tn_stack_t *stack, int depth) {
  static uintptr_t words[CHUNK + 1];
  uintptr_t at = stack->registers[0] & ~(uintptr_t)7;
  memset(tried, 0, sizeof tried);
  read_count = 0;
  for (int i = 1; i < stack->register_count; i++)
    follow_address(stack, stack->registers[i], depth);
  for (uintptr_t end = at + STACK_MOST; at < end; at += CHUNK * 8) {
    size_t count = CHUNK + 1;
    while (count && !tn_peek((const void *)at, words, count * 8))
      count /= 2;
    for (size_t i = 0; i < count; i++) {
      if (i + 1 < count && opens_call(words[i], words[i + 1]))
        add_address(stack, at + i * 8);
      else
        follow_address(stack, words[i], depth);
    }
    if (count <= CHUNK) return;
  }
}

/* Returns: the library's function that the call is in, or NULL if it is unknown. */
static tenon_any_fn function_of(const void *call) {
  tn_frame_t frame;
  tn_kernel_t kernel;
  tn_table_entry_t entry;
  tenon_op_t op;
  tn_seen_t seen;
  if (!tn_peek(call, &seen, sizeof seen)) return NULL;
  if (seen.phase != TENON_PHASE_RUN) {
    if (!tn_peek(seen.op, &op, sizeof op)) return NULL;
    switch (seen.phase) {
    case TENON_PHASE_INFER:
      return (tenon_any_fn)op.infer;
    case TENON_PHASE_CREATE:
      return (tenon_any_fn)op.create;
    case TENON_PHASE_VALIDATE:
      return (tenon_any_fn)op.validate;
    case TENON_PHASE_PREPARE:
      return (tenon_any_fn)op.prepare;
    default:
      return NULL;
    }
  }
  if (!tn_peek(call, &frame, sizeof frame)) return NULL;
  const tn_kernel_t *found = frame.kernel;
  if (!found && frame.entry && tn_peek(frame.entry, &entry, sizeof entry)) found = entry.only;
  if (!found || !tn_peek(found, &kernel, sizeof kernel)) return NULL;
  if (kernel.loop.function) return (tenon_any_fn)kernel.loop.function;
  return kernel.stub ? (tenon_any_fn)kernel.stub : (tenon_any_fn)kernel.run;
}

static int frame_of(const tn_stack_t *stack, const void *call, int from) {
  tenon_any_fn function = function_of(call);
  void *address = NULL;
  memcpy(&address, &function, sizeof address);
  for (int i = from; i < stack->frame_count && address; i++)
    if (stack->functions[i] == address) return i;
  return -1;
}

/* Drops remnants of finished calls. A call is in progress if its function is on the stack, in the
 * same order. If the stack cannot be unwound, the innermost call is kept. */
static void drop_finished_calls(tn_stack_t *stack) {
  int kept = 0;
  int at = 0;
  const void *first = stack->call_count ? stack->calls[0] : NULL;
  for (int i = 0; i < stack->call_count; i++) {
    int frame = frame_of(stack, stack->calls[i], at);
    if (frame < 0) continue;
    stack->calls[kept++] = stack->calls[i];
    at = frame + 1;
  }
  if (!kept && first && !stack->is_exact) stack->calls[kept++] = first;
  stack->call_count = kept;
}

void tn_stack_search(tn_stack_t *stack) {
  stack->call_count = 0;
  for (int depth = 0; depth < 3 && !stack->call_count; depth++)
    search_stack(stack, depth);
  drop_finished_calls(stack);
}
