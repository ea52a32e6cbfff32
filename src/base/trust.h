/* Who can change a file, and whether a file is still the one that was examined. Used by the
 * loader's policy. */
#ifndef TN_BASE_TRUST_H
#define TN_BASE_TRUST_H

#include "base/file.h"
#include "base/text.h"

/* Identity of an opened file. Another file, or other contents, differ in at least one field. */
typedef struct tn_file_identity_t {
  uint64_t device;
  uint64_t number;
  uint64_t size;
  int64_t modified; /* nanoseconds since 1970 */
  int64_t changed;  /* nanoseconds since 1970 */
} tn_file_identity_t;

/* Like tn_file_map, for a path without symbolic links (tn_file_real_path). On return the mapped
 * file is the one that the path leads to. Returns ABORTED if a part of the path changed in the
 * meantime. */
tenon_status_t tn_file_map_real(const char *path, tn_file_t *out_file,
                                tn_file_identity_t *out_identity);
/* Replaces the mapping by a sealed copy that nobody can change, so that the bytes that were
 * examined are the bytes that are opened (tn_dynlib_open_copy). Close *out_copy with
 * tn_copy_close. */
tenon_status_t tn_file_copy(const char *path, tn_file_t *file, int *out_copy);
/* The same for bytes within a file: *out_file maps the copy. */
tenon_status_t tn_file_copy_part(const char *path, const void *data, size_t size,
                                 tn_file_t *out_file, int *out_copy);
void tn_copy_close(int copy); /* -1 is allowed */
/* Whether the path leads to this file and the file is unchanged. */
bool tn_file_is_same(const char *path, const tn_file_identity_t *identity);
/* Appends one line, with the remedy, for the file and for each folder from the root to it that a
 * user other than this user and root could change. A folder with the sticky bit may be writable by
 * all, because other users cannot remove files that they do not own. */
void tn_file_changeable(const char *path, tn_text_t *lines);

#endif
