/* NumPy's .npy files, formats 1.0 to 3.0 (numpy.lib.format).  Called by tensor_file.c only. */
#ifndef TN_IMPORT_NPY_H
#define TN_IMPORT_NPY_H

#include <stdio.h>
#include <tenon/op.h>

#include "base/file.h"

bool tn_npy_is(const tn_file_t *file); /* by its first bytes */
tenon_status_t tn_npy_read(const tn_file_t *file, tenon_tensor_t **out_tensor);
/* The tensor is dense.  Types that NumPy lacks become unsigned integers with the same bits, packed
 * ones a byte each. */
tenon_status_t tn_npy_write(const tenon_tensor_t *tensor, FILE *file);

#endif
