/* Compares runs of a draft: the compiled graph, the same graph node by node (plain), and the plain
 * graph in double precision. The error of a compiled run is at most twice that of the plain run and
 * 4 units in the last place of the largest output. Errors are the largest ones of all elements; if
 * a run is over the limit, those of more inputs count, because a plain run may be right by luck.
 * A few graphs are over the limit all the same: their small outputs are what is left of larger
 * numbers. These are counted; their errors are at most 16 units of the largest number. */
#ifndef TENON_TESTS_RANDOM_CRITERION_H
#define TENON_TESTS_RANDOM_CRITERION_H

#include "emit.h"

enum { OUTPUTS_MOST = 8, DRAWS_MOST = 12 };

static const char not_finite[] = "is not finite in the plain run";

typedef struct way_t { /* how graphs are compiled */
  const char *without;
  tenon_device_t devices[2]; /* the CPU may be the second one */
  uint32_t device_count;     /* 0: the CPU alone */
} way_t;

typedef struct errors_t {
  double found[OUTPUTS_MOST];
  double plain[OUTPUTS_MOST];
  double largest[OUTPUTS_MOST];
  uint32_t dtypes[OUTPUTS_MOST];
  const char *wrong; /* what no error explains; NULL: nothing */
  int32_t wrong_output;
  bool lacks_kernel; /* The device cannot compute the graph. */
} errors_t;

typedef struct trio_t {
  const draft_t *draft;
  bool is_on_device;
  int32_t count; /* of outputs */
  int32_t outputs[OUTPUTS_MOST];
  emission_t *narrow;
  emission_t *wide;
  const tenon_graph_t *graph; /* that of the first two, as it was built */
  tenon_executable_t *compiled;
  tenon_executable_t *plain;
  tenon_executable_t *exact;
} trio_t;

static tenon_executable_t *compile_emitted(const tenon_graph_t *graph, uint32_t flags,
                                           const way_t *way) {
  tenon_executable_t *e = NULL;
  tenon_compile_t options = {.size = sizeof options, .flags = flags};
  if (way) {
    options.without = way->without;
    options.devices = way->devices;
    options.device_count = way->device_count;
  }
  CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_OK);
  tenon_graph_release(graph);
  return e;
}

/* Returns whether all three are compiled. */
static bool open_trio(trio_t *t, const draft_t *d, const int32_t *outputs, int32_t count,
                      const way_t *way) {
  *t = (trio_t){.draft = d, .count = count, .is_on_device = way->device_count > 0};
  memcpy(t->outputs, outputs, (size_t)count * sizeof *outputs);
  t->narrow = malloc(sizeof *t->narrow);
  t->wide = malloc(sizeof *t->wide);
  if (!t->narrow || !t->wide) abort();
  tenon_graph_t *graph = emit_graph(t->narrow, d, false, outputs, count);
  if (!graph) return false;
  t->graph = graph;
  tenon_graph_retain(graph);
  tenon_graph_retain(graph);
  t->compiled = compile_emitted(graph, 0, way);
  t->plain = compile_emitted(graph, TENON_COMPILE_PLAIN, NULL);
  graph = emit_graph(t->wide, d, true, outputs, count);
  if (graph) t->exact = compile_emitted(graph, TENON_COMPILE_PLAIN, NULL);
  return t->compiled && t->plain && t->exact;
}

static void close_trio(trio_t *t) {
  tenon_executable_release(t->compiled);
  tenon_executable_release(t->plain);
  tenon_executable_release(t->exact);
  tenon_graph_release(t->graph);
  free(t->narrow);
  free(t->wide);
}

/* Inputs */

/* Makes the input that a value is. The elements depend on the value and the draw only. */
static tenon_tensor_t *make_input(const draft_t *d, int32_t v, lengths_t lengths, int draw) {
  const value_t *value = &d->values[v];
  int64_t shape[RANK_MOST];
  for (int32_t i = 0; i < value->rank; i++)
    shape[i] = length_of(value->shape[i], lengths);
  tenon_tensor_t *t = make_tensor(filled_as(value->dtype), value->rank, shape);
  const uint64_t seed = d->seed * 1000003 + (uint64_t)v * 31 + (uint64_t)draw;
  for (int64_t i = 0; i < tenon_count(t); i++) {
    const uint32_t number = tenon_random(seed, (uint64_t)i);
    const double unit = (double)number / 4294967296.0;
    const double whole = (double)(number % ((uint32_t)value->most + 1));
    store(t, i, is_float(value->dtype) ? value->most * (2 * unit - 1) : whole);
  }
  return finish_tensor(t, value->dtype);
}

static void make_inputs(const emission_t *m, lengths_t lengths, int draw, tenon_tensor_t **out) {
  for (int32_t i = 0; i < m->port_count; i++) {
    tenon_tensor_t *t = make_input(m->draft, m->ports[i], lengths, draw);
    out[i] = converted(t, dtype_in(m, &m->draft->values[m->ports[i]]));
    tenon_tensor_release(t);
  }
}

/* Comparing */

static double unit_of(uint32_t dtype, double largest) {
  int exponent;
  int digits = 24;
  if (dtype == TENON_F16) digits = 11;
  if (dtype == TENON_BF16) digits = 8;
  if (dtype == TENON_F64) digits = 53;
  frexp(largest, &exponent);
  return largest > 0 ? ldexp(1, exponent - digits) : 0;
}

static const char *find_wrong_type(const trio_t *t, int32_t o, const tenon_tensor_t *found,
                                   const tenon_tensor_t *plain, lengths_t lengths) {
  const value_t *value = &t->draft->values[t->outputs[o]];
  if (found->ndim != plain->ndim) return "has another rank than in the plain run";
  for (int32_t i = 0; i < found->ndim; i++)
    if (found->shape[i] != plain->shape[i]) return "has another shape than in the plain run";
  if (!tensor_has(found, tenon_dtype_id(plain->dtype)))
    return "has another dtype than in the plain run";
  if (plain->ndim != value->rank) return "has another rank than the draft says";
  for (int32_t i = 0; i < value->rank; i++)
    if (plain->shape[i] != length_of(value->shape[i], lengths))
      return "has another shape than the draft says";
  return NULL;
}

/* Adds the errors of one output. */
static const char *compare_output(errors_t *e, int32_t o, const tenon_tensor_t *found,
                                  const tenon_tensor_t *plain, const tenon_tensor_t *exact) {
  e->dtypes[o] = tenon_dtype_id(found->dtype);
  for (int64_t i = 0; i < tenon_count(found); i++) {
    if (!tensor_is_float(found)) {
      if (tensor_int(found, i) != tensor_int(plain, i)) return "differs from the plain run";
      continue;
    }
    const double x = tensor_float(found, i);
    const double y = tensor_float(plain, i);
    const double z = tensor_float(exact, i);
    if (!isfinite(y) || !isfinite(z)) return not_finite;
    if (!isfinite(x)) return "is not finite";
    e->found[o] = fmax(e->found[o], fabs(x - z));
    e->plain[o] = fmax(e->plain[o], fabs(y - z));
    e->largest[o] = fmax(e->largest[o], fabs(z));
  }
  return NULL;
}

/* The limit for a number of units. A run in double precision is no reference for results of the
 * same precision, unless numbers of another one took part. */
static double limit_for(const errors_t *e, int32_t o, double units, double largest) {
  const bool is_double = e->dtypes[o] == TENON_F64;
  if (is_double && e->plain[o] > 0) return 2 * e->plain[o] + units * unit_of(TENON_F32, largest);
  return 2 * e->plain[o] + (is_double ? 1024 : units) * unit_of(e->dtypes[o], largest);
}

/* How large the error of an output may be. */
static double limit_of(const errors_t *e, int32_t o) { return limit_for(e, o, 4, e->largest[o]); }

/* How large it may be in a graph whose numbers are larger than its outputs. */
static double outer_limit_of(const errors_t *e, int32_t o) {
  return limit_for(e, o, 16, fmax(e->largest[o], 1));
}

typedef double (*limit_t)(const errors_t *e, int32_t o);

/* The first output whose error is over the limit; -1: there is none. */
static int32_t find_wrong(const errors_t *e, int32_t count, limit_t limit) {
  if (e->wrong) return e->wrong_output;
  for (int32_t o = 0; o < count; o++)
    if (e->found[o] > limit(e, o)) return o;
  return -1;
}

/* Runs */

static void release_all(tenon_tensor_t **tensors, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

static void note_wrong(errors_t *e, int32_t output, const char *what) {
  if (e->wrong) return;
  e->wrong = what;
  e->wrong_output = output;
}

/* Devices have kernels of some dtypes only. */
static bool is_without_kernel(const char *message) {
  return strstr(message, "no kernel for") || strstr(message, "the source kernel supports");
}

/* Runs all three with the same inputs and adds their errors. */
static void run_trio(trio_t *t, lengths_t lengths, int draw, errors_t *e) {
  tenon_tensor_t *narrow[PORTS_MOST] = {NULL}, *wide[PORTS_MOST] = {NULL};
  tenon_tensor_t *found[OUTPUTS_MOST] = {NULL}, *plain[OUTPUTS_MOST] = {NULL},
                 *exact[OUTPUTS_MOST] = {NULL};
  make_inputs(t->narrow, lengths, draw, narrow);
  make_inputs(t->wide, lengths, draw, wide);
  const bool is_fine =
      CHECK_STATUS(tenon_executable_run(t->plain, narrow, plain, NULL), TENON_OK) &&
      CHECK_STATUS(tenon_executable_run(t->exact, wide, exact, NULL), TENON_OK);
  if (!is_fine) {
    note_wrong(e, 0, "does not run node by node");
  } else if (tenon_executable_run(t->compiled, narrow, found, NULL) != TENON_OK) {
    e->lacks_kernel = t->is_on_device && is_without_kernel(tenon_error());
    if (!e->lacks_kernel) fprintf(stderr, "%.800s\n", tenon_error());
    if (!e->lacks_kernel) note_wrong(e, 0, "does not run compiled");
  } else {
    for (int32_t o = 0; o < t->count; o++) {
      const char *what = find_wrong_type(t, o, found[o], plain[o], lengths);
      if (!what) what = compare_output(e, o, found[o], plain[o], exact[o]);
      if (what) note_wrong(e, o, what);
    }
  }
  release_all(narrow, t->narrow->port_count);
  release_all(wide, t->wide->port_count);
  release_all(found, t->count);
  release_all(plain, t->count);
  release_all(exact, t->count);
}

/* Compares runs of these lengths, the `round`-th ones of the trio: each round has other inputs, so
 * that nothing of an earlier run may be left in a plan. Returns whether all outputs are right;
 * *out_over: but some are over the limit. */
static bool check_lengths(trio_t *t, lengths_t lengths, int round, errors_t *e, bool *out_over) {
  *e = (errors_t){.wrong = NULL};
  *out_over = true;
  for (int draw = 0; draw < DRAWS_MOST && *out_over && !e->wrong && !e->lacks_kernel; draw++) {
    run_trio(t, lengths, round * DRAWS_MOST + draw, e);
    *out_over = find_wrong(e, t->count, limit_of) >= 0;
  }
  return find_wrong(e, t->count, outer_limit_of) < 0;
}

#endif
