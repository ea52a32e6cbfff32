/* The functions of tenon.h that concern the whole runtime: start, version, error messages, threads.
 * Programs and every folder of src call them.
 * Invariant: the runtime starts once, at the first call of tenon_start, whoever makes it. */
#include "base/runtime.h"

#include "base/memory.h"
#include "base/parallel.h"
#include "base/status.h"
#include "base/thread.h"

tenon_status_t (*tn_runtime_begin)(void);

static tn_mutex_t lock = TN_MUTEX_INIT;
static int started;

tenon_status_t tenon_start(void) {
  if (__atomic_load_n(&started, __ATOMIC_ACQUIRE)) return TENON_OK;
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&lock);
  if (!started) {
    status = tn_runtime_begin();
    if (status == TENON_OK) __atomic_store_n(&started, 1, __ATOMIC_RELEASE);
  }
  tn_mutex_unlock(&lock);
  return status;
}

void tn_runtime_stop(void (*end)(void)) {
  tn_mutex_lock(&lock);
  if (started) {
    end();
    __atomic_store_n(&started, 0, __ATOMIC_RELEASE);
  }
  tn_mutex_unlock(&lock);
}

const char *tenon_version(void) { return TENON_VERSION_TEXT; }

const char *tenon_error(void) { return tn_error(); }
tenon_status_t tenon_error_set(tenon_status_t status, const char *text) {
  return tn_fail(status, "%s", text);
}
const char *tenon_status_name(tenon_status_t status) { return tn_status_name(status); }

void tenon_threads_set(int32_t count) { tn_parallel_set(count); }
int32_t tenon_threads_get(void) { return tn_parallel_threads(); }

tenon_status_t tenon_thread_pool_set(const tenon_thread_pool_t *pool, int32_t is_process) {
  /* The runtime notices forks once it has started. */
  if (pool) TN_TRY(tenon_start());
  return tn_parallel_pool_set(pool, is_process);
}

const tenon_thread_pool_t *tenon_thread_pool_get(int32_t is_process) {
  return tn_parallel_pool(is_process);
}

void tenon_text_release(char *text) { tn_release_memory(text); }
