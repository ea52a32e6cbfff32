/* Matrix products by cuBLAS, where it is. */
#ifndef TENON_CUDA_BLAS_H
#define TENON_CUDA_BLAS_H

#include "device.h"

void cu_blas_close(cu_device_t *device);

#endif
