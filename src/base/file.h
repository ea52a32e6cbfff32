/* File operations that the runtime needs: kinds of paths, read-only mappings, atomic writes,
 * folders. Error messages name the path. */
#ifndef TN_BASE_FILE_H
#define TN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/op.h>

typedef struct tn_file_t {
  const unsigned char *data; /* NULL when size is 0 */
  size_t size;
} tn_file_t;

/* The status for a request about a file that the system refused with this errno: NOT_FOUND, EXISTS,
 * MEMORY, or DENIED. */
tenon_status_t tn_file_status(int reason);
/* Maps a regular file read-only. For anything else (missing, folder, FIFO, unreadable) the error
 * says what was found. */
tenon_status_t tn_file_map(const char *path, tn_file_t *out_file);
void tn_file_unmap(tn_file_t *file);
/* Tells the system that these bytes of a mapped file are not needed soon, so that it can reclaim
 * their memory. The bytes stay readable. */
void tn_file_forget(const void *data, size_t size);
/* Gives the memory of the whole pages in a range back to the system. Their contents are lost. */
void tn_pages_discard(void *data, size_t size);
/* Whether the path is a regular file. */
bool tn_file_exists(const char *path);
bool tn_file_is_folder(const char *path);
/* The absolute path of a file with symbolic links resolved. Errors: NOT_FOUND, DENIED. */
tenon_status_t tn_file_real_path(const char *path, char *out_path, size_t capacity);
/* The path of the binary that contains `address` (libtenon, or the program that libtenon is linked
 * into). Returns false if unknown. */
bool tn_file_of_address(const void *address, char *out_path, size_t capacity);
/* Whether only this user (or root) owns the file and can write to it. Used by the loader's
 * policy. */
tenon_status_t tn_file_is_private(const char *path, bool *out_private);
/* Size in bytes and time of the last modification in nanoseconds since 1970. Returns false if the
 * file cannot be examined. */
bool tn_file_stamp(const char *path, uint64_t *out_size, int64_t *out_changed);
/* Writes a file, or replaces an existing file atomically: a process that has the old file open or
 * mapped keeps the old contents. A device or a FIFO is written to instead. `mode` applies to the
 * new file, reduced by the process's umask. */
tenon_status_t tn_file_replace(const char *path, const void *data, size_t size, uint32_t mode);
/* Replaces two files. If either cannot be written, both remain as they were. */
typedef struct tn_new_file_t {
  const char *path;
  const void *data;
  size_t size;
} tn_new_file_t;
tenon_status_t tn_file_replace_both(const tn_new_file_t files[2], uint32_t mode);
/* Like tn_file_replace, but fails with EXISTS if the file exists. */
tenon_status_t tn_file_create(const char *path, const void *data, size_t size, uint32_t mode);
void tn_file_remove(const char *path);
/* tn_folder_make creates a new folder in TMPDIR that only this user can access. tn_folder_remove
 * removes such a folder and the files in it. */
tenon_status_t tn_folder_make(char *out_path, size_t capacity);
void tn_folder_remove(const char *path);
/* Creates a folder and its missing parents. An existing folder is not an error unless `is_new` is
 * set; then the status is EXISTS. */
tenon_status_t tn_folder_create(const char *path, bool is_new);
/* Calls `each` for every regular file in a folder in the order of their names, skipping hidden
 * files. Does nothing if the folder does not exist. */
void tn_folder_list(const char *path, void (*each)(void *context, const char *file), void *context);
/* The current working directory. Returns false if it is unknown or its path is too long. */
bool tn_folder_current(char *out_path, size_t capacity);

#endif
