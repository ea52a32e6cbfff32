/* Describes operators; see operator.h. */
#include "operator.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static tenon_status_t refuse_operator(tenon_status_t status, const char *format, ...) {
  char text[1000];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return host.tenon_error_set(status, text);
}

static tenon_status_t read_arguments_of(exported_t *e, uint32_t role, int32_t count,
                                        tenon_argument_t *out) {
  for (int32_t i = 0; i < count; i++) {
    out[i] = (tenon_argument_t){.size = sizeof *out};
    TENON_TRY(host.tenon_op_argument(e->op, role, i, &out[i]));
    if (role != TENON_ARGUMENT_OUTPUT && out[i].place < 2 * SIDE_MOST)
      e->arguments[out[i].place] = &out[i];
  }
  return TENON_OK;
}

static bool can_pass(const tenon_argument_t *attr) {
  return attr->kind != TENON_KIND_TENSOR && attr->kind != TENON_KIND_TENSORS &&
         attr->kind != TENON_KIND_GRAPH;
}

static tenon_status_t check_arguments(const exported_t *e) {
  for (int32_t i = 0; i < e->attr_count; i++)
    if (!can_pass(&e->attrs[i]) && !e->attrs[i].has_default && !e->attrs[i].is_optional)
      return refuse_operator(TENON_UNIMPLEMENTED,
                             "%s: attribute '%s' is a tensor or a graph, which a function of "
                             "tvm-ffi cannot pass",
                             e->name, e->attrs[i].name);
  for (int32_t i = 0; i < e->output_count; i++)
    if (e->outputs[i].kind == TENON_KIND_TENSORS && e->output_count > 1)
      return refuse_operator(TENON_UNIMPLEMENTED,
                             "%s: result '%s' is a list beside other results, which a function of "
                             "tvm-ffi cannot return",
                             e->name, e->outputs[i].name);
  return TENON_OK;
}

tenon_status_t exported_describe(const char *name, exported_t *e) {
  tenon_op_info_t info = {.size = sizeof info};
  *e = (exported_t){.name = name};
  TENON_TRY(host.tenon_op_find(name, &e->op));
  host.tenon_op_info(e->op, &info);
  e->input_count = info.input_count;
  e->attr_count = info.attr_count;
  e->output_count = info.output_count;
  e->argument_count = info.input_count + info.attr_count;
  TENON_TRY(read_arguments_of(e, TENON_ARGUMENT_INPUT, e->input_count, e->inputs));
  TENON_TRY(read_arguments_of(e, TENON_ARGUMENT_ATTR, e->attr_count, e->attrs));
  TENON_TRY(read_arguments_of(e, TENON_ARGUMENT_OUTPUT, e->output_count, e->outputs));
  for (int32_t i = 0; i < e->output_count; i++)
    e->has_views |= e->outputs[i].mark != 0;
  return check_arguments(e);
}
