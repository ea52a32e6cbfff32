/* Chooses the sizes at which an operator is measured; see bench_sizes.h. */
#include "bench_sizes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of values in "n=1024,4096"; 0 if the text is malformed. value_of returns the i-th
 * value. */
static int32_t count_of(const char *dim) {
  const char *equals = strchr(dim, '=');
  int32_t count = equals && equals > dim;
  for (const char *at = count ? equals + 1 : ""; *at; at++) {
    if (!strchr("0123456789,", *at) || (*at == ',' && !strchr("0123456789", at[1]))) return 0;
    count += *at == ',';
  }
  return count && equals[1] && equals[1] != ',' ? count : 0;
}

static int64_t value_of(const char *dim, int32_t index) {
  const char *at = strchr(dim, '=') + 1;
  while (index--)
    at = strchr(at, ',') + 1;
  return strtoll(at, NULL, 10);
}

/* Makes every combination of the extents that --dim lists. */
static bool sizes_of_dims(const texts_t *dims, bench_sizes_t *sizes, text_t *why) {
  int64_t total = 1;
  for (int32_t d = 0; d < dims->count; d++) {
    const char *text = dims->items[d];
    if (!count_of(text) || d == BENCH_NAMES || strcspn(text, "=") >= sizeof sizes->names[0]) {
      text_add(why, "--dim %s: expected NAME=N,... and at most %d names", text, BENCH_NAMES);
      return false;
    }
    snprintf(sizes->names[d], sizeof sizes->names[0], "%.*s", (int)strcspn(text, "="), text);
    if ((total *= count_of(text)) > BENCH_SIZES_MOST) {
      text_add(why, "--dim: more than %d combinations of sizes", BENCH_SIZES_MOST);
      return false;
    }
  }
  for (int32_t i = 0; i < (int32_t)total; i++) {
    int32_t left = i;
    sizes->items[i] = (bench_size_t){.count = dims->count};
    for (int32_t d = dims->count; d--; left /= count_of(dims->items[d])) {
      sizes->items[i].names[d] = sizes->names[d];
      sizes->items[i].extents[d] = value_of(dims->items[d], left % count_of(dims->items[d]));
    }
  }
  sizes->count = (int32_t)total;
  return true;
}

/* Number of elements of the largest argument if all extents have this value; 0 if the operator
 * cannot be called so. */
static int64_t elements_with(const tenon_op_t *op, const bench_size_t *size, int64_t extent,
                             text_t *why) {
  bench_call_t subject;
  bench_size_t other = *size;
  other.extent = extent;
  for (int32_t i = 0; i < other.count; i++)
    other.extents[i] = extent;
  int64_t count = bench_call_begin(op, &other, &subject, why) ? bench_call_elements(&subject) : 0;
  bench_call_end(&subject);
  return count;
}

/* Chooses the first example call whose size grows with its extents, else the first one. *out_power
 * is the exponent of that growth; 0: the size is constant. */
static bool choose_example(const tenon_op_t *op, bench_size_t *size, int64_t *out_few,
                           double *out_power, text_t *why) {
  const int32_t count = tenon_op_sample_count(op);
  *out_power = 0;
  *out_few = 0;
  for (size->example = 0; size->example < count; size->example++) {
    text_clear(why);
    const int64_t few = elements_with(op, size, 8, why);
    const int64_t more = few ? elements_with(op, size, 16, why) : 0;
    if (!*out_few) *out_few = few;
    if (few > 0 && more > few) {
      *out_few = few;
      *out_power = log2((double)more / (double)few);
      return true;
    }
  }
  size->example = 0;
  return *out_few > 0;
}

/* Chooses extents for which the largest argument has about a thousand, a hundred thousand and four
 * million elements. */
static bool sizes_of_magnitudes(const tenon_op_t *op, bench_size_t *sizes, int32_t *out_count,
                                text_t *why) {
  static const double wanted[] = {1 << 10, 1 << 17, 1 << 22};
  const bench_size_t first = sizes[0];
  int64_t few;
  double power;
  *out_count = 1;
  if (!choose_example(op, &sizes[0], &few, &power, why)) return false;
  if (power < 0.1) return true; /* the examples state all extents as numbers */
  const int32_t example = sizes[0].example;
  *out_count = 0;
  for (int i = 0; i < 3; i++) {
    bench_size_t size = first;
    size.example = example;
    size.extent = (int64_t)llround(8 * pow(wanted[i] / (double)few, 1 / power));
    if (size.extent < 1) size.extent = 1;
    if (!*out_count || size.extent != sizes[*out_count - 1].extent) sizes[(*out_count)++] = size;
  }
  return true;
}

/* Describes the arguments if every named extent is 8, except for one (-1: none) that is 9. */
static bool describe_with(const tenon_op_t *op, const bench_size_t *size, int32_t other,
                          text_t *out, text_t *why) {
  bench_call_t subject;
  bench_size_t tried = *size;
  for (int32_t i = 0; i < tried.count; i++)
    tried.extents[i] = i == other ? 9 : 8;
  bool fine = bench_call_begin(op, &tried, &subject, why);
  if (fine) bench_call_describe(&subject, out);
  bench_call_end(&subject);
  return fine;
}

/* Chooses the example call that has all extents named by --dim. */
static bool example_of_dims(const tenon_op_t *op, bench_size_t *sizes, int32_t count, text_t *why) {
  bench_size_t size = sizes[0];
  const char *missing = NULL;
  for (size.example = 0; size.example < tenon_op_sample_count(op); size.example++) {
    text_t before = {NULL, 0, 0, false};
    text_t after = {NULL, 0, 0, false};
    text_t ignored = {NULL, 0, 0, false};
    bool has_all = describe_with(op, &size, -1, &before, &ignored);
    for (int32_t d = 0; has_all && d < size.count; d++) {
      text_clear(&after); /* An extent for which 9 is refused does exist. */
      has_all = !describe_with(op, &size, d, &after, &ignored) ||
                strcmp(text_get(&before), text_get(&after)) != 0;
      if (!has_all) missing = size.names[d];
    }
    const bool is_callable = before.size > 0;
    text_free(&before);
    text_free(&after);
    text_free(&ignored);
    for (int32_t i = 0; i < count && (has_all || !is_callable); i++)
      sizes[i].example = size.example;
    if (has_all || !is_callable) return true; /* the error is reported when the size is measured */
  }
  text_add(why, "--dim %s: no extent has this name in TENON_SAMPLES, TENON_SHAPES or --input",
           missing ? missing : sizes[0].names[0]);
  return false;
}

void bench_size_label(const bench_size_t *size, text_t *out) {
  for (int32_t d = 0; d < size->count; d++)
    text_add(out, "%s%s=%lld", d ? " " : "", size->names[d], (long long)size->extents[d]);
  if (size->extent) text_add(out, "%sextent=%lld", out->size ? " " : "", (long long)size->extent);
  for (int32_t i = 0; i < size->forms->count; i++)
    text_add(out, "%s%s", out->size ? " " : "", size->forms->items[i]);
  for (int32_t i = 0; i < size->attrs->count; i++)
    text_add(out, "%s%s", out->size ? " " : "", size->attrs->items[i]);
  if (size->dtype) text_add(out, "%s%s", out->size ? " " : "", size->dtype);
  if (!out->size) text_add(out, "declared size");
}

bool bench_sizes_make(const tenon_op_t *op, const texts_t *dims, const bench_size_t *common,
                      bench_sizes_t *out_sizes, text_t *why) {
  if (!sizes_of_dims(dims, out_sizes, why)) return false;
  for (int32_t i = 0; i < out_sizes->count; i++) {
    bench_size_t *size = &out_sizes->items[i];
    size->dtype = common->dtype;
    size->forms = common->forms;
    size->attrs = common->attrs;
  }
  if (dims->count) return example_of_dims(op, out_sizes->items, out_sizes->count, why);
  return common->forms->count || sizes_of_magnitudes(op, out_sizes->items, &out_sizes->count, why);
}
