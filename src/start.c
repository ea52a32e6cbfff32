/* The process: start, shutdown, version, and the report of `tenon doctor`. This file is above every
 * folder and the only one that knows all of them. Invariant: start is idempotent, and shutdown
 * frees everything that the runtime allocated. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "autograd/tape.h"
#include "base/cpu.h"
#include "base/environment_check.h"
#include "base/large_block.h"
#include "base/memory.h"
#include "base/memory_limit.h"
#include "base/parallel.h"
#include "base/processors.h"
#include "base/runtime.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/file_copy.h"
#include "device/instance.h"
#include "device/plugin.h"
#include "dispatch/launch.h"
#include "dispatch/prologue.h"
#include "dispatch/services.h"
#include "dispatch/user_layers.h"
#include "dump/crash.h"
#include "dump/watch.h"
#include "graph/cost_model.h"
#include "graph/packing.h"
#include "graph/run.h"
#include "import/artifact/identity.h"
#include "inspect/missing.h"
#include "isolation/isolation.h"
#include "layers/autocast.h"
#include "layers/fallback.h"
#include "layers/trace.h"
#include "loader/bridge.h"
#include "loader/policy.h"
#include "operator/generator.h"
#include "operator/state.h"
#include "registry/registration.h"
#include "registry/registry.h"

TENON_C const tenon_descriptor_t *tenon_library_core(void);

/* built-in devices */

#ifndef TENON_DEVICES /* X(name) for each device that CMake links in */
#define TENON_DEVICES
#endif
#define X(name) TENON_C const tenon_descriptor_t *tenon_library_##name(void);
TENON_DEVICES
#undef X

/* A device's library is registered when the device is first named. */
static const struct {
  const char *name;
  const tenon_descriptor_t *(*library)(void);
} devices[] = {
#define X(name) {#name, tenon_library_##name},
    TENON_DEVICES
#undef X
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

/* fork */

/* The mutexes are in the order in which one is taken while another is held. The fork takes all of
 * them, so that the child finds no table or list half changed. */
static tn_mutex_t *(*const mutexes[])(void) = {
    tn_states_mutex,   tn_registrations_mutex, tn_registry_mutex,    tn_plugins_mutex,
    tn_backends_mutex, tn_layers_mutex,        tn_file_copies_mutex, tn_artifacts_mutex};
enum { MUTEXES = sizeof mutexes / sizeof *mutexes };

static void before_fork(void) {
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
  tn_cost_model_in_child();
  tn_isolation_in_child();
}

/* start and shutdown */

/* What folders above register with those below. */
static void install_hooks(void) {
  tn_services_install();
  tn_call_install();
  tn_prologue_install();
  tn_launch_install();
  tn_user_layers_install();
  tn_registry_install();
  tn_missing_install();
  tn_autocast_install();
  tn_fallback_install();
  tn_trace_install();
  tn_packing_install();
}

static tenon_status_t start_runtime(void) {
  static int handles_fork;
  tn_text_t offences = {0};
  tn_library_t *core;
  TN_TRY(tn_environment_check());
  tn_cpu_limit_read();
  TN_TRY(tn_memory_limit_start());
  install_hooks();
  tenon_status_t status =
      tn_registry_add(tenon_library_core(), "", NULL, NULL, TN_OVERRIDE_MAY, &offences, &core);
  if (status != TENON_OK && offences.size)
    status = tn_fail(status, "the built-in operators: %s", offences.data);
  tn_text_clear(&offences);
  if (status == TENON_OK) {
    tn_registry_release(core);
    status = tn_graph_start();
  }
  if (status != TENON_OK) tn_registry_clear();
  tn_tape_start();
  tn_trace_start();
  tn_record_start();
  tn_crash_start();
  tn_device_builtin = add_device;
  if (!handles_fork) handles_fork = tn_at_fork(before_fork, after_fork, in_child);
  return status;
}

static void stop_runtime(void) {
  tn_registry_clear();
  tn_bridges_forget();
  tn_policy_forget();
  tn_registrations_clear();
  tn_layers_clear();
  tn_autocast_clear();
  tn_generators_clear();
  tn_cost_model_clear();
  tn_graph_stop();
  tn_trace_clear();
  tn_record_clear();
  tn_autograd_clear();
  tn_instances_release();
  tn_parallel_shutdown();
}

void tenon_shutdown(void) {
  tn_runtime_stop(stop_runtime);
  tn_thread_drop();
  tn_large_blocks_free();
}

/* Loads a library in the worker process that isolates it. The program has checked its rules, which
 * this process may not be able to read. */
static tenon_status_t load_isolated(const char *path, uint32_t flags,
                                    tenon_library_t **out_library) {
  TN_TRY(tenon_policy_set(NULL));
  return tenon_library_load(path, flags, out_library);
}

/* Before any function of tenon.h can be called: the lowest folders call these. */
static __attribute__((constructor(101))) void install_first(void) {
  tn_runtime_begin = start_runtime;
  tn_isolation_load = load_isolated;
}

static void report_threads(tn_text_t *text) {
  const tn_processors_t found = tn_processors();
  tn_text_add(text, "threads          %d (TENON_THREADS changes it); the machine has %d processors",
              (int)tn_parallel_threads(), (int)found.online);
  if (found.mask && found.mask != found.online)
    tn_text_add(text, ", the affinity mask allows %d", (int)found.mask);
  if (found.quota > 0)
    tn_text_add(text, ", the quota of the control group allows the time of %.2f", found.quota);
  tn_text_add(text, "\n");
}

static void report_memory(tn_text_t *text) {
  const uint64_t limit = tn_aligned_limit();
  if (limit == UINT64_MAX)
    tn_text_add(text, "memory           no limit for tensors (TENON_MEMORY_LIMIT sets one)\n");
  else
    tn_text_add(text,
                "memory           at most %" PRIu64 " MiB for tensors (TENON_MEMORY_LIMIT changes "
                "it)\n",
                limit >> 20);
}

static void report_environment(tn_text_t *text) {
  tn_text_t problems = {0};
  tn_environment_problems(&problems);
  const char *line = tn_text_get(&problems);
  for (const char *end; (end = strchr(line, '\n')); line = end + 1)
    tn_text_add(text, "problem          %.*s\n", (int)(end - line), line);
  tn_text_clear(&problems);
}

tenon_status_t tenon_doctor(char **out_text) {
  tn_text_t text = {0};
  tn_text_add(&text, "tenon            %s, contract %u.%u\n", tenon_version(), TENON_ABI >> 16,
              TENON_ABI & 0xffff);
  tn_text_add(&text, "compiler         " TENON_COMPILER_TEXT "\n");
  report_threads(&text);
  tn_text_add(&text, "unloading        %s\n",
              tn_thread_barrier() ? "yes (membarrier)"
                                  : "no: the system call membarrier is missing or refused");
  tn_text_add(&text, "instruction sets");
  for (int i = 0; tn_cpu_word(i); i++)
    if (tn_cpu_has(i)) tn_text_add(&text, " %s", i ? tn_cpu_word(i) : "default");
  tn_text_add(&text, "\n");
  tenon_status_t status = tenon_start();
  report_environment(&text); /* the start finds some of the problems */
  if (status != TENON_OK) tn_text_add(&text, "problem          %s\n", tn_error());
  report_memory(&text);
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
