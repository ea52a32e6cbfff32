/* Matrices packed for products with few rows, which take the time that reading the matrix takes:
 * panels of columns, each in the order in which such a product reads it. recurrent.c packs the
 * weights of a step, and dnn/recurrent.c those that are constants.
 * Invariant: one thread computes a panel's results, so they do not depend on the number of
 * threads. */
#ifndef TENON_OPS_PANELS_H
#define TENON_OPS_PANELS_H

#include <tenon/op.h>

enum { PANEL_ALIGNMENT = 64 };

typedef struct panels_t { /* a matrix [k, n] */
  tenon_dtype_t dtype;    /* f32 or f64 */
  int64_t k;
  int64_t n;
  void *data; /* aligned to PANEL_ALIGNMENT */
} panels_t;

typedef struct panel_kernels_t { /* for one dtype and instruction set, in simd/panel.c */
  int64_t width;                 /* columns of a panel */
  /* Packs columns [first, first + width); the strides are those of core_panels_pack(). */
  void (*pack)(const panels_t *panels, const void *matrix, int64_t column, int64_t element,
               int64_t first);
  /* Computes the same columns of x [m, k] times the matrix, into those of out [m, n]. */
  void (*multiply)(const panels_t *panels, const void *x, int64_t m, int64_t first, void *out);
} panel_kernels_t;
/* f32, f64 */
extern const panel_kernels_t core_panels[2], core_panels_avx2[2], core_panels_avx512[2];

/* The bytes of `data`; 0: too many. */
uint64_t core_panels_size(const panels_t *panels);
/* Fills `data`. The strides, in elements, lead to the next column and along a column. */
void core_panels_pack(const panels_t *panels, const void *matrix, int64_t column, int64_t element);
/* Computes out [m, n] = x [m, k] times the matrix, on all threads. Both are dense. A caller that
 * multiplies by the same matrix again and again sets `is_backwards` each second time: the panels
 * that were read last are then read first, while they are still in the cache. */
tenon_status_t core_panels_multiply(tenon_call_t *call, const panels_t *panels, const void *x,
                                    int64_t m, void *out, int is_backwards);

#endif
