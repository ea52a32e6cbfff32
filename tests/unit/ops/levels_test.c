/* All operators on every instruction set that the processor has, compared with their plain kernels:
 * example calls, each extent in turn from 1 to 67, so that every remainder of a vector occurs, and
 * in other dtypes some of them, on dense, displaced, transposed and sparse memory. A process
 * chooses its kernels once, so one process computes plainly and writes its results to a pipe, and
 * another one reads and compares. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cpu.h"
#include "check.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "inspect/example_fill.h"
#include "tensors.h"

#include "operators.h"

enum {
  EXTENTS = 67,
  INPUTS_MOST = 16,
  OUTPUTS_MOST = 16,
  ELEMENTS_MOST = 1 << 12, /* of all inputs of a call */
  CALLS_LEAST = 20000,     /* that each instruction set compares */
};

/* How far results may be from the plain ones: in units in the last place of the largest element of
 * the result. Elsewhere they are equal, because every kernel does the same IEEE operations in the
 * same order. */
typedef struct limit_t {
  const char *op;
  double units;
} limit_t;
static const limit_t limits[] = {
    /* products, with and without fused multiply-add */
    {"core::attention", 8},
    {"core::conv", 8},
    {"core::conv_backward", 8},
    {"core::conv_transpose", 8},
    {"core::conv_transpose_backward", 8},
    {"core::conv_weight_backward", 8},
    {"core::deform_conv", 8},
    {"core::deform_conv_backward", 8},
    {"core::einsum", 8},
    {"core::gemm", 8},
    {"core::gemm_backward", 8},
    {"core::matmul", 8},
    {"core::matmul_backward", 8},
    {"core::matmul_nbits", 8},
    /* the exponential, which uses it too */
    {"core::log_softmax", 4},
    {"core::softmax", 4},
    /* products in each step of a recurrence */
    {"core::gru", 32},
    {"core::lstm", 32},
    {"core::rnn", 32},
};

static double limit_of(const char *op) {
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    if (strcmp(limits[i].op, op) == 0) return limits[i].units;
  return 0;
}

/* How the elements of an input lie in memory. */
enum layout {
  DENSE,
  DISPLACED, /* dense, from the second element of a block */
  TRANSPOSED,
  SPARSE, /* every other element */
  LAYOUTS,
};

static tenon_tensor_t *lay_out(const tenon_tensor_t *from, enum layout layout) {
  const size_t size = from->dtype.bits / 8u;
  int64_t strides[TENON_RANK_MAX];
  int64_t stride = layout == SPARSE ? 2 : 1;
  tenon_tensor_t *out = NULL;
  char *room = calloc((size_t)tenon_count(from) * 2 + 2, size);
  for (int32_t i = 0; i < from->ndim; i++) {
    int32_t d = layout == TRANSPOSED ? i : from->ndim - 1 - i;
    strides[d] = stride;
    stride *= from->shape[d];
  }
  CHECK_STATUS(tenon_tensor_borrow(room + (layout == DISPLACED ? size : 0), from->dtype, from->ndim,
                                   from->shape, strides, free, room, &out),
               TENON_OK);
  for (int64_t i = 0, n = tenon_count(from); out && i < n; i++)
    memcpy(tensor_at(out, i), tensor_at(from, i), size);
  return out;
}

static bool has_elements(const tenon_tensor_t *t) {
  return !tensor_has(t, TENON_LIST) && !tensor_has(t, TENON_STRING) && t->dtype.bits >= 8 &&
         !t->detail;
}

/* one call */

typedef struct level_t {
  FILE *plain;    /* results of plain kernels: written, or read and compared */
  bool is_reader; /* compares */
  const char *word;
  int64_t calls;
} level_t;

typedef struct level_call_t {
  const tenon_op_t *op;
  tn_example_options_t options;
  enum layout layout;
  tn_arena_t arena;
  tn_example_t plan;
  tenon_tensor_t *inputs[INPUTS_MOST];
} level_call_t;

static bool fits(const tn_example_t *plan) {
  int64_t count = 0;
  for (uint32_t i = 0; i < plan->op->input_count; i++)
    for (uint32_t k = 0; k < plan->inputs[i].count; k++) {
      const tn_example_tensor_t *t = &plan->inputs[i].tensors[k];
      int64_t of = 1;
      for (int32_t d = 0; d < t->ndim; d++)
        of *= t->shape[d];
      count += of;
    }
  return count <= ELEMENTS_MOST;
}

/* Makes the inputs; false: the operator takes no such call. */
static bool plan_call(level_call_t *c) {
  memset(c->inputs, 0, sizeof c->inputs);
  c->arena = (tn_arena_t){NULL};
  if (tn_example_plan(c->op, &c->options, &c->arena, &c->plan) != TENON_OK || !fits(&c->plan) ||
      tn_example_inputs(&c->plan, 11, c->inputs) != TENON_OK ||
      tn_example_infer(&c->plan, c->inputs) != TENON_OK)
    return false;
  for (uint32_t i = 0; i < c->op->input_count && c->layout != DENSE; i++) {
    tenon_tensor_t *t = c->inputs[i];
    if (!t || c->op->schema.inputs[i].is_host || !has_elements(t)) continue;
    c->inputs[i] = lay_out(t, c->layout);
    tenon_tensor_release(t);
  }
  return true;
}

static void release_call(level_call_t *c) {
  for (int i = 0; i < INPUTS_MOST; i++)
    tenon_tensor_release(c->inputs[i]);
  tn_arena_clear(&c->arena);
}

static void report_call(const level_t *level, const level_call_t *c, const char *what) {
  fprintf(stderr, "  %s, %s: sample %u, %s", c->op->name, level->word, c->options.index,
          c->op->types.variable_count ? tn_dtype_name(c->plan.variables[0]) : "");
  for (uint32_t i = 0; i < c->plan.name_count; i++)
    fprintf(stderr, ", %s %d", c->plan.names[i].name, (int)c->plan.names[i].extent);
  fprintf(stderr, ", layout %d: %s\n", (int)c->layout, what);
}

/* comparing */

/* Distance between 1 and the next number of a dtype; 0: the dtype has integers. */
static double step_of(tenon_dtype_t dtype) {
  const float_kind_t *kind = float_kind(dtype);
  if (kind) return ldexp(1, -kind->mantissa_bits);
  if (tenon_dtype_id(dtype) == TENON_F32) return 0x1p-23;
  return tenon_dtype_id(dtype) == TENON_F64 ? 0x1p-52 : 0;
}

static double float_at(const tenon_tensor_t *like, const void *data, int64_t index) {
  tenon_tensor_t t = *like;
  t.data = (void *)(uintptr_t)data;
  return tensor_float(&t, index);
}

/* The largest distance of floats, in units in the last place of the largest element. */
static double distance_of(const tenon_tensor_t *out, const void *plain) {
  double largest = 0;
  double worst = 0;
  for (int64_t i = 0; i < tenon_count(out); i++) {
    double a = float_at(out, plain, i);
    double b = float_at(out, out->data, i);
    if (a == b || (isnan(a) && isnan(b))) continue;
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b)) return INFINITY;
    worst = fmax(worst, fabs(a - b));
  }
  if (worst == 0) return 0;
  for (int64_t i = 0; i < tenon_count(out); i++) {
    double a = fabs(float_at(out, plain, i));
    if (isfinite(a)) largest = fmax(largest, a);
  }
  return worst / (step_of(out->dtype) * largest);
}

static bool read_plain(level_t *level, void *data, size_t size) {
  return size == 0 || fread(data, size, 1, level->plain) == 1;
}

static void compare_output(level_t *level, const level_call_t *c, const tenon_tensor_t *out) {
  char what[100];
  const size_t size = (size_t)tenon_count(out) * (out->dtype.bits / 8u);
  void *plain = malloc(size + 1);
  if (CHECK(read_plain(level, plain, size)) && memcmp(plain, out->data, size) != 0) {
    double distance = step_of(out->dtype) > 0 ? distance_of(out, plain) : INFINITY;
    if (!CHECK(distance <= limit_of(c->op->name))) {
      snprintf(what, sizeof what, "%g units apart", distance);
      report_call(level, c, what);
    }
  }
  free(plain);
}

/* Writes what one output is and its elements, or reads them and compares. */
static bool pass_output(level_t *level, const level_call_t *c, const tenon_tensor_t *out) {
  int64_t found[TENON_RANK_MAX + 2] = {0};
  int64_t expected[TENON_RANK_MAX + 2];
  tenon_tensor_t *dense = NULL;
  if (out && has_elements(out)) CHECK_STATUS(tenon_tensor_copy(out, &dense), TENON_OK);
  if (dense) {
    found[0] = (int64_t)tenon_dtype_id(dense->dtype);
    found[1] = dense->ndim;
    memcpy(found + 2, dense->shape, (size_t)dense->ndim * sizeof *found);
  }
  bool good = true;
  if (!level->is_reader) {
    fwrite(found, sizeof found, 1, level->plain);
    if (dense)
      fwrite(dense->data, dense->dtype.bits / 8u, (size_t)tenon_count(dense), level->plain);
  } else {
    good = CHECK(read_plain(level, expected, sizeof expected)) &&
           CHECK(memcmp(found, expected, sizeof found) == 0);
    if (!good) report_call(level, c, "another shape");
    if (good && dense) compare_output(level, c, dense);
  }
  tenon_tensor_release(dense);
  return good;
}

/* Returns false if the two processes no longer do the same. */
static bool pass_call(level_t *level, level_call_t *c) {
  tenon_tensor_t *outputs[OUTPUTS_MOST] = {NULL};
  int32_t status = (int32_t)tenon_op_call(c->op, c->plan.attrs, c->inputs, outputs, 0);
  int32_t expected = status;
  bool good = true;
  if (!level->is_reader)
    fwrite(&status, sizeof status, 1, level->plain);
  else
    good = CHECK(read_plain(level, &expected, sizeof expected)) && CHECK(status == expected);
  if (!good) report_call(level, c, tenon_error());
  for (uint32_t i = 0; good && status == TENON_OK && i < c->op->output_count; i++)
    good = pass_output(level, c, outputs[i]);
  for (int i = 0; i < OUTPUTS_MOST; i++)
    tenon_tensor_release(outputs[i]);
  level->calls++;
  return good;
}

/* all calls */

/* Passes calls of one example whose extents are `extent`, or where `name` is not NULL, that of the
 * name. */
static bool pass_extent(level_t *level, const tenon_op_t *op, const tn_example_options_t *options,
                        const char *name, int64_t extent) {
  level_call_t c = {.op = op, .options = *options, .layout = (enum layout)(extent % LAYOUTS)};
  if (name) {
    c.options.name_count = 1;
    c.options.names = &name;
    c.options.extents = &extent;
  }
  bool good = !plan_call(&c) || pass_call(level, &c);
  release_call(&c);
  return good;
}

/* Whether a dtype other than the preferred one is tried with this extent. */
static bool is_tried(int64_t extent) {
  static const int64_t tried[] = {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67};
  for (size_t i = 0; i < sizeof tried / sizeof *tried; i++)
    if (tried[i] == extent) return true;
  return false;
}

/* Passes the calls of an example in one dtype: each free extent in turn takes other values. */
static bool pass_example(level_t *level, const tenon_op_t *op, const tn_example_options_t *options,
                         bool is_preferred) {
  enum { NAMES = 4 };
  const char *names[NAMES];
  uint32_t count = 0;
  level_call_t c = {.op = op, .options = *options};
  if (!plan_call(&c)) {
    release_call(&c);
    return true;
  }
  for (uint32_t i = 0; i < c.plan.name_count && count < NAMES; i++)
    if (c.plan.names[i].is_free) names[count++] = c.plan.names[i].name;
  bool good = true;
  for (uint32_t i = 0; good && i < count; i++)
    for (int64_t extent = 1; good && extent <= EXTENTS; extent++)
      if (is_preferred || is_tried(extent))
        good = pass_extent(level, op, options, names[i], extent);
  for (int64_t layout = 0; good && count == 0 && layout < LAYOUTS; layout++)
    good = pass_extent(level, op, options, NULL, layout);
  release_call(&c);
  return good;
}

static bool pass_operator(level_t *level, const tenon_op_t *op) {
  static const uint32_t ids[] = {0,         TENON_F32, TENON_F64, TENON_F16, TENON_BF16,
                                 TENON_I8,  TENON_U8,  TENON_I16, TENON_U16, TENON_I32,
                                 TENON_U32, TENON_I64, TENON_U64, TENON_BOOL};
  for (uint32_t sample = 0; sample < tn_example_count(op); sample++)
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
      tenon_dtype_t dtypes[TN_TYPE_VARIABLES] = {{0, 0, 0}};
      bool is_used = ids[i] == 0;
      for (uint32_t v = 0; ids[i] && v < op->types.variable_count; v++) {
        if (!(op->types.sets[v] >> tn_dtype_index(tenon_dtype(ids[i])) & 1)) continue;
        dtypes[v] = tenon_dtype(ids[i]);
        is_used = true;
      }
      tn_example_options_t options = {.index = sample, .dtypes = dtypes, .rank = -1};
      if (is_used && !pass_example(level, op, &options, ids[i] == 0)) return false;
    }
  return true;
}

static void pass_all(level_t *level) {
  const tenon_op_t *const *ops;
  int32_t count = 0;
  CHECK_STATUS(tenon_ops_list(&ops, &count), TENON_OK);
  for (int32_t i = 0; i < count; i++) {
    const tenon_op_t *op = ops[i];
    const bool is_fixed = (op->traits & TENON_PURE) && !(op->traits & TENON_RANDOM);
    if (strncmp(op->name, "core::", 6) != 0 || !is_fixed) continue;
    if (op->input_count > INPUTS_MOST || op->output_count > OUTPUTS_MOST) continue;
    if (!pass_operator(level, op)) break;
  }
  tenon_ops_release(ops);
}

/* Starts a process that passes all calls with kernels up to an instruction set. */
static pid_t start_level(const char *word, FILE *plain, FILE *other, bool is_reader) {
  pid_t child = fork();
  if (child != 0) return child;
  level_t level = {.plain = plain, .is_reader = is_reader, .word = word};
  fclose(other);
  setenv("TENON_CPU_CAPABILITY", word, 1);
  pass_all(&level);
  if (is_reader) CHECK(level.calls >= CALLS_LEAST);
  fclose(plain);
  tenon_shutdown();
  _exit(check_failures != 0);
}

static void compare_level(const char *word) {
  int ends[2];
  int status[2] = {-1, -1};
  if (!CHECK(pipe(ends) == 0)) return;
  FILE *from = fdopen(ends[0], "r");
  FILE *to = fdopen(ends[1], "w");
  pid_t writer = start_level("default", to, from, false);
  pid_t reader = start_level(word, from, to, true);
  fclose(from);
  fclose(to);
  CHECK(waitpid(reader, &status[1], 0) == reader && status[1] == 0);
  CHECK(waitpid(writer, &status[0], 0) == writer && status[0] == 0);
}

TEST("kernels for every instruction set agree with the plain ones over every remainder") {
  int compared = 0;
  for (int rank = 1; tn_cpu_word(rank); rank++) {
    if (!tn_cpu_has(rank)) continue;
    compare_level(tn_cpu_word(rank));
    compared++;
  }
  if (!compared) SKIP("this processor has plain kernels only");
}

TEST("nothing is left behind") { tenon_shutdown(); }
