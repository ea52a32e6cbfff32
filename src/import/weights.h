/* Files that hold the elements of a model's tensors. A tensor whose elements are stored in the file
 * as they are in memory is not copied: it shares the mapped file. */
#ifndef TN_IMPORT_WEIGHTS_H
#define TN_IMPORT_WEIGHTS_H

#include "base/map.h"
#include "core/tensor.h"

/* Where the elements of a model's tensors are. */
typedef struct tn_weights_t {
  tn_storage_t *file; /* the model's own bytes */
  const char *folder; /* of external files; NULL: the model was read from memory and has none */
  tn_map_t external;  /* tn_storage_t by path: each file is mapped once */
} tn_weights_t;

/* Maps a file as a storage that tensors can share. */
tenon_status_t tn_weights_map(const char *path, tn_storage_t **out_storage);
void tn_weights_clear(tn_weights_t *weights); /* tensors keep the storages that they use */
/* Finds bytes of an external file, which must lie in the folder or below. The storage belongs to
 * `weights`; *out_data is NULL if `length` is 0. */
tenon_status_t tn_weights_find(tn_weights_t *weights, const char *location, uint64_t offset,
                               uint64_t length, tn_storage_t **out_storage, const void **out_data);
/* Makes a tensor of elements that are stored as in memory. They are shared if their alignment
 * allows it. */
tenon_status_t tn_weights_tensor(tn_storage_t *storage, const void *data, uint64_t size,
                                 tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                 tenon_tensor_t **out_tensor);

#endif
