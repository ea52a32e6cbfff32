/* Layouts of sparse tensors, and their names. */
#include "layout.h"

#include <string.h>

#include "error.h"

const char *sparse_layout(const tenon_tensor_t *t) {
  return t->detail && t->detail->kind != TENON_DETAIL_QUANTISED ? tenon_tensor_layout(t) : NULL;
}

bool layout_from(const char *name, uint32_t *out_kind) {
  *out_kind = 0;
  if (strcmp(name, "csr") == 0) *out_kind = TENON_DETAIL_CSR;
  if (strcmp(name, "row_sparse") == 0) *out_kind = TENON_DETAIL_ROW_SPARSE;
  if (!*out_kind) raise_invalid("layout: expected 'csr' or 'row_sparse', found '%s'", name);
  return *out_kind != 0;
}
