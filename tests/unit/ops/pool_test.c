/* max_pool and average_pool of random windows, compared with a search through each window, on every
 * instruction set that the processor has. */
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum {
  RANK = 3,
  ROUNDS = 800,
};

static uint64_t seed = 2718;
static int64_t pick(int64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}

typedef struct window_case_t {
  int32_t rank;
  int64_t shape[2 + RANK]; /* of x */
  int64_t kernel[RANK];
  int64_t strides[RANK];
  int64_t pads[2 * RANK];
  int64_t dilations[RANK];
} window_case_t;

static window_case_t random_case(void) {
  window_case_t c = {.rank = (int32_t)(1 + pick(RANK)), .shape = {1 + pick(2), 1 + pick(5)}};
  for (int32_t i = 0; i < c.rank; i++) {
    bool is_last = i == c.rank - 1;
    c.kernel[i] = 1 + pick(is_last && pick(6) == 0 ? 80 : 4);
    c.strides[i] = 1 + pick(is_last && pick(10) == 0 ? 30 : 3);
    c.dilations[i] = 1 + pick(2);
    c.pads[i] = pick(c.kernel[i]);
    c.pads[c.rank + i] = pick(c.kernel[i]);
    c.shape[2 + i] = (c.kernel[i] - 1) * c.dilations[i] + 1 + pick(20);
    if (is_last && c.rank == 1 && pick(4) == 0) c.shape[2 + i] += 5000;
  }
  return c;
}

/* Windows of planes that move by one, with as many columns of results as of elements. */
static window_case_t random_plane(void) {
  window_case_t c = {.rank = 2, .shape = {1 + pick(2), 1 + pick(5)}};
  for (int32_t i = 0; i < 2; i++) {
    c.kernel[i] = 1 + pick(pick(4) ? 5 : 17);
    c.strides[i] = c.dilations[i] = 1;
    c.pads[i] = pick(c.kernel[i]);
    c.pads[2 + i] = i ? c.kernel[i] - 1 - c.pads[i] : pick(c.kernel[i]);
    c.shape[2 + i] = 1 + pick(pick(8) ? 40 : 110);
    if (c.shape[2] + c.pads[0] + c.pads[2] < c.kernel[0]) c.shape[2] = c.kernel[0];
  }
  return c;
}

/* Prints "name=[1,2]; " to `text`. */
static int print_list(char *text, const char *name, const int64_t *values, int32_t count) {
  int size = sprintf(text, "%s=[", name);
  for (int32_t i = 0; i < count; i++)
    size += sprintf(text + size, "%s%d", i ? "," : "", (int)values[i]);
  return size + sprintf(text + size, "]; ");
}

static int64_t count_taps(const window_case_t *c) {
  int64_t taps = 1;
  for (int32_t i = 0; i < c->rank; i++)
    taps *= c->kernel[i];
  return taps;
}

/* The position in its plane of the element under tap `t` of a window, or -1 if it lies outside.
 * `place` is the position of the window's result. *out_padded: it is an element or padding. */
static int64_t element_under(const window_case_t *c, const int64_t *place, int64_t t,
                             bool *out_padded) {
  bool inside = true;
  int64_t offset = 0;
  int64_t step = 1;
  *out_padded = true;
  for (int32_t i = c->rank - 1; i >= 0; i--) {
    int64_t at = place[i] * c->strides[i] - c->pads[i] + t % c->kernel[i] * c->dilations[i];
    t /= c->kernel[i];
    inside &= at >= 0 && at < c->shape[2 + i];
    *out_padded &= at < c->shape[2 + i] + c->pads[c->rank + i];
    offset += at * step;
    step *= c->shape[2 + i];
  }
  return inside ? offset : -1;
}

/* Returns the greatest element under a window, or the mean of its elements. */
static double search_window(const window_case_t *c, const float *x, const int64_t *place,
                            bool is_max, bool counts_pads) {
  double best = -INFINITY;
  double sum = 0;
  int64_t count = 0;
  for (int64_t t = 0; t < count_taps(c); t++) {
    bool padded;
    const int64_t at = element_under(c, place, t, &padded);
    if (at >= 0 || (counts_pads && padded)) count++;
    if (at < 0) continue;
    double value = (double)x[at];
    if (value > best || isnan(value)) best = value;
    if (isnan(best)) break;
    sum += value;
  }
  return is_max ? best : sum / (double)count;
}

static bool is_close(double found, double expected) {
  if (isnan(expected)) return isnan(found);
  return found == expected || fabs(found - expected) <= 1e-5 * (1 + fabs(expected));
}

/* Numbers of a dtype, which may have 8 bits, as f32. */
static float *read_numbers(const tenon_tensor_t *t) {
  float *numbers = calloc((size_t)tenon_count(t) + 1, sizeof *numbers);
  for (int64_t i = 0; numbers && i < tenon_count(t); i++)
    if (t->dtype.bits == 32)
      numbers[i] = ((const float *)t->data)[i];
    else
      numbers[i] = t->dtype.code ? ((const uint8_t *)t->data)[i] : ((const int8_t *)t->data)[i];
  return numbers;
}

static void fill_numbers(tenon_tensor_t *t, bool has_nan) {
  for (int64_t i = 0; i < tenon_count(t); i++)
    if (t->dtype.bits == 32)
      ((float *)t->data)[i] = has_nan && pick(200) == 0 ? NAN : (float)(pick(2001) - 1000) / 100;
    else
      ((uint8_t *)t->data)[i] = (uint8_t)pick(256);
}

/* What max_pool gives for a window that has only padding. */
static double least_of(tenon_dtype_t dtype) {
  if (dtype.bits == 32) return -INFINITY;
  return dtype.code ? 0 : INT8_MIN;
}

/* Compares results with the search; `text` says what they are. */
static void check_results(const window_case_t *c, const tenon_tensor_t *x,
                          const tenon_tensor_t *out, bool is_max, bool counts_pads,
                          const char *text) {
  float *data = read_numbers(x);
  float *found_numbers = read_numbers(out);
  int64_t planes = c->shape[0] * c->shape[1];
  int64_t results = tenon_count(out) / planes;
  int64_t elements = tenon_count(x) / planes;
  for (int64_t plane = 0; plane < planes; plane++)
    for (int64_t r = 0; r < results; r++) {
      int64_t place[RANK];
      int64_t rest = r;
      for (int32_t i = c->rank - 1; i >= 0; i--) {
        place[i] = rest % out->shape[2 + i];
        rest /= out->shape[2 + i];
      }
      double expected = search_window(c, data + plane * elements, place, is_max, counts_pads);
      if (isinf(expected)) expected = least_of(out->dtype);
      double found = (double)found_numbers[plane * results + r];
      if (CHECK(is_close(found, expected))) continue;
      fprintf(stderr, "  %s of %s: %g instead of %g\n", is_max ? "max_pool" : "average_pool", text,
              found, expected);
      plane = planes - 1;
      break;
    }
  free(data);
  free(found_numbers);
}

/* The index, in x viewed as one row, of a window's greatest element: of equal ones the first. -1:
 * the window has only padding; -2: it has NaN, and any of them may be meant. */
static int64_t search_index(const window_case_t *c, const float *x, const int64_t *place) {
  double best = -INFINITY;
  int64_t found = -1;
  for (int64_t t = 0; t < count_taps(c); t++) {
    bool padded;
    const int64_t at = element_under(c, place, t, &padded);
    if (at < 0) continue;
    if (isnan((double)x[at])) return -2;
    if ((double)x[at] <= best && found >= 0) continue;
    best = (double)x[at];
    found = at;
  }
  return found;
}

static void check_indices(const window_case_t *c, const tenon_tensor_t *x,
                          const tenon_tensor_t *indices, const char *text) {
  float *data = read_numbers(x);
  int64_t planes = c->shape[0] * c->shape[1];
  int64_t results = tenon_count(indices) / planes;
  int64_t elements = tenon_count(x) / planes;
  for (int64_t i = 0; i < planes * results; i++) {
    int64_t place[RANK];
    int64_t rest = i % results;
    const int64_t base = i / results * elements;
    for (int32_t k = c->rank - 1; k >= 0; k--) {
      place[k] = rest % indices->shape[2 + k];
      rest /= indices->shape[2 + k];
    }
    int64_t expected = search_index(c, data + base, place);
    const int64_t found = ((const int64_t *)indices->data)[i];
    if (expected >= 0) expected += base;
    const bool is_nan = expected == -2 && found >= base && isnan((double)data[found]);
    if (CHECK(is_nan || found == expected)) continue;
    fprintf(stderr, "  index of %s: %lld instead of %lld\n", text, (long long)found,
            (long long)expected);
    break;
  }
  free(data);
}

/* Compares maxima and indices of an image with adjacent channels with those of the dense one. */
static void compare_last(const tenon_op_t *op, const tenon_value_t *attrs, const tenon_tensor_t *x,
                         tenon_tensor_t *const *expected) {
  const int64_t *n = x->shape;
  const int64_t strides[] = {n[1] * n[2] * n[3], 1, n[1] * n[3], n[1]};
  float *data = calloc((size_t)tenon_count(x) + 1, sizeof *data);
  tenon_tensor_t *last = NULL;
  tenon_tensor_t *outputs[2] = {NULL};
  for (int64_t i = 0; i < tenon_count(x); i++) {
    const int64_t plane = i / (n[2] * n[3]);
    const int64_t at = plane / n[1] * strides[0] + plane % n[1] + i % (n[2] * n[3]) * n[1];
    data[at] = ((const float *)x->data)[i];
  }
  CHECK_STATUS(tenon_tensor_borrow(data, x->dtype, 4, n, strides, NULL, NULL, &last), TENON_OK);
  CHECK_STATUS(tenon_op_call(op, attrs, (tenon_tensor_t *[]){last, NULL}, outputs, 0), TENON_OK);
  for (int o = 0; o < 2; o++) {
    tenon_tensor_t *dense = NULL;
    CHECK_STATUS(tenon_op_call(op_of("core::contiguous"), NULL, &outputs[o], &dense, 0), TENON_OK);
    CHECK(!memcmp(dense->data, expected[o]->data,
                  (size_t)tenon_count(dense) * (dense->dtype.bits / 8)));
    tenon_tensor_release(dense);
    tenon_tensor_release(outputs[o]);
  }
  tenon_tensor_release(last);
  free(data);
}

/* Compares a pool, with the indices of maxima and without them: other kernels then run. */
static void compare_case(const window_case_t *c, uint32_t dtype, bool is_max, bool counts_pads) {
  char text[400];
  int size = print_list(text, "kernel", c->kernel, c->rank);
  size += print_list(text + size, "strides", c->strides, c->rank);
  size += print_list(text + size, "pads", c->pads, 2 * c->rank);
  size += print_list(text + size, "dilations", c->dilations, c->rank);
  if (counts_pads) sprintf(text + size, "count_include_pad=True");
  const tenon_op_t *op = op_of(is_max ? "core::max_pool" : "core::average_pool");
  tenon_attrs_t *attrs = attrs_of(op, text);
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *outputs[2] = {NULL};
  tenon_tensor_t *alone[2] = {NULL};
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(dtype), 2 + c->rank, c->shape, &x), TENON_OK);
  /* one channel is channels-last, where oneDNN's maxima leave out NaN */
  fill_numbers(x, is_max && c->shape[1] > 1);
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), (tenon_tensor_t *[]){x, NULL}, outputs, 0),
               TENON_OK);
  if (outputs[0]) {
    check_results(c, x, outputs[0], is_max, counts_pads, text);
    if (is_max) check_indices(c, x, outputs[1], text);
    if (is_max && c->rank == 2 && dtype == TENON_F32 && c->shape[1] > 1)
      compare_last(op, attr_values(attrs), x, outputs);
    CHECK_STATUS(tenon_tensor_create(outputs[0]->dtype, outputs[0]->ndim, outputs[0]->shape, alone),
                 TENON_OK);
    CHECK_STATUS(tenon_op_call_into(op, attr_values(attrs), (tenon_tensor_t *[]){x, NULL}, alone),
                 TENON_OK);
    check_results(c, x, alone[0], is_max, counts_pads, text);
  }
  tenon_tensor_release(x);
  tenon_tensor_release(alone[0]);
  tenon_tensor_release(outputs[0]);
  tenon_tensor_release(outputs[1]);
  tenon_attrs_release(attrs);
}

static void compare_random_cases(void) {
  for (int round = 0; round < ROUNDS; round++) {
    const window_case_t c = pick(2) ? random_case() : random_plane();
    bool is_max = pick(2) == 0;
    static const uint32_t dtypes[] = {TENON_F32, TENON_F32, TENON_U8, TENON_I8};
    compare_case(&c, is_max ? dtypes[pick(4)] : TENON_F32, is_max, !is_max && pick(2) == 0);
  }
}

/* The mean of each channel of x [2, channels, positions], which lies channels-last with a gap of
 * `gap` elements between two positions. The numbers are so large that a sum of all of them in f32
 * is wrong. */
static void compare_means(int64_t channels, int64_t positions, int64_t gap) {
  const int64_t shape[3] = {2, channels, positions};
  const int64_t strides[3] = {positions * (channels + gap), 1, channels + gap};
  float *data = calloc((size_t)(2 * strides[0]), sizeof *data);
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *outputs[1] = {NULL};
  for (int64_t i = 0; i < 2 * strides[0]; i++)
    data[i] = (float)(pick(2001) + 1000);
  CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(TENON_F32), 3, shape, strides, NULL, NULL, &x),
               TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("core::global_average_pool"), NULL, &x, outputs, 0), TENON_OK);
  const float *found = outputs[0]->data;
  for (int64_t i = 0; i < 2 * channels; i++) {
    double sum = 0;
    for (int64_t p = 0; p < positions; p++)
      sum += (double)data[i / channels * strides[0] + p * strides[2] + i % channels];
    const double mean = sum / (double)positions;
    if (CHECK(fabs((double)found[i] - mean) <= 2e-7 * mean)) continue; /* it is rounded twice */
    fprintf(stderr, "  channel %d of %d, %d positions: %g instead of %g\n", (int)i, (int)channels,
            (int)positions, (double)found[i], mean);
    break;
  }
  free(data);
  tenon_tensor_release(x);
  tenon_tensor_release(outputs[0]);
}

static void compare_global_means(void) {
  static const int64_t counts[] = {2, 15, 16, 17, 64, 65, 80, 97, 200};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
    for (int64_t positions = 1; positions < 30000; positions = positions * 3 + pick(5))
      compare_means(counts[c], positions, pick(2));
}

static void compare_on_each_set(void (*compare)(void)) {
  static const char *const limits[] = {"default", "avx2", "avx512"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    pid_t child = fork(); /* because a process chooses once */
    if (child == 0) {
      setenv("TENON_CPU_CAPABILITY", limits[i], 1);
      compare();
      _exit(check_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (!CHECK(status == 0)) fprintf(stderr, "  TENON_CPU_CAPABILITY=%s\n", limits[i]);
  }
}

TEST("pools equal a search through each window on every instruction set") {
  compare_on_each_set(compare_random_cases);
}

TEST("means of channels that are adjacent have all digits on every instruction set") {
  compare_on_each_set(compare_global_means);
}

TEST("nothing is left behind") { tenon_shutdown(); }
