/* Prints the table of a profile; see profile_table.h. Only spans of depth 0 are counted, because
 * deeper spans lie within them. */
#include "profile_table.h"

#include <stdlib.h>
#include <string.h>

enum { BAR_WIDTH = 30 };

typedef struct kind_t {
  const char *name;
  int64_t calls;
  double ms;
} kind_t;

static int compare_names(const void *a, const void *b) {
  return strcmp(((const kind_t *)a)->name, ((const kind_t *)b)->name);
}

static int compare_times(const void *a, const void *b) {
  double left = ((const kind_t *)a)->ms;
  double right = ((const kind_t *)b)->ms;
  if (left == right) return compare_names(a, b);
  return left < right ? 1 : -1;
}

static void add_rows(text_t *out, const kind_t *kinds, int32_t count, double total) {
  int width = 8;
  for (int32_t i = 0; i < count; i++)
    if ((int)strlen(kinds[i].name) > width) width = (int)strlen(kinds[i].name);
  text_add(out, "%-*s  %6s  %10s  %6s\n", width, "operator", "calls", "ms", "%");
  for (int32_t i = 0; i < count; i++) {
    double share = total > 0 ? kinds[i].ms / total : 0;
    int bar = (int)(share * BAR_WIDTH + 0.5);
    text_add(out, "%-*s  %6lld  %10.3f  %6.1f%s%.*s\n", width, kinds[i].name,
             (long long)kinds[i].calls, kinds[i].ms, share * 100, bar > 0 ? "  " : "", bar,
             "##############################");
  }
}

bool profile_table_add(text_t *out, const tenon_profile_t *profile, int32_t rows) {
  int32_t spans = tenon_profile_count(profile);
  int32_t used = 0;
  int32_t count = 0;
  double total = 0;
  kind_t *kinds = calloc((size_t)(spans > 0 ? spans : 0) + 1, sizeof *kinds);
  if (!kinds) return false;
  for (int32_t i = 0; i < spans; i++) {
    tenon_span_t span = {.size = sizeof span};
    if (tenon_profile_span(profile, i, &span) != TENON_OK || span.depth != 0) continue;
    kinds[used++] = (kind_t){span.kind && *span.kind ? span.kind : span.name, 1,
                             (double)(span.end - span.begin) / 1e6};
  }
  if (used > 1) qsort(kinds, (size_t)used, sizeof *kinds, compare_names);
  for (int32_t i = 0; i < used; i++) { /* after sorting, equal names are neighbours */
    total += kinds[i].ms;
    if (count > 0 && strcmp(kinds[count - 1].name, kinds[i].name) == 0) {
      kinds[count - 1].calls++;
      kinds[count - 1].ms += kinds[i].ms;
    } else {
      kinds[count++] = kinds[i];
    }
  }
  if (count > 1) qsort(kinds, (size_t)count, sizeof *kinds, compare_times);
  add_rows(out, kinds, count < rows ? count : rows, total);
  if (count > rows) text_add(out, "and %d more\n", (int)(count - rows));
  free(kinds);
  return !out->failed;
}
