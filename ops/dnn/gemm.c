/* Single f32 products by oneDNN's gemm, for attention, recurrent operators and others that consist
 * of products. Called by ../gemm.c from parts of a parallel loop; oneDNN stays on the calling
 * thread.
 * Invariant: declines products that are too small to be worth the call, and strides that oneDNN
 * cannot express. */
#include "../gemm.h"
#include "dnn.h"
#include <oneapi/dnnl/dnnl.h>

int dnn_sgemm(const product_t *product);

/* How a matrix is stored: 'N' if the elements (of a) or vectors (of b) are adjacent, 'T' if the
 * other axis is adjacent, 0 otherwise. */
static char storage_of(int64_t next, int64_t other, int64_t next_count, int64_t other_count,
                       int64_t *out_leading) {
  if ((next == 1 || next_count == 1) && (other >= next_count || other_count == 1)) {
    *out_leading = other_count == 1 ? next_count : other;
    return 'N';
  }
  if ((other == 1 || other_count == 1) && (next >= other_count || next_count == 1)) {
    *out_leading = next_count == 1 ? other_count : next;
    return 'T';
  }
  return 0;
}

int dnn_sgemm(const product_t *p) {
  enum {
    SMALL = 1 << 14,
    FEW = 3,
  };
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldc = p->m == 1 ? p->n : p->row;
  if (p->a.pack || p->b.pack || p->column != 1 || ldc < p->n || p->k == 0) return 0;
  if (p->m < FEW || p->n < FEW || p->m * p->n < SMALL / p->k) return 0;
  char a = storage_of(p->a.element, p->a.vector, p->k, p->m, &lda);
  char b = storage_of(p->b.vector, p->b.element, p->n, p->k, &ldb);
  if (!a || !b) return 0;
  sigset_t signals;
  const int before = dnn_alone_begin();
  dnn_signals_block(&signals);
  const dnnl_status_t status =
      dnnl_sgemm(a, b, p->m, p->n, p->k, 1.0f, (const float *)p->a.data, lda,
                 (const float *)p->b.data, ldb, p->accumulate ? 1.0f : 0.0f, (float *)p->c, ldc);
  dnn_signals_restore(&signals);
  dnn_alone_end(before);
  return status == dnnl_success;
}
