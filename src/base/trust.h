/* Who else could change a file, and whether it still is the one that was looked at.  Called by the
 * loader's policy. */
#ifndef TN_BASE_TRUST_H
#define TN_BASE_TRUST_H

#include "base/file.h"
#include "base/text.h"

typedef struct
    /* of what was opened: another file, or other contents, differ in one of these */
    tn_file_identity_t {
  uint64_t device;
  uint64_t number;
  uint64_t size;
  int64_t modified;
  int64_t changed; /* nanoseconds since 1970 */
} tn_file_identity_t;

/* As tn_file_map, of a path without links (tn_file_real_path): what is mapped is the file that the
 * path leads to when this returns.  ABORTED: a part of the path was changed meanwhile. */
tenon_status_t tn_file_map_real(const char *path, tn_file_t *out_file,
                                tn_file_identity_t *out_identity);
/* Replaces what is mapped by a copy that nobody can change, so that what was looked at is what is
 * opened (base/dynlib.h); *out_copy is closed by tn_copy_close. */
tenon_status_t tn_file_copy(const char *path, tn_file_t *file, int *out_copy);
void tn_copy_close(int copy); /* -1 is fine */
/* Whether the path leads to that file, unchanged. */
bool tn_file_is_same(const char *path, const tn_file_identity_t *identity);
/* Adds a line for the file and for each folder from the root to it that somebody else than this
 * user and root could change, with what to do.  A folder with the sticky bit may be written to by
 * all: they cannot take away what is not theirs. */
void tn_file_changeable(const char *path, tn_text_t *lines);

#endif
