/* What watches calls: recordings of them (TENON_RECORD), and the stop at the first NaN
 * (TENON_NAN). */
#ifndef TN_RECORD_WATCH_H
#define TN_RECORD_WATCH_H

#include "operator/frame.h"

typedef struct
    tn_watched_t { /* a call that is on its way, and the copies that were made before it began */
  struct tn_watched_t *outer;
  tenon_call_t *call; /* NULL: the watcher itself is at work, and what it calls is not watched */
  tenon_tensor_t *before[64];
  const char *node;
  uint64_t seed;
  uint64_t offset;
} tn_watched_t;

/* Saves a call of a thread, with what is not in the frame any more; gives the folder.  For a crash:
 * in a copy of the process. */
tenon_status_t tn_watched_save(const tn_watched_t *watched, tenon_status_t status,
                               const char *error, char *out_folder, size_t capacity);
bool tn_record_is_on(void);

void tn_record_start(void); /* reads the environment; called by tenon_start */
void tn_record_clear(void); /* at shutdown */

#endif
