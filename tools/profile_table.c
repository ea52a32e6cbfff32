/* Prints the tables of a profile; see profile_table.h. Only spans of depth 0 are counted, because
 * deeper spans lie within them. */
#include "profile_table.h"

#include <stdlib.h>
#include <string.h>

enum { BAR_WIDTH = 20 };

typedef struct row_t {
  const char *name; /* the operator, or the node */
  const char *kind; /* the operator */
  int64_t calls;
  double ms;
  double bytes;
  double operations;
  double least_ms; /* the time that the machine needs at its peak, for calls whose work is known */
} row_t;

static int compare_names(const void *a, const void *b) {
  return strcmp(((const row_t *)a)->name, ((const row_t *)b)->name);
}

static int compare_times(const void *a, const void *b) {
  double left = ((const row_t *)a)->ms;
  double right = ((const row_t *)b)->ms;
  if (left == right) return compare_names(a, b);
  return left < right ? 1 : -1;
}

/* The roofline's time: that of the memory or of the arithmetic, whichever takes longer. */
static double least_ms(const tenon_span_t *span, const machine_t *machine) {
  if (!machine) return 0;
  const double memory = span->bytes / machine->bandwidth;
  const double arithmetic = span->operations / machine->peak_f32;
  return (memory > arithmetic ? memory : arithmetic) * 1e3;
}

static row_t row_of(const tenon_span_t *span, const machine_t *machine) {
  const char *kind = *span->kind ? span->kind : span->name;
  const double ms = (double)(span->end - span->begin) / 1e6;
  return (row_t){span->name, kind, 1, ms, span->bytes, span->operations, least_ms(span, machine)};
}

static void add_to_row(row_t *row, const row_t *other) {
  row->calls += other->calls;
  row->ms += other->ms;
  row->bytes += other->bytes;
  row->operations += other->operations;
  row->least_ms += other->least_ms;
}

/* "12.3", or "-" for a rate that is unknown. */
static void add_rate(text_t *out, double work, double ms) {
  if (work > 0 && ms > 0)
    text_add(out, "  %8.1f", work / ms / 1e6);
  else
    text_add(out, "  %8s", "-");
}

static void add_row(text_t *out, const row_t *row, double total, int width, bool has_machine) {
  const double share = total > 0 ? row->ms / total : 0;
  const int bar = (int)(share * BAR_WIDTH + 0.5);
  text_add(out, "%-*s  %6lld  %10.3f  %6.1f", width, row->name, (long long)row->calls, row->ms,
           share * 100);
  add_rate(out, row->bytes, row->ms);
  add_rate(out, row->operations, row->ms);
  if (has_machine && row->least_ms > 0)
    text_add(out, "  %5.0f %%", row->least_ms / row->ms * 100);
  else if (has_machine)
    text_add(out, "  %7s", "-");
  text_add(out, "%s%.*s\n", bar > 0 ? "  " : "", bar, "####################");
}

static void add_rows(text_t *out, const char *title, const row_t *rows, int32_t count, double total,
                     bool has_machine) {
  int width = 8;
  for (int32_t i = 0; i < count; i++)
    if ((int)strlen(rows[i].name) > width) width = (int)strlen(rows[i].name);
  text_add(out, "%-*s  %6s  %10s  %6s  %8s  %8s%s\n", width, title, "calls", "ms", "%", "GB/s",
           "GFLOP/s", has_machine ? "  of peak" : "");
  for (int32_t i = 0; i < count; i++)
    add_row(out, &rows[i], total, width, has_machine);
}

/* Adds up neighbours with the same name; returns the number of rows that are left. */
static int32_t merge_rows(row_t *rows, int32_t count) {
  int32_t kept = 0;
  for (int32_t i = 0; i < count; i++) {
    if (kept > 0 && strcmp(rows[kept - 1].name, rows[i].name) == 0)
      add_to_row(&rows[kept - 1], &rows[i]);
    else
      rows[kept++] = rows[i];
  }
  return kept;
}

static int32_t read_rows(const tenon_profile_t *profile, const machine_t *machine, row_t *rows) {
  const int32_t spans = tenon_profile_count(profile);
  int32_t count = 0;
  for (int32_t i = 0; i < spans; i++) {
    tenon_span_t span = {.size = sizeof span};
    if (tenon_profile_span(profile, i, &span) == TENON_OK && span.depth == 0)
      rows[count++] = row_of(&span, machine);
  }
  return count;
}

static void sort_rows(row_t *rows, int32_t count, int (*compare)(const void *a, const void *b)) {
  if (count > 1) qsort(rows, (size_t)count, sizeof *rows, compare);
}

static void add_kinds(text_t *out, row_t *rows, int32_t count, int32_t most, const row_t *whole,
                      bool has_machine) {
  for (int32_t i = 0; i < count; i++)
    rows[i].name = rows[i].kind;
  sort_rows(rows, count, compare_names);
  const int32_t kinds = merge_rows(rows, count);
  sort_rows(rows, kinds, compare_times);
  add_rows(out, "operator", rows, kinds < most ? kinds : most, whole->ms, has_machine);
  if (kinds > most) text_add(out, "and %d more\n", (int)(kinds - most));
}

static void add_nodes(text_t *out, row_t *rows, int32_t count, int32_t most, const row_t *whole,
                      bool has_machine) {
  sort_rows(rows, count, compare_times);
  text_add(out, "\n");
  add_rows(out, "slowest nodes", rows, count < most ? count : most, whole->ms, has_machine);
}

bool profile_table_add(text_t *out, const tenon_profile_t *profile, int32_t rows,
                       const machine_t *machine) {
  const int32_t spans = tenon_profile_count(profile);
  row_t *all = calloc((size_t)(spans > 0 ? spans : 0) + 1, sizeof *all);
  if (!all) return false;
  int32_t count = read_rows(profile, machine, all);
  row_t whole = {0};
  for (int32_t i = 0; i < count; i++)
    add_to_row(&whole, &all[i]);
  add_nodes(out, all, count, rows, &whole, machine != NULL);
  text_add(out, "\n");
  add_kinds(out, all, count, rows, &whole, machine != NULL);
  if (machine && whole.least_ms > 0)
    text_add(out,
             "whole: %.3f ms; at its peak (%.1f GB/s, %.1f GFLOP/s with %s) this machine needs "
             "%.3f ms for the work that is known\n",
             whole.ms, machine->bandwidth / 1e9, machine->peak_f32 / 1e9, machine->instructions,
             whole.least_ms);
  free(all);
  return !out->failed;
}
