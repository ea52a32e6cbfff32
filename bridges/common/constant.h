/* Constants that bridges put into graphs. Each bridge that reads models compiles this file in. */
#ifndef BRIDGES_COMMON_CONSTANT_H
#define BRIDGES_COMMON_CONSTANT_H

#include <tenon/tenon.h>

/* Creates a tensor without axes that holds a number, which core::cast converts to the dtype. */
tenon_status_t constant_scalar(tenon_dtype_t dtype, double value, tenon_tensor_t **out_tensor);
/* Creates an i64 tensor with one axis. */
tenon_status_t constant_integers(const int64_t *values, size_t count, tenon_tensor_t **out_tensor);

#endif
