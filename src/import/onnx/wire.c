/* The protobuf wire format (protobuf.dev/programming-guides/encoding): tags, varints, fixed-size
 * numbers, lengths. Groups are refused: ONNX does not use them, and they would need recursion. */
#include "import/onnx/wire.h"

#include <string.h>

#include "base/status.h"

static bool set_fault(tn_wire_t *wire, const char *what) {
  wire->fault = what;
  return false;
}

bool tn_wire_varint(tn_wire_t *wire, uint64_t *out_value) {
  const unsigned char *at = wire->at;
  uint64_t value = 0;
  if (at == wire->end || wire->fault) return false;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (at == wire->end) return set_fault(wire, "a varint is cut off");
    unsigned byte = *at++;
    if (shift == 63 && byte > 1) return set_fault(wire, "a varint has more than 64 bits");
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      wire->at = at;
      *out_value = value;
      return true;
    }
  }
  return set_fault(wire, "a varint has more than ten bytes");
}

bool tn_wire_next(tn_wire_t *wire, tn_field_t *out_field) {
  uint64_t tag = 0;
  uint64_t length = 0;
  if (!tn_wire_varint(wire, &tag)) return false;
  if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
    return set_fault(wire, "a field has an impossible number");
  *out_field = (tn_field_t){(uint32_t)(tag >> 3), (uint32_t)(tag & 7), 0, {NULL, 0}};
  size_t left = (size_t)(wire->end - wire->at);
  switch (out_field->kind) {
  case TN_WIRE_VARINT:
    if (tn_wire_varint(wire, &out_field->value)) return true;
    return wire->fault ? false : set_fault(wire, "a field has no value");
  case TN_WIRE_64:
  case TN_WIRE_32: {
    size_t size = out_field->kind == TN_WIRE_64 ? 8 : 4;
    if (left < size) return set_fault(wire, "a fixed-size number is cut off");
    for (size_t i = 0; i < size; i++)
      out_field->value |= (uint64_t)wire->at[i] << 8 * i;
    wire->at += size;
    return true;
  }
  case TN_WIRE_BYTES:
    if (!tn_wire_varint(wire, &length))
      return wire->fault ? false : set_fault(wire, "a field has no length");
    left = (size_t)(wire->end - wire->at);
    if (length > left)
      return set_fault(wire, "a field is longer than the message that contains it");
    out_field->bytes = (tn_bytes_t){wire->at, (size_t)length};
    wire->at += length;
    return true;
  case 3:
  case 4:
    return set_fault(wire, "a protobuf group was found, which ONNX does not use");
  default:
    return set_fault(wire, "a field has an unknown wire type");
  }
}

tenon_status_t tn_wire_status(const tn_wire_t *wire) {
  if (!wire->fault) return TENON_OK;
  return tn_fail(TENON_INVALID, "byte %zu: %s; the file is damaged or is not an ONNX file",
                 (size_t)(wire->at - wire->begin), wire->fault);
}
