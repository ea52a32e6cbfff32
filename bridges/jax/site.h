/* Call sites: prepared calls with certain shapes. After a call has succeeded once, later calls with
 * the same shapes need neither inference nor checks. */
#ifndef BRIDGES_JAX_SITE_H
#define BRIDGES_JAX_SITE_H

#include "call.h"

typedef struct site_t { /* It stays until the process ends. */
  struct site_t *next;
  const call_t *call;
  uint32_t operand_count;
  uint32_t result_count;
  bool is_small;   /* the call uses no threads */
  int32_t *dtypes; /* XLA's dtype of each operand, then of each result; NULL: no shapes are known */
  tenon_tensor_t views[]; /* of each operand, then of each result; without data */
} site_t;

/* Finds the site for a text, which may end without a zero byte. */
tenon_status_t site_find(const char *text, size_t size, const site_t **out_site);

/* Remembers, for the text at this address, that a call with the shapes of this frame succeeded. */
void site_remember(const site_t *site, const char *text, const xla_frame_t *frame);

/* Runs a call. Returns false, and does nothing, if no shapes are known or the frame has others. */
bool site_run(const site_t *site, const xla_frame_t *frame, tenon_status_t *out_status);

#endif
