/* Failures, types, values and constants of the program that is being written. */
#include "write/write.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "common/constant.h"

#define COUNT_MOST ((int64_t)1 << 59)

/* failures */

bool hlo_write_stopped(const hlo_write_t *w) { return w->status != TENON_OK || w->is_missing; }

bool hlo_write_failed(hlo_write_t *w, tenon_status_t status) {
  if (w->status == TENON_OK) w->status = status;
  return w->status != TENON_OK;
}

void hlo_write_missing(hlo_write_t *w, const char *format, ...) {
  char *reason = NULL;
  char *all = NULL;
  va_list arguments;
  if (hlo_write_stopped(w)) return;
  w->is_missing = true;
  if (w->missing_count++ >= HLO_WRITE_MISSING_MAX) return;
  va_start(arguments, format);
  int size = vasprintf(&reason, format, arguments);
  va_end(arguments);
  if (size >= 0) {
    size = asprintf(&all, "%s\n  node '%.100s' (%.100s): %s", w->missing ? w->missing : "",
                    w->node.name, w->op.name, reason);
    free(reason);
  }
  if (size < 0) {
    w->status = tn_no_memory("a message", 0);
    return;
  }
  free(w->missing);
  w->missing = all;
}

/* types */

static const struct {
  uint32_t id;
  const char *name;
} dtypes[] = {{TENON_BOOL, "i1"},  {TENON_I8, "i8"},   {TENON_I16, "i16"},   {TENON_I32, "i32"},
              {TENON_I64, "i64"},  {TENON_U8, "ui8"},  {TENON_U16, "ui16"},  {TENON_U32, "ui32"},
              {TENON_U64, "ui64"}, {TENON_F16, "f16"}, {TENON_BF16, "bf16"}, {TENON_F32, "f32"},
              {TENON_F64, "f64"}};

static const char *dtype_name(tenon_dtype_t dtype) {
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (dtypes[i].id == tenon_dtype_id(dtype)) return dtypes[i].name;
  return NULL;
}

bool hlo_same_shape(const hlo_val_t *a, const hlo_val_t *b) {
  return a->ndim == b->ndim &&
         (!a->ndim || memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims) == 0);
}

/* Whether a tensor is so large that no reader accepts it, and that counts may overflow. */
static bool is_too_large(const hlo_val_t *value) {
  int64_t count = 1;
  for (int32_t i = 0; i < value->ndim; i++) {
    const int64_t extent = value->dims[i] ? value->dims[i] : 1;
    if (extent < 0 || extent > COUNT_MOST / count) return true;
    count *= extent;
  }
  return false;
}

int64_t hlo_val_count(const hlo_val_t *value) {
  int64_t count = 1;
  for (int32_t i = 0; i < value->ndim; i++)
    count *= value->dims[i];
  return count;
}

bool hlo_dtype_is_float(tenon_dtype_t dtype) {
  uint32_t id = tenon_dtype_id(dtype);
  return id == TENON_F16 || id == TENON_BF16 || id == TENON_F32 || id == TENON_F64;
}

bool hlo_dtype_is_bool(tenon_dtype_t dtype) { return tenon_dtype_id(dtype) == TENON_BOOL; }

bool hlo_dtype_is_unsigned(tenon_dtype_t dtype) {
  const char *name = dtype_name(dtype);
  return name && *name == 'u';
}

hlo_val_t hlo_type_of(tenon_dtype_t dtype, int32_t ndim, const int64_t *dims) {
  hlo_val_t type = {.id = -1, .dtype = dtype, .ndim = ndim};
  if (ndim > 0) memcpy(type.dims, dims, (size_t)ndim * sizeof *dims);
  return type;
}

void hlo_print_type(FILE *out, const hlo_val_t *type) {
  const char *name = dtype_name(type->dtype);
  fprintf(out, "tensor<");
  for (int32_t i = 0; i < type->ndim; i++)
    fprintf(out, "%lldx", (long long)type->dims[i]);
  fprintf(out, "%s>", name ? name : "?");
}

void hlo_print_types(FILE *out, const hlo_val_t *types, int32_t count) {
  fprintf(out, "(");
  for (int32_t i = 0; i < count; i++) {
    if (i) fprintf(out, ", ");
    hlo_print_type(out, &types[i]);
  }
  fprintf(out, ")");
}

void hlo_print_text(FILE *out, const char *text, size_t size) {
  putc('"', out);
  for (size_t i = 0; i < size; i++) {
    const unsigned char c = (unsigned char)text[i];
    if (c < 32 || c > 126 || c == '"' || c == '\\')
      fprintf(out, "\\%02X", c);
    else
      putc(c, out);
  }
  putc('"', out);
}

static void print_items(FILE *out, const int64_t *items, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    fprintf(out, "%s%lld", i ? ", " : "", (long long)items[i]);
}

void hlo_print_list(FILE *out, const int64_t *items, int32_t count) {
  fprintf(out, "[");
  print_items(out, items, count);
  fprintf(out, "]");
}

void hlo_print_array(FILE *out, const int64_t *items, int32_t count) {
  fprintf(out, count ? "array<i64: " : "array<i64");
  print_items(out, items, count);
  fprintf(out, ">");
}

/* Text in the arena */

static const char *keep_text(hlo_write_t *w, char *text, size_t size) {
  char *kept = text ? tn_arena_text(w->arena, text, size) : NULL;
  if (!kept) (void)hlo_write_failed(w, tn_no_memory("a program", size));
  free(text);
  return kept ? kept : "";
}

const char *hlo_format(hlo_write_t *w, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  int size = vasprintf(&text, format, arguments);
  va_end(arguments);
  return size < 0 ? keep_text(w, NULL, 0) : keep_text(w, text, (size_t)size);
}

static const char *list_text(hlo_write_t *w, const int64_t *items, int32_t count,
                             void (*print)(FILE *out, const int64_t *items, int32_t count)) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return keep_text(w, NULL, 0);
  print(out, items, count);
  if (fclose(out) != 0) size = 0;
  return keep_text(w, text, size);
}

const char *hlo_array_text(hlo_write_t *w, const int64_t *items, int32_t count) {
  return list_text(w, items, count, hlo_print_array);
}

const char *hlo_list_text(hlo_write_t *w, const int64_t *items, int32_t count) {
  return list_text(w, items, count, hlo_print_list);
}

/* values of the node */

static const hlo_val_t none = {.id = -1};

hlo_val_t hlo_edge_type(hlo_write_t *w, tenon_edge_t edge) {
  tenon_port_t port = {.size = sizeof port};
  hlo_val_t type = none;
  if (hlo_write_failed(w, tenon_graph_value(w->graph, edge, &port))) return none;
  type.dtype = port.dtype;
  type.ndim = port.ndim;
  if (!dtype_name(port.dtype))
    hlo_write_missing(w, "value '%.60s' is of a dtype that is unknown or that StableHLO lacks",
                      port.name);
  else if (port.ndim < 0 || port.layout)
    hlo_write_missing(w, "the rank of value '%.60s' is not known, or it is sparse", port.name);
  for (int32_t i = 0; i < port.ndim && !hlo_write_stopped(w); i++) {
    type.dims[i] = port.axes[i].extent;
    if (type.dims[i] < 0)
      hlo_write_missing(w, "axis %d of value '%.60s' has the extent %.60s, expected a number",
                        (int)i, port.name, port.axes[i].name ? port.axes[i].name : "?");
  }
  if (!hlo_write_stopped(w) && is_too_large(&type))
    hlo_write_missing(w, "value '%.60s' has more than 2^59 elements", port.name);
  return hlo_write_stopped(w) ? none : type;
}

void hlo_bind(hlo_write_t *w, tenon_edge_t edge, hlo_val_t value) {
  hlo_val_t *kept = tn_arena_allocate(w->arena, sizeof *kept);
  if (!kept) (void)hlo_write_failed(w, tn_no_memory("a program", sizeof *kept));
  if (kept) *kept = value;
  w->values[edge] = kept;
}

hlo_val_t hlo_edge_value(hlo_write_t *w, tenon_edge_t edge) {
  tenon_graph_edge_t about = {.size = sizeof about};
  if (hlo_write_stopped(w)) return none;
  if (w->values[edge]) {
    /* A value without a dtype belongs to a node or an input that has been reported. */
    if (!w->values[edge]->dtype.bits) w->is_missing = true;
    return *w->values[edge];
  }
  if (hlo_write_failed(w, tenon_graph_edge(w->graph, edge, &about, NULL))) return none;
  if (!about.constant) {
    hlo_write_missing(w, "its input '%.60s' could not be written", about.name);
    return none;
  }
  hlo_val_t value = hlo_tensor_constant(w, about.constant);
  if (!hlo_write_stopped(w)) hlo_bind(w, edge, value);
  return value;
}

void hlo_give_unwritten(hlo_write_t *w) {
  for (int32_t i = 0; i < w->node.output_count && w->status == TENON_OK; i++) {
    const bool is_missing = w->is_missing;
    const int32_t count = w->missing_count;
    w->is_missing = false;
    w->missing_count = HLO_WRITE_MISSING_MAX;
    hlo_bind(w, w->node.outputs[i], hlo_edge_type(w, w->node.outputs[i]));
    w->missing_count = count;
    w->is_missing = is_missing;
  }
}

const char *hlo_val_text(hlo_write_t *w, const hlo_val_t *value) {
  if (value->is_part) return hlo_format(w, "%%v%d#%d", (int)value->id, (int)value->part);
  return hlo_format(w, "%%v%d", (int)value->id);
}

int32_t hlo_operand_count(const hlo_write_t *w, int32_t input) {
  return input < w->op.input_count ? w->node.operands[input].count : 0;
}

hlo_val_t hlo_item(hlo_write_t *w, int32_t input, int32_t item) {
  if (item >= hlo_operand_count(w, input)) {
    hlo_write_missing(w, "input %d is absent", (int)input);
    return none;
  }
  return hlo_edge_value(w, w->node.operands[input].edges[item]);
}

hlo_val_t hlo_in(hlo_write_t *w, int32_t input) { return hlo_item(w, input, 0); }

hlo_val_t hlo_result(hlo_write_t *w, int32_t index) {
  return hlo_write_stopped(w) ? none : hlo_edge_type(w, w->node.outputs[index]);
}

void hlo_give_val(hlo_write_t *w, int32_t index, hlo_val_t value) {
  hlo_val_t type = hlo_result(w, index);
  if (hlo_write_stopped(w)) return;
  if (tenon_dtype_id(type.dtype) != tenon_dtype_id(value.dtype)) {
    hlo_val_t wide = value;
    wide.dtype = type.dtype;
    value = hlo_emit(w, "stablehlo.convert", wide, "", NULL, &value, 1);
  }
  if (!hlo_same_shape(&type, &value))
    (void)hlo_write_failed(w, tn_fail(TENON_INTERNAL,
                                      "bug in the writer of StableHLO: node '%.100s' (%.100s) has "
                                      "a result of another shape",
                                      w->node.name, w->op.name));
  if (!hlo_write_stopped(w)) hlo_bind(w, w->node.outputs[index], value);
}

static bool is_read(const tenon_graph_part_t *node, int32_t input_count, tenon_edge_t edge) {
  for (int32_t i = 0; i < input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++)
      if (node->operands[i].edges[k] == edge) return true;
  return false;
}

bool hlo_is_wanted(const hlo_write_t *w, int32_t index) {
  const tenon_edge_t edge = w->node.outputs[index];
  tenon_graph_part_t node = {.size = sizeof node};
  tenon_op_info_t info = {.size = sizeof info};
  tenon_port_t port = {.size = sizeof port};
  for (int32_t n = 0; tenon_graph_node(w->graph, n, &node) == TENON_OK; n++) {
    tenon_op_info(node.op, &info);
    if (is_read(&node, info.input_count, edge)) return true;
    if (n + 1 == tenon_graph_node_count(w->graph)) break;
  }
  for (int32_t i = 0; i < tenon_graph_output_count(w->graph); i++)
    if (tenon_graph_output(w->graph, i, &port) == TENON_OK && port.edge == edge) return true;
  return false;
}

/* The constant that an input holds; NULL if it is absent. */
static const tenon_tensor_t *known_tensor(hlo_write_t *w, int32_t input) {
  tenon_graph_edge_t about = {.size = sizeof about};
  if (hlo_write_stopped(w) || !hlo_operand_count(w, input)) return NULL;
  tenon_edge_t edge = w->node.operands[input].edges[0];
  if (hlo_write_failed(w, tenon_graph_edge(w->graph, edge, &about, NULL))) return NULL;
  if (!about.constant)
    hlo_write_missing(w, "input '%.60s' depends on data, expected a constant", about.name);
  return about.constant;
}

int32_t hlo_known_ints(hlo_write_t *w, int32_t input, int64_t *out, int32_t most) {
  const tenon_tensor_t *tensor = known_tensor(w, input);
  if (!tensor) return 0;
  int64_t count = tenon_count(tensor);
  bool is_wide = tenon_dtype_id(tensor->dtype) == TENON_I64;
  if ((!is_wide && tenon_dtype_id(tensor->dtype) != TENON_I32) || count > most ||
      tensor->ndim > 1) {
    hlo_write_missing(w, "input %d is not a list of at most %d integers", (int)input, (int)most);
    return 0;
  }
  int64_t stride = tensor->ndim ? tensor->strides[0] : 0;
  for (int64_t i = 0; i < count; i++) {
    out[i] = is_wide ? ((const int64_t *)tensor->data)[i * stride]
                     : ((const int32_t *)tensor->data)[i * stride];
  }
  return (int32_t)count;
}

bool hlo_known_number(hlo_write_t *w, int32_t input, double *out) {
  const tenon_tensor_t *tensor = known_tensor(w, input);
  if (!tensor) return false;
  const uint32_t id = tenon_dtype_id(tensor->dtype);
  if (tenon_count(tensor) != 1 || (id != TENON_F32 && id != TENON_F64)) return false;
  *out = id == TENON_F32 ? (double)*(const float *)tensor->data : *(const double *)tensor->data;
  return true;
}

/* attributes of the node */

static const tenon_value_t *find_attr(hlo_write_t *w, const char *name, tenon_argument_t *about) {
  for (int32_t i = 0; i < w->op.attr_count; i++) {
    if (tenon_op_argument(w->node.op, TENON_ARGUMENT_ATTR, i, about) == TENON_OK &&
        strcmp(about->name, name) == 0)
      return &w->node.attrs[i];
  }
  return NULL;
}

const tenon_value_t *hlo_write_attr(hlo_write_t *w, const char *name) {
  tenon_argument_t about = {.size = sizeof about};
  return find_attr(w, name, &about);
}

int64_t hlo_write_int(hlo_write_t *w, const char *name) {
  const tenon_value_t *value = hlo_write_attr(w, name);
  return value && value->kind != TENON_KIND_NONE ? value->as.i : 0;
}

double hlo_write_number(hlo_write_t *w, const char *name) {
  const tenon_value_t *value = hlo_write_attr(w, name);
  if (!value || value->kind == TENON_KIND_NONE) return 0;
  return value->kind == TENON_KIND_FLOAT ? value->as.f : (double)value->as.i;
}

const char *hlo_write_choice(hlo_write_t *w, const char *name) {
  tenon_argument_t about = {.size = sizeof about};
  const tenon_value_t *value = find_attr(w, name, &about);
  return value && value->kind == TENON_KIND_CHOICE ? about.choices[value->as.i] : "";
}

void hlo_write_ints(hlo_write_t *w, const char *name, int64_t otherwise, int64_t *out,
                    int32_t count) {
  const tenon_value_t *value = hlo_write_attr(w, name);
  bool is_stated = value && value->kind == TENON_KIND_INTS && value->count;
  if (is_stated && (int32_t)value->count != count)
    hlo_write_missing(w, "attribute %s has %u items, expected %d", name, value->count, (int)count);
  for (int32_t i = 0; i < count; i++)
    out[i] = is_stated && i < (int32_t)value->count ? value->as.ints[i] : otherwise;
}

int32_t hlo_axis(hlo_write_t *w, int64_t axis, int32_t ndim) {
  int64_t from_start = axis < 0 ? axis + ndim : axis;
  if (from_start >= 0 && from_start < (ndim ? ndim : 1)) return (int32_t)from_start;
  hlo_write_missing(w, "axis %lld is out of range", (long long)axis);
  return 0;
}

/* printing */

hlo_val_t hlo_emit(hlo_write_t *w, const char *name, hlo_val_t type, const char *attrs,
                   const char *region, const hlo_val_t *operands, int32_t count) {
  if (!hlo_write_stopped(w) && is_too_large(&type))
    hlo_write_missing(w, "it needs a value of more than 2^59 elements");
  if (hlo_write_stopped(w)) return none;
  type.id = w->next++;
  type.is_part = false;
  fprintf(w->out, "    %%v%d = \"%s\"(", (int)type.id, name);
  for (int32_t i = 0; i < count; i++)
    fprintf(w->out, "%s%s", i ? ", " : "", hlo_val_text(w, &operands[i]));
  fprintf(w->out, ")");
  if (*attrs) fprintf(w->out, " <{%s}>", attrs);
  if (region) fprintf(w->out, " ({\n%s    })", region);
  fprintf(w->out, " : (");
  for (int32_t i = 0; i < count; i++) {
    if (i) fprintf(w->out, ", ");
    hlo_print_type(w->out, &operands[i]);
  }
  fprintf(w->out, ") -> ");
  hlo_print_type(w->out, &type);
  fprintf(w->out, "\n");
  return type;
}

/* Prints the elements of a dense tensor as dense<"0x...">. */
static void print_constant(hlo_write_t *w, const hlo_val_t *type, const tenon_tensor_t *tensor) {
  static const char digits[] = "0123456789ABCDEF";
  const unsigned char *bytes = tensor->data;
  size_t size = (size_t)tenon_count(tensor) * (tensor->dtype.bits / 8);
  fprintf(w->out, "    %%v%d = \"stablehlo.constant\"() <{value = dense<", (int)type->id);
  if (size) fprintf(w->out, "\"0x");
  for (size_t i = 0; i < size; i++) {
    putc(digits[bytes[i] >> 4], w->out);
    putc(digits[bytes[i] & 15], w->out);
  }
  fprintf(w->out, size ? "\"> : " : "> : ");
  hlo_print_type(w->out, type);
  fprintf(w->out, "}> : () -> ");
  hlo_print_type(w->out, type);
  fprintf(w->out, "\n");
}

hlo_val_t hlo_tensor_constant(hlo_write_t *w, const tenon_tensor_t *tensor) {
  tenon_tensor_t *dense = NULL;
  hlo_val_t type = hlo_type_of(tensor->dtype, tensor->ndim, tensor->shape);
  if (hlo_write_stopped(w)) return none;
  if (!dtype_name(tensor->dtype)) {
    hlo_write_missing(w, "a constant is of a dtype that StableHLO lacks");
    return none;
  }
  /* A copy is dense. */
  if (hlo_write_failed(w, tenon_tensor_copy_to(tensor, (tenon_device_t){1, 0}, &dense)))
    return none;
  bool is_bool = hlo_dtype_is_bool(type.dtype);
  /* MLIR packs the bits of truth values: write bytes, and compare them with 0. */
  if (is_bool) type.dtype = tenon_dtype(TENON_U8);
  type.id = w->next++;
  print_constant(w, &type, dense);
  tenon_tensor_release(dense);
  if (!is_bool) return type;
  hlo_val_t truth = type;
  truth.dtype = tenon_dtype(TENON_BOOL);
  return hlo_emit(w, "stablehlo.convert", truth, "", NULL, &type, 1);
}

hlo_val_t hlo_number(hlo_write_t *w, tenon_dtype_t dtype, double number) {
  tenon_tensor_t *tensor = NULL;
  if (hlo_write_stopped(w) || hlo_write_failed(w, constant_scalar(dtype, number, &tensor)))
    return none;
  hlo_val_t value = hlo_tensor_constant(w, tensor);
  tenon_tensor_release(tensor);
  return value;
}

hlo_val_t hlo_whole_number(hlo_write_t *w, int64_t number) {
  tenon_tensor_t view;
  if (hlo_write_stopped(w) ||
      hlo_write_failed(
          w, tenon_tensor_view(&view, &number, tenon_dtype(TENON_I64), 0, NULL, NULL, NULL)))
    return none;
  return hlo_tensor_constant(w, &view);
}

hlo_val_t hlo_int_list(hlo_write_t *w, const int64_t *items, int32_t count) {
  tenon_tensor_t *tensor = NULL;
  if (hlo_write_stopped(w) || hlo_write_failed(w, constant_integers(items, (size_t)count, &tensor)))
    return none;
  hlo_val_t value = hlo_tensor_constant(w, tensor);
  tenon_tensor_release(tensor);
  return value;
}
