/* Results of `tenon bench`: storage, JSON, comparison and text; see bench_results.h. */
#include "bench_results.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "roofline.h"

bench_result_t *bench_results_add(bench_results_t *results, const char *op, const char *device,
                                  const char *size, const char *arguments) {
  if (results->count == results->capacity) {
    const int32_t capacity = results->capacity * 2 + 8;
    bench_result_t *items = realloc(results->items, (size_t)capacity * sizeof *items);
    if (!items) return NULL;
    results->items = items;
    results->capacity = capacity;
  }
  bench_result_t *result = &results->items[results->count];
  *result = (bench_result_t){strdup(op),
                             strdup(device),
                             strdup(size),
                             strdup(arguments),
                             {0, 0, 0, 0, 0, 0},
                             0,
                             0,
                             false,
                             0,
                             0,
                             0};
  results->count++;
  return result->op && result->device && result->size && result->arguments ? result : NULL;
}

void bench_results_free(bench_results_t *results) {
  for (int32_t i = 0; i < results->count; i++) {
    bench_result_t *result = &results->items[i];
    free(result->op);
    free(result->device);
    free(result->size);
    free(result->arguments);
  }
  free(results->items);
  *results = (bench_results_t){NULL, 0, 0};
}

static void add_member(text_t *out, const char *name, const char *text) {
  text_add(out, "\"%s\": ", name);
  json_add_text(out, text);
  text_add(out, ", ");
}

void bench_results_json(const bench_results_t *results, const machine_t *machine,
                        const char *library, text_t *out) {
  text_add(out, "{");
  add_member(out, "library", library);
  text_add(out,
           "\"machine\": {\"threads\": %d, \"bandwidth\": %.6g, \"peak_f32\": %.6g, \"peak_f64\": "
           "%.6g},\n \"results\": [",
           (int)machine->threads, machine->bandwidth, machine->peak_f32, machine->peak_f64);
  for (int32_t i = 0; i < results->count; i++) {
    const bench_result_t *f = &results->items[i];
    const double seconds = f->times.median * 1e-9;
    text_add(out, "%s\n  {", i ? "," : "");
    add_member(out, "op", f->op);
    add_member(out, "device", f->device);
    add_member(out, "size", f->size);
    add_member(out, "arguments", f->arguments);
    text_add(out,
             "\"median_ns\": %.6g, \"first_quartile_ns\": %.6g, \"third_quartile_ns\": %.6g, "
             "\"calls_per_second\": %.6g, ",
             f->times.median, f->times.first, f->times.third, 1 / seconds);
    text_add(out, "\"bytes\": %.17g, \"bytes_per_second\": %.6g", f->bytes, f->bytes / seconds);
    if (f->operations > 0)
      text_add(out, ", \"operations\": %.17g, \"operations_per_second\": %.6g", f->operations,
               f->operations / seconds);
    text_add(out, "}");
  }
  text_add(out, "\n]}\n");
}

static bool has_text(const char *json, const char *name, const char *expected) {
  text_t found = {NULL, 0, 0, false};
  bool same = json_find_text(json, name, &found) && strcmp(text_get(&found), expected) == 0;
  text_free(&found);
  return same;
}

static void add_measurement(bench_result_t *f, double median, double first, double third) {
  if (f->other > 0) {
    f->other = (f->other + median) / 2;
    if (first < f->other_first) f->other_first = first;
    if (third > f->other_third) f->other_third = third;
  } else {
    f->other = median;
    f->other_first = first;
    f->other_third = third;
  }
}

int32_t bench_results_compare(bench_results_t *results, const char *json) {
  int32_t found = 0;
  for (int32_t i = 0; i < results->count; i++) {
    bench_result_t *f = &results->items[i];
    for (const char *at = strstr(json, "\n  {"); at; at = strstr(at + 1, "\n  {")) {
      double median, first, third;
      if (!has_text(at, "op", f->op) || !has_text(at, "device", f->device) ||
          !has_text(at, "size", f->size) || !json_find_number(at, "median_ns", &median) ||
          !json_find_number(at, "first_quartile_ns", &first) ||
          !json_find_number(at, "third_quartile_ns", &third) || !(median > 0))
        continue;
      add_measurement(f, median, first, third);
      found++;
      break;
    }
  }
  return found;
}

static void add_time(text_t *out, double ns) {
  if (ns < 1e3)
    text_add(out, "%.1f ns", ns);
  else if (ns < 1e6)
    text_add(out, "%.2f us", ns / 1e3);
  else if (ns < 1e9)
    text_add(out, "%.2f ms", ns / 1e6);
  else
    text_add(out, "%.2f s", ns / 1e9);
}

static void add_count(text_t *out, double number) {
  static const char *const units[] = {"", " thousand", " million", " billion"};
  int unit = 0;
  for (; unit < 3 && number >= 1e3; unit++)
    number /= 1e3;
  text_add(out, "%.3g%s", number, units[unit]);
}

static void add_comparison(const bench_result_t *f, text_t *out) {
  const double ratio = f->other / f->times.median;
  const bool apart = f->times.first > f->other_third || f->times.third < f->other_first;
  text_add(out, "  the other operator took ");
  add_time(out, f->other);
  text_add(out, " (");
  add_time(out, f->other_first);
  text_add(out, " to ");
  add_time(out, f->other_third);
  const char *verdict = ratio > 1 ? "faster" : "slower";
  if (!apart) verdict = "a difference within the spread";
  text_add(out, "): this one runs at %.2f times its speed, %s\n", ratio, verdict);
}

void bench_result_describe(const bench_result_t *f, const machine_t *machine, text_t *out) {
  const roofline_point_t point = {f->size, f->bytes, f->operations, f->times.median * 1e-9,
                                  f->is_f64};
  text_add(out, "  ");
  add_time(out, f->times.median);
  text_add(out, "  (middle half: ");
  add_time(out, f->times.first);
  text_add(out, " to ");
  add_time(out, f->times.third);
  text_add(out, ")  ");
  add_count(out, 1e9 / f->times.median);
  text_add(out, " calls per second\n  ");
  if (strcmp(f->device, "cpu") == 0)
    roofline_words(machine, &point, out);
  else
    text_add(out, "%.1f GB/s", f->bytes / f->times.median);
  text_add(out, "\n");
  if (f->other > 0) add_comparison(f, out);
}
