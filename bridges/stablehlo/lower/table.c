/* Finds the lowering of an operation. Called by region.c. Invariant: a name has one row. */
#include "lower/table.h"

#include <string.h>

#include "lower/custom.h"

extern const hlo_rows_t hlo_rows_pointwise, hlo_rows_shape, hlo_rows_dot, hlo_rows_reduce,
    hlo_rows_control, hlo_rows_index, hlo_rows_conv, hlo_rows_window, hlo_rows_math, hlo_rows_sort,
    hlo_rows_fft, hlo_rows_linear, hlo_rows_call, hlo_rows_norm, hlo_rows_refused, hlo_rows_special,
    hlo_rows_philox, hlo_rows_complex, hlo_rows_composite, hlo_rows_scan;

static const hlo_rows_t *const families[] = {
    &hlo_rows_pointwise, &hlo_rows_shape,   &hlo_rows_dot,       &hlo_rows_reduce,
    &hlo_rows_control,   &hlo_rows_index,   &hlo_rows_conv,      &hlo_rows_window,
    &hlo_rows_math,      &hlo_rows_sort,    &hlo_rows_fft,       &hlo_rows_linear,
    &hlo_rows_call,      &hlo_rows_norm,    &hlo_rows_refused,   &hlo_rows_special,
    &hlo_rows_philox,    &hlo_rows_complex, &hlo_rows_composite, &hlo_rows_scan};

const hlo_row_t *hlo_row_find(const char *name) {
  static const hlo_row_t custom = {.name = "", .lower = hlo_lower_custom};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    for (size_t k = 0; k < families[i]->count; k++)
      if (strcmp(families[i]->items[k].name, name) == 0) return &families[i]->items[k];
  return &custom;
}
