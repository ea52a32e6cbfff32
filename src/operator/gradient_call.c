/* Arguments of the calls in gradient formulas; see gradient_call.h. */
#include "operator/gradient_call.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "core/convert.h"
#include "core/value.h"
#include "operator/names.h"

void tn_put_float(double value, tenon_dtype_t dtype, void *to) {
  const float f = (float)value;
  if (tn_dtype_is(dtype, TENON_F64))
    memcpy(to, &value, sizeof value);
  else if (tn_dtype_is(dtype, TENON_F32))
    memcpy(to, &f, sizeof f);
  else
    tn_convert(&f, tenon_dtype(TENON_F32), to, dtype, 1);
}

tenon_status_t tn_gradient_callee(const tn_differentiated_t *of, const tn_gradient_value_t *call,
                                  const tenon_op_t **out_op) {
  *out_op = tn_registry_find(call->name);
  if (*out_op) return TENON_OK;
  return tn_fail(
      TENON_NOT_FOUND,
      "the gradient of %s calls %s, which is not registered: load the library that defines it",
      of->op->name, call->name);
}

tenon_status_t tn_gradient_target(const tn_differentiated_t *of, const tenon_op_t *op,
                                  const tn_gradient_value_t *value, uint32_t *place,
                                  const tn_argument_t **out_target) {
  const tn_argument_t *target = NULL;
  if (!value->keyword && *place < op->schema.argument_count)
    target = op->schema.arguments[(*place)++];
  for (uint32_t k = 0; value->keyword && k < op->schema.argument_count; k++)
    if (strcmp(op->schema.arguments[k]->name, value->keyword) == 0)
      target = op->schema.arguments[k];
  *out_target = target;
  if (target) return TENON_OK;
  return tn_fail(TENON_INVALID,
                 "the gradient of %s passes %s more values than it has arguments, or an argument "
                 "named '%s' that it does not have: %s",
                 of->op->name, op->name, value->keyword ? value->keyword : "", op->schema.text);
}

tenon_status_t tn_gradient_attr(const tn_differentiated_t *of, const tenon_op_t *op,
                                const tn_argument_t *attr, const tn_gradient_value_t *value,
                                tn_arena_t *arena, tenon_value_t *out_value) {
  if (value->kind != TN_GRADIENT_ATTR && value->kind != TN_GRADIENT_LITERAL)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: attribute %s is given a tensor: expected an attribute or a literal",
                   op->name, attr->name);
  tenon_value_t given = value->literal;
  if (value->kind == TN_GRADIENT_ATTR) {
    const tn_argument_t *from = &of->op->schema.attrs[value->index];
    given = of->attrs[value->index];
    /* The numbers of choices differ between operators, so the choice is passed as text. */
    if (given.kind == TENON_KIND_CHOICE) {
      const char *text = from->choices[given.as.i];
      given = (tenon_value_t){TENON_KIND_STR, (uint32_t)strlen(text), {.s = text}};
    }
    if (given.kind == TENON_KIND_NONE && attr->has_default && !attr->is_optional) return TENON_OK;
  }
  return tn_value_convert(&op->schema, attr, &given, arena, out_value);
}

tenon_status_t tn_gradient_tensor(const tenon_value_t *value, tenon_dtype_t float_dtype,
                                  tenon_tensor_t **out_tensor) {
  bool is_list = value->kind == TENON_KIND_INTS || value->kind == TENON_KIND_DIMS ||
                 value->kind == TENON_KIND_FLOATS;
  bool is_float = value->kind == TENON_KIND_FLOAT || value->kind == TENON_KIND_FLOATS;
  int64_t count = is_list ? value->count : 1;
  *out_tensor = NULL;
  switch (value->kind) {
  case TENON_KIND_NONE:
    return TENON_OK;
  case TENON_KIND_TENSOR:
    tenon_tensor_retain(*out_tensor = value->as.tensor);
    return TENON_OK;
  case TENON_KIND_INT:
  case TENON_KIND_DIM:
  case TENON_KIND_BOOL:
  case TENON_KIND_FLOAT:
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
  case TENON_KIND_FLOATS:
    break;
  default:
    return tn_fail(TENON_UNIMPLEMENTED,
                   "an input is given a %s: expected a tensor, a number or a list of numbers",
                   tn_kind_name(value->kind));
  }
  tenon_dtype_t dtype = is_float ? float_dtype : tenon_dtype(TENON_I64);
  TN_TRY(tenon_tensor_create(dtype, is_list, &count, out_tensor));
  const char *from =
      is_list ? (const char *)value->as.ints : (const char *)&value->as.i; /* each of 8 bytes */
  char *to = (*out_tensor)->data;
  for (int64_t i = 0; i < count; i++, from += 8, to += dtype.bits / 8) {
    if (is_float)
      tn_put_float(*(const double *)(const void *)from, dtype, to);
    else
      memcpy(to, from, 8);
  }
  return TENON_OK;
}

tenon_status_t tn_gradient_inputs(const tn_differentiated_t *of, const tenon_op_t *op,
                                  const bool *is_given) {
  for (uint32_t i = 0; i < op->input_count; i++)
    if (!is_given[i] && !op->schema.inputs[i].is_optional)
      return tn_fail(TENON_INVALID, "the gradient of %s passes %s no value for input %s",
                     of->op->name, op->name, op->schema.inputs[i].name);
  return TENON_OK;
}
