/* Lowers fft to core::dft, which has real and imaginary parts in a last axis. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/lower.h"

/* Puts two parts into a new last axis. */
static tenon_edge_t join_parts(hlo_lower_t *lower, tenon_edge_t real, tenon_edge_t imaginary) {
  if (imaginary == EDGE_NONE) return hlo_run(lower, EDGES(real), "unsqueeze(a, [-1])");
  return hlo_run(lower, EDGES(real, imaginary),
                 "concat([unsqueeze(a, [-1]), unsqueeze(b, [-1])], axis=-1)");
}

static tenon_edge_t part_of(hlo_lower_t *lower, tenon_edge_t x, int part) {
  return hlo_run(lower, EDGES(x), "squeeze(slice(a, [%d], [%d], [-1]), [-1])", part, part + 1);
}

static tenon_edge_t transform_axis(hlo_lower_t *lower, tenon_edge_t x, int32_t axis, bool inverse,
                                   bool onesided) {
  static const char *const words[] = {"False", "True"};
  return hlo_run(lower, EDGES(x), "dft(a, _, %d:i64, inverse=%s, onesided=%s)", (int)axis,
                 words[inverse], words[onesided]);
}

/* Completes the half of a spectrum: element n - k is the conjugate of element k. */
static tenon_edge_t complete_spectrum(hlo_lower_t *lower, tenon_edge_t x, int32_t axis,
                                      int64_t length) {
  int64_t mirrored = length - (length / 2 + 1);
  if (mirrored <= 0) return hlo_slice(lower, x, axis, 0, length, 1);
  tenon_edge_t tail = hlo_slice(lower, x, axis, 1, 1 + mirrored, 1);
  tail = hlo_slice(lower, tail, axis, -1, -(INT64_C(1) << 62), -1);
  tenon_edge_t real = part_of(lower, tail, 0);
  tenon_edge_t imaginary = hlo_run(lower, EDGES(part_of(lower, tail, 1)), "neg(a)");
  tail = join_parts(lower, real, imaginary);
  tenon_edge_t head = hlo_slice(lower, x, axis, 0, length / 2 + 1, 1);
  return hlo_concat(lower, (tenon_edge_t[]){head, tail}, 2, axis);
}

static void lower_fft(hlo_lower_t *lower) {
  int64_t lengths[HLO_INTS_MAX];
  const char *kind = hlo_attr_word(lower, "type", "fft_type", "");
  int32_t count = hlo_attr_ints(lower, "length", "fft_length", lengths);
  int32_t ndim = hlo_operand_type(lower, 0)->ndim;
  const hlo_bound_t *operand = hlo_operand(lower, 0);
  bool is_inverse = strcmp(kind, "IFFT") == 0 || strcmp(kind, "IRFFT") == 0;
  bool from_real = strcmp(kind, "RFFT") == 0;
  bool to_real = strcmp(kind, "IRFFT") == 0;
  if (!is_inverse && !from_real && strcmp(kind, "FFT") != 0)
    hlo_wrong(lower, "expected a type FFT, IFFT, RFFT or IRFFT, found %.30s", kind);
  if (count < 1 || count > 3 || count > ndim) hlo_wrong(lower, "expected one to three lengths");
  if (from_real != (operand->imaginary == EDGE_NONE))
    hlo_wrong(lower, "the operand must be %s", from_real ? "real" : "complex");
  if (ndim == TENON_RANK_MAX) hlo_missing(lower, "so many axes");
  if (hlo_stopped(lower)) return;
  tenon_edge_t x = join_parts(lower, operand->edge, operand->imaginary);
  if (from_real) x = transform_axis(lower, x, ndim - 1, false, true);
  for (int32_t i = ndim - count; i < ndim; i++) {
    if (i == ndim - 1 && from_real) continue;
    if (i == ndim - 1 && to_real) x = complete_spectrum(lower, x, i, lengths[count - 1]);
    x = transform_axis(lower, x, i, is_inverse, false);
  }
  if (to_real)
    hlo_give(lower, 0, part_of(lower, x, 0));
  else
    hlo_give_bound(lower, 0, hlo_complex(part_of(lower, x, 0), part_of(lower, x, 1)));
}

static const hlo_row_t rows[] = {
    {"stablehlo.fft", NULL, NULL, NULL, lower_fft, 0, NULL},
};

HLO_ROWS(hlo_rows_fft);
