/* The search for calls on a stack; see stack.h. */
#include "dump/stack.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "dispatch/services.h"

enum {
  CHUNK = 512,
  STACK_MOST = 16 << 20,
  TRIES_MOST = 30000,
  CACHE = 4096,
}; /* words; bytes; reads; addresses */

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

/* Size and phase are one word. */
static bool opens_call(uintptr_t word, uintptr_t next) {
  uint32_t size = (uint32_t)word;
  uint32_t phase = (uint32_t)(word >> 32);
  return next == (uintptr_t)&tn_host && phase >= TENON_PHASE_VALIDATE &&
         phase <= TENON_PHASE_LOOP && size >= 32 && size <= 4096;
}

static void add_call(tn_stack_t *stack, uintptr_t address) {
  tn_seen_t seen;
  for (int i = 0; i < stack->call_count; i++)
    if (stack->calls[i] == (const void *)address) return;
  if (stack->call_count < TN_STACK_CALLS && tn_peek((const void *)address, &seen, sizeof seen) &&
      is_op(seen.op))
    stack->calls[stack->call_count++] = (const void *)address;
}

static uintptr_t tried[CACHE]; /* addresses that were looked at, by their low bits */
static int tries;

static bool is_worth_a_try(uintptr_t address) {
  uintptr_t *place = &tried[address / 8 % CACHE];
  if (address < 65536 || address & 7 || address >> 47 || *place == address || tries >= TRIES_MOST)
    return false;
  *place = address;
  tries++;
  return true;
}

/* An address of a call; or of what leads to one, as the jobs of parallel-for do: `depth` more
 * steps. */
static void follow(tn_stack_t *stack, uintptr_t address, int depth) {
  uintptr_t words[4] = {0};
  if (!is_worth_a_try(address) || !tn_peek((const void *)address, words, sizeof words)) return;
  if (opens_call(words[0], words[1])) add_call(stack, address);
  for (int i = 0; i < 4 && depth; i++)
    follow(stack, words[i], depth - 1);
}

static void search(tn_stack_t *stack, int depth) {
  static uintptr_t words[CHUNK + 1];
  uintptr_t at = stack->registers[0] & ~(uintptr_t)7;
  memset(tried, 0, sizeof tried);
  tries = 0;
  for (int i = 1; i < stack->register_count; i++)
    follow(stack, stack->registers[i], depth);
  for (uintptr_t end = at + STACK_MOST; at < end; at += CHUNK * 8) {
    size_t count = CHUNK + 1;
    while (count && !tn_peek((const void *)at, words, count * 8))
      count /= 2;
    for (size_t i = 0; i < count; i++) {
      if (i + 1 < count && opens_call(words[i], words[i + 1]))
        add_call(stack, at + i * 8);
      else
        follow(stack, words[i], depth);
    }
    if (count <= CHUNK) return;
  }
}

/* The function of a library that the call is in; NULL: not known. */
static tenon_any_fn function_of(const void *call) {
  tn_frame_t frame;
  tn_kernel_t kernel;
  tn_table_entry_t entry;
  tenon_op_t op;
  tn_seen_t seen;
  if (!tn_peek(call, &seen, sizeof seen)) return NULL;
  if (seen.phase != TENON_PHASE_RUN) {
    if (!tn_peek(seen.op, &op, sizeof op)) return NULL;
    return seen.phase == TENON_PHASE_INFER      ? (tenon_any_fn)op.infer
           : seen.phase == TENON_PHASE_CREATE   ? (tenon_any_fn)op.create
           : seen.phase == TENON_PHASE_VALIDATE ? (tenon_any_fn)op.validate
           : seen.phase == TENON_PHASE_PREPARE  ? (tenon_any_fn)op.prepare
                                                : NULL;
  }
  if (!tn_peek(call, &frame, sizeof frame)) return NULL;
  const tn_kernel_t *found = frame.kernel;
  if (!found && frame.entry && tn_peek(frame.entry, &entry, sizeof entry)) found = entry.only;
  if (!found || !tn_peek(found, &kernel, sizeof kernel)) return NULL;
  return kernel.loop.function ? (tenon_any_fn)kernel.loop.function
         : kernel.stub        ? (tenon_any_fn)kernel.stub
                              : (tenon_any_fn)kernel.run;
}

static int frame_of(const tn_stack_t *stack, const void *call, int from) {
  tenon_any_fn function = function_of(call);
  void *address = NULL;
  memcpy(&address, &function, sizeof address);
  for (int i = from; i < stack->frame_count && address; i++)
    if (stack->functions[i] == address) return i;
  return -1;
}

/* Old calls may have left traces: those whose functions are on the stack, in that order, are really
 * under way.  Where the stack cannot be followed, the innermost is believed. */
static void keep_true(tn_stack_t *stack) {
  int kept = 0;
  int at = 0;
  const void *first = stack->call_count ? stack->calls[0] : NULL;
  for (int i = 0; i < stack->call_count; i++) {
    int frame = frame_of(stack, stack->calls[i], at);
    if (frame < 0) continue;
    stack->calls[kept++] = stack->calls[i];
    at = frame + 1;
  }
  if (!kept && first) stack->calls[kept++] = first;
  stack->call_count = kept;
}

void tn_stack_search(tn_stack_t *stack) {
  stack->call_count = 0;
  for (int depth = 0; depth < 3 && !stack->call_count; depth++)
    search(stack, depth);
  keep_true(stack);
}
