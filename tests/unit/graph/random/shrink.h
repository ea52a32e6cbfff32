/* Finds the smallest part of a graph that is wrong, and tells about it. */
#ifndef TENON_TESTS_RANDOM_SHRINK_H
#define TENON_TESTS_RANDOM_SHRINK_H

#include "criterion.h"

enum { ROUNDS = 2 }; /* because a plan may be wrong in its second run only */

/* Whether graphs count as wrong that are over the limit, but not much. */
static bool counts_over;

typedef struct results_t {
  int32_t count;
  int32_t values[OUTPUTS_MOST];
} results_t;

/* Whether one of some values of the draft is wrong in a graph that computes them alone. */
static bool is_wrong(const draft_t *d, const results_t *results, const way_t *way,
                     lengths_t lengths, errors_t *e) {
  trio_t t;
  const int before = check_failures;
  bool is_over;
  bool is = true;
  *e = (errors_t){.wrong = "does not compile"};
  const bool is_open = open_trio(&t, d, results->values, results->count, way);
  if (is_open) is = false;
  for (int round = 0; is_open && round < ROUNDS && !is; round++)
    is = !check_lengths(&t, lengths, round, e, &is_over) || (counts_over && is_over);
  /* An input in the place of a node may be out of the domain of the next one. */
  if (e->wrong == not_finite) is = false;
  close_trio(&t);
  is |= check_failures > before;
  return is;
}

static bool can_cut(const draft_t *d, const part_t *part) {
  bool can = !part->is_cut && !part->keeps;
  for (int32_t o = 0; o < part->result_count; o++)
    can &= is_float(d->values[part->results[o]].dtype) && d->values[part->results[o]].most < 100;
  return can;
}

/* Makes inputs of all values that need not be computed. */
static void cut_nodes(draft_t *d, const results_t *results, const way_t *way, lengths_t lengths) {
  errors_t ignored;
  for (int32_t n = d->node_count - 1; n >= 0; n--) {
    part_t *part = &d->nodes[n];
    if (!can_cut(d, part)) continue;
    part->is_cut = true;
    part->is_cut = is_wrong(d, results, way, lengths, &ignored);
  }
}

static void print_dump(tenon_executable_t *e, const char *what) {
  char *text = NULL;
  if (tenon_executable_dump(e, what, &text) == TENON_OK) fprintf(stderr, "%s:\n%s\n", what, text);
  tenon_text_release(text);
}

/* Prints a graph, which rules were applied to it, and the plan of its run. */
static void print_graph(const draft_t *d, const results_t *results, const way_t *way,
                        lengths_t lengths) {
  trio_t t;
  errors_t ignored;
  char *text = NULL;
  bool is_over;
  if (open_trio(&t, d, results->values, results->count, way)) {
    check_lengths(&t, lengths, 0, &ignored, &is_over);
    if (tenon_graph_dump(tenon_executable_graph(t.plain), &text) == TENON_OK)
      fprintf(stderr, "%s\n", text);
    tenon_text_release(text);
    print_dump(t.compiled, "rewrites");
    print_dump(t.compiled, "plan");
  }
  close_trio(&t);
}

/* Removes outputs without which another one is still wrong. */
static void drop_outputs(const draft_t *d, results_t *results, const way_t *way,
                         lengths_t lengths) {
  errors_t ignored;
  for (int32_t i = results->count - 1; i >= 0 && results->count > 1; i--) {
    results_t fewer = *results;
    fewer.values[i] = fewer.values[--fewer.count];
    if (is_wrong(d, &fewer, way, lengths, &ignored)) *results = fewer;
  }
}

static void tell_errors(const errors_t *e, int32_t count) {
  if (e->wrong) fprintf(stderr, "output %d %s\n", (int)e->wrong_output, e->wrong);
  for (int32_t o = 0; o < count && !e->wrong; o++)
    fprintf(stderr, "output %d: error %g, limit %g; plain error %g, largest %g\n", (int)o,
            e->found[o], limit_of(e, o), e->plain[o], e->largest[o]);
}

/* Tells which value of a graph is the first wrong one, and the smallest graph that computes it
 * wrongly. */
static void tell_wrong(draft_t *d, const way_t *way, lengths_t lengths) {
  errors_t e = {.wrong = NULL};
  results_t results = {.count = 0};
  for (int32_t v = 0; v < d->value_count && !results.count; v++) {
    const results_t alone = {1, {v}};
    if (d->values[v].node >= 0 && is_wrong(d, &alone, way, lengths, &e)) results = alone;
  }
  if (results.count) {
    const int32_t n = d->values[results.values[0]].node;
    fprintf(stderr, "the first wrong value is v%d, of node n%d (%s)\n", (int)results.values[0],
            (int)n, d->nodes[n].op);
  } else {
    fprintf(stderr, "each value is right in a graph of its own\n");
    results.count = d->output_count;
    memcpy(results.values, d->outputs, sizeof results.values);
    drop_outputs(d, &results, way, lengths);
  }
  cut_nodes(d, &results, way, lengths);
  is_wrong(d, &results, way, lengths, &e);
  fprintf(stderr, "with n = %d and m = %d:\n", (int)lengths.n, (int)lengths.m);
  tell_errors(&e, results.count);
  print_graph(d, &results, way, lengths);
}

#endif
