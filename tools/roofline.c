/* Computes and draws rooflines; see roofline.h. */
#include "roofline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  COLUMNS = 64,
  ROWS = 13,
};

static double peak_rate(const machine_t *machine, bool is_f64) {
  return is_f64 ? machine->peak_f64 : machine->peak_f32;
}

static double smaller(double a, double b) { return a < b ? a : b; }

void roofline_words(const machine_t *machine, const roofline_point_t *p, text_t *out) {
  const double rate = p->bytes / p->seconds;
  const double share = rate / machine->bandwidth;
  text_add(out, "memory %.1f of %.1f GB/s (%.0f %%%s)", rate / 1e9, machine->bandwidth / 1e9,
           share * 100, share > 1.05 ? ": served from caches" : "");
  if (!(p->operations > 0)) {
    text_add(out, "; arithmetic unknown (give --flops)");
    return;
  }
  const double work = p->operations / p->seconds;
  const double top = peak_rate(machine, p->is_f64);
  const double intensity = p->operations / p->bytes;
  const double roof = smaller(top, intensity * machine->bandwidth);
  text_add(out, "; arithmetic %.1f of %.1f GFLOP/s (%.0f %%)", work / 1e9, top / 1e9,
           work / top * 100);
  text_add(out, "; %.3g operations per byte: bound by %s, %.0f %% of the roofline", intensity,
           intensity * machine->bandwidth < top ? "memory" : "arithmetic", work / roof * 100);
}

typedef struct frame_t { /* logarithms to base 2 */
  double left;
  double right;
  double bottom;
  double top;
  bool is_f64;
} frame_t;

/* Chooses a frame that contains the ridge and all points; false if there are no points. */
static bool frame_of(const machine_t *machine, const roofline_point_t *points, int32_t count,
                     frame_t *out) {
  bool any = false;
  for (int32_t i = 0; i < count; i++)
    out->is_f64 = out->is_f64 || points[i].is_f64;
  const double top = peak_rate(machine, out->is_f64);
  const double ridge = log2(top / machine->bandwidth);
  *out = (frame_t){ridge - 4, ridge + 3, log2(top) - 5, log2(top) + 0.5, out->is_f64};
  for (int32_t i = 0; i < count; i++) {
    if (!(points[i].operations > 0)) continue;
    const double x = log2(points[i].operations / points[i].bytes);
    const double y = log2(points[i].operations / points[i].seconds);
    any = true;
    if (x - 0.5 < out->left) out->left = x - 0.5;
    if (x + 0.5 > out->right) out->right = x + 0.5;
    if (y - 0.5 < out->bottom) out->bottom = y - 0.5;
    if (y + 0.5 > out->top) out->top = y + 0.5;
  }
  return any;
}

static double roof_at(const machine_t *machine, const frame_t *f, double x) {
  return smaller(log2(peak_rate(machine, f->is_f64)), x + log2(machine->bandwidth));
}

static void put_mark(char picture[ROWS][COLUMNS + 1], const frame_t *f, double x, double y,
                     char letter) {
  const int column = (int)lround((x - f->left) / (f->right - f->left) * (COLUMNS - 1));
  const int row = (int)lround((f->top - y) / (f->top - f->bottom) * (ROWS - 1));
  if (column >= 0 && column < COLUMNS && row >= 0 && row < ROWS) picture[row][column] = letter;
}

void roofline_picture(const machine_t *machine, const roofline_point_t *points, int32_t count,
                      text_t *out) {
  char picture[ROWS][COLUMNS + 1];
  frame_t f = {0};
  if (!frame_of(machine, points, count, &f)) return;
  memset(picture, ' ', sizeof picture);
  for (int c = 0; c < COLUMNS; c++) {
    const double x = f.left + (f.right - f.left) * c / (COLUMNS - 1);
    put_mark(picture, &f, x, roof_at(machine, &f, x),
             x + log2(machine->bandwidth) < log2(peak_rate(machine, f.is_f64)) ? '/' : '-');
  }
  for (int32_t i = 0; i < count; i++)
    if (points[i].operations > 0)
      put_mark(picture, &f, log2(points[i].operations / points[i].bytes),
               log2(points[i].operations / points[i].seconds), (char)('a' + i % 26));
  for (int r = 0; r < ROWS; r++) {
    int size = COLUMNS;
    while (size > 0 && picture[r][size - 1] == ' ')
      size--;
    const double y = exp2(f.top - (f.top - f.bottom) * r / (ROWS - 1)) / 1e9;
    if (r % 4 == 0)
      text_add(out, "%9.3g |%.*s\n", y, size, picture[r]);
    else
      text_add(out, "%9s |%.*s\n", "", size, picture[r]);
  }
  text_add(out, "%9s +", "GFLOP/s");
  for (int c = 0; c < COLUMNS; c++)
    text_add(out, "-");
  text_add(out, "\n%11s%-*.3g%.3g operations per byte\n", "", COLUMNS - 24, exp2(f.left),
           exp2(f.right));
}

void roofline_svg(const machine_t *machine, const roofline_point_t *points, int32_t count,
                  const char *title, text_t *out) {
  enum {
    WIDTH = 640,
    HEIGHT = 400,
    LEFT = 70,
    TOP = 40,
    RIGHT = 20,
    BOTTOM = 50,
  };
  const double wide = WIDTH - LEFT - RIGHT;
  const double high = HEIGHT - TOP - BOTTOM;
  frame_t f = {0};
  (void)frame_of(machine, points, count, &f);
#define X(x) (LEFT + wide * ((x)-f.left) / (f.right - f.left))
#define Y(y) (TOP + high * (f.top - (y)) / (f.top - f.bottom))
  text_add(out,
           "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
           "font-family=\"sans-serif\" font-size=\"12\">\n"
           "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"%d\" y=\"22\" "
           "font-size=\"14\">",
           WIDTH, HEIGHT, LEFT);
  text_add_xml(out, title);
  text_add(out, "</text>\n");
  for (int i = (int)ceil(f.left); i <= f.right; i++)
    text_add(out,
             "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/><text x=\"%.1f\" "
             "y=\"%d\" text-anchor=\"middle\">%.4g</text>\n",
             X(i), X(i), TOP, HEIGHT - BOTTOM, X(i), HEIGHT - BOTTOM + 16, exp2(i));
  for (int i = (int)ceil(f.bottom); i <= f.top; i++)
    text_add(out,
             "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%d\" "
             "y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n",
             LEFT, WIDTH - RIGHT, Y(i), Y(i), LEFT - 6, Y(i) + 4, exp2(i) / 1e9);
  const double ridge = log2(peak_rate(machine, f.is_f64) / machine->bandwidth);
  const double low = f.bottom - log2(machine->bandwidth);
  const double from = low > f.left ? low : f.left;
  text_add(out,
           "<polyline fill=\"none\" stroke=\"#c00\" stroke-width=\"2\" points=\"%.1f,%.1f "
           "%.1f,%.1f %.1f,%.1f\"/>\n",
           X(from), Y(roof_at(machine, &f, from)), X(ridge), Y(roof_at(machine, &f, ridge)),
           X(f.right), Y(roof_at(machine, &f, f.right)));
  for (int32_t i = 0; i < count; i++) {
    if (!(points[i].operations > 0)) continue;
    const double x = X(log2(points[i].operations / points[i].bytes));
    const double y = Y(log2(points[i].operations / points[i].seconds));
    text_add(out,
             "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#06c\"/><text x=\"%.1f\" y=\"%.1f\">",
             x, y, x + 7, y + 4);
    text_add_xml(out, points[i].label);
    text_add(out, "</text>\n");
  }
  text_add(out,
           "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">operations per byte</text><text "
           "x=\"14\" y=\"%d\">GFLOP/s</text>\n</svg>\n",
           LEFT + (int)wide / 2, HEIGHT - 12, TOP - 8);
#undef X
#undef Y
}
