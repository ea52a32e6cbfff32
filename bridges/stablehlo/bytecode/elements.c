/* Constants: tensors, arrays and numbers. Called by attributes.c. Invariant: a tensor is created
 * only if the file has the bytes of its elements, so a short file cannot ask for much memory; equal
 * elements are kept once, and a resource becomes one tensor. */
#include "bytecode/elements.h"

#include <math.h>
#include <string.h>

#include "bytecode/types.h"
#include "parse/parse.h"

/* tensors */

static tenon_tensor_t *take_elements(bc_part_t *part, const hlo_type_t *type, bool is_splat) {
  tenon_tensor_t *tensor = NULL;
  bc_file_t *file = part->file;
  if (bc_failed(part)) return NULL;
  const int32_t ndim = is_splat ? 0 : type->ndim;
  file->status =
      hlo_module_tensor(file->module, file->arena, type->dtype, ndim, type->dims, &tensor);
  return tensor;
}

/* Reads bools, which have one byte or one bit each. One byte 0xFF stands for all of them. */
static void read_bools(bc_part_t *part, const hlo_type_t *type, uint64_t count,
                       const uint8_t *bytes, uint64_t size, hlo_attr_t *out) {
  bool are_all = size == 1 && bytes[0] == 0xFF;
  bool are_bits = size == count / 8 + (count % 8 != 0) && size != count;
  out->is_splat = type->ndim > 0 && size == 1 && (are_all || (count > 8 && !are_bits));
  if (!out->is_splat && !are_bits && size != count)
    bc_fail(part, "a constant of %llu bools has %llu bytes: the file is damaged",
            (unsigned long long)count, (unsigned long long)size);
  out->tensor = take_elements(part, type, out->is_splat);
  if (!out->tensor) return;
  uint8_t *to = out->tensor->data;
  if (out->is_splat) {
    to[0] = bytes[0] != 0;
    return;
  }
  for (uint64_t i = 0; i < count; i++) {
    const bool is_set = are_bits ? bytes[i / 8] >> (i % 8) & 1 : bytes[i];
    to[i] = is_set;
  }
}

void bc_elements(bc_part_t *part, const bc_type_t *type, const uint8_t *bytes, size_t size,
                 hlo_attr_t *out) {
  uint64_t count = 1;
  out->kind = HLO_ATTR_TENSOR;
  out->type = &type->type;
  if (type->refused)
    bc_fail(part, "a constant has a type that is not supported: %.60s", type->refused);
  if (!hlo_type_is_static(&type->type))
    bc_fail(part, "a constant has a type without fixed extents: the file is damaged");
  for (int32_t i = 0; i < type->type.ndim && !bc_failed(part); i++)
    count *= (uint64_t)type->type.dims[i];
  if (bc_failed(part)) return;
  if (type->type.dtype.code == 6) {
    read_bools(part, &type->type, count, bytes, size, out);
    return;
  }
  uint64_t width = type->type.dtype.bits / 8;
  out->is_splat = size == width && count != 1;
  if (!out->is_splat && size != count * width)
    bc_fail(part, "a constant of %llu elements of %llu bytes has %zu bytes: the file is damaged",
            (unsigned long long)count, (unsigned long long)width, size);
  out->tensor = take_elements(part, &type->type, out->is_splat);
  if (out->tensor && size) memcpy(out->tensor->data, bytes, size);
  if (out->tensor && !hlo_narrow_integers(&type->type, out->tensor))
    bc_fail(part, "a constant has an element that needs more than the %d bits of its type",
            (int)type->type.bits);
}

void bc_resource_elements(bc_part_t *part, const bc_type_t *type, hlo_attr_t *out) {
  size_t index = bc_index(part, part->file->resource_count, "a resource");
  if (bc_failed(part)) return;
  bc_resource_t *resource = &part->file->resources[index];
  if (!resource->bytes)
    bc_fail(part, "the resource '%.80s' has no bytes: the end of the file is missing",
            resource->key);
  if (resource->attr && !hlo_type_equal(resource->attr->type, &type->type))
    bc_fail(part, "the resource '%.80s' has two types, which is not supported", resource->key);
  hlo_attr_t *made = bc_take(part, 1, sizeof *made);
  if (!made) return;
  if (resource->attr)
    *made = *resource->attr;
  else
    bc_elements(part, type, resource->bytes, resource->size, made);
  resource->attr = made;
  *out = *made;
}

/* numbers */

/* Returns the value of a float with `mantissa` bits of mantissa and `exponent` bits of exponent. */
static double decoded_float(uint64_t bits, int exponent, int mantissa) {
  int field = (int)(bits >> mantissa) & ((1 << exponent) - 1);
  int bias = (1 << (exponent - 1)) - 1;
  double fraction = (double)(bits & ((1u << mantissa) - 1));
  double value;
  if (field == (1 << exponent) - 1)
    value = fraction != 0 ? (double)NAN : (double)INFINITY;
  else if (field)
    value = ldexp(fraction + (double)(1u << mantissa), field - bias - mantissa);
  else
    value = ldexp(fraction, 1 - bias - mantissa);
  return bits >> (exponent + mantissa) & 1 ? -value : value;
}

static void set_float(bc_part_t *part, tenon_dtype_t dtype, uint64_t bits, hlo_attr_t *out) {
  uint32_t id = tenon_dtype_id(dtype);
  out->kind = HLO_ATTR_FLOAT;
  if (id == TENON_F64)
    memcpy(&out->number, &bits, sizeof bits);
  else if (id == TENON_F32)
    out->number = decoded_float(bits & UINT32_MAX, 8, 23);
  else if (id == TENON_F16)
    out->number = decoded_float(bits & UINT16_MAX, 5, 10);
  else if (id == TENON_BF16)
    out->number = decoded_float(bits & UINT16_MAX, 8, 7);
  else
    bc_fail(part, "a number as an attribute has a type that is not supported");
}

void bc_scalar(bc_part_t *part, const bc_type_t *type, uint64_t bits, hlo_attr_t *out) {
  tenon_dtype_t dtype = type->type.dtype;
  if (!type->bits || type->bits > 64 || type->type.kind != HLO_OTHER) {
    bc_fail(part, "a number as an attribute has a type that is not supported");
    return;
  }
  if (!type->refused && (dtype.code == 2 || dtype.code == 4)) {
    set_float(part, dtype, bits, out);
    return;
  }
  uint32_t unused = 64 - type->bits;
  bool is_unsigned = !type->refused && dtype.code != 0;
  bits <<= unused;
  out->kind = type->bits == 1 ? HLO_ATTR_BOOL : HLO_ATTR_INT;
  out->integer = is_unsigned ? (int64_t)(bits >> unused) : (int64_t)bits >> unused;
  out->number = (double)out->integer;
}

void bc_array_elements(bc_part_t *part, const bc_type_t *type, uint64_t count, hlo_attr_t *out) {
  size_t size = 0;
  const uint8_t *bytes = bc_blob(part, &size);
  size_t width = type->bits == 1 ? 1 : type->bits / 8;
  if (bc_failed(part)) return;
  if (!width || width > 8 || count > HLO_LIST_MAX || size != count * width) {
    bc_fail(part, "an array of %llu elements of %u bits has %zu bytes: the file is damaged",
            (unsigned long long)count, (unsigned)type->bits, size);
    return;
  }
  hlo_attr_t *items = bc_take(part, (size_t)count, sizeof *items);
  for (size_t i = 0; i < count && !bc_failed(part); i++) {
    uint64_t bits = 0;
    memcpy(&bits, bytes + i * width, width);
    bc_scalar(part, type, bits, &items[i]);
  }
  out->kind = HLO_ATTR_LIST;
  out->items = items;
  out->count = bc_failed(part) ? 0 : (int32_t)count;
}
