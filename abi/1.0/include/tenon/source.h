/* tenon/source.h: kernels in a subset of C that every device compiles from the same text.
 *
 * A file with such kernels is compiled twice: with its library, for the CPU, and by a device, from the same text, which the
 * library carries.  What only the host needs stands under `#ifndef TENON_ON_DEVICE`:
 *
 *     #ifndef TENON_ON_DEVICE
 *     #include <tenon/source.h>
 *     #endif
 *
 *     TENON_SOURCE_4(scale, IN, float, x, OUT, float, y, VALUE, int64_t, n, VALUE, float, by) {
 *       TENON_EACH(i, n) y[i] = x[i] * by;
 *     }
 *
 *     #ifndef TENON_ON_DEVICE
 *     TENON_CODE(code, {"scale", scale})
 *     static tenon_status_t scale_run(tenon_call_t *call) {
 *       int64_t n = tenon_count(call->inputs[0]);
 *       float by = (float)call->attrs[0].as.f;
 *       const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]), tenon_out(call->outputs[0]),
 *                                                    TENON_VALUE(n), TENON_VALUE(by)};
 *       return tenon_each(call, &code, 0, n, arguments, 4);
 *     }
 *     TENON_LIBRARY(demo, "1.0.0", TENON_OP("scale(Tensor x, *, float by) -> Tensor", ..., TENON_SOURCE("f32", scale_run)))
 *     #endif
 *
 * A kernel runs for each item of each group.  It must be right for every number of groups and every size of a group, 1 too:
 * on the CPU groups have one item.  The words of the language, and what each device makes of them: docs/source.md. */
#ifndef TENON_SOURCE_H
#define TENON_SOURCE_H

#include <tenon/device.h>
#ifdef __cplusplus
#include <cmath>
#else
#include <tgmath.h>
#endif

/* ---- the language, for the CPU ------------------------------------------------------------------------------------- */

typedef struct tenon_item_id_t { /* one item */
  uint64_t group[3], groups[3];  /* which group, of how many */
  uint32_t item[3], items[3];    /* which item of the group, of how many */
  void (*barrier)(const struct tenon_item_id_t *id);
} tenon_item_id_t;

#define GLOBAL /* before every pointer into memory */
#define LOCAL  /* before every pointer into memory of a group */
#define get_group_id(d) (tenon_id->group[d])
#define get_num_groups(d) (tenon_id->groups[d])
#define get_local_id(d) ((void)(d), (uint32_t)0)
#define get_local_size(d) ((void)(d), (uint32_t)1)
#define get_global_id(d) (tenon_id->group[d])
#define get_global_size(d) (tenon_id->groups[d])
#define BARRIER() ((void)0) /* of the items of a group: all of them come here, or none */
/* For each i of [0, n) that is this item's. */
#define TENON_EACH(i, n)                                                                                               \
  for (int64_t i = tenon_first(get_global_id(0), get_global_size(0), n),                                               \
               tenon_end_##i = tenon_first(get_global_id(0) + 1, get_global_size(0), n);                               \
       i < tenon_end_##i; i++)
static inline int64_t tenon_first(uint64_t part, uint64_t parts, int64_t n) {
  int64_t each = n / (int64_t)parts, more = n % (int64_t)parts, at = (int64_t)part;
  return at * each + (at < more ? at : more);
}
static inline int32_t atomic_add_i32(GLOBAL int32_t *p, int32_t v) {
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
static inline int32_t atomic_max_i32(GLOBAL int32_t *p, int32_t v) {
  int32_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (old < v && !__atomic_compare_exchange_n(p, &old, v, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
  return old;
}
static inline void atomic_add_f32(GLOBAL float *p, float v) {
  uint32_t *bits = (uint32_t *)(void *)p, old = __atomic_load_n(bits, __ATOMIC_RELAXED), now;
  float sum;
  do {
    __builtin_memcpy(&sum, &old, 4);
    sum += v;
    __builtin_memcpy(&now, &sum, 4);
  } while (!__atomic_compare_exchange_n(bits, &old, now, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
/* What there is besides; a file's kernels are compiled together, so those that need one of them stand under its #ifdef. */
#define TENON_HAS_DOUBLES 1
#define TENON_HAS_WIDE_ATOMICS 1
static inline int64_t atomic_add_i64(GLOBAL int64_t *p, int64_t v) { /* of kernels that say "wide_atomics" */
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
static inline void atomic_add_f64(GLOBAL double *p, double v) { /* "doubles wide_atomics" */
  uint64_t *bits = (uint64_t *)(void *)p, old = __atomic_load_n(bits, __ATOMIC_RELAXED), now;
  double sum;
  do {
    __builtin_memcpy(&sum, &old, 8);
    sum += v;
    __builtin_memcpy(&now, &sum, 8);
  } while (!__atomic_compare_exchange_n(bits, &old, now, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
#ifdef __FLT16_MAX__
#define TENON_HAS_HALVES 1
__extension__ typedef _Float16 half; /* "halves": numbers that are computed with, not only stored */
#endif
#define FUNCTION static inline /* before a function that kernels call */
/* Before a loop of a constant number of steps: each stands for itself. */
#define UNROLL _Pragma("GCC unroll 64")
FUNCTION float float_of_bits(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
FUNCTION uint32_t bits_of_float(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
FUNCTION float mad(float a, float b, float c) { return a * b + c; } /* rounded once or twice, as is faster */
/* float4, float8, float16: vectors, with + - * / among them and with a float; in memory of any alignment. */
#define TENON_VECTOR_(n)                                                                                               \
  typedef float float##n __attribute__((vector_size(4 * n)));                                                          \
  typedef float tenon_float##n##_at __attribute__((vector_size(4 * n), aligned(4), may_alias));
TENON_VECTOR_(4)
TENON_VECTOR_(8)
TENON_VECTOR_(16)
#define load4(p, i) ((float4) * (const tenon_float4_at *)((p) + (i))) /* p[i] to p[i + 3], of GLOBAL or LOCAL memory */
#define load8(p, i) ((float8) * (const tenon_float8_at *)((p) + (i)))
#define load16(p, i) ((float16) * (const tenon_float16_at *)((p) + (i)))
#define store4(p, i, v) ((void)(*(tenon_float4_at *)((p) + (i)) = (v)))
#define store8(p, i, v) ((void)(*(tenon_float8_at *)((p) + (i)) = (v)))
#define store16(p, i, v) ((void)(*(tenon_float16_at *)((p) + (i)) = (v)))
#define splat4(x) ((float)(x) - (float4){0}) /* all of them x */
#define splat8(x) ((float)(x) - (float8){0})
#define splat16(x) ((float)(x) - (float16){0})
#define mad4(a, b, c) ((a) * (b) + (c)) /* vectors b and c, a vector or float a; rounded as mad */
#define mad8(a, b, c) ((a) * (b) + (c))
#define mad16(a, b, c) ((a) * (b) + (c))
#define lane(v, k) (((float *)&(v))[k]) /* the k-th of a variable, to read and to set */
/* bf16 and f16 are stored only: uint16_t in memory, float in between; rounded to nearest, ties to even. */
FUNCTION float load_bf16(GLOBAL const uint16_t *p, int64_t i) { return float_of_bits((uint32_t)p[i] << 16); }
FUNCTION void store_bf16(GLOBAL uint16_t *p, int64_t i, float x) {
  uint32_t bits = bits_of_float(x);
  p[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 64 : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
FUNCTION float load_f16(GLOBAL const uint16_t *p, int64_t i) {
  uint32_t a = p[i] & 0x7fffu, sign = (uint32_t)(p[i] & 0x8000u) << 16;
  float x = a < 0x400u ? (float)a * float_of_bits(103u << 23) : float_of_bits((a << 13) + (112u << 23));
  uint32_t bits = a < 0x7c00u ? bits_of_float(x) : a == 0x7c00u ? 0x7f800000u : 0x7fc00000u | a << 13;
  return float_of_bits(bits | sign);
}
FUNCTION void store_f16(GLOBAL uint16_t *p, int64_t i, float x) {
  uint32_t bits = bits_of_float(x), a = bits & 0x7fffffffu, code;
  if (a < 113u << 23) code = bits_of_float(float_of_bits(a) + 0.5f) - (126u << 23); /* its last place is f16's least */
  else code = ((a + 0xfffu + (a >> 13 & 1)) >> 13) - (112u << 10);
  code = a > 0x7f800000u ? 0x7e00u : code > 0x7c00u ? 0x7c00u : code;
  p[i] = (uint16_t)(code | (bits >> 31) << 15);
}

/* A kernel's name in a text that is compiled for several types: TENON_SOURCE_3(INSTANCE(cube, T), IN, T, x, ...).  In a library it
 * is of the type too (cube_double), so that the file may include itself for each of them; on devices it is cube. */
#define INSTANCE(name, type) TENON_INSTANCE_(name, type)
#define TENON_INSTANCE_(name, type) name##_##type

/* How elements that go together lie in up to four tensors; a VALUE.  The host fills it in by tenon_walk_of. */
typedef struct tenon_walk_t {
  int64_t count, rank, shape[8];
  int64_t first[4], strides[4][8]; /* in elements; first: counted from where the kernel's argument points */
} tenon_walk_t;
/* Where element i is in each of them. */
FUNCTION void tenon_walk(const tenon_walk_t *w, int64_t i, int64_t *at) {
  for (int k = 0; k < 4; k++) at[k] = w->first[k];
  for (int64_t a = w->rank - 1; a >= 0; a--) {
    int64_t rest = a ? i / w->shape[a] : 0, here = i - rest * w->shape[a];
    for (int k = 0; k < 4; k++) at[k] += here * w->strides[k][a];
    i = rest;
  }
}

/* Kinds of parameters: IN and OUT and INOUT are pointers, VALUE a number of a type with a fixed width or a structure of such
 * without gaps, SHARED memory of the group. */
#define TENON_P_IN(t, n, i) GLOBAL const t *n
#define TENON_P_OUT(t, n, i) GLOBAL t *n
#define TENON_P_INOUT(t, n, i) GLOBAL t *n
#define TENON_P_VALUE(t, n, i) t n
#define TENON_P_SHARED(t, n, i) LOCAL t *n
#define TENON_F_IN(t, n, i) (const t *)tenon_arguments[i]
#define TENON_F_OUT(t, n, i) (t *)tenon_arguments[i]
#define TENON_F_INOUT(t, n, i) (t *)tenon_arguments[i]
#define TENON_F_VALUE(t, n, i) *(const t *)tenon_arguments[i]
#define TENON_F_SHARED(t, n, i) (t *)tenon_arguments[i]
#define TENON_BODY_(name, ...) static inline void name##_item(const tenon_item_id_t *tenon_id, __VA_ARGS__)
#define TENON_ENTRY_C_(name, ...)                                                                                      \
  static void name(const tenon_item_id_t *tenon_id, void *const *tenon_arguments) {                                    \
    (void)tenon_id;                                                                                                    \
    name##_item(tenon_id, __VA_ARGS__);                                                                                \
  }
/* clang-format off */
/* For kind, type and name of each parameter: M<kind>(type, name, its place), with S() in between. */
#define TENON_LIST_1(S, M, k1, t1, n1) M##k1(t1, n1, 0)
#define TENON_LIST_2(S, M, k1, t1, n1, k2, t2, n2) TENON_LIST_1(S, M, k1, t1, n1) S() M##k2(t2, n2, 1)
#define TENON_LIST_3(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3) TENON_LIST_2(S, M, k1, t1, n1, k2, t2, n2) S() M##k3(t3, n3, 2)
#define TENON_LIST_4(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4) TENON_LIST_3(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3) S() M##k4(t4, n4, 3)
#define TENON_LIST_5(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5) TENON_LIST_4(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4) S() M##k5(t5, n5, 4)
#define TENON_LIST_6(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6) TENON_LIST_5(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5) S() M##k6(t6, n6, 5)
#define TENON_LIST_7(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6, k7, t7, n7) TENON_LIST_6(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6) S() M##k7(t7, n7, 6)
#define TENON_LIST_8(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6, k7, t7, n7, k8, t8, n8) TENON_LIST_7(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6, k7, t7, n7) S() M##k8(t8, n8, 7)
#define TENON_LIST_9(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6, k7, t7, n7, k8, t8, n8, k9, t9, n9) TENON_LIST_8(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6, k7, t7, n7, k8, t8, n8) S() M##k9(t9, n9, 8)
#define TENON_LIST_10(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6, k7, t7, n7, k8, t8, n8, k9, t9, n9, k10, t10, n10) TENON_LIST_9(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6, k7, t7, n7, k8, t8, n8, k9, t9, n9) S() M##k10(t10, n10, 9)
#define TENON_LIST_11(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6, k7, t7, n7, k8, t8, n8, k9, t9, n9, k10, t10, n10, k11, t11, n11) TENON_LIST_10(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6, k7, t7, n7, k8, t8, n8, k9, t9, n9, k10, t10, n10) S() M##k11(t11, n11, 10)
#define TENON_LIST_12(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6, k7, t7, n7, k8, t8, n8, k9, t9, n9, k10, t10, n10, k11, t11, n11, k12, t12, n12) TENON_LIST_11(S, M, k1, t1, n1, k2, t2, n2, k3, t3, n3, k4, t4, n4, k5, t5, n5, k6, t6, n6, k7, t7, n7, k8, t8, n8, k9, t9, n9, k10, t10, n10, k11, t11, n11) S() M##k12(t12, n12, 11)
#define TENON_COMMA_() ,
#define TENON_NOTHING_()
/* A kernel: its name, then kind, type and name of each parameter. */
#define TENON_SOURCE_1(name, ...) TENON_SOURCE_(TENON_LIST_1, name, __VA_ARGS__)
#define TENON_SOURCE_2(name, ...) TENON_SOURCE_(TENON_LIST_2, name, __VA_ARGS__)
#define TENON_SOURCE_3(name, ...) TENON_SOURCE_(TENON_LIST_3, name, __VA_ARGS__)
#define TENON_SOURCE_4(name, ...) TENON_SOURCE_(TENON_LIST_4, name, __VA_ARGS__)
#define TENON_SOURCE_5(name, ...) TENON_SOURCE_(TENON_LIST_5, name, __VA_ARGS__)
#define TENON_SOURCE_6(name, ...) TENON_SOURCE_(TENON_LIST_6, name, __VA_ARGS__)
#define TENON_SOURCE_7(name, ...) TENON_SOURCE_(TENON_LIST_7, name, __VA_ARGS__)
#define TENON_SOURCE_8(name, ...) TENON_SOURCE_(TENON_LIST_8, name, __VA_ARGS__)
#define TENON_SOURCE_9(name, ...) TENON_SOURCE_(TENON_LIST_9, name, __VA_ARGS__)
#define TENON_SOURCE_10(name, ...) TENON_SOURCE_(TENON_LIST_10, name, __VA_ARGS__)
#define TENON_SOURCE_11(name, ...) TENON_SOURCE_(TENON_LIST_11, name, __VA_ARGS__)
#define TENON_SOURCE_12(name, ...) TENON_SOURCE_(TENON_LIST_12, name, __VA_ARGS__)
#define TENON_SOURCE_(LIST, name, ...) \
  TENON_BODY_(name, LIST(TENON_COMMA_, TENON_P_, __VA_ARGS__)); \
  TENON_ENTRY_C_(name, LIST(TENON_COMMA_, TENON_F_, __VA_ARGS__)) \
  TENON_BODY_(name, LIST(TENON_COMMA_, TENON_P_, __VA_ARGS__))
/* A pointwise function of one to eight numbers, r NAME(...), as a loop of the CPU, NAME_loop, and as a kernel of devices, NAME, which
 * goes over operands that are broadcast.  Its name, what it gives, then kind, type and name of each parameter: elements of tensors (IN)
 * in the schema's order, then attributes (VALUE), which are numbers, in the schema's order:
 *
 *     TENON_POINTWISE_3(blend, float, IN, float, a, IN, float, b, VALUE, float, by) { return a + (b - a) * by; }
 *
 * The host's side of the kernel is made by TENON_POINTWISE_RUN, below. */
#define TENON_POINTWISE_1(name, r, ...) TENON_POINTWISE_(TENON_LIST_1, TENON_SOURCE_3, name, r, __VA_ARGS__)
#define TENON_POINTWISE_2(name, r, ...) TENON_POINTWISE_(TENON_LIST_2, TENON_SOURCE_4, name, r, __VA_ARGS__)
#define TENON_POINTWISE_3(name, r, ...) TENON_POINTWISE_(TENON_LIST_3, TENON_SOURCE_5, name, r, __VA_ARGS__)
#define TENON_POINTWISE_4(name, r, ...) TENON_POINTWISE_(TENON_LIST_4, TENON_SOURCE_6, name, r, __VA_ARGS__)
#define TENON_POINTWISE_5(name, r, ...) TENON_POINTWISE_(TENON_LIST_5, TENON_SOURCE_7, name, r, __VA_ARGS__)
#define TENON_POINTWISE_6(name, r, ...) TENON_POINTWISE_(TENON_LIST_6, TENON_SOURCE_8, name, r, __VA_ARGS__)
#define TENON_POINTWISE_7(name, r, ...) TENON_POINTWISE_(TENON_LIST_7, TENON_SOURCE_9, name, r, __VA_ARGS__)
#define TENON_POINTWISE_8(name, r, ...) TENON_POINTWISE_(TENON_LIST_8, TENON_SOURCE_10, name, r, __VA_ARGS__)
#define TENON_POINTWISE_(LIST, SOURCE, name, r, ...) \
  FUNCTION r name##_of(LIST(TENON_COMMA_, TENON_T_, __VA_ARGS__)); \
  enum { name##_inputs = LIST(TENON_NOTHING_, TENON_N_, __VA_ARGS__) }; \
  typedef struct { tenon_walk_t of[name##_inputs / 4 + 1]; } name##_walks; /* over the tensors, then the result */ \
  SOURCE(name, __VA_ARGS__, OUT, r, tenon_y, VALUE, name##_walks, tenon_w) { \
    int64_t tenon_at[4 * (name##_inputs / 4 + 1)]; \
    TENON_EACH(tenon_i, tenon_w.of[0].count) { \
      for (int tenon_k = 0; tenon_k <= name##_inputs / 4; tenon_k++) tenon_walk(&tenon_w.of[tenon_k], tenon_i, tenon_at + 4 * tenon_k); \
      tenon_y[tenon_at[name##_inputs]] = name##_of(LIST(TENON_COMMA_, TENON_X_, __VA_ARGS__)); \
    } \
  } \
  __attribute__((unused)) static tenon_status_t name##_loop(const tenon_loop_t *tenon_c) { \
    enum { tenon_inputs = name##_inputs }; \
    LIST(TENON_NOTHING_, TENON_D_, __VA_ARGS__) LIST(TENON_NOTHING_, TENON_V_, __VA_ARGS__) \
    r *tenon_y = (r *)tenon_c->data[tenon_inputs]; \
    for (int64_t tenon_i = 0; tenon_i < tenon_c->count; tenon_i++) { \
      const int64_t tenon_at[] = {tenon_i, tenon_i, tenon_i, tenon_i, tenon_i, tenon_i, tenon_i, tenon_i}; \
      tenon_y[tenon_i] = name##_of(LIST(TENON_COMMA_, TENON_X_, __VA_ARGS__)); \
    } \
    return TENON_OK; \
  } \
  __attribute__((unused)) static tenon_status_t name##_launch(tenon_call_t *tenon_c, tenon_code_t *tenon_code, uint32_t tenon_kernel, const char *tenon_constants) { \
    enum { tenon_inputs = name##_inputs }; \
    LIST(TENON_NOTHING_, TENON_V_, __VA_ARGS__) \
    name##_walks tenon_w; \
    tenon_kernel_argument_t tenon_a[] = {LIST(TENON_COMMA_, TENON_A_, __VA_ARGS__), tenon_bytes(0, 0), TENON_VALUE(tenon_w)}; \
    return tenon_pointwise(tenon_c, tenon_code, tenon_kernel, tenon_constants, tenon_inputs, tenon_w.of, tenon_a, sizeof tenon_a / sizeof *tenon_a); \
  } \
  FUNCTION r name##_of(LIST(TENON_COMMA_, TENON_T_, __VA_ARGS__))
#define TENON_T_IN(t, n, i) t n /* of the function */
#define TENON_T_VALUE(t, n, i) t n
#define TENON_N_IN(t, n, i) + 1 /* how many tensors */
#define TENON_N_VALUE(t, n, i) + 0
#define TENON_X_IN(t, n, i) n[tenon_at[i]] /* what the function is given */
#define TENON_X_VALUE(t, n, i) n
#define TENON_D_IN(t, n, i) const t *n = (const t *)tenon_c->data[i]; /* what a loop reads */
#define TENON_D_VALUE(t, n, i)
#define TENON_V_IN(t, n, i)
#define TENON_V_VALUE(t, n, i) const t n = TENON_NUMBER_(t, tenon_c->attrs[i - tenon_inputs]); /* of a loop, of a call */
#define TENON_NUMBER_(t, v) ((v).kind == TENON_KIND_FLOAT ? (t)(v).as.f : (t)(v).as.i)
#define TENON_A_IN(t, n, i) tenon_bytes(0, 0) /* arguments of the kernel, which tenon_pointwise completes */
#define TENON_A_VALUE(t, n, i) TENON_VALUE(n)
/* clang-format on */

/* ---- the text, and launches ---------------------------------------------------------------------------------------- */

typedef void (*tenon_source_fn)(const tenon_item_id_t *id, void *const *arguments);
typedef struct tenon_code_kernel_t {
  const char *name;
  tenon_source_fn run;   /* on the CPU, one group of one item; NULL: compiled when it is first launched there */
  const char *constants; /* of a launch that `run` is for: "T=double"; NULL: it is for all that no other is for */
} tenon_code_kernel_t;

typedef struct tenon_code_t { /* a file with kernels */
  uint32_t size, kernel_count;
  const char *text, *end, *file;
  const tenon_code_kernel_t *kernels;
  uint64_t id; /* the host's: 0 at first */
} tenon_code_t;

/* The text of this file, and its kernels: {"name", name}, ..., or {"name", name_double, "T=double"}, ... */
#define TENON_CODE(code, ...)                                                                                          \
  TENON_EMBED_(code)                                                                                                   \
  _Pragma("GCC diagnostic push") _Pragma(                                                                              \
      "GCC diagnostic ignored \"-Wmissing-field-initializers\"") static const tenon_code_kernel_t code##_kernels[] = { \
      __VA_ARGS__};                                                                                                    \
  _Pragma("GCC diagnostic pop") static tenon_code_t code = {sizeof(tenon_code_t),                                      \
                                                            sizeof code##_kernels / sizeof *code##_kernels,            \
                                                            tenon_text_##code,                                         \
                                                            tenon_text_end_##code,                                     \
                                                            __FILE__,                                                  \
                                                            code##_kernels,                                            \
                                                            0};
#define TENON_EMBED_(code)                                                                                             \
  TENON_C __attribute__((visibility("hidden"))) const char tenon_text_##code[];                                        \
  TENON_C __attribute__((visibility("hidden"))) const char tenon_text_end_##code[];                                    \
  __asm__(".pushsection .rodata\n"                                                                                     \
          ".hidden tenon_text_" #code "\n.global tenon_text_" #code "\ntenon_text_" #code ":\n"                        \
          ".incbin \"" __FILE__ "\"\n"                                                                                 \
          ".hidden tenon_text_end_" #code "\n.global tenon_text_end_" #code "\ntenon_text_end_" #code ":\n.byte 0\n"   \
          ".popsection\n");

struct tenon_grid_t {    /* one launch, of a kernel of a TENON_SOURCE function */
  uint32_t size, kernel; /* kernel: position in the code's list */
  tenon_code_t *code;
  const char *constants; /* "N=4 T=float": defined before the text is compiled, for each set anew; NULL: none */
  int64_t items;         /* not 0: so many elements of TENON_EACH, and the host chooses the groups */
  uint64_t groups[3];
  uint32_t group[3]; /* items of a group; 0: the host chooses.  On the CPU 1 */
  uint32_t argument_count;
  const tenon_kernel_argument_t *arguments;
};

/* A kernel for the CPU and for every device that compiles.  `words` are as in TENON_KERNEL, without a device; besides, what a
 * device must have for it: "doubles", "halves", "wide_atomics" (on 64 bits).  One that has not declines: the call goes to the
 * backend's fallback. */
#define TENON_SOURCE(words, f) TENON_FN_(SOURCE, words, tenon_call_t, f)

/* The memory of a tensor, from its lowest element on: that is its first unless strides are negative. */
static inline tenon_kernel_argument_t tenon_memory_of(const tenon_tensor_t *t, uint32_t access) {
  tenon_kernel_argument_t a = {TENON_ARG_MEMORY, access, 0, {{0, 0}}};
  int64_t low = 0, high = 0;
  if (!t) return a;
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] > 1) *(t->strides[i] < 0 ? &low : &high) += (t->shape[i] - 1) * t->strides[i];
  a.size = tenon_count(t) ? ((uint64_t)(high - low + 1) * t->dtype.bits * t->dtype.lanes + 7) / 8 : 0;
  uint64_t before =
      (uint64_t)(-low * (t->dtype.bits * t->dtype.lanes / 8)); /* 0 of an address, or it is in the offset */
  a.as.memory.handle = t->byte_offset < before ? (char *)t->data - before : t->data;
  a.as.memory.offset = t->byte_offset < before ? t->byte_offset : t->byte_offset - before;
  return a;
}
static inline tenon_kernel_argument_t tenon_in(const tenon_tensor_t *t) {
  return tenon_memory_of(t, TENON_ACCESS_READ);
}
static inline tenon_kernel_argument_t tenon_out(const tenon_tensor_t *t) {
  return tenon_memory_of(t, TENON_ACCESS_WRITE);
}
static inline tenon_kernel_argument_t tenon_inout(const tenon_tensor_t *t) {
  return tenon_memory_of(t, TENON_ACCESS_READ | TENON_ACCESS_WRITE);
}
static inline tenon_kernel_argument_t tenon_bytes(const void *data, uint64_t size) {
  tenon_kernel_argument_t a = {TENON_ARG_BYTES, 0, size, {{0, 0}}};
  a.as.data = data;
  return a;
}
#define TENON_VALUE(variable) tenon_bytes(&(variable), sizeof(variable))
/* Memory of the group, so many bytes for each of its items. */
static inline tenon_kernel_argument_t tenon_shared(uint64_t bytes) {
  tenon_kernel_argument_t a = {TENON_ARG_LOCAL, 0, bytes, {{0, 0}}};
  return a;
}
static inline tenon_kernel_argument_t tenon_shared_whole(uint64_t bytes) { /* so many however many items it has */
  tenon_kernel_argument_t a = {TENON_ARG_LOCAL, TENON_ACCESS_WRITE, bytes, {{0, 0}}};
  return a;
}
/* A walk over all of `shape`, to which `count` <= 4 tensors broadcast; NULL: one that is absent.  0: more than eight axes are
 * left when those that can be are merged, or elements are no whole bytes. */
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
    int64_t strides[4] = {0}, last = w.rank - 1;
    int joins = w.rank > 0;
    w.count *= shape[i];
    if (shape[i] == 1) continue;
    for (uint32_t k = 0; k < count; k++) {
      int32_t own = tensors[k] ? i - (ndim - tensors[k]->ndim) : -1;
      if (own >= 0 && tensors[k]->shape[own] != 1) strides[k] = tensors[k]->strides[own];
      joins = joins && w.strides[k][last] == strides[k] * shape[i];
    }
    if (!joins && w.rank == 8) return 0;
    if (!joins) w.shape[w.rank++] = 1, last++;
    w.shape[last] *= shape[i];
    for (uint32_t k = 0; k < count; k++) w.strides[k][last] = strides[k];
  }
  return *out = w, 1;
}
/* The constant T for elements of a type, for texts that are compiled for several: "T=double".  f16 and bf16, which are stored as
 * uint16_t, have none of their own. */
static inline const char *tenon_type_constant(tenon_dtype_t dtype) {
  switch (tenon_dtype_id(dtype)) {
  case TENON_F32: return "T=float";
  case TENON_F64: return "T=double";
  case TENON_I8: return "T=int8_t";
  case TENON_I16: return "T=int16_t";
  case TENON_I32: return "T=int32_t";
  case TENON_I64: return "T=int64_t";
  case TENON_BOOL:
  case TENON_U8: return "T=uint8_t";
  case TENON_U16: return "T=uint16_t";
  case TENON_U32: return "T=uint32_t";
  case TENON_U64: return "T=uint64_t";
  default: return 0;
  }
}
/* A kernel that goes over `items` elements by TENON_EACH; compiled with constants (NULL: none). */
static inline tenon_status_t tenon_each_with(tenon_call_t *call, tenon_code_t *code, uint32_t kernel,
                                             const char *constants, int64_t items,
                                             const tenon_kernel_argument_t *arguments, uint32_t count) {
  tenon_grid_t grid = {sizeof(tenon_grid_t), kernel, code, constants, items, {0, 0, 0}, {0, 0, 0}, count, arguments};
  return items ? call->host->launch(call, &grid) : TENON_OK;
}
static inline tenon_status_t tenon_each(tenon_call_t *call, tenon_code_t *code, uint32_t kernel, int64_t items,
                                        const tenon_kernel_argument_t *arguments, uint32_t count) {
  return tenon_each_with(call, code, kernel, 0, items, arguments, count);
}
/* A kernel with `groups` groups, of a size that the host chooses. */
static inline tenon_status_t tenon_groups(tenon_call_t *call, tenon_code_t *code, uint32_t kernel, int64_t groups,
                                          const tenon_kernel_argument_t *arguments, uint32_t count) {
  tenon_grid_t grid = {sizeof(tenon_grid_t), kernel, code, 0, 0, {(uint64_t)groups, 1, 1}, {0, 1, 1}, count, arguments};
  return groups ? call->host->launch(call, &grid) : TENON_OK;
}

/* The host's side of a pointwise kernel: all elements of the result, to which the inputs broadcast.  Of the arguments values are
 * set already; here inputs are, the result, and the walks, which are the last: each goes over four of these tensors. */
static inline tenon_status_t tenon_pointwise(tenon_call_t *call, tenon_code_t *code, uint32_t kernel,
                                             const char *constants, uint32_t inputs, tenon_walk_t *walks,
                                             tenon_kernel_argument_t *arguments, uint32_t count) {
  const tenon_tensor_t *y = call->outputs[0], *tensors[9];
  for (uint32_t i = 0; i < inputs; i++) tensors[i] = call->inputs[i], arguments[i] = tenon_in(tensors[i]);
  tensors[inputs] = y, arguments[count - 2] = tenon_out(y);
  for (uint32_t k = 0; k <= inputs; k += 4)
    if (!tenon_walk_of(&walks[k / 4], y->ndim, y->shape, tensors + k, inputs - k < 4 ? inputs - k + 1 : 4))
      return tenon_fail(call, TENON_UNIMPLEMENTED, "more than eight axes do not run on a device");
  return tenon_each_with(call, code, kernel, constants, walks->count, arguments, count);
}
/* NAME_run, for TENON_SOURCE beside TENON_LOOP(..., NAME_loop): `kernel` is its place in TENON_CODE. */
#define TENON_POINTWISE_RUN(code, kernel, name)                                                                        \
  static tenon_status_t name##_run(tenon_call_t *call) { return name##_launch(call, &code, kernel, 0); }

#endif
