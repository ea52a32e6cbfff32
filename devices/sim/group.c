/* Runs the work groups of a kernel. If a group has several items, each item has its own stack and
 * runs up to its next barrier; the items take turns on the one thread of the stream. Barriers are
 * therefore exact, and the order of execution between them is deterministic. */
#include "group.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#else
#define __tsan_get_current_fiber() NULL
#define __tsan_create_fiber(flags) NULL
#define __tsan_destroy_fiber(fiber) (void)(fiber)
#define __tsan_switch_to_fiber(fiber, flags) (void)(fiber)
#endif

enum { STACK = 1 << 17 };

typedef struct fiber_t {
  sim_item_t item;
  ucontext_t context;
  ucontext_t *back;
  void *sanitizer_fiber; /* this fiber and its caller as the thread sanitizer knows them */
  void *sanitizer_back;
  sim_kernel_fn function;
  void *const *arguments;
  bool done;
} fiber_t;

static _Thread_local fiber_t *entered; /* makecontext cannot pass a pointer to the function */

static void leave(fiber_t *fiber) {
  __tsan_switch_to_fiber(fiber->sanitizer_back, 0);
  swapcontext(&fiber->context, fiber->back);
}

static void run(void) {
  fiber_t *fiber = entered;
  fiber->function(&fiber->item, fiber->arguments);
  fiber->done = true;
  leave(fiber);
}

static void barrier(const sim_item_t *item) {
  if ((uint64_t)item->items[0] * item->items[1] * item->items[2] > 1)
    leave((fiber_t *)(uintptr_t)((const char *)item - offsetof(fiber_t, item)));
}

static void enter(fiber_t *fiber) {
  entered = fiber;
  __tsan_switch_to_fiber(fiber->sanitizer_fiber, 0);
  swapcontext(fiber->back, &fiber->context);
}

static void prepare(fiber_t *fiber, char *stack) {
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = STACK;
  fiber->context.uc_link = NULL;
  fiber->done = false;
  makecontext(&fiber->context, run, 0);
}

static tenon_status_t group_run(fiber_t *fibers, uint32_t count, char *stacks, bool backward,
                                char *message) {
  for (uint32_t i = 0; i < count; i++)
    prepare(&fibers[i], stacks + (size_t)i * STACK);
  for (uint32_t done = 0; done < count;) {
    for (uint32_t i = 0; i < count; i++)
      enter(&fibers[backward ? count - 1 - i : i]);
    done = 0;
    for (uint32_t i = 0; i < count; i++)
      done += fibers[i].done;
    if (!done || done == count) continue;
    snprintf(message, SIM_TEXT,
             "%u of the %u items of a group ended where the others came to a barrier", done, count);
    return TENON_INVALID;
  }
  return TENON_OK;
}

tenon_status_t sim_groups_run(sim_kernel_fn function, const uint64_t groups[3],
                              const uint32_t items[3], void *const *arguments, void *local,
                              uint64_t local_bytes, char *message) {
  uint32_t count = items[0] * items[1] * items[2];
  ucontext_t back;
  fiber_t *fibers = calloc(count, sizeof *fibers);
  char *stacks = MAP_FAILED;
  if (count > 1)
    stacks = mmap(NULL, (size_t)count * STACK, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  tenon_status_t status = TENON_OK;
  if (!fibers || (count > 1 && stacks == MAP_FAILED)) {
    snprintf(message, SIM_TEXT, "no host memory for a group of %u items", count);
    status = TENON_MEMORY;
  }
  for (uint32_t i = 0; i < count && !status; i++) {
    fibers[i] = (fiber_t){.function = function,
                          .arguments = arguments,
                          .back = &back,
                          .sanitizer_back = __tsan_get_current_fiber()};
    fibers[i].item = (sim_item_t){{0},
                                  {groups[0], groups[1], groups[2]},
                                  {i % items[0], i / items[0] % items[1], i / items[0] / items[1]},
                                  {items[0], items[1], items[2]},
                                  barrier};
    if (count > 1) fibers[i].sanitizer_fiber = __tsan_create_fiber(0);
  }
  uint64_t group[3];
  for (group[2] = 0; group[2] < groups[2] && !status; group[2]++)
    for (group[1] = 0; group[1] < groups[1] && !status; group[1]++)
      for (group[0] = 0; group[0] < groups[0] && !status; group[0]++) {
        if (local_bytes) memset(local, 0xff, local_bytes);
        for (uint32_t i = 0; i < count; i++)
          memcpy(fibers[i].item.group, group, sizeof group);
        if (count == 1)
          function(&fibers[0].item, arguments);
        else
          status = group_run(fibers, count, stacks, group[0] & 1, message);
      }
  for (uint32_t i = 0; i < count && fibers; i++)
    if (fibers[i].sanitizer_fiber) __tsan_destroy_fiber(fibers[i].sanitizer_fiber);
  if (stacks != MAP_FAILED) munmap(stacks, (size_t)count * STACK);
  free(fibers);
  return status;
}
