/* The files of a model on disk. */
#ifndef BRIDGES_MXNET_MODELS_FILES_H
#define BRIDGES_MXNET_MODELS_FILES_H

#include "base/arena.h"
#include "base/status.h"

/* Reads a whole file into the arena. */
tenon_status_t files_read(const char *path, tn_arena_t *arena, const char **out_data,
                          size_t *out_size);
/* Finds the file with the parameters of a symbol file; out_path receives NULL if there is none.
 * Returns TENON_INVALID if there are several. */
tenon_status_t files_params(const char *symbol_path, const char *folder, tn_arena_t *arena,
                            const char **out_path);

#endif
