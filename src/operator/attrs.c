/* The attributes of one operator, set by name and checked when they are set.  Applications and
 * importers use it.  Invariant: the array of values is always complete, except for required
 * attributes that are not set yet. */
#include "operator/attrs.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/reason.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/value.h"
#include "operator/frame.h"
#include "operator/state.h"

struct tenon_attrs_t {
  const tenon_op_t *op;
  int64_t version; /* version of the operator whose names are used */
  tenon_value_t *values;
  tn_arena_t arena;
  tenon_tensor_t **tensors; /* retained */
  size_t tensor_count;
  size_t tensor_capacity;
  const tenon_graph_t **graphs; /* retained */
  size_t graph_count;
  size_t graph_capacity;
};

tenon_status_t tenon_attrs_create(const tenon_op_t *op, tenon_attrs_t **out_attrs) {
  tenon_attrs_t *attrs = tn_allocate_zero(1, sizeof *attrs);
  if (!attrs) return tn_no_memory("attributes", sizeof *attrs);
  op = tn_op_now(op);
  attrs->op = op;
  attrs->version = op->version;
  uint32_t count = op->schema.attr_count;
  attrs->values = tn_arena_array(&attrs->arena, count + 1, sizeof *attrs->values);
  if (!attrs->values) {
    tenon_attrs_release(attrs);
    return tn_no_memory("attributes", count * sizeof *attrs->values);
  }
  if (count) memcpy(attrs->values, op->defaults, count * sizeof *attrs->values);
  *out_attrs = attrs;
  return TENON_OK;
}

void tenon_attrs_release(tenon_attrs_t *attrs) {
  if (!attrs) return;
  for (size_t i = 0; i < attrs->tensor_count; i++)
    tenon_tensor_release(attrs->tensors[i]);
  for (size_t i = 0; i < attrs->graph_count; i++)
    tn_graph_references.release(attrs->graphs[i]);
  tn_release_memory(attrs->tensors);
  tn_release_memory(attrs->graphs);
  tn_arena_clear(&attrs->arena);
  tn_release_memory(attrs);
}

/* Finds an attribute by its name in attrs->version. *out_index -1: an upgrade of the operator drops
 * it. */
static tenon_status_t find_attr(const tenon_attrs_t *attrs, const char *name, int32_t *out_index) {
  const char *now = tn_upgrades_name(&attrs->op->upgrades, attrs->version, name);
  *out_index = now ? tn_schema_attr(&attrs->op->schema, now, strlen(now)) : -1;
  if (*out_index >= 0 || !now) return TENON_OK;
  return tn_fail(TENON_NOT_FOUND, "%s has no attribute '%s'; its schema is %s", attrs->op->name,
                 name, attrs->op->schema.text);
}

static tenon_status_t keep_attr_tensors(tenon_attrs_t *attrs, const tenon_value_t *value) {
  tenon_tensor_t *one[1] = {value->kind == TENON_KIND_TENSOR ? value->as.tensor : NULL};
  tenon_tensor_t *const *tensors = value->kind == TENON_KIND_TENSORS ? value->as.tensors : one;
  uint32_t count = value->kind == TENON_KIND_TENSORS ? value->count : one[0] != NULL;
  for (uint32_t i = 0; i < count; i++) {
    if (!tn_grow((void **)&attrs->tensors, &attrs->tensor_capacity, attrs->tensor_count,
                 sizeof *attrs->tensors))
      return tn_no_memory("attributes", sizeof *attrs->tensors);
    tenon_tensor_retain(attrs->tensors[attrs->tensor_count++] = tensors[i]);
  }
  if (value->kind != TENON_KIND_GRAPH || !value->as.graph) return TENON_OK;
  if (!tn_grow((void **)&attrs->graphs, &attrs->graph_capacity, attrs->graph_count,
               sizeof *attrs->graphs))
    return tn_no_memory("attributes", sizeof *attrs->graphs);
  tn_graph_references.retain(attrs->graphs[attrs->graph_count++] = value->as.graph);
  return TENON_OK;
}

/* Returns the argument that takes attributes which the schema does not name; -1: there is none, or
 * the schema has the name. */
static int32_t find_open(const tenon_attrs_t *attrs, const char *name) {
  const tn_schema_t *schema = &attrs->op->schema;
  for (uint32_t i = 0; i < schema->attr_count; i++)
    if (schema->attrs[i].is_open)
      return tn_upgrades_name(&attrs->op->upgrades, attrs->version, name) &&
                     tn_schema_attr(schema, name, strlen(name)) < 0
                 ? (int32_t)i
                 : -1;
  return -1;
}

/* Adds "name=value" to the list of an open argument. The value may contain zero bytes. */
static tenon_status_t add_open_attr(tenon_attrs_t *attrs, int32_t index, const char *name,
                                    const char *value, size_t size) {
  tenon_value_t *list = &attrs->values[index];
  tn_text_t text = {0};
  tn_text_add(&text, "%s=", name);
  tn_text_bytes(&text, value, size);
  char *kept = text.failed ? NULL : tn_arena_text(&attrs->arena, text.data, text.size);
  tenon_string_t *strings =
      kept ? tn_arena_array(&attrs->arena, list->count + 1, sizeof *strings) : NULL;
  if (strings) {
    if (list->count) memcpy(strings, list->as.strs, list->count * sizeof *strings);
    strings[list->count] = (tenon_string_t){kept, text.size};
    *list = (tenon_value_t){TENON_KIND_STRS, list->count + 1, {.strs = strings}};
  }
  tn_text_clear(&text);
  return strings ? TENON_OK : tn_no_memory("attributes", sizeof *strings);
}

/* Prints a tensor with its elements, for libraries that read attributes from texts: dtype, shape,
 * and two hexadecimal digits for each byte, "f32[1] 0000803f". */
static tenon_status_t print_open_tensor(const tenon_tensor_t *tensor, tn_text_t *text) {
  if (!tensor || tensor->detail || tn_dtype_is(tensor->dtype, TENON_STRING) ||
      tensor->dtype.bits % 8)
    return tn_fail(TENON_INVALID, "expected a dense tensor of numbers, found one of %s",
                   tensor ? tn_dtype_name(tensor->dtype) : "NULL");
  tn_text_add(text, "%s[", tn_dtype_name(tensor->dtype));
  for (int32_t d = 0; d < tensor->ndim; d++)
    tn_text_add(text, d ? ", %lld" : "%lld", (long long)tensor->shape[d]);
  tn_text_add(text, "] ");
  const unsigned char *bytes = (const unsigned char *)tensor->data + tensor->byte_offset;
  const int64_t size = tenon_count(tensor) * tensor->dtype.bits / 8;
  for (int64_t i = 0; i < size; i++) {
    static const char digits[] = "0123456789abcdef";
    const char pair[2] = {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
    tn_text_bytes(text, pair, 2);
  }
  return TENON_OK;
}

static tenon_status_t add_open_value(tenon_attrs_t *attrs, int32_t index, const char *name,
                                     const tenon_value_t *value) {
  tn_text_t text = {0};
  tenon_status_t status = TENON_OK;
  if (value->kind == TENON_KIND_STR)
    return add_open_attr(attrs, index, name, value->as.s, value->count);
  if (value->kind == TENON_KIND_TENSOR)
    status = print_open_tensor(value->as.tensor, &text);
  else
    tn_value_print(NULL, value, &text);
  if (text.failed) status = tn_no_memory("attributes", text.size);
  if (status == TENON_OK) status = add_open_attr(attrs, index, name, tn_text_get(&text), text.size);
  tn_text_clear(&text);
  return status;
}

tenon_status_t tenon_attrs_set(tenon_attrs_t *attrs, const char *name, const tenon_value_t *value) {
  int32_t i = find_open(attrs, name);
  tenon_value_t converted;
  if (i >= 0) return add_open_value(attrs, i, name, value);
  TN_TRY(find_attr(attrs, name, &i));
  if (i < 0) return TENON_OK;
  TN_TRY(tn_value_convert(&attrs->op->schema, &attrs->op->schema.attrs[i], value, &attrs->arena,
                          &converted));
  TN_TRY(keep_attr_tensors(attrs, &converted));
  attrs->values[i] = converted;
  return TENON_OK;
}

tenon_status_t tenon_attrs_int(tenon_attrs_t *attrs, const char *name, int64_t value) {
  return tenon_attrs_set(attrs, name, &(tenon_value_t){TENON_KIND_INT, 0, {.i = value}});
}

tenon_status_t tenon_attrs_float(tenon_attrs_t *attrs, const char *name, double value) {
  return tenon_attrs_set(attrs, name, &(tenon_value_t){TENON_KIND_FLOAT, 0, {.f = value}});
}

tenon_status_t tenon_attrs_text(tenon_attrs_t *attrs, const char *name, const char *value) {
  size_t size = strlen(value);
  if (size > UINT32_MAX)
    return tn_fail(TENON_INVALID, "attribute %s: a text of %zu bytes", name, size);
  return tenon_attrs_set(attrs, name,
                         &(tenon_value_t){TENON_KIND_STR, (uint32_t)size, {.s = value}});
}

tenon_status_t tenon_attrs_ints(tenon_attrs_t *attrs, const char *name, const int64_t *values,
                                uint32_t count) {
  return tenon_attrs_set(attrs, name, &(tenon_value_t){TENON_KIND_INTS, count, {.ints = values}});
}

static tenon_status_t parse_attr(tenon_attrs_t *attrs, int32_t index, const char *text) {
  tenon_value_t parsed;
  const tn_schema_t *schema = &attrs->op->schema;
  TN_TRY(tn_value_parse(schema, &schema->attrs[index], text, &attrs->arena, &parsed));
  attrs->values[index] = parsed;
  return TENON_OK;
}

tenon_status_t tenon_attrs_parse(tenon_attrs_t *attrs, const char *name, const char *text) {
  int32_t i = find_open(attrs, name);
  if (i >= 0) return add_open_attr(attrs, i, name, text, strlen(text));
  TN_TRY(find_attr(attrs, name, &i));
  return i < 0 ? TENON_OK : parse_attr(attrs, i, text);
}

static tenon_status_t set_upgraded(void *context, const char *name, const char *literal) {
  /* tn_upgrades_check has checked that the schema has the name. */
  tenon_attrs_t *attrs = context;
  return parse_attr(attrs, tn_schema_attr(&attrs->op->schema, name, strlen(name)), literal);
}

tenon_status_t tenon_attrs_upgrade(tenon_attrs_t *attrs, int64_t version) {
  if (version < 1)
    return tn_fail(TENON_INVALID, "%s: version %lld: versions are counted from 1", attrs->op->name,
                   (long long)version);
  attrs->version = version;
  return tn_upgrades_set(&attrs->op->upgrades, version, set_upgraded, attrs);
}

tenon_status_t tn_attrs_check(const tenon_op_t *op, const tenon_value_t *values) {
  TN_TRY(tn_values_check(&op->schema, values));
  if (!op->validate) return TENON_OK;
  tenon_node_t node = {.size = sizeof node,
                       .phase = TENON_PHASE_VALIDATE,
                       .host = tn_host_services,
                       .op = op,
                       .attrs = values,
                       .context = op->context,
                       .device = {1, 0}};
  const uint64_t errors = tn_error_count();
  return tn_reason_complete(op->validate(&node), errors, op->name, "validate");
}

tenon_status_t tenon_attrs_values(tenon_attrs_t *attrs, const tenon_value_t **out_values) {
  const tenon_op_t *op = tn_op_now(attrs->op);
  if (tn_op_has_ended(op)) return tn_op_ended(op);
  TN_TRY(tn_attrs_check(op, attrs->values));
  *out_values = attrs->values;
  return TENON_OK;
}
