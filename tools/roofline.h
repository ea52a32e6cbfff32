/* The roofline model of a machine (Williams, Waterman, Patterson 2009): the rate that work of a
 * given arithmetic intensity can reach, and the rate that was measured. Printed as text, as a chart
 * of characters, and as SVG. Called by bench. */
#ifndef TOOLS_ROOFLINE_H
#define TOOLS_ROOFLINE_H

#include "machine.h"
#include "text.h"

typedef struct roofline_point_t {
  const char *label;
  double bytes;
  double operations;
  double seconds; /* operations 0: unknown */
  bool is_f64;
} roofline_point_t;

/* "memory: 12.3 of 14.1 GB/s (87 %); arithmetic: ...; bound by memory" */
void roofline_words(const machine_t *machine, const roofline_point_t *point, text_t *out);
/* Draws logarithmic axes: operations per byte, operations per second. Points are marked a, b, ....
 * Nothing is drawn if no point has known operations. */
void roofline_picture(const machine_t *machine, const roofline_point_t *points, int32_t count,
                      text_t *out);
void roofline_svg(const machine_t *machine, const roofline_point_t *points, int32_t count,
                  const char *title, text_t *out);

#endif
