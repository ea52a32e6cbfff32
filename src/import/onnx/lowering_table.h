/* The table of all lowerings. */
#ifndef TN_ONNX_LOWERING_TABLE_H
#define TN_ONNX_LOWERING_TABLE_H

#include "import/onnx/lower.h"

const tn_lowerings_t *tn_lowerings_at(size_t index); /* all families; NULL after the last */
bool tn_lowerings_cover(const char *domain);         /* whether the domain is one of ONNX's own */
/* Fills import->lowerings. */
tenon_status_t tn_lowerings_index(tn_import_t *import);
/* Returns the lowering of an operator for this version of the operator set; NULL: there is none.
 * *out_exists: whether some version of the operator has a lowering. */
const tn_lowering_t *tn_lowerings_find(const tn_import_t *import, const char *domain,
                                       const char *type, int64_t version, bool *out_exists);

#endif
