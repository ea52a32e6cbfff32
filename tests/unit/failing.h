/* Lets the n-th allocation of a function fail, for every n until the function succeeds. The
 * function must report TENON_MEMORY (or do without the allocation), leave nothing behind, and work
 * the next time. Include after operators.h. */
#ifndef TENON_TESTS_FAILING_H
#define TENON_TESTS_FAILING_H

#include "base/memory.h"
#include "base/thread.h"
#include "faults.h"

/* Frees what it made, also when it fails. */
typedef tenon_status_t (*failing_fn)(void *context);

static inline void fail_each(const char *what, failing_fn attempt, void *context, int64_t step) {
  for (int sticky = 0; sticky < 2; sticky++)
    for (int64_t n = 1;; n += step) {
      tn_thread_drop(); /* Scratch memory must be allocated again. */
      fault_memory(n, sticky);
      tenon_status_t status = attempt(context);
      int64_t count = fault_count(FAULT_MEMORY);
      fault_end();
      if (status != TENON_OK && status != TENON_MEMORY) {
        char text[600];
        snprintf(text, sizeof text, "%s: allocation %lld failed: status %d: %s", what, (long long)n,
                 (int)status, tenon_error());
        check_report(0, __FILE__, __LINE__, text, NULL);
      }
      if (status == TENON_MEMORY && *tenon_error())
        CHECK_TEXT(tenon_error(), "memory");      /* A shutdown leaves no message. */
      if (status == TENON_OK && count < n) break; /* The function makes fewer than n allocations. */
      if (!CHECK(n < 1000000)) break;
    }
  int status = attempt(context);
  check_status(status, TENON_OK, CHECK_MESSAGE(), __FILE__, __LINE__, what);
}

#endif
