/* Feeds custom calls to the handler of bridges/jax: the first bytes of the input choose dtypes and
 * shapes of the buffers, and the rest is the text of the call. The memory of each buffer has
 * exactly its size. */
#define TENON_STATIC
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "bridges/xla_frame.h"

enum { BUFFERS_MOST = 6 };

static const struct {
  int32_t dtype;
  size_t size;
} kinds[] = {{XLA_F32, 4}, {XLA_S64, 8}, {XLA_S32, 4},  {XLA_PRED, 1},
             {XLA_U32, 4}, {XLA_F64, 8}, {XLA_BF16, 2}, {17, 4}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  void *blocks[BUFFERS_MOST];
  int count = 0;
  frame_t f;
  if (size < 2 * BUFFERS_MOST) return 0;
  const size_t text_size = size - 2 * BUFFERS_MOST;
  char *text = malloc(text_size + 1);
  if (!text) return 0;
  memcpy(text, data + 2 * BUFFERS_MOST, text_size);
  frame_begin(&f, text, text_size);
  for (int i = 0; i < BUFFERS_MOST; i++) {
    const uint8_t what = data[2 * i];
    const uint8_t shape = data[2 * i + 1];
    if (what >> 6 == 3) continue; /* one buffer less */
    const int64_t dims[] = {shape & 3, shape >> 2 & 3, shape >> 4 & 3};
    const int32_t rank = shape >> 6;
    size_t bytes = kinds[what & 7].size;
    for (int32_t d = 0; d < rank; d++)
      bytes *= (size_t)dims[d];
    blocks[count] = bytes ? calloc(1, bytes) : NULL;
    frame_add(&f, what >> 5 & 1, kinds[what & 7].dtype, rank, dims, blocks[count++]);
  }
  for (int i = 0; i < 2; i++)
    free(tenon_jax_cpu(&f.xla));
  for (int i = 0; i < count; i++)
    free(blocks[i]);
  free(text);
  return 0;
}
