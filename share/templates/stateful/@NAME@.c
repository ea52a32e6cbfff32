/* @NAME@.c: smooths rows by a Hann window, whose weights are made once for each width and kept: the operator's state.
 *
 * create is called for each node of a model and each set of attributes; every call with them gets the state, several at
 * once on different threads, so a kernel only reads it; destroy frees it. */
#include <math.h>
#include <stdlib.h>
#include <tenon/check.h>

typedef struct window_t {
  int64_t width;
  float weights[];
} window_t;

static tenon_status_t validate(tenon_node_t *node) {
  const int64_t width = node->attrs[0].as.i;
  if (width >= 1 && width <= 1025 && width % 2) return TENON_OK;
  return tenon_fail(node, TENON_INVALID, "width: expected an odd number from 1 to 1025, found %lld", (long long)width);
}

static tenon_status_t create(tenon_node_t *node) {
  const int64_t width = node->attrs[0].as.i;
  window_t *window = (window_t *)malloc(sizeof *window + (size_t)width * sizeof(float));
  if (!window) return tenon_fail(node, TENON_MEMORY, "a window of %lld weights", (long long)width);
  window->width = width;
  for (int64_t k = 0; k < width; k++) { /* of sum 1 */
    const double angle = 6.283185307179586 * (double)(k + 1) / (double)(width + 1);
    window->weights[k] = (float)((1 - cos(angle)) / (double)(width + 1));
  }
  node->state = window;
  return TENON_OK;
}

static void destroy(void *state) { free(state); }

/* Rows begin ... end; beyond a row's ends are zeros. */
static tenon_status_t smooth_rows(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const window_t *window = (const window_t *)call->state;
  const int64_t columns = *(const int64_t *)argument, half = window->width / 2;
  for (int64_t row = begin; row < end; row++) {
    const float *x = (const float *)call->inputs[0]->data + row * columns;
    float *y = (float *)call->outputs[0]->data + row * columns;
    for (int64_t c = 0; c < columns; c++) {
      const int64_t first = c < half ? half - c : 0;
      const int64_t last = columns - c <= half ? columns - c + half : window->width;
      float sum = 0;
      for (int64_t k = first; k < last; k++) sum += window->weights[k] * x[c + k - half];
      y[c] = sum;
    }
  }
  return TENON_OK;
}

static tenon_status_t @NAME@_f32(tenon_call_t *call) { /* dense and row-major, since the kernel does not say "strided" */
  const tenon_tensor_t *x = call->inputs[0];
  int64_t columns = x->shape[x->ndim - 1];
  if (!tenon_count(x)) return TENON_OK;
  return call->host->parallel(call, tenon_count(x) / columns, 1 + 16384 / columns, smooth_rows, &columns);
}

/* clang-format off */
TENON_LIBRARY(@NAME@, "0.1.0",
  TENON_OP("@NAME@(Tensor x, *, int width=5) -> Tensor",
    TENON_DOC("Rows of x (its last axis), smoothed by a Hann window."),
    TENON_TYPES("x: f32; out = x"),
    TENON_SHAPES("x: [..., columns]; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_VALIDATE(validate),
    TENON_STATE(create, destroy),
    TENON_SAMPLES("x: [3, columns]; x: [2, 3, 40], width = 9"),
    TENON_KERNEL("cpu f32", @NAME@_f32)))
/* clang-format on */
