/* Files as the runtime needs them: what a path is, and its bytes mapped read-only.  Messages name
 * the path. */
#ifndef TN_BASE_FILE_H
#define TN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/op.h>

typedef struct tn_file_t {
  const unsigned char *data; /* NULL when size is 0 */
  size_t size;
} tn_file_t;

/* Maps a regular file.  Anything else (missing, folder, FIFO, unreadable) is an error that says
 * what it is. */
tenon_status_t tn_file_map(const char *path, tn_file_t *out_file);
void tn_file_unmap(tn_file_t *file);
/* Bytes of a mapped file that are not needed soon: their memory goes back to the system.  They stay
 * readable. */
void tn_file_forget(const void *data, size_t size);
bool tn_file_exists(const char *path); /* a regular file */
bool tn_file_is_folder(const char *path);
/* The one absolute path of a file, links resolved.  Errors are NOT_FOUND and DENIED. */
tenon_status_t tn_file_real_path(const char *path, char *out_path, size_t capacity);
/* Path of the binary that holds `address` (libtenon, or the program it is linked into); false when
 * unknown. */
bool tn_file_of_address(const void *address, char *out_path, size_t capacity);
/* Who owns the file and whether others may write to it: for the loader's policy. */
tenon_status_t tn_file_is_private(const char *path, bool *out_private);
/* Size and time of the last change, in nanoseconds since 1970; false: it is not there. */
bool tn_file_stamp(const char *path, uint64_t *out_size, int64_t *out_changed);
/* Writes a file, or puts another in its place in one step: who has it open or mapped keeps what was
 * there.  `mode` is of a new file, less what the process's umask takes away. */
tenon_status_t tn_file_replace(const char *path, const void *data, size_t size, uint32_t mode);
/* As tn_file_replace, but what is there already stays: EXISTS. */
tenon_status_t tn_file_create(const char *path, const void *data, size_t size, uint32_t mode);
void tn_file_remove(const char *path);
/* A new folder in TMPDIR, for this user alone; and away with it and the files in it. */
tenon_status_t tn_folder_make(char *out_path, size_t capacity);
void tn_folder_remove(const char *path);
/* Makes a folder, and those above it that lack; fine if it is there.  EXISTS when `is_new` is
 * wanted and it is there. */
tenon_status_t tn_folder_create(const char *path, bool is_new);
/* Each file in a folder, in the order of their names; nothing where there is no such folder. */
void tn_folder_list(const char *path, void (*each)(void *context, const char *file), void *context);
/* The current one; false: it is not known, or its path is too long. */
bool tn_folder_current(char *out_path, size_t capacity);

#endif
