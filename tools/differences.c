/* Compares the values of two runs and shows the differences; see differences.h. */
#include "differences.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "element.h"
#include "json.h"

static double relative_error(double expected, double found) {
  if (expected == found || (isnan(expected) && isnan(found))) return 0;
  if (!isfinite(expected) || !isfinite(found)) return HUGE_VAL;
  return fabs(found - expected) / (1 + fabs(expected));
}

/* Largest error relative to 1 + |expected|, whatever the tolerance. */
static double largest_error(const tenon_tensor_t *expected, const tenon_tensor_t *found) {
  element_class_t kind = element_class(expected->dtype);
  double worst = 0;
  if (kind == ELEMENT_STRING || kind == ELEMENT_LIST || kind == ELEMENT_OTHER) return 0;
  for (int64_t i = 0, n = tenon_count(expected); i < n; i++) {
    double error = relative_error(element_number(expected, i), element_number(found, i));
    double imaginary = kind == ELEMENT_COMPLEX ? relative_error(element_imaginary(expected, i),
                                                                element_imaginary(found, i))
                                               : 0;
    if (error > worst) worst = error;
    if (imaginary > worst) worst = imaginary;
  }
  return worst;
}

static bool has_same_form(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  bool same = tenon_dtype_id(a->dtype) == tenon_dtype_id(b->dtype) && a->ndim == b->ndim;
  for (int32_t i = 0; same && i < a->ndim; i++)
    same = a->shape[i] == b->shape[i];
  return same;
}

static bool compare_value(const values_t *a, const values_t *b, const value_t *other,
                          const tolerance_t *tolerance, difference_t *d, text_t *why) {
  tenon_tensor_t *left = values_tensor(a, d->value, why);
  tenon_tensor_t *right = values_tensor(b, other, why);
  bool fine = left && right;
  d->is_compared = fine;
  if (fine) {
    d->differs = !compare_tensors(right, left, tolerance, &d->words);
    d->relative = has_same_form(left, right) ? largest_error(right, left) : HUGE_VAL;
  }
  tenon_tensor_release(left);
  tenon_tensor_release(right);
  return fine;
}

bool differences_find(const values_t *a, const values_t *b, const char *kind,
                      const tolerance_t *tolerance, differences_t *out, text_t *why) {
  *out = (differences_t){.first = -1, .items = calloc((size_t)a->count + 1, sizeof *out->items)};
  if (!out->items) {
    text_add(why, "out of memory");
    return false;
  }
  for (int32_t i = 0; i < a->count; i++) {
    if (strcmp(a->items[i].kind, kind) != 0) continue;
    difference_t *d = &out->items[out->count++];
    d->value = &a->items[i];
    const value_t *other = values_find(b, kind, d->value->name);
    if (!other) continue;
    if (!compare_value(a, b, other, tolerance, d, why)) return false;
    out->compared++;
    out->wrong += d->differs;
    if (d->differs && out->first < 0) out->first = out->count - 1;
  }
  return true;
}

void differences_free(differences_t *differences) {
  for (int32_t i = 0; i < differences->count; i++)
    text_free(&differences->items[i].words);
  free(differences->items);
  *differences = (differences_t){.first = -1};
}

/* Powers of ten that the charts cover. */
enum {
  LEAST = -9,
  MOST = 3,
};

/* Height of a bar from 0 to 1, for errors from 1e-9 to 1e3. */
static double height_of(double relative) {
  double power = relative > 0 ? log10(relative) : LEAST;
  if (power < LEAST) return 0;
  if (power > MOST) return 1;
  return (power - LEAST) / (MOST - LEAST);
}

static void add_number(text_t *out, const difference_t *d) {
  if (!d->is_compared)
    text_add(out, "       -");
  else if (isinf(d->relative))
    text_add(out, "     inf");
  else
    text_add(out, "%8.1e", d->relative);
}

void differences_add_text(text_t *out, const differences_t *differences, bool all, int32_t width) {
  int32_t room = width > 70 ? 20 : 10;
  for (int32_t i = 0; i < differences->count; i++) {
    const difference_t *d = &differences->items[i];
    int32_t bar = (int32_t)lround(height_of(d->relative) * room);
    if (!all && !d->differs) continue;
    char mark = d->differs ? '!' : ' ';
    if (i == differences->first) mark = '>';
    text_add(out, "%c ", mark);
    add_number(out, d);
    text_add(out, " ");
    for (int32_t k = 0; k < room; k++)
      text_add(out, "%s", k < bar ? "#" : ".");
    text_add(out, "  %s  %s (%s)\n", d->value->name, d->value->node, d->value->op);
  }
}

void differences_add_json(text_t *out, const differences_t *differences) {
  text_add(out, "[");
  for (int32_t i = 0; i < differences->count; i++) {
    const difference_t *d = &differences->items[i];
    text_add(out, "%s\n    {\"value\": ", i ? "," : "");
    json_add_text(out, d->value->name);
    text_add(out, ", \"node\": ");
    json_add_text(out, d->value->node);
    text_add(out, ", \"operator\": ");
    json_add_text(out, d->value->op);
    text_add(out, ", \"compared\": %s", d->is_compared ? "true" : "false");
    text_add(out, ", \"differs\": %s", d->differs ? "true" : "false");
    if (d->is_compared && isfinite(d->relative))
      text_add(out, ", \"error\": %.9g", d->relative);
    else
      text_add(out, ", \"error\": null");
    if (d->differs) {
      text_add(out, ", \"words\": ");
      json_add_text(out, text_get(&d->words));
    }
    text_add(out, "}");
  }
  text_add(out, "%s]", differences->count ? "\n  " : "");
}

static const char *bar_colour(const difference_t *d, bool is_first) {
  if (is_first) return "#d1242f";
  if (d->differs) return "#f0883e";
  return d->is_compared ? "#2da44e" : "#bbb";
}

void differences_add_svg(text_t *out, const differences_t *differences, const char *title,
                         double tolerance) {
  enum {
    LEFT = 60,
    TOP = 40,
    HEIGHT = 240,
    BOTTOM = 30,
  };
  int32_t count = differences->count ? differences->count : 1;
  double step = count > 60 ? 10 : 16;
  if (count > 200) step = 4;
  double width = step * count;
  text_add(out,
           "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%d\" "
           "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
           "fill=\"white\"/>\n<text x=\"%d\" y=\"20\" font-size=\"14\">",
           LEFT + width + 20, TOP + HEIGHT + BOTTOM, LEFT);
  text_add_xml(out, title);
  text_add(out, "</text>\n");
  for (int power = LEAST; power <= MOST; power += 3) {
    double y = TOP + HEIGHT * (1 - (double)(power - LEAST) / (MOST - LEAST));
    text_add(out,
             "<line x1=\"%d\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"4\" "
             "y=\"%.1f\">1e%d</text>\n",
             LEFT, LEFT + width, y, y, y + 4, power);
  }
  double limit = TOP + HEIGHT * (1 - height_of(tolerance));
  text_add(out,
           "<line x1=\"%d\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#888\" "
           "stroke-dasharray=\"4 3\"/>\n",
           LEFT, LEFT + width, limit, limit);
  for (int32_t i = 0; i < differences->count; i++) {
    const difference_t *d = &differences->items[i];
    double height = HEIGHT * height_of(d->relative);
    if (height < 1) height = 1;
    text_add(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>",
             LEFT + i * step, TOP + HEIGHT - height, step - 1, height,
             bar_colour(d, i == differences->first));
    text_add_xml(out, d->value->node);
    text_add(out, " (");
    text_add_xml(out, d->value->op);
    text_add(out, ") ");
    text_add_xml(out, d->value->name);
    text_add(out, ": ");
    add_number(out, d);
    text_add(out, "</title></rect>\n");
  }
  text_add(out, "</svg>\n");
}
