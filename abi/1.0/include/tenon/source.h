/* tenon/source.h: source kernels, written in a subset of C that every device compiles.
 *
 * The library carries the text of a file with source kernels.  The file is compiled twice: with the
 * library, for the CPU, and at run time, for a device.  Code for the host only is inside `#ifndef
 * TENON_ON_DEVICE`:
 *
 *     #ifndef TENON_ON_DEVICE
 *     #include <tenon/source.h>
 *     #endif
 *
 *     TENON_SOURCE_4(scale, TENON_IN, float, x, TENON_OUT, float, y, TENON_BY_VALUE, int64_t, n,
 *                    TENON_BY_VALUE, float, by) {
 *       TENON_EACH(i, n) y[i] = x[i] * by;
 *     }
 *
 *     #ifndef TENON_ON_DEVICE
 *     TENON_CODE(code, {"scale", scale})
 *     static tenon_status_t scale_run(tenon_call_t *call) {
 *       int64_t n = tenon_count(call->inputs[0]);
 *       float by = (float)call->attrs[0].as.f;
 *       const tenon_kernel_argument_t arguments[] = {
 *           tenon_in(call->inputs[0]), tenon_out(call->outputs[0]), TENON_VALUE(n),
 *           TENON_VALUE(by)};
 *       return tenon_each(call, &code, 0, n, arguments, 4);
 *     }
 *     TENON_LIBRARY(demo, "1.0.0",
 *                   TENON_OP("scale(Tensor x, *, float by) -> Tensor", ...,
 *                            TENON_SOURCE("f32", scale_run)))
 *     #endif
 *
 * A kernel runs once for each item of each group.  It must be correct for any number of groups and
 * any number of items in a group, including 1: on the CPU, a group has one item.  docs/source.md
 * describes the language and how each device implements it. */
#ifndef TENON_SOURCE_H
#define TENON_SOURCE_H

#include <tenon/device.h>
#ifdef __cplusplus
#include <cmath>
#else
#include <tgmath.h>
#endif

/* ---- the language, for the CPU --------------------------------------------------------------- */

/* The position of an item. */
typedef struct tenon_item_id_t {
  uint64_t group[3];  /* Index of the group. */
  uint64_t groups[3]; /* Number of groups. */
  uint32_t item[3];   /* Index of the item in its group. */
  uint32_t items[3];  /* Number of items in a group. */
  void (*barrier)(const struct tenon_item_id_t *id);
} tenon_item_id_t;

/* clang-format off */
/* Words of the language, and their spelling without a prefix, which older kernels use. */
#define TENON_GLOBAL                        /* Precedes every pointer to memory. */
#define TENON_LOCAL                         /* Precedes every pointer to memory of a group. */
#define TENON_BARRIER() ((void)0)           /* All items of a group reach it, or none. */
#define TENON_FUNCTION static inline        /* Precedes a function that kernels call. */
#define TENON_UNROLL _Pragma("GCC unroll 64") /* Precedes a loop with a constant number of steps. */
#define GLOBAL    TENON_GLOBAL
#define LOCAL     TENON_LOCAL
#define BARRIER() TENON_BARRIER()
#define FUNCTION  TENON_FUNCTION
#define UNROLL    TENON_UNROLL

/* Positions; the names are those of OpenCL C. */
#define get_group_id(d)    (tenon_id->group[d])
#define get_num_groups(d)  (tenon_id->groups[d])
#define get_local_id(d)    ((void)(d), (uint32_t)0)
#define get_local_size(d)  ((void)(d), (uint32_t)1)
#define get_global_id(d)   (tenon_id->group[d])
#define get_global_size(d) (tenon_id->groups[d])

/* A loop over the elements i of [0, n) that this item processes. */
#define TENON_EACH(i, n) \
  for (int64_t i = tenon_first(get_global_id(0), get_global_size(0), n), \
               tenon_end_##i = tenon_first(get_global_id(0) + 1, get_global_size(0), n); \
       i < tenon_end_##i; i++)
/* clang-format on */

/* The first of n elements that belongs to a part, if `parts` parts share them evenly. */
static inline int64_t tenon_first(uint64_t part, uint64_t parts, int64_t n) {
  int64_t each = n / (int64_t)parts;
  int64_t more = n % (int64_t)parts;
  int64_t at = (int64_t)part;
  return at * each + (at < more ? at : more);
}

/* ---- atomic operations ----------------------------------------------------------------------- */

/* Atomic addition and maximum.
 *
 * Returns: the previous value, for integers. */
static inline int32_t atomic_add_i32(TENON_GLOBAL int32_t *p, int32_t v) {
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
static inline int32_t atomic_max_i32(TENON_GLOBAL int32_t *p, int32_t v) {
  int32_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (old < v && !__atomic_compare_exchange_n(p, &old, v, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    continue;
  return old;
}
static inline void atomic_add_f32(TENON_GLOBAL float *p, float v) {
  uint32_t *bits = (uint32_t *)(void *)p;
  uint32_t old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  uint32_t now;
  float sum;
  do {
    __builtin_memcpy(&sum, &old, 4);
    sum += v;
    __builtin_memcpy(&now, &sum, 4);
  } while (!__atomic_compare_exchange_n(bits, &old, now, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* Optional features.  Each kernel is compiled with the whole text of its file: put kernels that
 * need a feature inside #ifdef, and name it in TENON_SOURCE: "doubles", "wide_atomics",
 * "halves". */
#define TENON_HAS_DOUBLES 1
#define TENON_HAS_WIDE_ATOMICS 1

/* Needs "wide_atomics". */
static inline int64_t atomic_add_i64(TENON_GLOBAL int64_t *p, int64_t v) {
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

/* Needs "doubles" and "wide_atomics". */
static inline void atomic_add_f64(TENON_GLOBAL double *p, double v) {
  uint64_t *bits = (uint64_t *)(void *)p;
  uint64_t old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  uint64_t now;
  double sum;
  do {
    __builtin_memcpy(&sum, &old, 8);
    sum += v;
    __builtin_memcpy(&now, &sum, 8);
  } while (!__atomic_compare_exchange_n(bits, &old, now, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

#ifdef __FLT16_MAX__
#define TENON_HAS_HALVES 1
/* A 16-bit floating-point number for arithmetic, and not only for storage.  Needs "halves". */
__extension__ typedef _Float16 half;
#endif

/* ---- numbers and vectors --------------------------------------------------------------------- */

TENON_FUNCTION float float_of_bits(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
TENON_FUNCTION uint32_t bits_of_float(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}

/* a * b + c, rounded once or twice, whichever is faster on the device. */
TENON_FUNCTION float mad(float a, float b, float c) { return a * b + c; }

/* clang-format off */
/* The vectors float4, float8 and float16, with + - * / between vectors, and between a vector and a
 * float.  In memory they may have any alignment. */
#define TENON_VECTOR_(n) \
  typedef float float##n __attribute__((vector_size(4 * n))); \
  typedef float tenon_float##n##_at __attribute__((vector_size(4 * n), aligned(4), may_alias));
TENON_VECTOR_(4)
TENON_VECTOR_(8)
TENON_VECTOR_(16)
/* load4 reads p[i] to p[i + 3] of global or local memory; store4 writes them. */
#define load4(p, i)       ((float4) * (const tenon_float4_at *)((p) + (i)))
#define load8(p, i)       ((float8) * (const tenon_float8_at *)((p) + (i)))
#define load16(p, i)      ((float16) * (const tenon_float16_at *)((p) + (i)))
#define store4(p, i, v)   ((void)(*(tenon_float4_at *)((p) + (i)) = (v)))
#define store8(p, i, v)   ((void)(*(tenon_float8_at *)((p) + (i)) = (v)))
#define store16(p, i, v)  ((void)(*(tenon_float16_at *)((p) + (i)) = (v)))
/* A vector whose elements are all x. */
#define splat4(x)         ((float)(x) - (float4){0})
#define splat8(x)         ((float)(x) - (float8){0})
#define splat16(x)        ((float)(x) - (float16){0})
/* As mad, for vectors b and c, and a vector or float a. */
#define mad4(a, b, c)     ((a) * (b) + (c))
#define mad8(a, b, c)     ((a) * (b) + (c))
#define mad16(a, b, c)    ((a) * (b) + (c))
/* Element k of a vector variable, to read and to assign. */
#define lane(v, k)        (((float *)&(v))[k])
/* clang-format on */

/* bf16 and f16 are storage formats: uint16_t in memory, float in computations.  Stores round to
 * nearest, ties to even. */
TENON_FUNCTION float load_bf16(TENON_GLOBAL const uint16_t *p, int64_t i) {
  return float_of_bits((uint32_t)p[i] << 16);
}
TENON_FUNCTION void store_bf16(TENON_GLOBAL uint16_t *p, int64_t i, float x) {
  uint32_t bits = bits_of_float(x);
  int is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  p[i] = (uint16_t)(is_nan ? bits >> 16 | 64 : rounded);
}
TENON_FUNCTION float load_f16(TENON_GLOBAL const uint16_t *p, int64_t i) {
  uint32_t a = p[i] & 0x7fffu;
  uint32_t sign = (uint32_t)(p[i] & 0x8000u) << 16;
  float x =
      a < 0x400u ? (float)a * float_of_bits(103u << 23) : float_of_bits((a << 13) + (112u << 23));
  uint32_t bits = a < 0x7c00u    ? bits_of_float(x)
                  : a == 0x7c00u ? 0x7f800000u
                                 : 0x7fc00000u | a << 13;
  return float_of_bits(bits | sign);
}
TENON_FUNCTION void store_f16(TENON_GLOBAL uint16_t *p, int64_t i, float x) {
  uint32_t bits = bits_of_float(x);
  uint32_t a = bits & 0x7fffffffu;
  uint32_t code;
  /* The last bit of a + 0.5 is the smallest subnormal of f16. */
  if (a < 113u << 23)
    code = bits_of_float(float_of_bits(a) + 0.5f) - (126u << 23);
  else
    code = ((a + 0xfffu + (a >> 13 & 1)) >> 13) - (112u << 10);
  code = a > 0x7f800000u ? 0x7e00u : code > 0x7c00u ? 0x7c00u : code;
  p[i] = (uint16_t)(code | (bits >> 31) << 15);
}

/* ---- walks over strided tensors -------------------------------------------------------------- */

/* The positions of corresponding elements in up to four tensors.  tenon_walk_of fills it in on the
 * host; kernels receive it as TENON_BY_VALUE. */
typedef struct tenon_walk_t {
  int64_t count; /* Number of elements. */
  int64_t rank;  /* Number of axes after merging. */
  int64_t shape[8];
  /* Elements from the address in the kernel's argument to the first element. */
  int64_t first[4];
  int64_t strides[4][8]; /* In elements. */
} tenon_walk_t;

/* Computes the position of element i in each tensor: at[0] to at[3], in elements. */
TENON_FUNCTION void tenon_walk(const tenon_walk_t *w, int64_t i, int64_t *at) {
  for (int k = 0; k < 4; k++)
    at[k] = w->first[k];
  for (int64_t a = w->rank - 1; a >= 0; a--) {
    int64_t rest = a ? i / w->shape[a] : 0;
    int64_t here = i - rest * w->shape[a];
    for (int k = 0; k < 4; k++)
      at[k] += here * w->strides[k][a];
    i = rest;
  }
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* clang-format off */
/* The name of a kernel in a text that is compiled for several types:
 *     TENON_SOURCE_3(TENON_INSTANCE(cube, T), TENON_IN, T, x, ...)
 * In a library the name includes the type (cube_double), so that a file can include itself for each
 * type.  On devices the name is `cube`: the host replaces INSTANCE there. */
#define TENON_INSTANCE(name, type)  INSTANCE(name, type)
#define INSTANCE(name, type)        TENON_INSTANCE_(name, type)
#define TENON_INSTANCE_(name, type) name##_##type

/* Kinds of parameters; IN, OUT, INOUT, VALUE and SHARED are their spelling without a prefix. */
#define TENON_IN       IN     /* A pointer to memory that the kernel reads. */
#define TENON_OUT      OUT    /* A pointer to memory that the kernel writes. */
#define TENON_INOUT    INOUT  /* A pointer to memory that the kernel reads and writes. */
/* A number of a fixed-width type, or a structure of them without padding. */
#define TENON_BY_VALUE VALUE
#define TENON_SHARED   SHARED /* A pointer to memory of the group. */

/* A kernel: its name, then kind, type and name of each parameter. */
#define TENON_SOURCE_1(name, ...)  TENON_SOURCE_(TENON_LIST_1, name, __VA_ARGS__)
#define TENON_SOURCE_2(name, ...)  TENON_SOURCE_(TENON_LIST_2, name, __VA_ARGS__)
#define TENON_SOURCE_3(name, ...)  TENON_SOURCE_(TENON_LIST_3, name, __VA_ARGS__)
#define TENON_SOURCE_4(name, ...)  TENON_SOURCE_(TENON_LIST_4, name, __VA_ARGS__)
#define TENON_SOURCE_5(name, ...)  TENON_SOURCE_(TENON_LIST_5, name, __VA_ARGS__)
#define TENON_SOURCE_6(name, ...)  TENON_SOURCE_(TENON_LIST_6, name, __VA_ARGS__)
#define TENON_SOURCE_7(name, ...)  TENON_SOURCE_(TENON_LIST_7, name, __VA_ARGS__)
#define TENON_SOURCE_8(name, ...)  TENON_SOURCE_(TENON_LIST_8, name, __VA_ARGS__)
#define TENON_SOURCE_9(name, ...)  TENON_SOURCE_(TENON_LIST_9, name, __VA_ARGS__)
#define TENON_SOURCE_10(name, ...) TENON_SOURCE_(TENON_LIST_10, name, __VA_ARGS__)
#define TENON_SOURCE_11(name, ...) TENON_SOURCE_(TENON_LIST_11, name, __VA_ARGS__)
#define TENON_SOURCE_12(name, ...) TENON_SOURCE_(TENON_LIST_12, name, __VA_ARGS__)

/* Declares NAME_item, the kernel for one item; defines NAME, which takes the arguments of a launch
 * and calls NAME_item; and starts the definition of NAME_item. */
#define TENON_SOURCE_(LIST, name, ...) \
  TENON_BODY_(name, LIST(TENON_COMMA_, TENON_P_, __VA_ARGS__)); \
  TENON_ENTRY_C_(name, LIST(TENON_COMMA_, TENON_F_, __VA_ARGS__)) \
  TENON_BODY_(name, LIST(TENON_COMMA_, TENON_P_, __VA_ARGS__))
#define TENON_BODY_(name, ...) \
  static inline void name##_item(const tenon_item_id_t *tenon_id, __VA_ARGS__)
#define TENON_ENTRY_C_(name, ...) \
  static void name(const tenon_item_id_t *tenon_id, void *const *tenon_arguments) { \
    (void)tenon_id; \
    name##_item(tenon_id, __VA_ARGS__); \
  }

/* Parameters of NAME_item (P), and the arguments that NAME passes (F), by kind: type, name,
 * index. */
#define TENON_P_IN(t, n, i)     TENON_GLOBAL const t *n
#define TENON_P_OUT(t, n, i)    TENON_GLOBAL t *n
#define TENON_P_INOUT(t, n, i)  TENON_GLOBAL t *n
#define TENON_P_VALUE(t, n, i)  t n
#define TENON_P_SHARED(t, n, i) TENON_LOCAL t *n
#define TENON_F_IN(t, n, i)     (const t *)tenon_arguments[i]
#define TENON_F_OUT(t, n, i)    (t *)tenon_arguments[i]
#define TENON_F_INOUT(t, n, i)  (t *)tenon_arguments[i]
#define TENON_F_VALUE(t, n, i)  *(const t *)tenon_arguments[i]
#define TENON_F_SHARED(t, n, i) (t *)tenon_arguments[i]

/* A list over parameters: TENON_LIST_2(S, M, IN, float, x, VALUE, int, n) is M##IN(float, x, 0) S()
 * M##VALUE(int, n, 0 + 1). */
#define TENON_LIST_1(S, M, ...)  TENON_LIST_1_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_2(S, M, ...)  TENON_LIST_2_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_3(S, M, ...)  TENON_LIST_3_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_4(S, M, ...)  TENON_LIST_4_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_5(S, M, ...)  TENON_LIST_5_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_6(S, M, ...)  TENON_LIST_6_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_7(S, M, ...)  TENON_LIST_7_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_8(S, M, ...)  TENON_LIST_8_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_9(S, M, ...)  TENON_LIST_9_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_10(S, M, ...) TENON_LIST_10_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_11(S, M, ...) TENON_LIST_11_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_12(S, M, ...) TENON_LIST_12_(S, M, 0, __VA_ARGS__)
#define TENON_LIST_1_(S, M, i, k, t, n) \
  M##k(t, n, i)
#define TENON_LIST_2_(S, M, i, k, t, n, ...) \
  M##k(t, n, i) S() TENON_LIST_1_(S, M, i + 1, __VA_ARGS__)
#define TENON_LIST_3_(S, M, i, k, t, n, ...) \
  M##k(t, n, i) S() TENON_LIST_2_(S, M, i + 1, __VA_ARGS__)
#define TENON_LIST_4_(S, M, i, k, t, n, ...) \
  M##k(t, n, i) S() TENON_LIST_3_(S, M, i + 1, __VA_ARGS__)
#define TENON_LIST_5_(S, M, i, k, t, n, ...) \
  M##k(t, n, i) S() TENON_LIST_4_(S, M, i + 1, __VA_ARGS__)
#define TENON_LIST_6_(S, M, i, k, t, n, ...) \
  M##k(t, n, i) S() TENON_LIST_5_(S, M, i + 1, __VA_ARGS__)
#define TENON_LIST_7_(S, M, i, k, t, n, ...) \
  M##k(t, n, i) S() TENON_LIST_6_(S, M, i + 1, __VA_ARGS__)
#define TENON_LIST_8_(S, M, i, k, t, n, ...) \
  M##k(t, n, i) S() TENON_LIST_7_(S, M, i + 1, __VA_ARGS__)
#define TENON_LIST_9_(S, M, i, k, t, n, ...) \
  M##k(t, n, i) S() TENON_LIST_8_(S, M, i + 1, __VA_ARGS__)
#define TENON_LIST_10_(S, M, i, k, t, n, ...) \
  M##k(t, n, i) S() TENON_LIST_9_(S, M, i + 1, __VA_ARGS__)
#define TENON_LIST_11_(S, M, i, k, t, n, ...) \
  M##k(t, n, i) S() TENON_LIST_10_(S, M, i + 1, __VA_ARGS__)
#define TENON_LIST_12_(S, M, i, k, t, n, ...) \
  M##k(t, n, i) S() TENON_LIST_11_(S, M, i + 1, __VA_ARGS__)
#define TENON_COMMA_() ,
#define TENON_NOTHING_()

/* ---- pointwise functions --------------------------------------------------------------------- */

/* A pointwise function `r NAME(...)` of one to eight numbers.  Defines a loop for the CPU,
 * NAME_loop, and a kernel for devices, NAME, which broadcasts its operands.
 *
 * Arguments: the name, the type of the result, then kind, type and name of each parameter: elements
 * of tensors (TENON_IN) in the schema's order, then attributes that are numbers (TENON_BY_VALUE) in
 * the schema's order:
 *
 *     TENON_POINTWISE_3(blend, float, TENON_IN, float, a, TENON_IN, float, b,
 *                       TENON_BY_VALUE, float, by) {
 *       return a + (b - a) * by;
 *     }
 *
 * TENON_POINTWISE_RUN, below, defines the function that launches the kernel. */
#define TENON_POINTWISE_1(name, r, ...) TENON_POINTWISE_(1, 3, name, r, __VA_ARGS__)
#define TENON_POINTWISE_2(name, r, ...) TENON_POINTWISE_(2, 4, name, r, __VA_ARGS__)
#define TENON_POINTWISE_3(name, r, ...) TENON_POINTWISE_(3, 5, name, r, __VA_ARGS__)
#define TENON_POINTWISE_4(name, r, ...) TENON_POINTWISE_(4, 6, name, r, __VA_ARGS__)
#define TENON_POINTWISE_5(name, r, ...) TENON_POINTWISE_(5, 7, name, r, __VA_ARGS__)
#define TENON_POINTWISE_6(name, r, ...) TENON_POINTWISE_(6, 8, name, r, __VA_ARGS__)
#define TENON_POINTWISE_7(name, r, ...) TENON_POINTWISE_(7, 9, name, r, __VA_ARGS__)
#define TENON_POINTWISE_8(name, r, ...) TENON_POINTWISE_(8, 10, name, r, __VA_ARGS__)

/* Declares the function, NAME_of; defines the kernel, the loop and NAME_launch, which launches the
 * kernel; and starts the definition of NAME_of.  `N` parameters of the function make `ALL`
 * parameters of the kernel.  NAME_walks goes over the tensors, then the result. */
#define TENON_POINTWISE_(N, ALL, name, r, ...) \
  TENON_FUNCTION r name##_of(TENON_LIST_##N(TENON_COMMA_, TENON_T_, __VA_ARGS__)); \
  enum { name##_inputs = TENON_LIST_##N(TENON_NOTHING_, TENON_N_, __VA_ARGS__) }; \
  typedef struct { \
    tenon_walk_t of[name##_inputs / 4 + 1]; \
  } name##_walks; \
  TENON_SOURCE_##ALL(name, __VA_ARGS__, OUT, r, tenon_y, VALUE, name##_walks, tenon_w) { \
    int64_t tenon_at[4 * (name##_inputs / 4 + 1)]; \
    TENON_EACH(tenon_i, tenon_w.of[0].count) { \
      for (int tenon_k = 0; tenon_k <= name##_inputs / 4; tenon_k++) \
        tenon_walk(&tenon_w.of[tenon_k], tenon_i, tenon_at + 4 * tenon_k); \
      tenon_y[tenon_at[name##_inputs]] = \
          name##_of(TENON_LIST_##N(TENON_COMMA_, TENON_X_, __VA_ARGS__)); \
    } \
  } \
  __attribute__((unused)) static tenon_status_t name##_loop(const tenon_loop_t *tenon_c) { \
    enum { tenon_inputs = name##_inputs }; \
    TENON_LIST_##N(TENON_NOTHING_, TENON_D_, __VA_ARGS__) \
    TENON_LIST_##N(TENON_NOTHING_, TENON_V_, __VA_ARGS__) \
    r *tenon_y = (r *)tenon_c->data[tenon_inputs]; \
    for (int64_t tenon_i = 0; tenon_i < tenon_c->count; tenon_i++) { \
      const int64_t tenon_at[] = {tenon_i, tenon_i, tenon_i, tenon_i, \
                                  tenon_i, tenon_i, tenon_i, tenon_i}; \
      tenon_y[tenon_i] = name##_of(TENON_LIST_##N(TENON_COMMA_, TENON_X_, __VA_ARGS__)); \
    } \
    return TENON_OK; \
  } \
  __attribute__((unused)) static tenon_status_t name##_launch( \
      tenon_call_t *tenon_c, tenon_code_t *tenon_code, uint32_t tenon_kernel, \
      const char *tenon_constants) { \
    enum { tenon_inputs = name##_inputs }; \
    TENON_LIST_##N(TENON_NOTHING_, TENON_V_, __VA_ARGS__) \
    name##_walks tenon_w; \
    tenon_kernel_argument_t tenon_a[] = { \
        TENON_LIST_##N(TENON_COMMA_, TENON_A_, __VA_ARGS__), \
        tenon_bytes(0, 0), \
        TENON_VALUE(tenon_w)}; \
    return tenon_pointwise(tenon_c, tenon_code, tenon_kernel, tenon_constants, tenon_inputs, \
                           tenon_w.of, tenon_a, sizeof tenon_a / sizeof *tenon_a); \
  } \
  TENON_FUNCTION r name##_of(TENON_LIST_##N(TENON_COMMA_, TENON_T_, __VA_ARGS__))

/* The number of an attribute. */
#define TENON_NUMBER_(t, v) ((v).kind == TENON_KIND_FLOAT ? (t)(v).as.f : (t)(v).as.i)

/* By kind: type, name, index.
 *   T  parameters of the function          X  arguments of the function
 *   N  1 for a tensor; summed, their number
 *   D  pointers to the data of a loop      V  values of attributes, in a loop and in a launch
 *   A  arguments of the kernel; tenon_pointwise fills in those of tensors */
#define TENON_T_IN(t, n, i)    t n
#define TENON_T_VALUE(t, n, i) t n
#define TENON_N_IN(t, n, i)    + 1
#define TENON_N_VALUE(t, n, i) + 0
#define TENON_X_IN(t, n, i)    n[tenon_at[i]]
#define TENON_X_VALUE(t, n, i) n
#define TENON_D_IN(t, n, i)    const t *n = (const t *)tenon_c->data[i];
#define TENON_D_VALUE(t, n, i)
#define TENON_V_IN(t, n, i)
#define TENON_V_VALUE(t, n, i) const t n = TENON_NUMBER_(t, tenon_c->attrs[i - tenon_inputs]);
#define TENON_A_IN(t, n, i)    tenon_bytes(0, 0)
#define TENON_A_VALUE(t, n, i) TENON_VALUE(n)
/* clang-format on */

/* ---- the text of a file ---------------------------------------------------------------------- */

/* A kernel compiled for the CPU; runs one group of one item. */
typedef void (*tenon_source_fn)(const tenon_item_id_t *id, void *const *arguments);

typedef struct tenon_code_kernel_t {
  const char *name;
  tenon_source_fn run; /* NULL: compiled at its first launch on the CPU. */
  /* The constants of the launches that `run` serves: "T=double".  NULL: all launches that no other
   * entry serves. */
  const char *constants;
} tenon_code_kernel_t;

/* A file with source kernels. */
typedef struct tenon_code_t {
  uint32_t size;
  uint32_t kernel_count;
  const char *text;
  const char *end;
  const char *file;
  const tenon_code_kernel_t *kernels;
  uint64_t id; /* Reserved for the host; initially 0. */
} tenon_code_t;

/* clang-format off */
/* Embeds the text of this file and lists its kernels: {"name", name}, ..., or {"name", name_double,
 * "T=double"}, ... */
#define TENON_CODE(code, ...) \
  TENON_EMBED_(code) \
  _Pragma("GCC diagnostic push") \
  _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"") \
  static const tenon_code_kernel_t code##_kernels[] = {__VA_ARGS__}; \
  _Pragma("GCC diagnostic pop") \
  static tenon_code_t code = {sizeof(tenon_code_t), \
                              sizeof code##_kernels / sizeof *code##_kernels, \
                              tenon_text_##code, \
                              tenon_text_end_##code, \
                              __FILE__, \
                              code##_kernels, \
                              0};
#define TENON_EMBED_(code) \
  TENON_C __attribute__((visibility("hidden"))) const char tenon_text_##code[]; \
  TENON_C __attribute__((visibility("hidden"))) const char tenon_text_end_##code[]; \
  __asm__(".pushsection .rodata\n" \
          ".hidden tenon_text_" #code "\n" \
          ".global tenon_text_" #code "\n" \
          "tenon_text_" #code ":\n" \
          ".incbin \"" __FILE__ "\"\n" \
          ".hidden tenon_text_end_" #code "\n" \
          ".global tenon_text_end_" #code "\n" \
          "tenon_text_end_" #code ":\n" \
          ".byte 0\n" \
          ".popsection\n");

/* Declares a source kernel, for the CPU and for every device that compiles.
 *
 * Arguments: `words`: as in TENON_KERNEL, without a device; and the features that a device must
 * have: "doubles", "halves", "wide_atomics".  A device without them declines, and the call goes to
 * the fallback of the backend. */
#define TENON_SOURCE(words, f) TENON_FN_(SOURCE, words, tenon_call_t, f)
/* clang-format on */

/* ---- launches -------------------------------------------------------------------------------- */

/* A launch of a kernel. */
struct tenon_grid_t {
  uint32_t size;
  uint32_t kernel; /* Index in the list of TENON_CODE. */
  tenon_code_t *code;
  /* Constants that are defined before the text, which is compiled for each set: "N=4 T=float".
   * NULL: none. */
  const char *constants;
  int64_t items; /* Not 0: the number of elements of TENON_EACH, and the host chooses the groups. */
  uint64_t groups[3];
  uint32_t group[3]; /* Items in a group; 0: the host chooses.  On the CPU 1. */
  uint32_t argument_count;
  const tenon_kernel_argument_t *arguments;
};

/* The memory of a tensor as a kernel argument.  It starts at the element with the lowest address,
 * which is the first element unless strides are negative.
 *
 * Arguments: `t`: NULL: no memory; `access`: TENON_ACCESS_... */
static inline tenon_kernel_argument_t tenon_memory_of(const tenon_tensor_t *t, uint32_t access) {
  tenon_kernel_argument_t a = {TENON_ARG_MEMORY, access, 0, {{0, 0}}};
  int64_t low = 0;
  int64_t high = 0;
  if (!t) return a;
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] > 1) *(t->strides[i] < 0 ? &low : &high) += (t->shape[i] - 1) * t->strides[i];
  a.size =
      tenon_count(t) ? ((uint64_t)(high - low + 1) * t->dtype.bits * t->dtype.lanes + 7) / 8 : 0;
  /* With addresses, byte_offset is 0, and the address moves; otherwise the offset does. */
  uint64_t before = (uint64_t)(-low * (t->dtype.bits * t->dtype.lanes / 8));
  a.as.memory.handle = t->byte_offset < before ? (char *)t->data - before : t->data;
  a.as.memory.offset = t->byte_offset < before ? t->byte_offset : t->byte_offset - before;
  return a;
}

/* The argument of a TENON_IN parameter. */
static inline tenon_kernel_argument_t tenon_in(const tenon_tensor_t *t) {
  return tenon_memory_of(t, TENON_ACCESS_READ);
}

/* The argument of a TENON_OUT parameter. */
static inline tenon_kernel_argument_t tenon_out(const tenon_tensor_t *t) {
  return tenon_memory_of(t, TENON_ACCESS_WRITE);
}

/* The argument of a TENON_INOUT parameter. */
static inline tenon_kernel_argument_t tenon_inout(const tenon_tensor_t *t) {
  return tenon_memory_of(t, TENON_ACCESS_READ | TENON_ACCESS_WRITE);
}

/* The argument of a TENON_BY_VALUE parameter. */
static inline tenon_kernel_argument_t tenon_bytes(const void *data, uint64_t size) {
  tenon_kernel_argument_t a = {TENON_ARG_BYTES, 0, size, {{0, 0}}};
  a.as.data = data;
  return a;
}
#define TENON_VALUE(variable) tenon_bytes(&(variable), sizeof(variable))

/* The argument of a TENON_SHARED parameter: this number of bytes for each item of the group. */
static inline tenon_kernel_argument_t tenon_shared(uint64_t bytes) {
  tenon_kernel_argument_t a = {TENON_ARG_LOCAL, 0, bytes, {{0, 0}}};
  return a;
}

/* The argument of a TENON_SHARED parameter: this number of bytes for the whole group. */
static inline tenon_kernel_argument_t tenon_shared_whole(uint64_t bytes) {
  tenon_kernel_argument_t a = {TENON_ARG_LOCAL, TENON_ACCESS_WRITE, bytes, {{0, 0}}};
  return a;
}

/* Prepares a walk over all elements of `shape`, to which the tensors broadcast.
 *
 * Arguments: `count` <= 4 tensors; NULL: an omitted one.
 * Returns: 1; 0 if more than eight axes remain after merging, or if elements are not whole
 * bytes. */
static inline int tenon_walk_of(tenon_walk_t *out, int32_t ndim, const int64_t *shape,
                                const tenon_tensor_t *const *tensors, uint32_t count) {
  tenon_walk_t w = {1, 0, {0}, {0}, {{0}}};
  for (uint32_t k = 0; k < count; k++) {
    const tenon_tensor_t *t = tensors[k];
    if (t && t->dtype.bits % 8) return 0;
    for (int32_t i = 0; t && i < t->ndim; i++)
      if (t->shape[i] > 1 && t->strides[i] < 0) w.first[k] -= (t->shape[i] - 1) * t->strides[i];
  }
  for (int32_t i = 0; i < ndim; i++) {
    int64_t strides[4] = {0};
    int64_t last = w.rank - 1;
    int joins = w.rank > 0;
    w.count *= shape[i];
    if (shape[i] == 1) continue;
    for (uint32_t k = 0; k < count; k++) {
      int32_t own = tensors[k] ? i - (ndim - tensors[k]->ndim) : -1;
      if (own >= 0 && tensors[k]->shape[own] != 1) strides[k] = tensors[k]->strides[own];
      joins = joins && w.strides[k][last] == strides[k] * shape[i];
    }
    if (!joins && w.rank == 8) return 0;
    if (!joins) {
      w.shape[w.rank++] = 1;
      last++;
    }
    w.shape[last] *= shape[i];
    for (uint32_t k = 0; k < count; k++)
      w.strides[k][last] = strides[k];
  }
  *out = w;
  return 1;
}

/* The constant T for a text that is compiled for several types: "T=double".
 *
 * Returns: NULL for types without one, such as f16 and bf16, which are stored as uint16_t. */
static inline const char *tenon_type_constant(tenon_dtype_t dtype) {
  switch (tenon_dtype_id(dtype)) {
  case TENON_F32:
    return "T=float";
  case TENON_F64:
    return "T=double";
  case TENON_I8:
    return "T=int8_t";
  case TENON_I16:
    return "T=int16_t";
  case TENON_I32:
    return "T=int32_t";
  case TENON_I64:
    return "T=int64_t";
  case TENON_BOOL:
  case TENON_U8:
    return "T=uint8_t";
  case TENON_U16:
    return "T=uint16_t";
  case TENON_U32:
    return "T=uint32_t";
  case TENON_U64:
    return "T=uint64_t";
  default:
    return 0;
  }
}

/* Launches a kernel that processes `items` elements with TENON_EACH.
 *
 * Arguments: `kernel`: index in the list of TENON_CODE; `constants`: see tenon_grid_t; NULL:
 * none. */
static inline tenon_status_t tenon_each_with(tenon_call_t *call, tenon_code_t *code,
                                             uint32_t kernel, const char *constants, int64_t items,
                                             const tenon_kernel_argument_t *arguments,
                                             uint32_t count) {
  tenon_grid_t grid = {
      sizeof(tenon_grid_t), kernel, code, constants, items, {0, 0, 0}, {0, 0, 0}, count, arguments};
  return items ? call->host->launch(call, &grid) : TENON_OK;
}

/* As tenon_each_with, without constants. */
static inline tenon_status_t tenon_each(tenon_call_t *call, tenon_code_t *code, uint32_t kernel,
                                        int64_t items, const tenon_kernel_argument_t *arguments,
                                        uint32_t count) {
  return tenon_each_with(call, code, kernel, 0, items, arguments, count);
}

/* Launches a kernel with this number of groups; the host chooses the items in a group. */
static inline tenon_status_t tenon_groups(tenon_call_t *call, tenon_code_t *code, uint32_t kernel,
                                          int64_t groups, const tenon_kernel_argument_t *arguments,
                                          uint32_t count) {
  tenon_grid_t grid = {sizeof(tenon_grid_t),     kernel,    code,  0,        0,
                       {(uint64_t)groups, 1, 1}, {0, 1, 1}, count, arguments};
  return groups ? call->host->launch(call, &grid) : TENON_OK;
}

/* Launches a pointwise kernel over all elements of the result, to which the inputs broadcast.
 *
 * Arguments: in `arguments`, values are set already.  The function sets the inputs, which come
 * first, and the result, which is the last but one.  The last argument is `walks`, which the
 * function fills in: each walk covers four of these tensors.  `count`: number of arguments.
 * Errors: TENON_UNIMPLEMENTED for more than eight axes. */
static inline tenon_status_t tenon_pointwise(tenon_call_t *call, tenon_code_t *code,
                                             uint32_t kernel, const char *constants,
                                             uint32_t inputs, tenon_walk_t *walks,
                                             tenon_kernel_argument_t *arguments, uint32_t count) {
  const tenon_tensor_t *y = call->outputs[0];
  const tenon_tensor_t *tensors[9];
  for (uint32_t i = 0; i < inputs; i++) {
    tensors[i] = call->inputs[i];
    arguments[i] = tenon_in(tensors[i]);
  }
  tensors[inputs] = y;
  arguments[count - 2] = tenon_out(y);
  for (uint32_t k = 0; k <= inputs; k += 4)
    if (!tenon_walk_of(&walks[k / 4], y->ndim, y->shape, tensors + k,
                       inputs - k < 4 ? inputs - k + 1 : 4))
      return tenon_fail(call, TENON_UNIMPLEMENTED, "more than eight axes do not run on a device");
  return tenon_each_with(call, code, kernel, constants, walks->count, arguments, count);
}

/* clang-format off */
/* Defines NAME_run, for TENON_SOURCE; the loop is declared with TENON_LOOP(..., NAME_loop).
 *
 * Arguments: `kernel`: index in the list of TENON_CODE. */
#define TENON_POINTWISE_RUN(code, kernel, name) \
  static tenon_status_t name##_run(tenon_call_t *call) { \
    return name##_launch(call, &code, kernel, 0); \
  }
/* clang-format on */

#endif
