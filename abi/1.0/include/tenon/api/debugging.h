/* tenon/api/debugging.h: saved calls, crash reports, detection of NaN (docs/debugging.md).  Part of
 * tenon/tenon.h. */
#ifndef TENON_API_DEBUGGING_H
#define TENON_API_DEBUGGING_H

#include <tenon/api/export.h>
#include <tenon/graph.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- saved calls ----------------------------------------------------------------------------- */

/* A call saved in a folder: call.json, and a file for each tensor.  TENON_RECORD saves failing
 * calls, `tenon replay` repeats them, and `tenon check --samples` uses them as example inputs. */
typedef struct tenon_recording_t tenon_recording_t;

/* The contents of a saved call.
 * Ownership: everything is valid as long as the recording.  NULL and 0: not stated. */
typedef struct tenon_recording_info_t {
  uint32_t size;
  tenon_status_t status; /* The status that the call returned. */
  const char *error;     /* Its error message. */
  const char *op;        /* "ns::name" */
  const char *node;      /* The node of the graph that made the call. */
  const char *kernel;    /* The kernel that ran: "cpu f32". */
  const char *device;    /* The device of its tensors: "sim:0". */
  const char *library;
  const char *library_path;
  const char *library_hash;
  const char *version; /* The version of Tenon. */
  int32_t input_count;
  int32_t attr_count;
  int32_t output_count;
  int32_t threads;
  /* The inputs before the call, one for each tensor argument of the schema; NULL: omitted. */
  tenon_tensor_t *const *inputs;
  /* The inputs after the call, for those that it writes to; NULL: not stored. */
  tenon_tensor_t *const *written;
  /* The results, one for each of the schema; NULL: not stored. */
  tenon_tensor_t *const *outputs;
  const char *const *attr_names;
  /* Texts in the schema's language; NULL: a tensor, a graph or a device, which
   * tenon_recording_attrs returns. */
  const char *const *attr_texts;
  uint64_t is_random;
  uint64_t seed;   /* The seed of its random numbers. */
  uint64_t offset; /* The position of its first random number. */
  uint64_t state;  /* Calls with the same state have the same number; 0: no state. */
} tenon_recording_info_t;

/* Reads a saved call.  Its operator need not exist.
 *
 * Errors: the message names the file and the position in it. */
TENON_API tenon_status_t tenon_recording_load(const char *folder,
                                              tenon_recording_t **out_recording);
TENON_API void tenon_recording_release(tenon_recording_t *recording);

/* Fills in `info`.  The caller sets info->size. */
TENON_API void tenon_recording_info(const tenon_recording_t *recording,
                                    tenon_recording_info_t *info);

/* Finds the library that a saved call names, so that the caller can load it.
 *
 * A dump is data, and may come from somebody else: the path must be absolute and outside of the
 * dump, and the file must have the hash that the dump states.  These checks tell a wrong build from
 * the right one; they do not make the dump of a stranger trustworthy, since its author chose path
 * and hash.
 *
 * Returns: in *out_path the path without symbolic links; NULL if the dump names no library.
 * Errors: TENON_DENIED with the reason; TENON_NOT_FOUND if the file does not exist.
 * Ownership: *out_path is valid as long as the recording. */
TENON_API tenon_status_t tenon_recording_library(const tenon_recording_t *recording,
                                                 const char **out_path);

/* Creates the attributes of the call for this operator.
 *
 * Ownership: the caller releases *out_attrs. */
TENON_API tenon_status_t tenon_recording_attrs(const tenon_recording_t *recording,
                                               const tenon_op_t *op, tenon_attrs_t **out_attrs);

/* Saves a call of `op` to a new folder.
 *
 * Arguments: `attrs`: NULL: defaults.  Of `call`, the function reads status, error, node, kernel,
 * inputs, written, outputs (NULL: none is stored), is_random, seed, offset and state.  Everything
 * else comes from the operator. */
TENON_API tenon_status_t tenon_recording_save(const char *folder, const tenon_op_t *op,
                                              const tenon_value_t *attrs,
                                              const tenon_recording_info_t *call);

/* ---- failure dumps --------------------------------------------------------------------------- */

/* Which calls of the process are saved from now on: failing calls, each to a new folder in
 * `folder`.  A message on stderr says so. */
typedef struct tenon_record_t {
  uint32_t size;
  uint32_t flags;     /* TENON_RECORD_ALL */
  const char *folder; /* Created if it is missing; existing contents remain. */
  /* "demo::*, core::add": save their calls even if they succeed; may be NULL. */
  const char *ops;
  int32_t most; /* Largest number of calls to save; 0: 1000. */
} tenon_record_t;

/* Flags of tenon_record_t. */
enum {
  TENON_RECORD_ALL = 1 /* Save all calls. */
};

/* Sets which calls are saved.  The environment variables TENON_RECORD (the folder),
 * TENON_RECORD_ALL=1, TENON_RECORD_OP and TENON_RECORD_MOST set the initial values.
 *
 * Arguments: NULL: none, at no cost for calls. */
TENON_API tenon_status_t tenon_record_set(const tenon_record_t *what);

/* ---- crashes and NaN ------------------------------------------------------------------------- */

/* Turns crash reports on (1) or off (0).
 *
 * When a function of an operator crashes the process (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT),
 * the report on stderr states the call, its arguments and the stack, and saves the call if
 * TENON_RECORD is set.  The previous signal handlers then run, or the process ends as it would
 * have.  Other crashes go to the previous handlers only.  Calls have no overhead.  Programs start
 * with crash reports off, unless the environment sets TENON_CRASH=1; the command `tenon` starts
 * with them on. */
TENON_API tenon_status_t tenon_crash_report(int32_t is_on);

/* Checks the results of every call for NaN and infinities. The host waits for work on devices.  The
 * environment variable TENON_NAN sets the initial value.
 *
 * Arguments: "stop": the first call that returns a NaN, or an infinity although its inputs have
 * none, fails with TENON_ABORTED, and the message names node, operator and position, and describes
 * the inputs.  "report": stderr lists the calls where they first appear.  "stop,nan" and
 * "report,nan": infinities are allowed.  NULL: off, at no cost for calls. */
TENON_API tenon_status_t tenon_nan_set(const char *what);

#ifdef __cplusplus
}
#endif
#endif
