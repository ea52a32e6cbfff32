/* The watcher of calls: failure dumps (TENON_RECORD), and the search for the first NaN
 * (TENON_NAN). */
#ifndef TN_RECORD_WATCH_H
#define TN_RECORD_WATCH_H

#include "operator/frame.h"

/* A call in progress, and copies of its inputs from before it began. */
typedef struct tn_watched_t {
  struct tn_watched_t *outer;
  /* NULL: the watcher itself is at work, and its own calls are not watched. */
  tenon_call_t *call;
  tenon_tensor_t *before[64];
  const char *node;
  uint64_t seed;
  uint64_t offset;
} tn_watched_t;

/* Saves a call of a thread with what is no longer in its frame, and returns the folder. After a
 * crash it runs in a copy of the process. */
tenon_status_t tn_watched_save(const tn_watched_t *watched, tenon_status_t status,
                               const char *error, char *out_folder, size_t capacity);
bool tn_record_is_on(void);

void tn_record_start(void); /* reads the environment; called by tenon_start */
void tn_record_clear(void); /* at shutdown */

#endif
