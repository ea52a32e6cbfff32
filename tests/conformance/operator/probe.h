/* Wrappers around the functions of the library under test. When the library is registered, its
 * descriptor is copied, and each function is replaced by a wrapper that calls the original. */
#ifndef CHECK_PROBE_H
#define CHECK_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/check.h>
#include <tenon/iterator.h>
#include <tenon/tenon.h>

typedef struct probe_t {
  bool guards;    /* workspaces and temporaries are guarded */
  bool at_end;    /* guarded memory ends at an inaccessible page */
  uint8_t poison; /* initial contents of guarded memory */
  /* Makes the n-th call of a host service fail once, counted from here; 0: none. */
  int64_t fail_service;
  /* Called instead of each kernel, with the kernel as argument; NULL: none. */
  tenon_status_t (*around_run)(tenon_run_fn own, tenon_call_t *call);
  /* Counters, updated atomically. */
  int64_t runs;
  int64_t loops;
  int64_t infers;
  int64_t creates;
  int64_t destroys;
  int64_t prepares;
  int64_t releases;
  int64_t services;
  int64_t failed_services;
  char failed_service[32]; /* the last service that failed */
} probe_t;
extern probe_t probe;

/* Depth of nested calls into the library on this thread; 0: the host's code is running. */
extern _Thread_local int probe_inside;

/* Copies a descriptor with wrapped functions; the copy lives as long as the process. An operator
 * with TENON_REFERENCE gets a twin, ns::name_reference, whose kernel is the reference. */
const tenon_descriptor_t *probe_descriptor(const tenon_descriptor_t *descriptor);
/* The library's function that a wrapper stands for; used to name it. */
tenon_any_fn probe_original(tenon_any_fn ours);

/* Shared by probe.c and wrap.c: calls `own` with all checks around the call. */
void probe_start(void);
tenon_status_t probe_run_around(tenon_run_fn own, tenon_call_t *call);
tenon_status_t probe_loop_around(tenon_loop_fn own, const tenon_loop_t *loop);
tenon_status_t probe_stub_around(tenon_stub_fn own, const tenon_iterator_t *iterator);
tenon_status_t probe_infer_around(tenon_infer_fn own, tenon_infer_t *infer);
tenon_status_t probe_node_around(tenon_node_fn own, tenon_node_t *node);
void probe_destroy_around(tenon_free_fn own, void *state);

#endif
