/* The table of functions that libraries call. */
#ifndef BRIDGES_ONNXRUNTIME_TABLE_H
#define BRIDGES_ONNXRUNTIME_TABLE_H

#include "interface.h"

const OrtApi *table_api(void);
const OrtApiBase *table_base(void);

#endif
