/* Repeats saved calls and compares the results with the saved ones. Called by the verb replay. */
#ifndef TOOLS_REPLAY_H
#define TOOLS_REPLAY_H

#include <tenon/tenon.h>

#include "compare.h"
#include "text.h"

typedef struct replay_t {
  const texts_t *libraries; /* libraries to load instead of those named in the dump; may be empty */
  const char *device;       /* NULL: the device of the saved call */
  tolerance_t tolerance;
  int64_t repeat;
  bool stays_quiet;              /* only calls with a different outcome are printed */
  struct replay_state_t *states; /* states that calls share; NULL at first, freed by replay_end */
} replay_t;

/* Whether the folder contains a saved call (call.json). */
bool replay_is_call(const char *folder);
/* Finds the library that a dump names; NULL in *out_path: none. False, with the reason in `why`, if
 * the file is not the one that the dump was made with. */
bool replay_library(const tenon_recording_t *dump, const char **out_path, text_t *why);
/* Finds the operator of a saved call. Its library is loaded if necessary, unless --ops names
 * others. */
const tenon_op_t *replay_find(const replay_t *replay, const tenon_recording_t *dump,
                              const tenon_recording_info_t *info, text_t *why);
/* Repeats the call. Returns false if the outcome differs, which is printed, or if the call could
 * not be repeated, with the reason in `why`. */
bool replay_run(replay_t *replay, const char *folder, text_t *why);
void replay_end(replay_t *replay);

#endif
