/* Recorded calls, repeated and compared with what they gave.  Called by the verb replay. */
#ifndef TOOLS_REPLAY_H
#define TOOLS_REPLAY_H

#include <tenon/tenon.h>

#include "compare.h"
#include "text.h"

typedef struct replay_t {
  const texts_t *libraries; /* other builds; none: those that were recorded */
  const char *device;       /* NULL: where the call was; "cpu" */
  tolerance_t tolerance;
  int64_t repeat;
  bool stays_quiet;              /* only what differs is printed */
  struct replay_state_t *states; /* of calls that share one; starts as NULL, replay_end */
} replay_t;

/* Whether the folder holds a call (call.json). */
bool replay_is_call(const char *folder);
/* Makes the operator of a recording available, from its own library unless --ops names others. */
const tenon_op_t *replay_find(const replay_t *replay, const tenon_recording_info_t *info,
                              text_t *why);
/* Repeats the call; false: it gave something else, which is printed, or could not be repeated,
 * which is in `why`. */
bool replay_run(replay_t *replay, const char *folder, text_t *why);
void replay_end(replay_t *replay);

#endif
