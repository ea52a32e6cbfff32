/* The text that precedes a source kernel when a device compiles it: the words of source.h in the
 * language of the device. program.c puts it together with the author's text. */
#include <string.h>

#include "device/program.h"

static const char opencl[] =
    "typedef char int8_t; typedef uchar uint8_t; typedef short int16_t; typedef ushort uint16_t;\n"
    "typedef int int32_t; typedef uint uint32_t; typedef long int64_t; typedef ulong uint64_t;\n"
    "#define GLOBAL __global\n"
    "#define LOCAL __local\n"
    "#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)\n"
    "#define TENON_EACH(i, n) for (long i = (long)get_global_id(0); i < (long)(n); i += "
    "(long)get_global_size(0))\n"
    "static int atomic_add_i32(__global int *p, int v) { return atomic_add((volatile __global int "
    "*)p, v); }\n"
    "static int atomic_max_i32(__global int *p, int v) { return atomic_max((volatile __global int "
    "*)p, v); }\n"
    "static void atomic_add_f32(__global float *p, float v) {\n"
    "  volatile __global uint *bits = (volatile __global uint *)p;\n"
    "  uint old = *bits, seen;\n"
    "  while ((seen = atomic_cmpxchg(bits, old, as_uint(as_float(old) + v))) != old) old = seen;\n"
    "}\n"
    "#ifdef cl_khr_fp64\n"
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "#define TENON_HAS_DOUBLES 1\n"
    "#endif\n"
    "#ifdef cl_khr_fp16\n"
    "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
    "#define TENON_HAS_HALVES 1\n"
    "#endif\n"
    "#ifdef cl_khr_int64_base_atomics\n"
    "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
    "#define TENON_HAS_WIDE_ATOMICS 1\n"
    "static long atomic_add_i64(__global long *p, long v) { return atom_add((volatile __global "
    "long *)p, v); }\n"
    "#ifdef cl_khr_fp64\n"
    "static void atomic_add_f64(__global double *p, double v) {\n"
    "  volatile __global ulong *bits = (volatile __global ulong *)p;\n"
    "  ulong old = *bits, seen;\n"
    "  while ((seen = atom_cmpxchg(bits, old, as_ulong(as_double(old) + v))) != old) old = seen;\n"
    "}\n"
    "#endif\n"
    "#endif\n"
    "#define FUNCTION static\n"
    "#define UNROLL _Pragma(\"unroll\")\n"
    "#define float_of_bits as_float\n"
    "#define bits_of_float as_uint\n"
    "#define TENON_P_IN(t, n) __global const t *n\n"
    "#define TENON_P_OUT(t, n) __global t *n\n"
    "#define TENON_P_INOUT(t, n) __global t *n\n"
    "#define TENON_P_VALUE(t, n) t n\n"
    "#define TENON_P_SHARED(t, n) __local t *n\n"
    "#define TENON_K_IN(t, n) __global const char *tenon_base_##n, long tenon_at_##n\n"
    "#define TENON_K_OUT(t, n) __global char *tenon_base_##n, long tenon_at_##n\n"
    "#define TENON_K_INOUT(t, n) __global char *tenon_base_##n, long tenon_at_##n\n"
    "#define TENON_K_VALUE(t, n) t n\n"
    "#define TENON_K_SHARED(t, n) __local t *n\n"
    "#define TENON_A_IN(t, n) (__global const t *)(tenon_base_##n + tenon_at_##n)\n"
    "#define TENON_A_OUT(t, n) (__global t *)(tenon_base_##n + tenon_at_##n)\n"
    "#define TENON_A_INOUT(t, n) (__global t *)(tenon_base_##n + tenon_at_##n)\n"
    "#define TENON_A_VALUE(t, n) n\n"
    "#define TENON_A_SHARED(t, n) n\n";

static const char cuda[] =
    "typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef "
    "unsigned short uint16_t;\n"
    "typedef int int32_t; typedef unsigned int uint32_t; typedef long int64_t; typedef unsigned "
    "long uint64_t;\n"
    "#define GLOBAL\n"
    "#define LOCAL\n"
    "extern __shared__ __align__(16) char tenon_shared[];\n"
    "static __device__ inline unsigned tenon_of(uint3 v, int d) { return d == 0 ? v.x : d == 1 ? "
    "v.y : v.z; }\n"
    "static __device__ inline unsigned tenon_of(dim3 v, int d) { return d == 0 ? v.x : d == 1 ? "
    "v.y : v.z; }\n"
    "#define get_group_id(d) ((uint64_t)tenon_of(blockIdx, d))\n"
    "#define get_num_groups(d) ((uint64_t)tenon_of(gridDim, d))\n"
    "#define get_local_id(d) tenon_of(threadIdx, d)\n"
    "#define get_local_size(d) tenon_of(blockDim, d)\n"
    "#define get_global_id(d) (get_group_id(d) * get_local_size(d) + get_local_id(d))\n"
    "#define get_global_size(d) (get_num_groups(d) * get_local_size(d))\n"
    "#define BARRIER() __syncthreads()\n"
    "#define TENON_EACH(i, n) for (int64_t i = (int64_t)get_global_id(0); i < (int64_t)(n); i += "
    "(int64_t)get_global_size(0))\n"
    "static __device__ inline int32_t atomic_add_i32(int32_t *p, int32_t v) { return atomicAdd(p, "
    "v); }\n"
    "static __device__ inline int32_t atomic_max_i32(int32_t *p, int32_t v) { return atomicMax(p, "
    "v); }\n"
    "static __device__ inline void atomic_add_f32(float *p, float v) { atomicAdd(p, v); }\n"
    "#define TENON_HAS_DOUBLES 1\n"
    "#define TENON_HAS_WIDE_ATOMICS 1\n"
    "static __device__ inline int64_t atomic_add_i64(int64_t *p, int64_t v) {\n"
    "  return (int64_t)atomicAdd((unsigned long long *)p, (unsigned long long)v);\n"
    "}\n"
    "static __device__ inline void atomic_add_f64(double *p, double v) { atomicAdd(p, v); }\n"
    "#define FUNCTION static __device__ inline\n"
    "#define UNROLL _Pragma(\"unroll\")\n"
    "#define float_of_bits __uint_as_float\n"
    "#define bits_of_float __float_as_uint\n"
    "#define mad(a, b, c) fmaf(a, b, c)\n"
    "#ifndef INFINITY\n"
    "#define INFINITY __int_as_float(0x7f800000)\n"
    "#define NAN __int_as_float(0x7fc00000)\n"
    "#endif\n"
    "#define TENON_P_IN(t, n) const t *n\n"
    "#define TENON_P_OUT(t, n) t *n\n"
    "#define TENON_P_INOUT(t, n) t *n\n"
    "#define TENON_P_VALUE(t, n) t n\n"
    "#define TENON_P_SHARED(t, n) t *n\n"
    "#define TENON_K_IN(t, n) const t *n\n"
    "#define TENON_K_OUT(t, n) t *n\n"
    "#define TENON_K_INOUT(t, n) t *n\n"
    "#define TENON_K_VALUE(t, n) t n\n"
    "#define TENON_K_SHARED(t, n) unsigned tenon_at_##n\n"
    "#define TENON_A_IN(t, n) n\n"
    "#define TENON_A_OUT(t, n) n\n"
    "#define TENON_A_INOUT(t, n) n\n"
    "#define TENON_A_VALUE(t, n) n\n"
    "#define TENON_A_SHARED(t, n) (t *)(tenon_shared + tenon_at_##n)\n";

static const char c[] =
    "#include <stdint.h>\n"
    "#include <tgmath.h>\n"
    "typedef struct tenon_item_id_t {\n"
    "  uint64_t group[3], groups[3];\n"
    "  uint32_t item[3], items[3];\n"
    "  void (*barrier)(const struct tenon_item_id_t *id);\n"
    "} tenon_item_id_t;\n"
    "#define GLOBAL\n"
    "#define LOCAL\n"
    "#define get_group_id(d) (tenon_id->group[d])\n"
    "#define get_num_groups(d) (tenon_id->groups[d])\n"
    "#define get_local_id(d) (tenon_id->item[d])\n"
    "#define get_local_size(d) (tenon_id->items[d])\n"
    "#define get_global_id(d) (get_group_id(d) * get_local_size(d) + get_local_id(d))\n"
    "#define get_global_size(d) (get_num_groups(d) * get_local_size(d))\n"
    "#define BARRIER() tenon_id->barrier(tenon_id)\n"
    "#define TENON_EACH(i, n) for (int64_t i = (int64_t)get_global_id(0); i < (int64_t)(n); i += "
    "(int64_t)get_global_size(0))\n"
    "static inline int32_t atomic_add_i32(int32_t *p, int32_t v) { return __atomic_fetch_add(p, v, "
    "__ATOMIC_RELAXED); "
    "}\n"
    "static inline int32_t atomic_max_i32(int32_t *p, int32_t v) {\n"
    "  int32_t old = __atomic_load_n(p, __ATOMIC_RELAXED);\n"
    "  while (old < v && !__atomic_compare_exchange_n(p, &old, v, 1, __ATOMIC_RELAXED, "
    "__ATOMIC_RELAXED)) continue;\n"
    "  return old;\n"
    "}\n"
    "static inline void atomic_add_f32(float *p, float v) {\n"
    "  uint32_t *bits = (uint32_t *)(void *)p, old = __atomic_load_n(bits, __ATOMIC_RELAXED), "
    "now;\n"
    "  float sum;\n"
    "  do {\n"
    "    __builtin_memcpy(&sum, &old, 4);\n"
    "    sum += v;\n"
    "    __builtin_memcpy(&now, &sum, 4);\n"
    "  } while (!__atomic_compare_exchange_n(bits, &old, now, 1, __ATOMIC_RELAXED, "
    "__ATOMIC_RELAXED));\n"
    "}\n"
    "#define TENON_HAS_DOUBLES 1\n"
    "#define TENON_HAS_WIDE_ATOMICS 1\n"
    "static inline int64_t atomic_add_i64(int64_t *p, int64_t v) { return __atomic_fetch_add(p, v, "
    "__ATOMIC_RELAXED); "
    "}\n"
    "static inline void atomic_add_f64(double *p, double v) {\n"
    "  uint64_t *bits = (uint64_t *)(void *)p, old = __atomic_load_n(bits, __ATOMIC_RELAXED), "
    "now;\n"
    "  double sum;\n"
    "  do {\n"
    "    __builtin_memcpy(&sum, &old, 8);\n"
    "    sum += v;\n"
    "    __builtin_memcpy(&now, &sum, 8);\n"
    "  } while (!__atomic_compare_exchange_n(bits, &old, now, 1, __ATOMIC_RELAXED, "
    "__ATOMIC_RELAXED));\n"
    "}\n"
    "#ifdef __FLT16_MAX__\n"
    "#define TENON_HAS_HALVES 1\n"
    "typedef _Float16 half;\n"
    "#endif\n"
    "#define FUNCTION static inline\n"
    "#define UNROLL _Pragma(\"GCC unroll 64\")\n"
    "FUNCTION float float_of_bits(uint32_t bits) {\n"
    "  float x;\n"
    "  __builtin_memcpy(&x, &bits, 4);\n"
    "  return x;\n"
    "}\n"
    "FUNCTION uint32_t bits_of_float(float x) {\n"
    "  uint32_t bits;\n"
    "  __builtin_memcpy(&bits, &x, 4);\n"
    "  return bits;\n"
    "}\n"
    "FUNCTION float mad(float a, float b, float c) { return a * b + c; }\n"
    "#define TENON_P_IN(t, n) const t *n\n"
    "#define TENON_P_OUT(t, n) t *n\n"
    "#define TENON_P_INOUT(t, n) t *n\n"
    "#define TENON_P_VALUE(t, n) t n\n"
    "#define TENON_P_SHARED(t, n) t *n\n"
    "#define TENON_F_IN(t, i) (const t *)tenon_arguments[i]\n"
    "#define TENON_F_OUT(t, i) (t *)tenon_arguments[i]\n"
    "#define TENON_F_INOUT(t, i) (t *)tenon_arguments[i]\n"
    "#define TENON_F_VALUE(t, i) *(const t *)tenon_arguments[i]\n"
    "#define TENON_F_SHARED(t, i) (t *)tenon_arguments[i]\n";

/* Vectors of floats. PoCL 3.1 compiles mad into two instructions, so mad becomes fma where the
 * device has it; PoCL shows this by __FMA__ only. */
static const char opencl_vectors[] = "#define load4(p, i) vload4(0, (p) + (i))\n"
                                     "#define load8(p, i) vload8(0, (p) + (i))\n"
                                     "#define load16(p, i) vload16(0, (p) + (i))\n"
                                     "#define store4(p, i, v) vstore4(v, 0, (p) + (i))\n"
                                     "#define store8(p, i, v) vstore8(v, 0, (p) + (i))\n"
                                     "#define store16(p, i, v) vstore16(v, 0, (p) + (i))\n"
                                     "#define splat4(x) ((float4)(x))\n"
                                     "#define splat8(x) ((float8)(x))\n"
                                     "#define splat16(x) ((float16)(x))\n"
                                     "#if defined FP_FAST_FMAF || defined __FMA__\n"
                                     "#undef mad\n"
                                     "#define mad fma\n"
                                     "#endif\n"
                                     "#define mad4(a, b, c) mad((float4)(a), b, c)\n"
                                     "#define mad8(a, b, c) mad((float8)(a), b, c)\n"
                                     "#define mad16(a, b, c) mad((float16)(a), b, c)\n"
                                     "#define lane(v, k) (((float *)&(v))[k])\n";
static const char cuda_vectors[] =
    "template <int N> struct __align__(16) tenon_floats { float at[N]; };\n"
    "#define TENON_LANES _Pragma(\"unroll\") for (int k = 0; k < N; k++)\n"
    "#define TENON_OF template <int N> static __device__ inline\n"
    "TENON_OF tenon_floats<N> tenon_splat(float x) { tenon_floats<N> r; TENON_LANES r.at[k] = x; "
    "return r; }\n"
    "TENON_OF tenon_floats<N> tenon_load(const float *p) {\n"
    "  tenon_floats<N> r;\n"
    "  if ((uint64_t)p % 16 == 0) r = *(const tenon_floats<N> *)p;\n"
    "  else TENON_LANES r.at[k] = p[k];\n"
    "  return r;\n"
    "}\n"
    "TENON_OF void tenon_store(float *p, const tenon_floats<N> &v) {\n"
    "  if ((uint64_t)p % 16 == 0) *(tenon_floats<N> *)p = v;\n"
    "  else TENON_LANES p[k] = v.at[k];\n"
    "}\n"
    "TENON_OF tenon_floats<N> tenon_mad(const tenon_floats<N> &a, const tenon_floats<N> &b, "
    "tenon_floats<N> c) {\n"
    "  TENON_LANES c.at[k] = fmaf(a.at[k], b.at[k], c.at[k]);\n"
    "  return c;\n"
    "}\n"
    "TENON_OF tenon_floats<N> tenon_mad(float a, const tenon_floats<N> &b, tenon_floats<N> c) {\n"
    "  TENON_LANES c.at[k] = fmaf(a, b.at[k], c.at[k]);\n"
    "  return c;\n"
    "}\n"
    "#define TENON_ARITHMETIC(o) \\\n"
    "  TENON_OF tenon_floats<N> &operator o##=(tenon_floats<N> &a, const tenon_floats<N> &b) { "
    "TENON_LANES a.at[k] o##= b.at[k]; return a; } \\\n"
    "  TENON_OF tenon_floats<N> &operator o##=(tenon_floats<N> &a, float b) { TENON_LANES a.at[k] "
    "o##= b; return a; } \\\n"
    "  TENON_OF tenon_floats<N> operator o(tenon_floats<N> a, const tenon_floats<N> &b) { return a "
    "o##= b; } \\\n"
    "  TENON_OF tenon_floats<N> operator o(tenon_floats<N> a, float b) { return a o##= b; } \\\n"
    "  TENON_OF tenon_floats<N> operator o(float a, const tenon_floats<N> &b) { \\\n"
    "    tenon_floats<N> r = tenon_splat<N>(a); \\\n"
    "    return r o##= b; \\\n"
    "  }\n"
    "TENON_ARITHMETIC(+)\n"
    "TENON_ARITHMETIC(-)\n"
    "TENON_ARITHMETIC(*)\n"
    "TENON_ARITHMETIC(/)\n"
    "TENON_OF tenon_floats<N> operator-(tenon_floats<N> a) { TENON_LANES a.at[k] = -a.at[k]; "
    "return a; }\n"
    "#define float4 tenon_floats<4>\n"
    "#define float8 tenon_floats<8>\n"
    "#define float16 tenon_floats<16>\n"
    "#define load4(p, i) tenon_load<4>((p) + (i))\n"
    "#define load8(p, i) tenon_load<8>((p) + (i))\n"
    "#define load16(p, i) tenon_load<16>((p) + (i))\n"
    "#define store4(p, i, v) tenon_store<4>((p) + (i), v)\n"
    "#define store8(p, i, v) tenon_store<8>((p) + (i), v)\n"
    "#define store16(p, i, v) tenon_store<16>((p) + (i), v)\n"
    "#define splat4(x) tenon_splat<4>(x)\n"
    "#define splat8(x) tenon_splat<8>(x)\n"
    "#define splat16(x) tenon_splat<16>(x)\n"
    "#define mad4(a, b, c) tenon_mad<4>(a, b, c)\n"
    "#define mad8(a, b, c) tenon_mad<8>(a, b, c)\n"
    "#define mad16(a, b, c) tenon_mad<16>(a, b, c)\n"
    "#define lane(v, k) ((v).at[k])\n";
static const char c_vectors[] =
    "#define TENON_VECTOR_(n) typedef float float##n __attribute__((vector_size(4 * n))); \\\n"
    "  typedef float tenon_float##n##_at __attribute__((vector_size(4 * n), aligned(4), "
    "may_alias));\n"
    "TENON_VECTOR_(4)\n"
    "TENON_VECTOR_(8)\n"
    "TENON_VECTOR_(16)\n"
    "#define load4(p, i) ((float4) * (const tenon_float4_at *)((p) + (i)))\n"
    "#define load8(p, i) ((float8) * (const tenon_float8_at *)((p) + (i)))\n"
    "#define load16(p, i) ((float16) * (const tenon_float16_at *)((p) + (i)))\n"
    "#define store4(p, i, v) ((void)(*(tenon_float4_at *)((p) + (i)) = (v)))\n"
    "#define store8(p, i, v) ((void)(*(tenon_float8_at *)((p) + (i)) = (v)))\n"
    "#define store16(p, i, v) ((void)(*(tenon_float16_at *)((p) + (i)) = (v)))\n"
    "#define splat4(x) ((float)(x) - (float4){0})\n"
    "#define splat8(x) ((float)(x) - (float8){0})\n"
    "#define splat16(x) ((float)(x) - (float16){0})\n"
    "#define mad4(a, b, c) ((a) * (b) + (c))\n"
    "#define mad8(a, b, c) ((a) * (b) + (c))\n"
    "#define mad16(a, b, c) ((a) * (b) + (c))\n"
    "#define lane(v, k) (((float *)&(v))[k])\n";

/* Loads and stores of f16 and bf16, which are the same in all languages. */
static const char halves[] =
    "FUNCTION float load_bf16(GLOBAL const uint16_t *p, int64_t i) { return "
    "float_of_bits((uint32_t)p[i] << 16); }\n"
    "FUNCTION void store_bf16(GLOBAL uint16_t *p, int64_t i, float x) {\n"
    "  uint32_t bits = bits_of_float(x);\n"
    "  p[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 64 : (bits + 0x7fffu + "
    "(bits >> 16 & 1)) >> 16);\n"
    "}\n"
    "FUNCTION float load_f16(GLOBAL const uint16_t *p, int64_t i) {\n"
    "  uint32_t a = p[i] & 0x7fffu, sign = (uint32_t)(p[i] & 0x8000u) << 16;\n"
    "  float x = a < 0x400u ? (float)a * float_of_bits(103u << 23) : float_of_bits((a << 13) + "
    "(112u << 23));\n"
    "  uint32_t bits = a < 0x7c00u ? bits_of_float(x) : a == 0x7c00u ? 0x7f800000u : 0x7fc00000u | "
    "a << 13;\n"
    "  return float_of_bits(bits | sign);\n"
    "}\n"
    "FUNCTION void store_f16(GLOBAL uint16_t *p, int64_t i, float x) {\n"
    "  uint32_t bits = bits_of_float(x), a = bits & 0x7fffffffu, code;\n"
    "  if (a < 113u << 23) code = bits_of_float(float_of_bits(a) + 0.5f) - (126u << 23);\n"
    "  else code = ((a + 0xfffu + (a >> 13 & 1)) >> 13) - (112u << 10);\n"
    "  code = a > 0x7f800000u ? 0x7e00u : code > 0x7c00u ? 0x7c00u : code;\n"
    "  p[i] = (uint16_t)(code | (bits >> 31) << 15);\n"
    "}\n";

/* The part that is the same in all languages; it corresponds to source.h. The words with their
 * prefix come first. */
static const char words[] = "#define TENON_GLOBAL GLOBAL\n"
                            "#define TENON_LOCAL LOCAL\n"
                            "#define TENON_BARRIER() BARRIER()\n"
                            "#define TENON_FUNCTION FUNCTION\n"
                            "#define TENON_UNROLL UNROLL\n"
                            "#define TENON_INSTANCE(name, type) INSTANCE(name, type)\n"
                            "#define TENON_IN IN\n"
                            "#define TENON_OUT OUT\n"
                            "#define TENON_INOUT INOUT\n"
                            "#define TENON_BY_VALUE VALUE\n"
                            "#define TENON_SHARED SHARED\n";
static const char all[] =
    "typedef struct tenon_walk_t {\n"
    "  int64_t count, rank, shape[8];\n"
    "  int64_t first[4], strides[4][8];\n"
    "} tenon_walk_t;\n"
    "FUNCTION void tenon_walk(const tenon_walk_t *w, int64_t i, int64_t *at) {\n"
    "  for (int k = 0; k < 4; k++) at[k] = w->first[k];\n"
    "  for (int64_t a = w->rank - 1; a >= 0; a--) {\n"
    "    int64_t rest = a ? i / w->shape[a] : 0, here = i - rest * w->shape[a];\n"
    "    for (int k = 0; k < 4; k++) at[k] += here * w->strides[k][a];\n"
    "    i = rest;\n"
    "  }\n"
    "}\n"
    "#define TENON_N_IN 1\n"
    "#define TENON_N_VALUE 0\n"
    "#define TENON_X_IN(n, i) n[tenon_at[i]]\n"
    "#define TENON_X_VALUE(n, i) n\n"
    "#define TENON_POINTWISE_(name, r, parameters, inputs, entry, elements) \\\n"
    "  FUNCTION r name##_of parameters; \\\n"
    "  enum { name##_inputs = inputs }; \\\n"
    "  typedef struct { tenon_walk_t of[name##_inputs / 4 + 1]; } name##_walks; \\\n"
    "  entry { \\\n"
    "    int64_t tenon_at[4 * (name##_inputs / 4 + 1)]; \\\n"
    "    TENON_EACH(tenon_i, tenon_w.of[0].count) { \\\n"
    "      for (int k = 0; k <= name##_inputs / 4; k++) tenon_walk(&tenon_w.of[k], tenon_i, "
    "tenon_at + 4 * k); \\\n"
    "      tenon_y[tenon_at[name##_inputs]] = name##_of elements; \\\n"
    "    } \\\n"
    "  } \\\n"
    "  FUNCTION r name##_of parameters\n";

typedef struct dialect_t {
  const char *words;
  const char *vectors;
  const char *item;
  const char *hidden; /* of a kernel's body: first words, hidden parameter */
  const char *entry;
  const char *other; /* first words of its entry, and of the entry of a kernel that is not wanted */
  const char *name;
  const char *call; /* of the entry: its name, and what it passes to the body */
} dialect_t;
static const dialect_t dialects[] = {
    [TENON_SOURCE_OPENCL] = {opencl, opencl_vectors, "static void", "", "__kernel", "static",
                             "name", ""},
    [TENON_SOURCE_CUDA] = {cuda, cuda_vectors, "static __device__ void", "",
                           "extern \"C\" __global__", "static __device__", TN_CUDA_PREFIX "##name",
                           ""},
    [TENON_SOURCE_C] = {c, c_vectors, "static inline void", "const tenon_item_id_t *tenon_id, ", "",
                        "static inline", "name", "tenon_id, "}};

/* Adds a list such as "TENON_P_##k1(t1, n1), ...": % stands for the position counted from 1, @ from
 * 0. Not by printf, because a program is searched for by its text. */
static void add_parameter_list(tn_text_t *text, const char *format, const char *between,
                               int count) {
  for (int i = 1; i <= count; i++) {
    if (i > 1) tn_text_bytes(text, between, strlen(between));
    for (const char *at = format; *at; at++) {
      size_t plain = strcspn(at, "%@");
      tn_text_bytes(text, at, plain);
      if (!*(at += plain)) break;
      int number = *at == '%' ? i : i - 1;
      const char digits[] = {(char)('0' + number / 10), (char)('0' + number % 10)};
      tn_text_bytes(text, digits + (number < 10), number < 10 ? 1 : 2);
    }
  }
}

/* Adds "#define OUTER_n(FIRST, k1, t1, n1, ...) INNER_n(FIRST, ...)" and the head of INNER_n. The
 * two levels expand a name that is a macro. */
static void add_heads(tn_text_t *text, const char *outer, const char *inner, const char *first,
                      int count) {
  static const char *const starts[] = {"#define ", "", "#define "};
  static const char *const ends[] = {") ", ")\n", ") "};
  const char *const names[] = {outer, inner, inner};
  for (int i = 0; i < 3; i++) {
    tn_text_add(text, "%s%s_%d(%s, ", starts[i], names[i], count, first);
    add_parameter_list(text, "k%, t%, n%", ", ", count);
    tn_text_add(text, "%s", ends[i]);
  }
}

static void add_body(tn_text_t *text, const dialect_t *d, int count) {
  tn_text_add(text, "%s name##_item(%s", d->item, d->hidden);
  add_parameter_list(text, "TENON_P_##k%(t%, n%)", ", ", count);
  tn_text_add(text, ")");
}

static void add_source(tn_text_t *text, const dialect_t *d, int count) {
  bool is_c = d == &dialects[TENON_SOURCE_C];
  add_heads(text, "TENON_SOURCE", "TENON_S", "name", count);
  add_body(text, d, count);
  tn_text_add(text, "; TENON_E_##name void %s(", d->name);
  if (is_c)
    tn_text_add(text, "const tenon_item_id_t *tenon_id, void *const *tenon_arguments");
  else
    add_parameter_list(text, "TENON_K_##k%(t%, n%)", ", ", count);
  tn_text_add(text, ") { name##_item(%s", d->call);
  add_parameter_list(text, is_c ? "TENON_F_##k%(t%, @)" : "TENON_A_##k%(t%, n%)", ", ", count);
  tn_text_add(text, "); } ");
  add_body(text, d, count);
  tn_text_add(text, "\n");
}

static void add_pointwise(tn_text_t *text, int count) {
  add_heads(text, "TENON_POINTWISE", "TENON_Q", "name, r", count);
  tn_text_add(text, "TENON_POINTWISE_(name, r, (");
  add_parameter_list(text, "t% n%", ", ", count);
  tn_text_add(text, "), ");
  add_parameter_list(text, "TENON_N_##k%", " + ", count);
  tn_text_add(text, ", TENON_SOURCE_%d(name, ", count + 2);
  add_parameter_list(text, "k%, t%, n%", ", ", count);
  tn_text_add(text, ", OUT, r, tenon_y, VALUE, name##_walks, tenon_w), (");
  add_parameter_list(text, "TENON_X_##k%(n%, @)", ", ", count);
  tn_text_add(text, "))\n");
}

void tn_prelude(uint32_t language, tn_text_t *text) {
  const dialect_t *d = &dialects[language];
  tn_text_add(text,
              "#define TENON_ON_DEVICE 1\n#define INSTANCE(name, type) name\n#define TENON_WANTED "
              "%s\n#define TENON_UNWANTED %s\n%s%s%s%s%s",
              d->entry, d->other, d->words, d->vectors, words, halves, all);
  for (int n = 1; n <= TN_SOURCE_PARAMETERS; n++)
    add_source(text, d, n);
  for (int n = 1; n <= TN_POINTWISE_PARAMETERS; n++)
    add_pointwise(text, n);
}

/* Members of a fused kernel. Each is called for one element, with pointers to variables of the
 * item, as the only item of the only group. */
static const char member_words[] =
    "#undef GLOBAL\n#define GLOBAL\n"
    "#undef LOCAL\n#define LOCAL\n"
    "#undef BARRIER\n#define BARRIER() ((void)0)\n"
    "#undef get_group_id\n#define get_group_id(d) ((uint64_t)0)\n"
    "#undef get_num_groups\n#define get_num_groups(d) ((uint64_t)1)\n"
    "#undef get_local_id\n#define get_local_id(d) ((uint32_t)0)\n"
    "#undef get_local_size\n#define get_local_size(d) ((uint32_t)1)\n"
    "#undef get_global_id\n#define get_global_id(d) ((uint64_t)0)\n"
    "#undef get_global_size\n#define get_global_size(d) ((uint64_t)1)\n"
    "#define load_bf16 tenon_own_load_bf16\n"
    "#define store_bf16 tenon_own_store_bf16\n"
    "#define load_f16 tenon_own_load_f16\n"
    "#define store_f16 tenon_own_store_f16\n";
static const char member_atomics[] =
    "#define TENON_OWN_ADD(d, T) \\\n"
    "  FUNCTION T tenon_own_add_##d(T *p, T v) { T old = *p; *p = old + v; return old; }\n"
    "TENON_OWN_ADD(i32, int32_t)\n"
    "TENON_OWN_ADD(f32, float)\n"
    "#define atomic_add_i32 tenon_own_add_i32\n"
    "#define atomic_add_f32 tenon_own_add_f32\n"
    "FUNCTION int32_t tenon_own_max_i32(int32_t *p, int32_t v) {\n"
    "  int32_t old = *p;\n"
    "  if (old < v) *p = v;\n"
    "  return old;\n"
    "}\n"
    "#define atomic_max_i32 tenon_own_max_i32\n"
    "#ifdef TENON_HAS_WIDE_ATOMICS\n"
    "TENON_OWN_ADD(i64, int64_t)\n"
    "#define atomic_add_i64 tenon_own_add_i64\n"
    "#ifdef TENON_HAS_DOUBLES\n"
    "TENON_OWN_ADD(f64, double)\n"
    "#define atomic_add_f64 tenon_own_add_f64\n"
    "#endif\n"
    "#endif\n";
static const char member_parameters[] =
    "#define TENON_R_IN(t, n) const t *n\n"
    "#define TENON_R_OUT(t, n) t *n\n"
    "#define TENON_R_INOUT(t, n) t *n\n"
    "#define TENON_R_VALUE(t, n) t n\n"
    "#define TENON_R_SHARED(t, n) t *n\n"
    "#define TENON_B_IN(n) void *n\n"
    "#define TENON_B_OUT(n) void *n\n"
    "#define TENON_B_INOUT(n) void *n\n"
    "#define TENON_B_VALUE(n) TENON_FIXED const void *n\n"
    "#define TENON_B_SHARED(n) void *n\n"
    "#define TENON_V_IN(t, n) (const t *)n\n"
    "#define TENON_V_OUT(t, n) (t *)n\n"
    "#define TENON_V_INOUT(t, n) (t *)n\n"
    "#define TENON_V_VALUE(t, n) *(TENON_FIXED const t *)n\n"
    "#define TENON_V_SHARED(t, n) (t *)n\n"
    /* Positions that the compiler can fold: element 0 is where the walk begins. */
    "FUNCTION void tenon_own_walk(const tenon_walk_t *w, int64_t i, int64_t *at) {\n"
    "  if (i) {\n"
    "    tenon_walk(w, i, at);\n"
    "    return;\n"
    "  }\n"
    "  at[0] = w->first[0];\n"
    "  at[1] = w->first[1];\n"
    "  at[2] = w->first[2];\n"
    "  at[3] = w->first[3];\n"
    "}\n"
    "#define tenon_walk tenon_own_walk\n"
    "#undef TENON_X_IN\n#define TENON_X_IN(n, i) (*n)\n"
    "#undef TENON_POINTWISE_\n"
    "#define TENON_POINTWISE_(name, r, parameters, inputs, entry, elements) \\\n"
    "  FUNCTION r name##_of parameters; \\\n"
    "  enum { name##_inputs = inputs }; \\\n"
    "  typedef struct { tenon_walk_t of[name##_inputs / 4 + 1]; } name##_walks; \\\n"
    "  entry { *tenon_y = name##_of elements; } \\\n"
    "  FUNCTION r name##_of parameters\n";

/* Defines TENON_SOURCE_n for members: NAME_item, and NAME_call, which takes pointers alone. */
static void add_member_source(tn_text_t *text, const dialect_t *d, int count) {
  tn_text_add(text, "#undef TENON_S_%d\n#define TENON_S_%d(name, ", count, count);
  add_parameter_list(text, "k%, t%, n%", ", ", count);
  tn_text_add(text, ") TENON_PART %s name##_item(%s", d->item, d->hidden);
  add_parameter_list(text, "TENON_R_##k%(t%, n%)", ", ", count);
  tn_text_add(text, "); TENON_PART %s name##_call(%s", d->item, d->hidden);
  add_parameter_list(text, "TENON_B_##k%(n%)", ", ", count);
  tn_text_add(text, ") { name##_item(%s", d->call);
  add_parameter_list(text, "TENON_V_##k%(t%, n%)", ", ", count);
  tn_text_add(text, "); } ");
  tn_text_add(text, "TENON_PART %s name##_item(%s", d->item, d->hidden);
  add_parameter_list(text, "TENON_R_##k%(t%, n%)", ", ", count);
  tn_text_add(text, ")\n");
}

void tn_prelude_members(uint32_t language, tn_text_t *text) {
  const dialect_t *d = &dialects[language];
  /* Where the arguments by value of members are: before the kernel, and known to the compiler. */
  static const char *const fixed[] = {
      [TENON_SOURCE_OPENCL] = "#define TENON_FIXED __constant\n"
                              "#define TENON_PART __attribute__((always_inline)) inline\n"
                              "#define TENON_CONSTANT __constant\n",
      [TENON_SOURCE_CUDA] = "#define TENON_FIXED\n"
                            "#define TENON_PART __forceinline__\n"
                            "#define TENON_CONSTANT static __device__ const\n",
      [TENON_SOURCE_C] = "#define TENON_FIXED\n"
                         "#define TENON_PART __attribute__((always_inline))\n"
                         "#define TENON_CONSTANT static const\n"};
  const bool is_c = language == TENON_SOURCE_C;
  tn_text_add(text, "%s", fixed[language]);
  if (is_c) tn_text_add(text, "#pragma GCC optimize(\"no-strict-aliasing\")\n");
  tn_text_add(text, "FUNCTION int64_t tenon_index(%s) { return (int64_t)get_global_id(0); }\n",
              is_c ? "const tenon_item_id_t *tenon_id" : "void");
  tn_text_add(text, "%s%s%s%s", member_words, halves, member_atomics, member_parameters);
  for (int n = 1; n <= TN_SOURCE_PARAMETERS; n++)
    add_member_source(text, d, n);
}

const char *tn_prelude_entry(uint32_t language, int count, tn_text_t *text) {
  tn_text_add(text, "#undef TENON_SOURCE_%d\n#undef TENON_S_%d\n", count, count);
  add_source(text, &dialects[language], count);
  return dialects[language].call;
}
