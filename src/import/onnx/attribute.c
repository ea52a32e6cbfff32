/* Attributes of nodes: references to parameters of a function, typed access, and conversion to the
 * kinds that a schema declares. Invariant: every attribute of a node is either used or declared as
 * without meaning; node.c refuses any other. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/dtype.h"
#include "import/onnx/lower.h"
#include "operator/op.h"

static const char *const type_names[] = {
    "nothing",           "a float",          "an int",
    "a string",          "a tensor",         "a graph",
    "a list of floats",  "a list of ints",   "a list of strings",
    "a list of tensors", "a list of graphs", "a sparse tensor",
    "sparse tensors",    "a type",           "a list of types",
};

static const char *type_name(int64_t type) {
  return type >= 0 && type < (int64_t)(sizeof type_names / sizeof *type_names)
             ? type_names[type]
             : "something unknown";
}

/* Models of the first version of ONNX state no type: the fields that are present tell it. */
static int64_t type_of(const tn_onnx_attribute_t *proto) {
  static const struct {
    uint8_t field;
    uint8_t type;
  } fields[] = {{2, TN_ATTRIBUTE_FLOAT},  {3, TN_ATTRIBUTE_INT},     {4, TN_ATTRIBUTE_STRING},
                {5, TN_ATTRIBUTE_TENSOR}, {6, TN_ATTRIBUTE_GRAPH},   {7, TN_ATTRIBUTE_FLOATS},
                {8, TN_ATTRIBUTE_INTS},   {9, TN_ATTRIBUTE_STRINGS}, {10, TN_ATTRIBUTE_TENSORS},
                {22, TN_ATTRIBUTE_SPARSE}};
  if (proto->type) return proto->type;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (TN_HAS(proto, fields[i].field)) return fields[i].type;
  return TN_ATTRIBUTE_INTS;
}

tenon_status_t tn_attrs_resolve(tn_import_t *import, tn_scope_t *scope,
                                const tn_onnx_attribute_t *protos, size_t count,
                                tn_attrs_list_t *out_attrs) {
  out_attrs->count = 0;
  out_attrs->items = tn_arena_array(&import->arena, count + 1, sizeof *out_attrs->items);
  if (!out_attrs->items) return tn_no_memory("attributes", count);
  for (size_t i = 0; i < count; i++) {
    const tn_onnx_attribute_t *proto = &protos[i];
    tn_attr_t attr = {proto->name, proto, scope, false};
    for (size_t j = 0; j < out_attrs->count; j++)
      if (strcmp(out_attrs->items[j].name, proto->name) == 0)
        return tn_fail(TENON_INVALID, "attribute '%.100s' is given twice", proto->name);
    if (*proto->ref_name) {
      attr.proto = NULL;
      if (!scope->parameters)
        return tn_fail(TENON_INVALID,
                       "attribute '%.100s' refers to the parameter '%.100s', but the node is not "
                       "in the body of a function",
                       proto->name, proto->ref_name);
      for (size_t j = 0; j < scope->parameters->count; j++)
        if (strcmp(scope->parameters->items[j].name, proto->ref_name) == 0) {
          attr.proto = scope->parameters->items[j].proto;
          attr.scope = scope->parameters->items[j].scope;
        }
      if (!attr.proto) continue; /* the calling node leaves it out, and so does the body */
    }
    out_attrs->items[out_attrs->count++] = attr;
  }
  return TENON_OK;
}

tn_attr_t *tn_lower_attr(tn_lower_t *lower, const char *name) {
  for (size_t i = 0; i < lower->attrs.count; i++)
    if (strcmp(lower->attrs.items[i].name, name) == 0) {
      lower->attrs.items[i].is_used = true;
      return &lower->attrs.items[i];
    }
  return NULL;
}

static void wrong_type(tn_lower_t *lower, const char *name, const char *expected,
                       const tn_onnx_attribute_t *proto) {
  tn_lower_fail(lower, "attribute '%.100s': expected %s, found %s", name, expected,
                type_name(type_of(proto)));
}

const tn_onnx_attribute_t *tn_lower_typed(tn_lower_t *lower, const char *name, int64_t type) {
  tn_attr_t *attr = tn_lower_attr(lower, name);
  if (!attr || lower->status != TENON_OK) return NULL;
  if (type_of(attr->proto) == type) return attr->proto;
  wrong_type(lower, name, type_name(type), attr->proto);
  return NULL;
}

int64_t tn_lower_int(tn_lower_t *lower, const char *name, int64_t otherwise) {
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_INT);
  return proto ? proto->i : otherwise;
}

static const char *copy_string(tn_lower_t *lower, tn_bytes_t bytes) {
  const char *text = tn_arena_text(&lower->import->arena, (const char *)bytes.data, bytes.size);
  if (!text && lower->status == TENON_OK) lower->status = tn_no_memory("a string", bytes.size);
  return text;
}

const char *tn_lower_text(tn_lower_t *lower, const char *name, const char *otherwise) {
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_STRING);
  const char *text = proto ? copy_string(lower, proto->s) : otherwise;
  return text ? text : otherwise;
}

/* Attributes as tensors */

static tenon_status_t strings_tensor(const tn_bytes_t *strings, size_t count, int32_t ndim,
                                     tenon_tensor_t **out_tensor) {
  int64_t extent = (int64_t)count;
  TN_TRY(tenon_tensor_create(tenon_dtype(TENON_STRING), ndim, &extent, out_tensor));
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = tenon_tensor_set_string(*out_tensor, (int64_t)i, (const char *)strings[i].data,
                                     strings[i].size);
  if (status != TENON_OK) tenon_tensor_release(*out_tensor);
  return status;
}

static tenon_status_t floats_tensor(const double *values, size_t count, int32_t ndim,
                                    tenon_tensor_t **out_tensor) {
  int64_t extent = (int64_t)count;
  TN_TRY(tenon_tensor_create(tenon_dtype(TENON_F32), ndim, &extent, out_tensor));
  for (size_t i = 0; i < count; i++)
    ((float *)(*out_tensor)->data)[i] = (float)values[i];
  return TENON_OK;
}

static tenon_status_t ints_tensor(const int64_t *values, size_t count,
                                  tenon_tensor_t **out_tensor) {
  int64_t extent = (int64_t)count;
  TN_TRY(tenon_tensor_create(tenon_dtype(TENON_I64), 1, &extent, out_tensor));
  if (count) memcpy((*out_tensor)->data, values, count * sizeof *values);
  return TENON_OK;
}

tn_ref_t *tn_lower_attr_tensor(tn_lower_t *lower, const char *name) {
  tn_attr_t *attr = tn_lower_attr(lower, name);
  tenon_tensor_t *tensor = NULL;
  tn_weights_t *weights = &lower->import->weights;
  if (!attr || lower->status != TENON_OK) return NULL;
  const tn_onnx_attribute_t *proto = attr->proto;
  switch (type_of(proto)) {
  case TN_ATTRIBUTE_FLOAT:
    lower->status = floats_tensor(&proto->f, 1, 0, &tensor);
    break;
  case TN_ATTRIBUTE_INT:
    lower->status = ints_tensor(&proto->i, 1, &tensor);
    break;
  case TN_ATTRIBUTE_STRING:
    lower->status = strings_tensor(&proto->s, 1, 0, &tensor);
    break;
  case TN_ATTRIBUTE_FLOATS:
    lower->status = floats_tensor(proto->floats.items, proto->floats.count, 1, &tensor);
    break;
  case TN_ATTRIBUTE_INTS:
    lower->status = ints_tensor(proto->ints.items, proto->ints.count, &tensor);
    break;
  case TN_ATTRIBUTE_STRINGS:
    lower->status = strings_tensor(proto->strings.items, proto->strings.count, 1, &tensor);
    break;
  default:
    if (type_of(proto) == TN_ATTRIBUTE_TENSOR && proto->t)
      lower->status = tn_onnx_tensor(proto->t, weights, &tensor);
    else if (type_of(proto) == TN_ATTRIBUTE_SPARSE && proto->sparse)
      lower->status = tn_onnx_sparse(proto->sparse, weights, &tensor);
    else
      wrong_type(lower, name, "a number, a string, a list of them or a tensor", proto);
  }
  if (lower->status == TENON_OK) return tn_lower_tensor(lower, tensor);
  lower->status = tn_prefix(lower->status, "attribute '%.100s': ", name);
  return NULL;
}

/* Attributes as arguments of operators */

/* For each kind of argument, the types of attributes that it accepts, and how messages describe
 * them. */
static const struct {
  uint32_t kind;
  int64_t types[3];
  const char *expected;
} accepted[] = {
    {TENON_KIND_BOOL, {TN_ATTRIBUTE_INT, 0}, "an int"},
    {TENON_KIND_INT, {TN_ATTRIBUTE_INT, 0}, "an int"},
    {TENON_KIND_DIM, {TN_ATTRIBUTE_INT, 0}, "an int"},
    {TENON_KIND_FLOAT, {TN_ATTRIBUTE_FLOAT, TN_ATTRIBUTE_INT, TN_ATTRIBUTE_TENSOR}, "a float"},
    {TENON_KIND_STR, {TN_ATTRIBUTE_STRING, 0}, "a string"},
    {TENON_KIND_CHOICE, {TN_ATTRIBUTE_STRING, 0}, "a string"},
    {TENON_KIND_DTYPE, {TN_ATTRIBUTE_INT, TN_ATTRIBUTE_STRING}, "an element type"},
    {TENON_KIND_DEVICE, {TN_ATTRIBUTE_STRING, 0}, "the name of a device"},
    {TENON_KIND_TENSOR, {TN_ATTRIBUTE_TENSOR, TN_ATTRIBUTE_SPARSE}, "a tensor"},
    {TENON_KIND_GRAPH, {TN_ATTRIBUTE_GRAPH, 0}, "a graph"},
    {TENON_KIND_INTS, {TN_ATTRIBUTE_INTS, 0}, "a list of ints"},
    {TENON_KIND_DIMS, {TN_ATTRIBUTE_INTS, 0}, "a list of ints"},
    {TENON_KIND_FLOATS,
     {TN_ATTRIBUTE_FLOATS, TN_ATTRIBUTE_INTS, TN_ATTRIBUTE_TENSOR},
     "a list of floats"},
    {TENON_KIND_STRS, {TN_ATTRIBUTE_STRINGS, 0}, "a list of strings"},
    {TENON_KIND_TENSORS, {TN_ATTRIBUTE_TENSORS, 0}, "a list of tensors"},
};

static bool check_type(tn_lower_t *lower, const char *name, uint32_t kind,
                       const tn_onnx_attribute_t *proto) {
  for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
    if (accepted[i].kind != kind) continue;
    int64_t type = type_of(proto);
    for (int k = 0; k < 3; k++)
      if (type == accepted[i].types[k]) return true;
    wrong_type(lower, name, accepted[i].expected, proto);
    return false;
  }
  tn_lower_fail(lower, "attribute '%.100s': an ONNX file cannot hold a value of this kind", name);
  return false;
}

static char lower_case(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Finds the choice that equals the text, preferably exactly, else ignoring case: ONNX writes its
 * own choices in capitals. */
static tenon_value_t choice_value(const tn_argument_t *argument, const char *text, size_t size) {
  tenon_value_t value = {TENON_KIND_STR, (uint32_t)size, {0}};
  value.as.s = text;
  for (uint32_t i = 0; i < argument->choice_count; i++)
    if (strcmp(argument->choices[i], text) == 0) return value;
  for (uint32_t i = 0; i < argument->choice_count; i++) {
    const char *choice = argument->choices[i];
    size_t k = 0;
    while (choice[k] && lower_case(choice[k]) == lower_case(text[k]))
      k++;
    if (choice[k] == text[k]) {
      value.as.s = choice;
      value.count = (uint32_t)k;
    }
  }
  return value;
}

static void string_value(tn_lower_t *lower, const tn_argument_t *argument,
                         const tn_onnx_attribute_t *proto, tenon_value_t *out_value) {
  const char *text = copy_string(lower, proto->s);
  if (text) *out_value = choice_value(argument, text, proto->s.size);
}

static void dtype_value(tn_lower_t *lower, const char *name, const tn_onnx_attribute_t *proto,
                        tenon_value_t *out_value) {
  out_value->kind = TENON_KIND_DTYPE;
  /* Cast before operator set 6 states "FLOAT"; files of this runtime may state "f32". */
  if (type_of(proto) == TN_ATTRIBUTE_STRING) {
    static const char *const names[] = {"FLOAT",  "UINT8",  "INT8",   "UINT16",   "INT16",
                                        "INT32",  "INT64",  "STRING", "BOOL",     "FLOAT16",
                                        "DOUBLE", "UINT32", "UINT64", "COMPLEX64"};
    const char *text = copy_string(lower, proto->s);
    for (size_t i = 0; text && i < sizeof names / sizeof *names; i++)
      if (strcmp(names[i], text) == 0 && tn_onnx_dtype((int64_t)i + 1, &out_value->as.dtype))
        return;
    if (text && !tn_dtype_parse_value(text, proto->s.size, &out_value->as.dtype))
      tn_lower_fail(lower, "attribute '%.100s': '%.40s' is not an element type", name, text);
  } else if (!tn_onnx_dtype(proto->i, &out_value->as.dtype)) {
    tn_lower_fail(lower, "attribute '%.100s': %" PRId64 " is not an element type of ONNX", name,
                  proto->i);
  }
}

static void floats_value(tn_lower_t *lower, const tn_onnx_attribute_t *proto,
                         tenon_value_t *out_value) {
  double *numbers = tn_arena_array(&lower->import->arena, proto->ints.count + 1, sizeof *numbers);
  if (!numbers) lower->status = tn_no_memory("a list", proto->ints.count);
  for (size_t i = 0; numbers && i < proto->ints.count; i++)
    numbers[i] = (double)proto->ints.items[i];
  out_value->as.floats = numbers;
  out_value->count = (uint32_t)proto->ints.count;
}

static void strings_value(tn_lower_t *lower, const tn_onnx_attribute_t *proto,
                          tenon_value_t *out_value) {
  tenon_string_t *strings =
      tn_arena_array(&lower->import->arena, proto->strings.count + 1, sizeof *strings);
  if (!strings) lower->status = tn_no_memory("a list", proto->strings.count);
  for (size_t i = 0; strings && i < proto->strings.count; i++)
    strings[i] =
        (tenon_string_t){(const char *)proto->strings.items[i].data, proto->strings.items[i].size};
  out_value->as.strs = strings;
  out_value->count = (uint32_t)proto->strings.count;
}

static void tensors_value(tn_lower_t *lower, const tn_onnx_attribute_t *proto,
                          tenon_value_t *out_value) {
  bool is_list = type_of(proto) == TN_ATTRIBUTE_TENSORS;
  size_t count = is_list ? proto->tensors.count : 1;
  tenon_tensor_t **tensors = tn_arena_array(&lower->import->arena, count + 1, sizeof *tensors);
  if (!tensors) lower->status = tn_no_memory("a list", count);
  for (size_t i = 0; i < count && lower->status == TENON_OK; i++) {
    if (!is_list && !proto->t && !proto->sparse)
      lower->status = tn_fail(TENON_INVALID, "the tensor is missing");
    else if (!is_list && proto->sparse)
      lower->status = tn_onnx_sparse(proto->sparse, &lower->import->weights, tensors);
    else
      lower->status = tn_onnx_tensor(is_list ? &proto->tensors.items[i] : proto->t,
                                     &lower->import->weights, &tensors[i]);
    if (lower->status == TENON_OK) /* The import releases it at its end. */
      (void)tn_lower_tensor(lower, tensors[i]);
  }
  out_value->count = (uint32_t)count;
  if (is_list)
    out_value->as.tensors = tensors;
  else if (tensors)
    out_value->as.tensor = tensors[0];
}

/* Reads a tensor as numbers. export_attribute.c writes tensors for numbers that a 32-bit float
 * cannot represent, and for truth values of attributes that also take numbers. */
static void numbers_value(tn_lower_t *lower, const tn_argument_t *argument,
                          const tn_onnx_attribute_t *proto, tenon_value_t *out_value) {
  bool is_list = argument->kind == TENON_KIND_FLOATS;
  tensors_value(lower, proto, out_value);
  if (lower->status != TENON_OK) return;
  const tenon_tensor_t *tensor = out_value->as.tensor;
  if (tensor->ndim == is_list && tn_dtype_is(tensor->dtype, TENON_F64)) {
    if (is_list) {
      out_value->as.floats = tensor->data;
      out_value->count = (uint32_t)tensor->shape[0];
    } else
      out_value->as.f = *(const double *)tensor->data;
  } else if (argument->is_scalar && tensor->ndim == 0 && tn_dtype_is(tensor->dtype, TENON_BOOL)) {
    out_value->kind = TENON_KIND_BOOL;
    out_value->as.i = *(const uint8_t *)tensor->data;
  } else {
    tn_lower_fail(lower, "found a tensor of %s with %d dimensions, expected f64 with %d",
                  tn_dtype_name(tensor->dtype), (int)tensor->ndim, (int)is_list);
  }
}

/* Reads a device: "cpu", "sim", "sim:1". */
static void device_value(tn_lower_t *lower, const tn_onnx_attribute_t *proto,
                         tenon_value_t *out_value) {
  const char *text = copy_string(lower, proto->s);
  const char *colon = text ? strchr(text, ':') : NULL;
  int32_t ordinal = 0;
  if (!text) return;
  for (const char *c = colon ? colon + 1 : ""; *c; c++) {
    if (*c < '0' || *c > '9' || ordinal > 25)
      tn_lower_fail(lower, "'%.100s' is not a device: expected a name such as 'cpu' or 'opencl:1'",
                    text);
    if (lower->status != TENON_OK) return;
    ordinal = 10 * ordinal + (*c - '0');
  }
  char *backend =
      tn_arena_text(&lower->import->arena, text, colon ? (size_t)(colon - text) : strlen(text));
  if (!backend)
    lower->status = tn_no_memory("a device", 0);
  else if (strcmp(backend, "cpu") == 0)
    out_value->as.device = (tenon_device_t){1, 0};
  else
    lower->status = tenon_device_find(backend, ordinal, &out_value->as.device);
}

/* Builds a graph attribute that uses no values from outside. If, Loop and Scan, whose bodies may
 * use such values, have functions of their own. */
static tenon_graph_t *graph_value(tn_lower_t *lower, const tn_attr_t *attr, const tenon_op_t *op) {
  tn_body_t body = {0};
  tenon_graph_t *graph = NULL;
  if (!attr->proto->g) {
    tn_lower_fail(lower, "attribute '%.100s': the graph is missing", attr->name);
    return NULL;
  }
  lower->status =
      tn_body_build(lower->import, attr->scope, lower->scope->site, attr->proto->g, NULL, 0, &body);
  if (lower->status == TENON_OK && body.site.captured_count)
    tn_lower_fail(lower,
                  "attribute '%.100s': its graph uses '%.200s' from outside, but %s does not "
                  "support captured values",
                  attr->name, body.site.captured[0]->name, op->name);
  lower->is_missing = lower->import->missing != NULL;
  if (lower->status == TENON_OK && !lower->is_missing)
    lower->status = tn_body_finish(&body, &graph);
  tn_body_clear(&body);
  return graph;
}

static void float_value(tn_lower_t *lower, const tn_argument_t *argument,
                        const tn_onnx_attribute_t *proto, tenon_value_t *out_value) {
  if (type_of(proto) == TN_ATTRIBUTE_TENSOR) {
    numbers_value(lower, argument, proto, out_value);
  } else if (type_of(proto) == TN_ATTRIBUTE_INT) {
    out_value->kind = TENON_KIND_INT;
    out_value->as.i = proto->i;
  } else {
    out_value->as.f = proto->f;
  }
}

/* Converts the attribute to the argument's kind. The caller releases value->as.graph. */
static void convert_value(tn_lower_t *lower, const tn_attr_t *attr, const tenon_op_t *op,
                          const tn_argument_t *argument, tenon_value_t *value) {
  const tn_onnx_attribute_t *proto = attr->proto;
  switch (argument->kind) {
  case TENON_KIND_BOOL:
    value->as.i = proto->i != 0;
    break;
  case TENON_KIND_INT:
    value->as.i = proto->i;
    break;
  case TENON_KIND_DIM:
    value->as.dim = tenon_extent(proto->i);
    break;
  case TENON_KIND_FLOAT:
    float_value(lower, argument, proto, value);
    break;
  case TENON_KIND_DTYPE:
    dtype_value(lower, attr->name, proto, value);
    break;
  case TENON_KIND_DEVICE:
    device_value(lower, proto, value);
    break;
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
    value->kind = TENON_KIND_INTS;
    value->as.ints = proto->ints.items;
    value->count = (uint32_t)proto->ints.count;
    break;
  case TENON_KIND_FLOATS:
    value->as.floats = proto->floats.items;
    value->count = (uint32_t)proto->floats.count;
    if (type_of(proto) == TN_ATTRIBUTE_INTS)
      floats_value(lower, proto, value);
    else if (type_of(proto) == TN_ATTRIBUTE_TENSOR)
      numbers_value(lower, argument, proto, value);
    break;
  case TENON_KIND_STRS:
    strings_value(lower, proto, value);
    break;
  case TENON_KIND_TENSOR:
  case TENON_KIND_TENSORS:
    tensors_value(lower, proto, value);
    break;
  case TENON_KIND_GRAPH:
    value->as.graph = graph_value(lower, attr, op);
    break;
  default:
    string_value(lower, argument, proto, value);
    break;
  }
}

/* For each type of attribute, the kind of a value that holds it. */
static const uint32_t open_kinds[] = {
    [TN_ATTRIBUTE_FLOAT] = TENON_KIND_FLOAT,   [TN_ATTRIBUTE_INT] = TENON_KIND_INT,
    [TN_ATTRIBUTE_STRING] = TENON_KIND_STR,    [TN_ATTRIBUTE_TENSOR] = TENON_KIND_TENSOR,
    [TN_ATTRIBUTE_FLOATS] = TENON_KIND_FLOATS, [TN_ATTRIBUTE_INTS] = TENON_KIND_INTS,
    [TN_ATTRIBUTE_STRINGS] = TENON_KIND_STRS};

/* Adds an attribute that the schema does not name to the list of the open argument, as a text. */
static bool set_open(tn_lower_t *lower, const tn_attr_t *attr, const tenon_op_t *op,
                     tenon_attrs_t *attrs, const char *name) {
  const tn_onnx_attribute_t *proto = attr->proto;
  const size_t type = (size_t)type_of(proto);
  const uint32_t kind = type < sizeof open_kinds / sizeof *open_kinds ? open_kinds[type] : 0;
  const tn_argument_t argument = {.kind = kind};
  tenon_value_t value = {kind, 0, {0}};
  if (!kind) {
    wrong_type(lower, attr->name, "a number, a string, a list of them or a tensor", proto);
    return false;
  }
  /* The bytes of a string may be zeros. */
  if (kind == TENON_KIND_STR) {
    value.as.s = (const char *)proto->s.data;
    value.count = (uint32_t)proto->s.size;
  } else {
    convert_value(lower, attr, op, &argument, &value);
  }
  if (lower->status == TENON_OK) lower->status = tenon_attrs_set(attrs, name, &value);
  if (lower->status == TENON_OK) return true;
  lower->status = tn_prefix(lower->status, "attribute '%.100s': ", attr->name);
  return false;
}

bool tn_lower_set(tn_lower_t *lower, tn_attr_t *attr, const tenon_op_t *op, tenon_attrs_t *attrs,
                  const char *name, const char *argument_name) {
  int32_t index = tn_schema_attr(&op->schema, argument_name, strlen(argument_name));
  const tn_onnx_attribute_t *proto = attr->proto;
  if (lower->status != TENON_OK) return false;
  if (index < 0 && tn_schema_is_open(&op->schema)) return set_open(lower, attr, op, attrs, name);
  if (index < 0) {
    tn_lower_fail(lower, "%s has no attribute '%s'", op->schema.text, argument_name);
    return false;
  }
  const tn_argument_t *argument = &op->schema.attrs[index];
  tenon_value_t value = {argument->kind, 0, {0}};
  if (!check_type(lower, attr->name, argument->kind, proto)) return false;
  /* UNDEFINED means that the attribute is not given. */
  if (argument->kind == TENON_KIND_DTYPE && argument->is_optional && proto->i == 0 &&
      type_of(proto) == TN_ATTRIBUTE_INT)
    return true;
  convert_value(lower, attr, op, argument, &value);
  const tenon_graph_t *graph = argument->kind == TENON_KIND_GRAPH ? value.as.graph : NULL;
  if (lower->status == TENON_OK && (argument->kind != TENON_KIND_GRAPH || graph))
    lower->status = tenon_attrs_set(attrs, name, &value);
  tenon_graph_release(graph);
  if (lower->status == TENON_OK) return true;
  lower->status = tn_prefix(lower->status, "attribute '%.100s': ", attr->name);
  return false;
}
