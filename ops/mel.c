/* mel_weights: the matrix by which a spectrogram is multiplied to get one over the mel scale, on
 * which equal steps sound equally far apart: mel(f) = 2595 log10(1 + f / 700).
 * Invariant: a triangle whose edges are frequencies that the transform lacks is an error. */
#include <math.h>
#include <string.h>

#include "axes.h"
#include <tenon/check.h>

enum {
  MEL_BINS,
  MEL_LENGTH,
  MEL_RATE,
  MEL_LOWER,
  MEL_UPPER,
};

static tenon_status_t mel_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  ints_t bins, length;
  TENON_TRY(ints_read(infer, MEL_BINS, &bins));
  TENON_TRY(ints_read(infer, MEL_LENGTH, &length));
  out->ndim = 2;
  out->dims[0] = dim_any(infer);
  out->dims[1] = dim_any(infer);
  if (length.known && length.count == 1) {
    const tenon_dim_t half = tenon_dim(infer, TENON_DIM_DIV, length.at[0], tenon_extent(2));
    out->dims[0] = dim_add(infer, half, tenon_extent(1));
  }
  if (bins.known && bins.count == 1) out->dims[1] = bins.at[0];
  return TENON_OK;
}

static tenon_status_t check_mel(tenon_call_t *call, int64_t bins, int64_t length, int64_t rate) {
  for (int i = 0; i <= MEL_UPPER; i++)
    if (tenon_count(call->inputs[i]) != 1)
      return tenon_fail(call, TENON_INVALID, "input %d has %" PRId64 " elements: expected one", i,
                        tenon_count(call->inputs[i]));
  if (bins >= 1 && length >= 1 && rate >= 1) return TENON_OK;
  return tenon_fail(call, TENON_INVALID,
                    "%" PRId64 " bins, a transform of %" PRId64 " and a rate of %" PRId64
                    ": expected at least 1 each",
                    bins, length, rate);
}

/* One triangle: from 0 at `left` to 1 at `centre` and back to 0 at `right`. */
static void draw_triangle(double *column, int64_t stride, int64_t left, int64_t centre,
                          int64_t right) {
  if (centre == left) column[centre * stride] = 1;
  for (int64_t j = left; j <= centre && centre > left; j++)
    column[j * stride] = (double)(j - left) / (double)(centre - left);
  for (int64_t j = centre; j < right; j++)
    column[j * stride] = (double)(right - j) / (double)(right - centre);
}

static tenon_status_t mel_run(tenon_call_t *call) {
  const int64_t bins = tensor_int(call->inputs[MEL_BINS], 0);
  const int64_t length = tensor_int(call->inputs[MEL_LENGTH], 0);
  const int64_t rate = tensor_int(call->inputs[MEL_RATE], 0);
  const double lower = *(const double *)call->inputs[MEL_LOWER]->data;
  const double upper = *(const double *)call->inputs[MEL_UPPER]->data;
  TENON_TRY(check_mel(call, bins, length, rate));
  const int64_t rows = length / 2 + 1;
  const double low = 2595 * log10(1 + lower / 700);
  const double step = (2595 * log10(1 + upper / 700) - low) / (double)(bins + 2);
  if (!(lower >= 0 && upper >= lower))
    return tenon_fail(call, TENON_INVALID,
                      "the edges are %g and %g hertz: expected 0 or more, in ascending order",
                      lower, upper);
  TENON_TRY(call->host->resize(call, 0, 2, (int64_t[]){rows, bins}));
  double *to = call->outputs[0]->data;
  int64_t edges[3] = {0, 0, 0};
  memset(to, 0, (size_t)(rows * bins) * sizeof *to);
  for (int64_t i = 0; i < bins + 2; i++) {
    const double hertz = 700 * (pow(10, ((double)i * step + low) / 2595) - 1);
    const double at = floor((double)(length + 1) * hertz / (double)rate);
    if (!(at < (double)rows))
      return tenon_fail(call, TENON_RANGE,
                        "%g hertz is beyond the %" PRId64
                        " frequencies of the transform: the upper "
                        "edge may be at most half of the sample rate",
                        hertz, rows);
    memmove(edges, edges + 1, 2 * sizeof *edges);
    edges[2] = (int64_t)at;
    if (i >= 2) draw_triangle(to + i - 2, bins, edges[0], edges[1], edges[2]);
  }
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_mel,
  TENON_OP("mel_weights(Tensor @host bins, Tensor @host length, Tensor @host rate, "
           "Tensor @host lower, Tensor @host upper) -> Tensor",
    TENON_DOC("The weights [length / 2 + 1, bins] of overlapping triangles, equally wide on the "
              "mel scale, between two frequencies\nin hertz, for spectra of a transform of "
              "`length` samples at `rate`."),
    TENON_SAMPLES("bins: [] [3], length: [] [16], rate: [] [8192], lower: [] [0], "
                  "upper: [] [4096]"),
    TENON_TYPES("bins, length, rate: i64|i32; lower, upper: f64; out = lower"),
    TENON_WHERE("bins: known; length: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(mel_infer),
    TENON_KERNEL("cpu", mel_run)))
/* clang-format on */
