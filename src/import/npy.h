/* NumPy's .npy files, formats 1.0 to 3.0 (numpy.lib.format). Called by tensor_file.c only. */
#ifndef TN_IMPORT_NPY_H
#define TN_IMPORT_NPY_H

#include <stdio.h>
#include <tenon/op.h>

#include "base/file.h"

bool tn_npy_is(const tn_file_t *file); /* decides by the first bytes */
tenon_status_t tn_npy_read(const tn_file_t *file, tenon_tensor_t **out_tensor);
/* Writes a dense tensor. A dtype that NumPy does not have is written as an unsigned integer with
 * the same bits; elements smaller than a byte get a byte each. */
tenon_status_t tn_npy_write(const tenon_tensor_t *tensor, FILE *file);

#endif
