/* Failure dumps of calls: the format in folders (save.c, load.c, elements.c), the watcher that
 * writes them (watch.c), the search for NaN and infinities (nan.c), and crash reports
 * (crash_posix.c). */
#ifndef TN_RECORD_RECORD_H
#define TN_RECORD_RECORD_H

#include <tenon/tenon.h>

#include "base/json.h"

enum { TN_RECORD_FORMAT = 1 }; /* of call.json */

struct tenon_recording_t {
  const char *folder;
  tenon_recording_info_t info;
  const tn_json_t *attrs;        /* an object */
  tenon_tensor_t **attr_tensors; /* for each attribute; NULL: not a tensor */
  tenon_tensor_t **tensors;      /* all tensors that were read, with their parts */
  size_t count;
  size_t capacity;
  tn_arena_t arena;
};

/* Creates the tensor that an object of call.json describes, in host memory. The dump owns it. It is
 * NULL for JSON null and for a tensor without saved elements. */
tenon_status_t tn_dumped_tensor(tenon_recording_t *recording, const tn_json_t *json,
                                tenon_tensor_t **out_tensor);

#endif
