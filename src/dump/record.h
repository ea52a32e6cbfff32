/* Recordings of calls, and what watches calls to make them: the format in folders (save.c, load.c,
 * elements.c), the watching (watch.c), the search for numbers that are none (nan.c), and what is
 * said of a crash (crash_posix.c). */
#ifndef TN_RECORD_RECORD_H
#define TN_RECORD_RECORD_H

#include <tenon/tenon.h>

#include "base/json.h"

enum { TN_RECORD_FORMAT = 1 }; /* of call.json */

struct tenon_recording_t {
  const char *folder;
  tenon_recording_info_t info;
  const tn_json_t *attrs;        /* an object */
  tenon_tensor_t **attr_tensors; /* for each attribute; NULL: it is none */
  tenon_tensor_t **tensors;      /* all that were read, with their parts */
  size_t count;
  size_t capacity;
  tn_arena_t arena;
};

/* The tensor that an object of call.json describes, in host memory; it is the recording's.  NULL:
 * JSON null, or its elements are not there. */
tenon_status_t tn_recorded_tensor(tenon_recording_t *recording, const tn_json_t *json,
                                  tenon_tensor_t **out_tensor);

#endif
