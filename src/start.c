/* The process: start, shutdown, version, and the report for `tenon doctor`.  Above every other
 * folder: the only file that knows all of them.  Invariant: start is idempotent, and shutdown
 * leaves nothing behind that the runtime allocated. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "autograd/tape.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/instance.h"
#include "device/plugin.h"
#include "dispatch/call.h"
#include "dispatch/place.h"
#include "dispatch/registry.h"
#include "dispatch/trace.h"
#include "graph/rates.h"
#include "graph/run.h"
#include "isolation/isolation.h"
#include "loader/bridge.h"
#include "loader/policy.h"
#include "record/crash.h"
#include "record/watch.h"

TENON_C const tenon_descriptor_t *tenon_library_core(void);
TENON_C const tenon_descriptor_t *tenon_library_null(void);
TENON_C const tenon_descriptor_t *tenon_library_sim(void);
TENON_C const tenon_descriptor_t *tenon_library_opencl(void);
TENON_C const tenon_descriptor_t *tenon_library_cuda(void);

/* devices of the tree */

/* Their libraries are added when somebody first names them. */
static const struct {
  const char *name;
  const tenon_descriptor_t *(*library)(void);
} devices[] = {{"null", tenon_library_null},
               {"sim", tenon_library_sim},
               {"opencl", tenon_library_opencl},
               {"cuda", tenon_library_cuda},
               {NULL, NULL}};

static tenon_status_t add_device(const char *name) {
  static tn_mutex_t adding = TN_MUTEX_INIT;
  tenon_status_t status = TENON_OK;
  TN_TRY(tenon_start());
  for (size_t i = 0; devices[i].name && status == TENON_OK; i++) {
    if (name && strcmp(devices[i].name, name) != 0) continue;
    tn_mutex_lock(&adding);
    tn_library_t *library;
    tn_text_t offences = {0};
    if (!tn_plugin_find(devices[i].name)) {
      status = tn_registry_add(devices[i].library(), "", NULL, NULL, TN_OVERRIDE_MAY, &offences,
                               &library);
      if (status != TENON_OK && offences.size)
        status = tn_fail(status, "device %s: %s", devices[i].name, offences.data);
      else if (status == TENON_OK)
        tn_registry_release(library);
    }
    tn_text_clear(&offences);
    tn_mutex_unlock(&adding);
  }
  return status;
}

static tn_mutex_t lock = TN_MUTEX_INIT;
static int started;

/* fork */

/* In the order in which one is taken while another is held: the child finds no table or list half
 * changed. */
static tn_mutex_t *(*const mutexes[])(void) = {tn_states_mutex,   tn_registrations_mutex,
                                               tn_registry_mutex, tn_plugins_mutex,
                                               tn_backends_mutex, tn_layers_mutex};
enum { MUTEXES = sizeof mutexes / sizeof *mutexes };

static void before_fork(void) {
  tn_parallel_before_fork();
  for (int i = 0; i < MUTEXES; i++)
    tn_mutex_lock(mutexes[i]());
  tn_threads_hold();
}

static void after_fork(void) {
  tn_threads_let_go();
  for (int i = MUTEXES; i--;)
    tn_mutex_unlock(mutexes[i]());
}

static void in_child(void) {
  after_fork();
  tn_threads_forget_others();
  tn_parallel_in_child();
  tn_plugins_in_child();
  tn_rates_in_child();
  tn_isolation_in_child();
}

/* start and shutdown */

static tenon_status_t start(void) {
  static int handles_fork;
  tn_text_t offences = {0};
  tn_library_t *core;
  tenon_status_t status =
      tn_registry_add(tenon_library_core(), "", NULL, NULL, TN_OVERRIDE_MAY, &offences, &core);
  if (status != TENON_OK && offences.size)
    status = tn_fail(status, "the built-in operators: %s", offences.data);
  tn_text_clear(&offences);
  if (status == TENON_OK)
    tn_registry_release(core);
  else
    tn_registry_clear();
  tn_tape_start();
  tn_graph_start();
  tn_trace_start();
  tn_record_start();
  tn_crash_start();
  tn_fallback_start();
  tn_device_builtin = add_device;
  if (!handles_fork) handles_fork = tn_at_fork(before_fork, after_fork, in_child);
  return status;
}

tenon_status_t tenon_start(void) {
  if (__atomic_load_n(&started, __ATOMIC_ACQUIRE)) return TENON_OK;
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&lock);
  if (!started && (status = start()) == TENON_OK) __atomic_store_n(&started, 1, __ATOMIC_RELEASE);
  tn_mutex_unlock(&lock);
  return status;
}

void tenon_shutdown(void) {
  tn_mutex_lock(&lock);
  if (started) {
    tn_registry_clear();
    tn_bridges_forget();
    tn_policy_forget();
    tn_registrations_clear();
    tn_layers_clear();
    tn_autocast_clear();
    tn_generators_clear();
    tn_rates_clear();
    tn_trace_clear();
    tn_record_clear();
    tn_autograd_clear();
    tn_instances_release();
    tn_parallel_shutdown();
    __atomic_store_n(&started, 0, __ATOMIC_RELEASE);
  }
  tn_mutex_unlock(&lock);
  tn_thread_drop();
}

const char *tenon_error(void) { return tn_error(); }
tenon_status_t tenon_error_set(tenon_status_t status, const char *text) {
  return tn_fail(status, "%s", text);
}
const char *tenon_status_name(tenon_status_t status) { return tn_status_name(status); }
const char *tenon_version(void) { return TENON_VERSION_TEXT; }
void tenon_threads_set(int32_t count) { tn_parallel_set(count); }
int32_t tenon_threads_get(void) { return tn_parallel_threads(); }
void tenon_text_release(char *text) { tn_release_memory(text); }

tenon_status_t tenon_doctor(char **out_text) {
  tn_text_t text = {0};
  const char *limit;
  tn_text_add(&text, "tenon            %s, contract %u.%u\n", tenon_version(), TENON_ABI >> 16,
              TENON_ABI & 0xffff);
  tn_text_add(&text, "compiler         " TENON_COMPILER_TEXT "\n");
  tn_text_add(&text, "threads          %d (%s; TENON_THREADS changes it)\n",
              (int)tn_parallel_threads(), tn_parallel_name());
  tn_text_add(&text, "unloading        %s\n",
              tn_thread_barrier() ? "yes (membarrier)" : "no: membarrier is missing or refused");
  tn_text_add(&text, "instruction sets");
  for (int i = 0; tn_cpu_word(i); i++)
    if (tn_cpu_has(i)) tn_text_add(&text, " %s", i ? tn_cpu_word(i) : "default");
  tn_text_add(&text, "\n");
  if (!tn_cpu_limit_valid(&limit))
    tn_text_add(
        &text,
        "problem          TENON_CPU_CAPABILITY='%s' names no instruction set and is ignored\n",
        limit);
  tenon_status_t status = tenon_start();
  if (status != TENON_OK) tn_text_add(&text, "problem          %s\n", tn_error());
  const tenon_op_t *const *ops;
  int32_t count;
  if (status == TENON_OK && tn_registry_list(&ops, &count) == TENON_OK) {
    tn_text_add(&text, "operators        %d\n", (int)count);
    tenon_ops_release(ops);
  }
  tn_text_add(&text, "policy           ");
  tn_policy_report(&text);
  tn_text_add(&text, "\n");
  if (status == TENON_OK) {
    tn_text_add(&text, "bridges          ");
    tn_bridges_report(&text);
    tn_text_add(&text, "\n");
    tn_isolation_report(&text);
  }
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}
