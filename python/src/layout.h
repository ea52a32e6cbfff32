/* Layouts of sparse tensors. */
#ifndef TENON_PYTHON_LAYOUT_H
#define TENON_PYTHON_LAYOUT_H

#include "core.h"

/* "csr" or "row_sparse"; NULL for other tensors */
const char *sparse_layout(const tenon_tensor_t *tensor);
bool layout_from(const char *name, uint32_t *out_kind);

#endif
