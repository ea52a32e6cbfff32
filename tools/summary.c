/* Describes tensors and ports in text; see summary.h. */
#include "summary.h"

#include <inttypes.h>
#include <math.h>

#include "element.h"

enum {
  FIRST_VALUES = 6,
  TEXT_BYTES = 200,
};

void summary_add_shape(text_t *out, int32_t ndim, const int64_t *shape) {
  text_add(out, "[");
  for (int32_t i = 0; i < ndim; i++)
    text_add(out, "%s%" PRId64, i ? ", " : "", shape[i]);
  text_add(out, "]");
}

void summary_add_index(text_t *out, const tenon_tensor_t *tensor, int64_t index) {
  int64_t position[TENON_RANK_MAX];
  for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
    int64_t extent = tensor->shape[i] > 0 ? tensor->shape[i] : 1;
    position[i] = index % extent;
    index /= extent;
  }
  summary_add_shape(out, tensor->ndim, position);
}

void summary_add_element(text_t *out, const tenon_tensor_t *tensor, int64_t index) {
  tenon_string_t string;
  size_t size;
  switch (element_class(tensor->dtype)) {
  case ELEMENT_BOOL:
    text_add(out, element_bits(tensor, index) ? "True" : "False");
    break;
  case ELEMENT_INT:
    text_add(out, "%" PRId64, element_integer(tensor, index));
    break;
  case ELEMENT_UINT:
    text_add(out, "%" PRIu64, element_bits(tensor, index));
    break;
  case ELEMENT_FLOAT:
    text_add(out, "%.*g", tensor->dtype.bits == 64 ? 12 : 7, element_number(tensor, index));
    break;
  case ELEMENT_COMPLEX:
    text_add(out, "%.7g%+.7gi", element_number(tensor, index), element_imaginary(tensor, index));
    break;
  case ELEMENT_STRING:
    string = element_string(tensor, index);
    size = string.size <= TEXT_BYTES ? (size_t)string.size : TEXT_BYTES;
    while (size < string.size && size > 0 && (string.data[size] & 0xC0) == 0x80)
      size--; /* whole characters of UTF-8 only */
    text_add(out, "'");
    text_bytes(out, string.data, size);
    text_add(out, size == string.size ? "'" : "...'");
    break;
  default:
    text_add(out, "?");
    break;
  }
}

static void add_range(text_t *out, const tenon_tensor_t *tensor, int64_t count) {
  double least = HUGE_VAL;
  double most = -HUGE_VAL;
  double sum = 0;
  int64_t missing = 0;
  for (int64_t i = 0; i < count; i++) {
    double number = element_number(tensor, i);
    if (isnan(number)) {
      missing++;
      continue;
    }
    if (number < least) least = number;
    if (number > most) most = number;
    sum += number;
  }
  if (missing < count)
    text_add(out, "  min %.6g  max %.6g  mean %.6g", least, most, sum / (double)(count - missing));
  if (missing > 0) text_add(out, "  nan %" PRId64, missing);
}

static void add_values(text_t *out, const tenon_tensor_t *tensor) {
  int64_t count = tenon_count(tensor);
  element_class_t class = element_class(tensor->dtype);
  if (class == ELEMENT_BOOL || class == ELEMENT_INT || class == ELEMENT_UINT ||
      class == ELEMENT_FLOAT)
    add_range(out, tensor, count);
  if (class == ELEMENT_OTHER) return;
  text_add(out, "  [");
  for (int64_t i = 0; i < count && i < FIRST_VALUES; i++) {
    if (i > 0) text_add(out, ", ");
    summary_add_element(out, tensor, i);
  }
  text_add(out, count > FIRST_VALUES ? ", ...]" : "]");
}

void summary_add_tensor(text_t *out, const char *name, const tenon_tensor_t *tensor) {
  if (element_class(tensor->dtype) == ELEMENT_LIST) {
    text_add(out, "%s  list of %" PRId64 "\n", name, tensor->shape[0]);
    for (int64_t i = 0; i < tensor->shape[0]; i++) {
      text_t item = {NULL, 0, 0, false};
      text_add(&item, "%s[%" PRId64 "]", name, i);
      summary_add_tensor(out, text_get(&item), tenon_item(tensor, i));
      text_free(&item);
    }
    return;
  }
  text_add(out, "%s  %s ", name, tenon_dtype_name(tensor->dtype));
  summary_add_shape(out, tensor->ndim, tensor->shape);
  const tenon_detail_t *detail = tensor->detail;
  if (detail && detail->kind != TENON_DETAIL_QUANTISED) {
    text_add(out, " %s, %" PRId64 " stored:", tenon_tensor_layout(tensor),
             detail->indices->shape[0]);
    add_values(out, detail->values);
  } else if (element_is_dense(tensor)) {
    add_values(out, tensor);
  } else {
    tenon_tensor_t *copy = NULL;
    if (tenon_tensor_copy(tensor, &copy) == TENON_OK)
      add_values(out, copy);
    else
      text_add(out, "  (%s)", tenon_error());
    tenon_tensor_release(copy);
  }
  text_add(out, "\n");
}

void summary_add_port(text_t *out, const tenon_port_t *port) {
  text_add(out, "%s ", port->dtype.bits ? tenon_dtype_name(port->dtype) : "of unknown type");
  if (port->ndim < 0) {
    text_add(out, "of unknown shape");
    return;
  }
  text_add(out, "[");
  for (int32_t i = 0; i < port->ndim; i++) {
    text_add(out, "%s", i ? ", " : "");
    if (port->axes[i].extent >= 0)
      text_add(out, "%" PRId64, port->axes[i].extent);
    else
      text_add(out, "%s", port->axes[i].name ? port->axes[i].name : "?");
  }
  text_add(out, "]");
  if (port->layout) text_add(out, "%s", port->layout == TENON_DETAIL_CSR ? " csr" : " row_sparse");
}
