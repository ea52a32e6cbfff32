/* The roofline of a machine (Williams, Waterman, Patterson 2009): how fast work of some intensity
 * can be, and how fast it was. In words, as a picture of letters, and as SVG.  Called by bench. */
#ifndef TOOLS_ROOFLINE_H
#define TOOLS_ROOFLINE_H

#include "machine.h"
#include "text.h"

typedef struct roofline_point_t {
  const char *label;
  double bytes;
  double operations;
  double seconds; /* operations 0: not known */
  bool is_f64;
} roofline_point_t;

/* "memory: 12.3 of 14.1 GB/s (87 %); arithmetic: ...; bound by memory" */
void roofline_words(const machine_t *machine, const roofline_point_t *point, text_t *out);
/* Both axes logarithmic: operations a byte, operations a second; points are a, b, ....  Nothing
 * without points whose operations are known. */
void roofline_picture(const machine_t *machine, const roofline_point_t *points, int32_t count,
                      text_t *out);
void roofline_svg(const machine_t *machine, const roofline_point_t *points, int32_t count,
                  const char *title, text_t *out);

#endif
