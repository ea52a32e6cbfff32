/* The table of functions that libraries call. */
#ifndef BRIDGES_ONNXRUNTIME_TABLE_H
#define BRIDGES_ONNXRUNTIME_TABLE_H

#include "common/ort_interface.h"

const OrtApi *table_api(void);
const OrtApiBase *table_base(void);
/* Returns the version that a library asked for in vain since the last call of this function; 0:
 * none. */
uint32_t table_refused(void);

#endif
