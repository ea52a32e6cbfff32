/* probe.h: what stands around the functions of the library under test.  Its descriptor is copied
 * when it is registered, with functions of ours in the place of its own, each of which calls the
 * one that it stands for. */
#ifndef CHECK_PROBE_H
#define CHECK_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/check.h>
#include <tenon/iterator.h>
#include <tenon/tenon.h>

typedef struct probe_t {
  bool guards;          /* workspaces and temporaries are guarded */
  bool at_end;          /* they end where nobody may touch */
  uint8_t poison;       /* what they are full of */
  int64_t fail_service; /* the n-th call of a service from here on fails, once; 0: none */
  tenon_status_t (*around_run)(
      tenon_run_fn own, tenon_call_t *call); /* stands around each kernel's call; NULL: nothing */
  /* counted since they were set to 0; atomic */
  int64_t runs;
  int64_t loops;
  int64_t infers;
  int64_t creates;
  int64_t destroys;
  int64_t prepares;
  int64_t releases;
  int64_t services;
  int64_t failed_services;
  char failed_service[32]; /* the last */
} probe_t;
extern probe_t probe;

/* The code of the library that this thread is in: how deep; 0: in the host's. */
extern _Thread_local int probe_inside;

/* A copy of a descriptor with our functions, which lives as long as the process; operators with a
 * REFERENCE get a twin, ns::name_reference, whose kernel that is.  `only` NULL: all operators. */
const tenon_descriptor_t *probe_descriptor(const tenon_descriptor_t *descriptor);
/* The library's function that ours stands for, to name it. */
tenon_any_fn probe_original(tenon_any_fn ours);

/* Between probe.c and wrap.c: a call of `own`, with all that is looked at around it. */
void probe_start(void);
tenon_status_t probe_run_around(tenon_run_fn own, tenon_call_t *call);
tenon_status_t probe_loop_around(tenon_loop_fn own, const tenon_loop_t *loop);
tenon_status_t probe_stub_around(tenon_stub_fn own, const tenon_iterator_t *iterator);
tenon_status_t probe_infer_around(tenon_infer_fn own, tenon_infer_t *infer);
tenon_status_t probe_node_around(tenon_node_fn own, tenon_node_t *node);
void probe_destroy_around(tenon_free_fn own, void *state);

#endif
