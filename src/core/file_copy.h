/* Tensors that copy bytes of a mapped file, because these lie at an address that does not suit
 * their dtype. Exporters of ONNX align nothing, so most weights are such copies. Kernels pack
 * weights, and read only what they packed: the copy can then be given up, and made again from the
 * file for whoever reads it after all.
 * Invariant: a copy is given up only while the graph and the executable that the caller knows of
 * are its only holders, and nobody outside was shown it. */
#ifndef TN_CORE_FILE_COPY_H
#define TN_CORE_FILE_COPY_H

#include "base/thread.h"
#include "core/tensor.h"

/* Makes a tensor of a copy of `bytes`, which are in the mapped file `file`, row-major. The file is
 * retained. */
tenon_status_t tn_file_copy_create(tn_storage_t *file, const void *bytes, uint64_t size,
                                   tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                   tenon_tensor_t **out_tensor);
/* Gives up the memory of a copy if the tensor has exactly `holders` references. Other tensors stay
 * as they are. */
void tn_file_copy_give_up(const tenon_tensor_t *tensor, int32_t holders);
/* Makes the elements readable again. Whoever holds a reference to the tensor, and may read it
 * although its kernel said otherwise, calls it first. */
void tn_file_copy_recall(const tenon_tensor_t *tensor);
/* The same, and the copy is never given up again: for tensors that are shown to callers. */
void tn_file_copy_keep(const tenon_tensor_t *tensor);
/* The mutex that guards all copies, for a fork. */
tn_mutex_t *tn_file_copies_mutex(void);

#endif
