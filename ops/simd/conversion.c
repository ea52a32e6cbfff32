/* cast, cast_like and bit_cast. A block of elements is loaded into one of four wide forms,
 * converted to the form from which the target dtype is stored, and stored; common pairs have their
 * own loops. Blocks are distributed over threads. Floats become integers by rounding towards zero.
 * NaN becomes 0, and values out of range the nearest i32, i64 or u64 (negative numbers wrap in
 * u64); u32 keeps the low bits of i64, and narrower integers keep the low bits of i32. Integers
 * that are too large keep their low bits.
 * Invariant: a block begins at a whole byte, and a float is rounded only once. */
#include "../number_text.h"
#include "formats.h"
#include "pointwise.h"
#include <stdio.h>
#include <tenon/check.h>

enum { BLOCK = 1024, GRAIN = 16, /* blocks */ };

typedef union block_t {
  int64_t whole[BLOCK];
  uint64_t natural[BLOCK];
  float single[BLOCK];
  double real[BLOCK];
} block_t;

/* The forms into which elements are loaded, then those from which they are only stored: WORD is an
 * i32; for ODD see f32_odd. */
enum {
  WHOLE,
  NATURAL,
  SINGLE,
  REAL,
  LOADED,
  WORD = LOADED,
  TRUTH,
  ODD,
  TEXT,
  FORMS,
};

typedef struct kind_t kind_t;
typedef struct job_t {
  tenon_call_t *call;
  const kind_t *from;
  const kind_t *to;
  const void *x;
  void *out;
  int64_t count;
  int64_t rounding;
  int saturate;
  uint32_t loaded;
  void (*direct)(const void *x, void *out, int64_t begin, int64_t count);
} job_t;
typedef tenon_status_t (*load_fn)(const job_t *job, int64_t begin, int64_t count, block_t *block);
typedef tenon_status_t (*store_fn)(const job_t *job, int64_t begin, int64_t count,
                                   const block_t *block);
struct kind_t {
  uint32_t dtype;
  uint32_t loaded;
  uint32_t stored; /* forms */
  load_fn load;
  store_fn store;
  const format_t *format;
};

/* plain dtypes */

#define BODY "../conversion_integer_kernel.h"
#include "each_integer.h"
#undef BODY

/* A bool is loaded as 0 or 1, and is stored as u8. */
static tenon_status_t load_bool(const job_t *job, int64_t begin, int64_t count, block_t *block) {
  const uint8_t *xs = (const uint8_t *)job->x + begin;
  for (int64_t i = 0; i < count; i++)
    block->whole[i] = xs[i] != 0;
  return TENON_OK;
}

#define F16_ENCODE(x) format_encode(&format_F16, x, format_F16.infinity)

#define T float
#define NAME(x) x##_f32
#define FORM single
#define WIDE float
#define DECODE(x) (x)
#define ENCODE(x) (x)
#include "../conversion_kernel.h"

#define T double
#define NAME(x) x##_f64
#define FORM real
#define WIDE double
#define DECODE(x) (x)
#define ENCODE(x) (x)
#include "../conversion_kernel.h"

#define T uint16_t
#define NAME(x) x##_f16
#define FORM single
#define WIDE float
#define DECODE(x) format_decode(&format_F16, x)
#define ENCODE(x) F16_ENCODE(x)
#include "../conversion_kernel.h"

#define T uint16_t
#define NAME(x) x##_bf16
#define FORM single
#define WIDE float
#define DECODE(x) bf16_decode(x)
#define ENCODE(x) bf16_encode(x)
#include "../conversion_kernel.h"

#define T uint8_t
#define NAME(x) x##_f8e8m0
#define FORM single
#define WIDE float
#define DECODE(x) e8m0_decode(x)
#define ENCODE(x) e8m0_encode(x, job->saturate, job->rounding)
#include "../conversion_kernel.h"

/* packed dtypes, low bits first; floats of 8 bits and fewer */

static uint32_t bits_of(const kind_t *kind) { return kind->dtype >> 8 & 0xff; }

/* Both may access codes up to the next whole byte; the buffer of a block is a whole number of
 * bytes. */
static void unpack_codes(const void *data, int64_t begin, int64_t count, uint32_t bits,
                         uint8_t *codes) {
  const uint8_t *bytes = (const uint8_t *)data + begin * bits / 8;
  for (int64_t i = 0, per = 8 / bits; i < count; i += per, bytes++)
    for (int64_t k = 0; k < per; k++)
      codes[i + k] = (uint8_t)(*bytes >> (k * bits) & ((1u << bits) - 1));
}
static void pack_codes(void *data, int64_t begin, int64_t count, uint32_t bits, uint8_t *codes) {
  uint8_t *bytes = (uint8_t *)data + begin * bits / 8;
  int64_t per = 8 / bits;
  for (int64_t i = count; i % per; i++)
    codes[i] = 0;
  for (int64_t i = 0; i < count; i += per, bytes++) {
    uint32_t byte = 0;
    for (int64_t k = 0; k < per; k++)
      byte |= (codes[i + k] & ((1u << bits) - 1)) << (k * bits);
    *bytes = (uint8_t)byte;
  }
}

static tenon_status_t load_packed(const job_t *job, int64_t begin, int64_t count, block_t *block) {
  uint32_t bits = bits_of(job->from);
  int64_t sign = (job->from->dtype & 0xff) == (TENON_I4 & 0xff) ? (int64_t)1 << (bits - 1) : 0;
  uint8_t codes[BLOCK];
  unpack_codes(job->x, begin, count, bits, codes);
  for (int64_t i = 0; i < count; i++)
    block->whole[i] = (codes[i] ^ sign) - sign;
  return TENON_OK;
}
static tenon_status_t store_packed(const job_t *job, int64_t begin, int64_t count,
                                   const block_t *block) {
  uint8_t codes[BLOCK];
  for (int64_t i = 0; i < count; i++)
    codes[i] = (uint8_t)block->whole[i];
  pack_codes(job->out, begin, count, bits_of(job->to), codes);
  return TENON_OK;
}

static tenon_status_t load_narrow(const job_t *job, int64_t begin, int64_t count, block_t *block) {
  const format_t format = *job->from->format;
  uint8_t unpacked[BLOCK];
  const uint8_t *codes = (const uint8_t *)job->x + begin;
  if (format.bits == 4) {
    unpack_codes(job->x, begin, count, 4, unpacked);
    codes = unpacked;
  }
  for (int64_t i = 0; i < count; i++)
    block->single[i] = format_decode(&format, codes[i]);
  return TENON_OK;
}
static tenon_status_t store_narrow(const job_t *job, int64_t begin, int64_t count,
                                   const block_t *block) {
  const format_t format = *job->to->format;
  const uint32_t beyond = format.infinity != NO_CODE ? format.infinity : format.nan;
  const uint32_t overflow = job->saturate || format.bits == 4 ? format.largest : beyond;
  uint8_t packed[BLOCK];
  uint8_t *codes = format.bits == 4 ? packed : (uint8_t *)job->out + begin;
  for (int64_t i = 0; i < count; i++)
    codes[i] = (uint8_t)format_encode(&format, block->single[i], overflow);
  if (format.bits == 4) pack_codes(job->out, begin, count, 4, codes);
  return TENON_OK;
}

/* strings */

static tenon_status_t load_text(const job_t *job, int64_t begin, int64_t count, block_t *block) {
  const tenon_string_t *x = (const tenon_string_t *)job->x + begin;
  if (job->to->stored == TEXT) return TENON_OK;
  for (int64_t i = 0; i < count; i++) {
    int is_number = 0;
    if (job->loaded == WHOLE)
      is_number = core_integer_of_text(x[i], &block->whole[i]);
    else if (job->loaded == SINGLE)
      is_number = core_single_of_text(x[i], &block->single[i]);
    else
      is_number = core_number_of_text(x[i], &block->real[i]);
    int shown = (int)(x[i].size < 60 ? x[i].size : 60);
    if (!is_number)
      return tenon_fail(job->call, TENON_INVALID,
                        "element %lld of x is the text \"%.*s\", which is not a number; write it "
                        "like 12, -3.5, 1e-5, INF",
                        (long long)(begin + i), shown, x[i].size ? x[i].data : "");
  }
  return TENON_OK;
}

/* Rounds a number to the source dtype. For 8-bit floats, the digits of f32 are more useful than the
 * few digits that identify the number. */
static double rounded_to_source(double x, const void *context) {
  switch (((const kind_t *)context)->dtype) {
  case TENON_F64:
    return x;
  case TENON_BF16:
    return (double)bf16_decode(bf16_encode(f32_odd(x)));
  case TENON_F16:
    return (double)format_decode(&format_F16, F16_ENCODE(f32_odd(x)));
  default:
    return (double)(float)x;
  }
}
static tenon_status_t store_text(const job_t *job, int64_t begin, int64_t count,
                                 const block_t *block) {
  const tenon_host_t *host = job->call->host;
  for (int64_t i = 0; i < count; i++) {
    char buffer[NUMBER_TEXT_SIZE];
    tenon_string_t text = {buffer, 0};
    if (job->from->stored == TEXT)
      text = ((const tenon_string_t *)job->x)[begin + i];
    else if (job->from->dtype == TENON_BOOL) {
      text.data = block->whole[i] ? "True" : "False";
      text.size = strlen(text.data);
    } else if (job->loaded == WHOLE)
      text.size = (uint64_t)snprintf(buffer, sizeof buffer, "%lld", (long long)block->whole[i]);
    else if (job->loaded == NATURAL)
      text.size =
          (uint64_t)snprintf(buffer, sizeof buffer, "%llu", (unsigned long long)block->natural[i]);
    else
      text.size =
          core_number_to_text(job->loaded == SINGLE ? (double)block->single[i] : block->real[i],
                              rounded_to_source, job->from, buffer);
    TENON_TRY(host->set_string(job->call, job->call->outputs[0], begin + i, text.data, text.size));
  }
  return TENON_OK;
}

/* conversions between forms */

static inline int64_t clamped_i32(int64_t x) {
  int64_t least = x < INT32_MIN ? INT32_MIN : x;
  return x > INT32_MAX ? INT32_MAX : least;
}
#define MAGNITUDE(x) ((x) < 0 ? 0 - (uint64_t)(x) : (uint64_t)(x))
/* clang-format off */
/* X(form, its member, target form, its member, expression); other pairs need no conversion */
#define CONVERSIONS(X)                                                                             \
  X(WHOLE, whole, SINGLE, single, (float)x)                                                        \
  X(WHOLE, whole, REAL, real, (double)x)                                                           \
  X(WHOLE, whole, TRUTH, whole, x != 0)                                                            \
  X(WHOLE, whole, ODD, single, f32_odd_of_integer(MAGNITUDE(x), x < 0))                            \
  X(NATURAL, natural, SINGLE, single, (float)x)                                                    \
  X(NATURAL, natural, REAL, real, (double)x)                                                       \
  X(NATURAL, natural, TRUTH, whole, x != 0)                                                        \
  X(NATURAL, natural, ODD, single, f32_odd_of_integer(x, 0))                                       \
  X(SINGLE, single, WHOLE, whole, tn_int64((double)x))                                             \
  X(SINGLE, single, NATURAL, natural, tn_uint64((double)x))                                        \
  X(SINGLE, single, REAL, real, (double)x)                                                         \
  X(SINGLE, single, WORD, whole, tn_int32(x))                                                      \
  X(SINGLE, single, TRUTH, whole, x != 0)                                                          \
  X(REAL, real, WHOLE, whole, tn_int64(x))                                                         \
  X(REAL, real, NATURAL, natural, tn_uint64(x))                                                    \
  X(REAL, real, SINGLE, single, (float)x)                                                          \
  X(REAL, real, WORD, whole, clamped_i32(tn_int64(x)))                                             \
  X(REAL, real, TRUTH, whole, x != 0)                                                              \
  X(REAL, real, ODD, single, f32_odd(x))
/* clang-format on */
typedef int64_t whole_t;
typedef uint64_t natural_t;
typedef float single_t;
typedef double real_t;

typedef void (*convert_fn)(const block_t *restrict from, block_t *restrict to, int64_t count);
#define DEFINE_CONVERSION(FROM, from_form, TO, to_form, expression)                                \
  static void convert_##FROM##_##TO(const block_t *restrict from, block_t *restrict to,            \
                                    int64_t count) {                                               \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const from_form##_t x = from->from_form[i];                                                  \
      to->to_form[i] = expression;                                                                 \
    }                                                                                              \
  }
CONVERSIONS(DEFINE_CONVERSION)
#define CONVERSION(FROM, from_form, TO, to_form, expression) [FROM][TO] = convert_##FROM##_##TO,
static const convert_fn conversions[LOADED][FORMS] = {CONVERSIONS(CONVERSION)};

/* tables */

/* clang-format off */
#define NARROW(name) {TENON_##name, SINGLE, ODD, load_narrow, store_narrow, &format_##name}
static const kind_t kinds[] = {
  {TENON_BOOL, WHOLE, TRUTH, load_bool, store_u8, NULL},
  {TENON_I8, WHOLE, WORD, load_i8, store_i8, NULL},
  {TENON_I16, WHOLE, WORD, load_i16, store_i16, NULL},
  {TENON_I32, WHOLE, WORD, load_i32, store_i32, NULL},
  {TENON_I64, WHOLE, WHOLE, load_i64, store_i64, NULL},
  {TENON_U8, WHOLE, WORD, load_u8, store_u8, NULL},
  {TENON_U16, WHOLE, WORD, load_u16, store_u16, NULL},
  {TENON_U32, WHOLE, WHOLE, load_u32, store_u32, NULL},
  {TENON_U64, NATURAL, NATURAL, load_u64, store_u64, NULL},
  {TENON_I4, WHOLE, WORD, load_packed, store_packed, NULL},
  {TENON_U4, WHOLE, WORD, load_packed, store_packed, NULL},
  {TENON_I2, WHOLE, WORD, load_packed, store_packed, NULL},
  {TENON_U2, WHOLE, WORD, load_packed, store_packed, NULL},
  {TENON_F32, SINGLE, SINGLE, load_f32, store_f32, NULL},
  {TENON_F64, REAL, REAL, load_f64, store_f64, NULL},
  {TENON_F16, SINGLE, ODD, load_f16, store_f16, NULL},
  {TENON_BF16, SINGLE, ODD, load_bf16, store_bf16, NULL},
  {TENON_F8E8M0, SINGLE, ODD, load_f8e8m0, store_f8e8m0, NULL},
  {TENON_STRING, REAL, TEXT, load_text, store_text, NULL},
  NARROW(F8E3M4),
  NARROW(F8E4M3),
  NARROW(F8E4M3B11FNUZ),
  NARROW(F8E4M3FN),
  NARROW(F8E4M3FNUZ),
  NARROW(F8E5M2),
  NARROW(F8E5M2FNUZ),
  NARROW(F4E2M1),
};

#define FIXED_SIZE                                                                                 \
  "bool|number|i2|i4|u2|u4|f8e3m4|f8e4m3|f8e4m3b11fnuz|f8e4m3fn|f8e4m3fnuz|f8e5m2|f8e5m2fnuz|"     \
  "f8e8m0|f4e2m1"
#define CASTABLE FIXED_SIZE "|string"

/* Pairs with their own loops: X(from, type, to, type, expression). Results equal those of the
 * forms. */
#define DIRECT(X)                                                                                  \
  X(F32, float, F16, uint16_t, F16_ENCODE(x))                                                      \
  X(F32, float, BF16, uint16_t, bf16_encode(x))                                                    \
  X(F32, float, F64, double, x)                                                                    \
  X(F32, float, I32, int32_t, tn_int32(x))                                                         \
  X(F32, float, I64, int64_t, tn_int64((double)x))                                                 \
  X(F32, float, I8, int8_t, tn_int32(x))                                                           \
  X(F32, float, U8, uint8_t, tn_int32(x))                                                          \
  X(F32, float, BOOL, uint8_t, x != 0)                                                             \
  X(F16, uint16_t, F32, float, format_decode(&format_F16, x))                                      \
  X(BF16, uint16_t, F32, float, bf16_decode(x))                                                    \
  X(F64, double, F32, float, x)                                                                    \
  X(I32, int32_t, F32, float, x)                                                                   \
  X(I64, int64_t, F32, float, x)                                                                   \
  X(I8, int8_t, F32, float, x)                                                                     \
  X(U8, uint8_t, F32, float, x)                                                                    \
  X(BOOL, uint8_t, F32, float, x != 0)                                                             \
  X(I64, int64_t, I32, int32_t, x)                                                                 \
  X(I32, int32_t, I64, int64_t, x)
/* clang-format on */
#define DEFINE_DIRECT(FROM, X, TO, Y, expression)                                                  \
  static void direct_##FROM##_##TO(const void *from, void *to, int64_t begin, int64_t count) {     \
    const X *restrict xs = (const X *)from + begin;                                                \
    Y *restrict out = (Y *)to + begin;                                                             \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const X x = xs[i];                                                                           \
      out[i] = (Y)(expression);                                                                    \
    }                                                                                              \
  }
DIRECT(DEFINE_DIRECT)
#define DIRECT_ROW(FROM, X, TO, Y, expression) {TENON_##FROM, TENON_##TO, direct_##FROM##_##TO},
static const struct {
  uint32_t from, to;
  void (*run)(const void *from, void *to, int64_t begin, int64_t count);
} directs[] = {DIRECT(DIRECT_ROW)};

static const kind_t *kind_of(tenon_dtype_t dtype) {
  uint32_t id = tenon_dtype_id(dtype);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (kinds[i].dtype == id) return &kinds[i];
  return NULL;
}

/* kernels */

static tenon_status_t run_blocks(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const job_t *job = (const job_t *)argument;
  (void)call;
  for (int64_t at = begin * BLOCK; at < job->count && at < end * BLOCK; at += BLOCK) {
    int64_t count = job->count - at < BLOCK ? job->count - at : BLOCK;
    convert_fn convert = conversions[job->loaded][job->to->stored];
    block_t loaded, converted;
    if (job->direct) {
      job->direct(job->x, job->out, at, count);
      continue;
    }
    TENON_TRY(job->from->load(job, at, count, &loaded));
    if (convert) convert(&loaded, &converted, count);
    TENON_TRY(job->to->store(job, at, count, convert ? &converted : &loaded));
  }
  return TENON_OK;
}

static void copy_same_dtype(tenon_tensor_t *out, const tenon_tensor_t *x) {
  int64_t count = tenon_count(x);
  if (count > 0)
    memcpy(out->data, x->data, ((size_t)count * x->dtype.bits * x->dtype.lanes + 7) / 8);
}

static tenon_status_t convert_tensor(tenon_call_t *call, int saturate, int64_t rounding) {
  const tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  job_t job = {.call = call,
               .from = kind_of(x->dtype),
               .to = kind_of(out->dtype),
               .x = x->data,
               .out = out->data};
  int64_t blocks;
  if (!job.from || !job.to)
    return tenon_fail(call, TENON_INVALID,
                      "a cast between these dtypes does not exist; see `tenon show core::cast`");
  if (job.from == job.to && job.to->stored != TEXT) {
    copy_same_dtype(out, x);
    return TENON_OK;
  }
  job.count = tenon_count(x);
  job.saturate = saturate;
  job.rounding = rounding;
  job.loaded = job.from->loaded;
  if (job.from->stored == TEXT && job.to->stored == SINGLE) job.loaded = SINGLE;
  if (job.from->stored == TEXT &&
      (job.to->stored == WORD || job.to->stored == WHOLE || job.to->stored == NATURAL))
    job.loaded = WHOLE;
  for (size_t i = 0; i < sizeof directs / sizeof *directs; i++)
    if (directs[i].from == job.from->dtype && directs[i].to == job.to->dtype)
      job.direct = directs[i].run;
  blocks = (job.count + BLOCK - 1) / BLOCK;
  return blocks <= GRAIN ? run_blocks(call, &job, 0, blocks)
                         : call->host->parallel(call, blocks, GRAIN, run_blocks, &job);
}

static tenon_status_t cast_run(tenon_call_t *call) {
  return convert_tensor(call, call->attrs[1].as.i != 0, call->attrs[2].as.i);
}
static tenon_status_t cast_like_run(tenon_call_t *call) {
  return convert_tensor(call, call->attrs[0].as.i != 0, call->attrs[1].as.i);
}

static tenon_status_t bit_cast_run(tenon_call_t *call) {
  copy_same_dtype(call->outputs[0], call->inputs[0]);
  return TENON_OK;
}

/* inference */

#ifndef TENON_SIMD
/* Known integers stay known if the target dtype can hold them. */
static tenon_status_t cast_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  uint32_t from = tenon_dtype_id(x->dtype);
  uint32_t to = tenon_dtype_id(out->dtype);
  if (!kind_of(out->dtype))
    return tenon_fail(
        infer, TENON_INVALID,
        "there is no cast to dtype code %d of %d bits; the target is one of " CASTABLE,
        (int)out->dtype.code, (int)out->dtype.bits);
  if (!x->values || (from != TENON_I64 && from != TENON_I32) ||
      (to != TENON_I64 && to != TENON_I32))
    return TENON_OK;
  for (uint32_t i = 0; i < x->value_count; i++) {
    tenon_dim_t value = x->values[i];
    if (to == TENON_I32 && tenon_is_known(value) &&
        (value.value < INT32_MIN || value.value > INT32_MAX))
      return TENON_OK;
    out->values[i] = value;
  }
  out->value_count = x->value_count;
  return TENON_OK;
}

static tenon_status_t bit_cast_infer(tenon_infer_t *infer) {
  tenon_dtype_t from = infer->inputs[0]->dtype;
  tenon_dtype_t to = infer->outputs[0]->dtype;
  if (to.code == (TENON_STRING & 0xff) || to.code == (TENON_LIST & 0xff))
    return tenon_fail(
        infer, TENON_INVALID,
        "x cannot be reinterpreted as strings or lists; choose a numeric dtype for `to`");
  if (from.bits * from.lanes == to.bits * to.lanes) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID,
                    "elements of x have %d bits and those of `to` have %d; they must be equal, "
                    "because the shape does not change",
                    from.bits * from.lanes, to.bits * to.lanes);
}
#endif

#define CAST_ATTRS "bool saturate=True, str['up', 'down', 'nearest'] round_mode='up'"
#define CAST_DOC                                                                                   \
  ".\n`saturate`: a number too large for an 8-bit float becomes its largest number, otherwise "    \
  "infinity "                                                                                      \
  "or NaN.\n"                                                                                      \
  "`round_mode` applies to f8e8m0. Text is parsed as numbers, and numbers are printed as text."

/* clang-format off */
FAMILY(core_conversion,
  OPERATOR(cast, "(Tensor x, *, dtype to, " CAST_ATTRS ") -> Tensor",
    (TENON_DOC("x as the dtype `to`" CAST_DOC),
     TENON_SAMPLES("x: [n, m], to = f32; x: string[3] ['1', '-2.5', '1e3'], to = f32; "
                   "x: [n, m], to = i8; x: [n], to = bool"),
     TENON_TYPES("x: " CASTABLE "; out = to"),
     POINTWISE,
     TENON_INFER(cast_infer),
     TENON_GRADIENT("x: core::cast_like(grad, x)")),
    KERNEL("rows", cast_run))
  OPERATOR(cast_like, "(Tensor x, Tensor like, *, " CAST_ATTRS ") -> Tensor",
    (TENON_DOC("x as the dtype of `like`; only the dtype of `like` is used" CAST_DOC),
     TENON_SAMPLES("x: [n, m], like: [2]; x: string[3] ['1', '-2.5', '1e3'], like: [2]; "
                   "x: [n] uniform(0, 3), like: f4e2m1[2]; x: f4e2m1[n], like: [2]"),
     TENON_TYPES("x: " CASTABLE "; like: " CASTABLE "; out = like"),
     TENON_SHAPES("out = x"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(cast_infer),
     TENON_GRADIENT("x: core::cast_like(grad, x); like: none")),
    KERNEL("", cast_like_run))
  OPERATOR(bit_cast, "(Tensor x, *, dtype to) -> Tensor",
    (TENON_DOC("The bits of each element of x as the dtype `to`, which must have the same width."),
     TENON_SAMPLES("x: f32[n, m], to = i32; x: i8[n], to = u8"),
     TENON_TYPES("x: " FIXED_SIZE "|complex|f6e2m3|f6e3m2; out = to"),
     POINTWISE,
     TENON_INFER(bit_cast_infer),
     TENON_GRADIENT("x: none")),
    KERNEL("", bit_cast_run)))
/* clang-format on */
