/* Operators of the library `contract` whose kernels come from elsewhere or fit one machine:
 * instruction sets, assembly, a closed library, threads. */
#include "contract.h"

/* instruction sets: each kernel returns its own number */

#define LEVEL(name, level, attribute)                                                              \
  attribute static tenon_status_t level_##name(tenon_call_t *call) {                               \
    const float *x = (const float *)call->inputs[0]->data;                                         \
    float sum = 0;                                                                                 \
    for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)                              \
      sum += x[i] * x[i];                                                                          \
    ((float *)call->outputs[0]->data)[0] = level;                                                  \
    ((float *)call->outputs[0]->data)[1] = sum;                                                    \
    return TENON_OK;                                                                               \
  }                                                                                                \
  attribute static tenon_status_t each_##name(const tenon_loop_t *loop) {                          \
    for (int64_t i = 0; i < loop->count; i++)                                                      \
      ((float *)loop->data[1])[i] = 10 * ((const float *)loop->data[0])[i] + level;                \
    return TENON_OK;                                                                               \
  }
LEVEL(plain, 0, )
#if defined(__x86_64__)
LEVEL(avx2, 1, __attribute__((target("avx2,fma,f16c"))))
LEVEL(avx512, 2, __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl"))))
#define X86(...) __VA_ARGS__
#else
#define X86(...)
#endif

/* assembly: negate.S */

#if defined(__x86_64__) && defined(__ELF__)
tenon_status_t contract_negate(const tenon_loop_t *loop);
#define ASSEMBLY(...) __VA_ARGS__
#else
#define ASSEMBLY(...)
#endif

/* a closed library: zlib, of which only the file and one function are known */

unsigned long crc32(unsigned long crc, const unsigned char *data, unsigned int size);

static tenon_status_t checksum_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  uint64_t bytes = (uint64_t)tenon_count(x) * x->dtype.bits / 8;
  if (bytes > UINT32_MAX)
    return tenon_fail(call, TENON_RANGE, "%llu bytes are too many", (unsigned long long)bytes);
  *(uint32_t *)call->outputs[0]->data =
      (uint32_t)crc32(crc32(0, 0, 0), (const unsigned char *)x->data, (unsigned int)bytes);
  return TENON_OK;
}
/* threads */

typedef struct tally_t {
  const int64_t *x;
  int64_t sum;
  int64_t parts;
} tally_t;

static tenon_status_t tally_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  tally_t *tally = (tally_t *)argument;
  int64_t sum = 0;
  call->host->zone(call, "part");
  for (int64_t i = begin; i < end; i++) {
    if (tally->x[i] < 0) {
      call->host->zone(call, 0);
      return tenon_fail(call, TENON_RANGE, "element %lld is negative", (long long)i);
    }
    sum += tally->x[i];
  }
  __atomic_fetch_add(&tally->sum, sum, __ATOMIC_RELAXED);
  __atomic_fetch_add(&tally->parts, 1, __ATOMIC_RELAXED);
  call->host->zone(call, 0);
  return TENON_OK;
}

static tenon_status_t tally_run(tenon_call_t *call) {
  tally_t tally = {(const int64_t *)call->inputs[0]->data, 0, 0};
  call->host->zone(call, "tally");
  TENON_TRY(call->host->parallel(call, tenon_count(call->inputs[0]), 4, tally_part, &tally));
  call->host->zone(call, 0);
  ((int64_t *)call->outputs[0]->data)[0] = tally.sum;
  ((int64_t *)call->outputs[0]->data)[1] = tally.parts;
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(contract_kernels,
  TENON_OP("level(Tensor x) -> Tensor",
    TENON_DOC("Which instruction set ran (0: none, 1: avx2, 2: avx512), and the sum of squares"),
    TENON_TYPES("x: f32; out = x"),
    TENON_SHAPES("out: [2]"),
    TENON_TRAITS(TENON_PURE),
    X86(TENON_KERNEL("cpu avx2", level_avx2),)
    TENON_KERNEL("cpu", level_plain)
    X86(, TENON_KERNEL("cpu avx512", level_avx512))),
  TENON_OP("each_level(Tensor x) -> Tensor",
    TENON_TYPES("x: f16|f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    X86(TENON_LOOP("f32 -> f32; avx512", each_avx512),)
    TENON_LOOP("f32 -> f32", each_plain)
    X86(, TENON_LOOP("f32 -> f32; avx2", each_avx2))),
  ASSEMBLY(TENON_OP("negate(Tensor x) -> Tensor",
    TENON_TYPES("x: bf16|f16|f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32 -> f32", contract_negate)),)
  TENON_OP("checksum(Tensor x) -> Tensor",
    TENON_TYPES("x: any; out = u32"),
    TENON_SHAPES("out: []"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", checksum_run)),
  TENON_OP("tally(Tensor x) -> Tensor",
    TENON_DOC("Sum, and number of parts that it was made in"),
    TENON_TYPES("x: i64; out = x"),
    TENON_SHAPES("out: [2]"),
    TENON_KERNEL("cpu", tally_run)))
