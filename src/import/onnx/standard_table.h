/* Rows that only the export uses, for core operators that no row of the import yields. */
#ifndef TN_ONNX_STANDARD_TABLE_H
#define TN_ONNX_STANDARD_TABLE_H

#include "import/onnx/lower.h"

extern const tn_lowerings_t tn_standard_rows;

/* Calls `see` for each row that may be read backwards for a core operator, those of the export
 * first. Stops when it returns true. Returns whether it did. */
bool tn_standard_rows_of(const char *op, bool (*see)(void *context, const tn_lowering_t *row),
                         void *context);

#endif
