/* Lowerings of the operators of com.microsoft whose weights are packed into blocks of 2, 4 or 8
 * bits: MatMulNBits and GatherBlockQuantized. */
#include "base/memory.h"
#include "base/status.h"
#include "core/convert.h"
#include "import/onnx/lower_contrib.h"

/* MatMulNBits is core::matmul_nbits. Weights whose blocks are permuted (g_idx) become floats when
 * the model is loaded. */

typedef struct blocks_t {
  int64_t k;
  int64_t n;
  int64_t bits;
  int64_t size;  /* weights in a block */
  int64_t count; /* blocks of a column */
  tenon_dtype_t dtype;
  const tenon_tensor_t *weights;
  const tenon_tensor_t *scales;
  const tenon_tensor_t *zeros; /* packed integers, or floats, or NULL */
} blocks_t;

static void read_sizes(tn_lower_t *lower, blocks_t *blocks) {
  enum { SIZE_MOST = 1 << 24 };
  blocks->k = tn_lower_int(lower, "K", 0);
  blocks->n = tn_lower_int(lower, "N", 0);
  blocks->bits = tn_lower_int(lower, "bits", 4);
  blocks->size = tn_lower_int(lower, "block_size", 0);
  (void)tn_lower_attr(lower, "accuracy_level");
  if (tn_lower_int(lower, "weight_prepacked", 0))
    tn_lower_missing(lower, "attribute 'weight_prepacked' is set: save the model without it");
  if (blocks->bits != 2 && blocks->bits != 4 && blocks->bits != 8)
    tn_lower_missing(lower, "attribute 'bits' is %lld: expected 2, 4 or 8",
                     (long long)blocks->bits);
  if (blocks->k < 1 || blocks->n < 1 || blocks->k > SIZE_MOST || blocks->n > SIZE_MOST ||
      blocks->size < 16 || blocks->size > SIZE_MOST || blocks->size & (blocks->size - 1))
    tn_lower_fail(lower,
                  "attributes K, N and block_size are %lld, %lld and %lld: expected sizes "
                  "from 1 to %d, and a power of two from 16 on",
                  (long long)blocks->k, (long long)blocks->n, (long long)blocks->size, SIZE_MOST);
  else
    blocks->count = (blocks->k - 1) / blocks->size + 1;
}

static int64_t packed_size(const blocks_t *blocks, int64_t count) {
  return (count * blocks->bits + 7) / 8;
}

/* The constant input, if it has this many elements of this dtype. NULL: it is absent, or a failure
 * was reported. */
static const tenon_tensor_t *read_input(tn_lower_t *lower, int32_t index, const char *name,
                                        int64_t count, uint32_t dtype) {
  const tenon_tensor_t *tensor = tn_lower_constant(lower, tn_lower_input(lower, index), name);
  if (!tensor) return NULL;
  if (tenon_count(tensor) == count && tenon_dtype_id(tensor->dtype) == dtype) return tensor;
  tn_lower_fail(lower, "input `%s` has %lld elements of %s: expected %lld of %s", name,
                (long long)tenon_count(tensor), tenon_dtype_name(tensor->dtype), (long long)count,
                tenon_dtype_name(tenon_dtype(dtype)));
  return NULL;
}

/* Reads the constants, and checks their dtypes and numbers of elements. */
static void read_blocks(tn_lower_t *lower, blocks_t *blocks) {
  const int64_t table = blocks->n * blocks->count;
  tn_ref_t *zeros = tn_lower_input(lower, 3);
  blocks->dtype = tn_lower_dtype(lower, lower->inputs[2]);
  const uint32_t dtype = tenon_dtype_id(blocks->dtype);
  if (dtype != TENON_F32 && dtype != TENON_F16 && dtype != TENON_BF16) {
    tn_lower_fail(lower, "input `scales` has elements of %s: expected f32, f16 or bf16",
                  tenon_dtype_name(blocks->dtype));
    return;
  }
  blocks->weights = read_input(lower, 1, "B", table * packed_size(blocks, blocks->size), TENON_U8);
  blocks->scales = read_input(lower, 2, "scales", table, dtype);
  if (zeros && tenon_dtype_id(tn_lower_dtype(lower, zeros)) == TENON_U8)
    blocks->zeros = read_input(lower, 3, "zero_points",
                               blocks->n * packed_size(blocks, blocks->count), TENON_U8);
  else if (zeros)
    blocks->zeros = read_input(lower, 3, "zero_points", table, dtype);
}

/* The number as a double; dtypes are those of scales. */
static double float_at(const tenon_tensor_t *tensor, int64_t at) {
  double out = 0;
  const char *data = (const char *)tensor->data + at * (tensor->dtype.bits / 8);
  tn_convert(data, tensor->dtype, &out, tenon_dtype(TENON_F64), 1);
  return out;
}

static double code_at(const blocks_t *blocks, const tenon_tensor_t *codes, int64_t row,
                      int64_t row_size, int64_t at) {
  int64_t bit = at * blocks->bits;
  uint32_t byte = ((const uint8_t *)codes->data)[row * row_size + bit / 8];
  return (byte >> (bit % 8)) & ((1u << blocks->bits) - 1);
}

/* Writes the k weights of column `n`. */
static void unpack_column(const blocks_t *blocks, const int32_t *groups, int64_t n, double *out) {
  const int64_t weights_size = blocks->count * packed_size(blocks, blocks->size);
  const bool is_packed = blocks->zeros && tenon_dtype_id(blocks->zeros->dtype) == TENON_U8;
  for (int64_t k = 0; k < blocks->k; k++) {
    const int64_t at = n * blocks->count + groups[k];
    double zero = (double)(1 << (blocks->bits - 1));
    if (is_packed)
      zero = code_at(blocks, blocks->zeros, n, packed_size(blocks, blocks->count), groups[k]);
    else if (blocks->zeros)
      zero = float_at(blocks->zeros, at);
    const double code = code_at(blocks, blocks->weights, n, weights_size, k);
    out[k] = (code - zero) * float_at(blocks->scales, at);
  }
}

static const int32_t *read_groups(tn_lower_t *lower, const blocks_t *blocks) {
  /* A model may state the groups of the padding as well. */
  const tenon_tensor_t *tensor = tn_lower_constant(lower, tn_lower_input(lower, 4), "g_idx");
  if (!tensor) return NULL;
  if (tenon_dtype_id(tensor->dtype) != TENON_I32 || tenon_count(tensor) < blocks->k) {
    tn_lower_fail(lower, "input `g_idx` has %lld elements of %s: expected at least %lld of i32",
                  (long long)tenon_count(tensor), tenon_dtype_name(tensor->dtype),
                  (long long)blocks->k);
    return NULL;
  }
  const int32_t *groups = tensor->data;
  for (int64_t k = 0; k < blocks->k; k++)
    if (groups[k] < 0 || groups[k] >= blocks->count) {
      tn_lower_fail(lower, "g_idx[%lld] is %d: expected a block from 0 to %lld", (long long)k,
                    (int)groups[k], (long long)blocks->count - 1);
      return NULL;
    }
  return groups;
}

/* The weights as floats [n, k] of the dtype of the scales. */
static tn_ref_t *unpack_weights(tn_lower_t *lower, const blocks_t *blocks) {
  const int64_t shape[2] = {blocks->n, blocks->k};
  const size_t row_size = (size_t)blocks->k * sizeof(double);
  tenon_tensor_t *unpacked = NULL;
  const int32_t *groups = read_groups(lower, blocks);
  if (!groups ||
      tn_lower_has_failed(lower, tenon_tensor_create(blocks->dtype, 2, shape, &unpacked)))
    return NULL;
  double *row = tn_allocate(row_size);
  if (!row) {
    tenon_tensor_release(unpacked);
    (void)tn_lower_has_failed(lower, tn_no_memory("weights", row_size));
    return NULL;
  }
  for (int64_t n = 0; n < blocks->n; n++) {
    unpack_column(blocks, groups, n, row);
    tn_convert(row, tenon_dtype(TENON_F64),
               (char *)unpacked->data + n * blocks->k * (blocks->dtype.bits / 8), blocks->dtype,
               blocks->k);
  }
  tn_release_memory(row);
  return tn_lower_tensor(lower, unpacked);
}

static tn_ref_t *reshape_blocks(tn_lower_t *lower, tn_ref_t *x, int64_t n, int64_t rest) {
  if (!x) return NULL;
  return tn_lower_run(lower, TN_REFS(x), "reshape(a, [%lld, %lld]:i64)", (long long)n,
                      (long long)rest);
}

static void lower_packed_matmul(tn_lower_t *lower) {
  blocks_t blocks = {0};
  read_sizes(lower, &blocks);
  if (lower->status == TENON_OK && !lower->is_missing) read_blocks(lower, &blocks);
  if (lower->status != TENON_OK || lower->is_missing) return;
  tn_ref_t *bias = tn_lower_input(lower, 5);
  if (tn_lower_input(lower, 4)) {
    lower->outputs[0] =
        tn_lower_run(lower, TN_REFS(lower->inputs[0], unpack_weights(lower, &blocks), bias),
                     "matmul(a, b, c, transpose_b=True)");
    return;
  }
  tn_ref_t *b = tn_lower_run(lower, TN_REFS(lower->inputs[1]), "reshape(a, [%lld, %lld, %lld]:i64)",
                             (long long)blocks.n, (long long)blocks.count,
                             (long long)packed_size(&blocks, blocks.size));
  tn_ref_t *scales = reshape_blocks(lower, lower->inputs[2], blocks.n, blocks.count);
  tn_ref_t *zeros = reshape_blocks(lower, tn_lower_input(lower, 3), blocks.n, -1);
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(lower->inputs[0], b, scales, zeros, bias),
                                   "matmul_nbits(a, b, c, d, e, bits=%lld, block_size=%lld)",
                                   (long long)blocks.bits, (long long)blocks.size);
}

/* GatherBlockQuantized. Only the gathered rows are unpacked. */

/* Two numbers of 4 bits from each byte, the low one first, along the last axis. */
static tn_ref_t *unpack_bytes(tn_lower_t *lower, tn_ref_t *x) {
  return tn_lower_run(lower, TN_REFS(x),
                      "reshape(concat([unsqueeze(bitwise_and(a, 15:a), [-1]:i64), "
                      "unsqueeze(shift_right(a, 4:a), [-1]:i64)], axis=-1), "
                      "concat([shape(a, start=0, end=-1), [-1]:i64], axis=0))");
}

static void lower_gather_blocks(tn_lower_t *lower) {
  tn_ref_t *data = lower->inputs[0];
  tn_ref_t *indices = lower->inputs[1];
  tn_ref_t *zeros = tn_lower_input(lower, 3);
  int64_t bits = tn_lower_int(lower, "bits", 4);
  int64_t size = tn_lower_int(lower, "block_size", 128);
  int64_t rank = tn_lower_rank(lower, data);
  int64_t axis = tn_lower_int(lower, "gather_axis", 0);
  int64_t along = tn_lower_int(lower, "quantize_axis", 1);
  bool is_byte = tenon_dtype_id(tn_lower_dtype(lower, data)) == TENON_U8;
  if (bits != 4 && bits != 8)
    tn_lower_missing(lower, "attribute 'bits' is %lld: expected 4 or 8", (long long)bits);
  if (axis < -rank || axis >= rank || along < -rank || along >= rank) {
    tn_lower_fail(lower,
                  "attributes gather_axis and quantize_axis are %lld and %lld, but data has "
                  "%lld axes",
                  (long long)axis, (long long)along, (long long)rank);
    return;
  }
  axis += axis < 0 ? rank : 0;
  along += along < 0 ? rank : 0;
  if (axis == along)
    tn_lower_fail(lower, "gather_axis and quantize_axis are both %lld: expected two axes",
                  (long long)axis);
  bool is_packed = is_byte && bits == 4;
  if (is_packed && along != rank - 1)
    tn_lower_missing(lower, "quantize_axis is %lld: expected the last axis of packed data",
                     (long long)along);
  if (is_packed && axis == rank - 1)
    tn_lower_missing(lower, "gather_axis is the last axis of packed data");
  tn_ref_t *rows =
      tn_lower_run(lower, TN_REFS(data, indices), "gather(a, b, axis=%lld)", (long long)axis);
  tn_ref_t *scales = tn_lower_run(lower, TN_REFS(lower->inputs[2], indices),
                                  "gather(a, b, axis=%lld)", (long long)axis);
  if (zeros)
    zeros =
        tn_lower_run(lower, TN_REFS(zeros, indices), "gather(a, b, axis=%lld)", (long long)axis);
  if (is_packed) {
    rows = unpack_bytes(lower, rows);
    if (zeros)
      zeros = tn_lower_run(lower, TN_REFS(unpack_bytes(lower, zeros), scales),
                           "slice(a, [0]:i64, shape(b, start=-1), [-1]:i64)");
  }
  if (!zeros && is_byte)
    zeros = tn_lower_run(lower, TN_REFS(scales), "expand(%d:u8, shape(a))", 1 << (bits - 1));
  /* The axis keeps its place from the end if it follows that of the indices. */
  lower->outputs[0] = tn_lower_run(
      lower, TN_REFS(rows, scales, zeros), "dequantize_linear(a, b, c, axis=%lld, block_size=%lld)",
      (long long)(along > axis ? along - rank : along), (long long)size);
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"MatMulNBits(a, b, scales, zero_points?, g_idx?, bias?)", 1, lower_packed_matmul},
  {"GatherBlockQuantized(data, indices, scales, zero_points?)", 1, lower_gather_blocks},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_contrib_weights, "com.microsoft");
