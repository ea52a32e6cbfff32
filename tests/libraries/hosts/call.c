/* call.c: a C program that calls operators of a library, for tests/adapters/jax_hosts_test.py.
 *
 *     call LIBRARY SCRIPT
 *
 * Each line of the script is a command:
 *     op NAME            begins a call
 *     seed NUMBER        seeds the random numbers of this thread
 *     attr NAME VALUE    sets an attribute, in the language of schemas
 *     input FILE         adds an input, which is read from a file of NumPy
 *     list COUNT         makes a list of the newest inputs
 *     absent             adds an optional input that is omitted
 *     run FILE           runs the call, and writes its first result to a file */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { INPUTS_MOST = 16 };

typedef struct call_t {
  const tenon_op_t *op;
  tenon_attrs_t *attrs;
  tenon_tensor_t *inputs[INPUTS_MOST];
  int32_t input_count;
} call_t;

static void begin_call(call_t *call, const tenon_op_t *op, tenon_attrs_t *attrs) {
  for (int32_t i = 0; i < call->input_count; i++)
    tenon_tensor_release(call->inputs[i]);
  tenon_attrs_release(call->attrs);
  *call = (call_t){.op = op, .attrs = attrs};
}

static tenon_status_t find_op(call_t *call, const char *name) {
  const tenon_op_t *op;
  tenon_attrs_t *attrs;
  TENON_TRY(tenon_op_find(name, &op));
  TENON_TRY(tenon_attrs_create(op, &attrs));
  begin_call(call, op, attrs);
  return TENON_OK;
}

static tenon_status_t make_list(call_t *call, int32_t count) {
  tenon_tensor_t **items = call->inputs + call->input_count - count;
  tenon_tensor_t *list;
  TENON_TRY(tenon_tensor_list(items, count, &list));
  for (int32_t i = 0; i < count; i++)
    tenon_tensor_release(items[i]);
  items[0] = list;
  call->input_count -= count - 1;
  return TENON_OK;
}

static tenon_status_t run(call_t *call, const char *path) {
  const tenon_value_t *values;
  tenon_tensor_t *output = NULL;
  TENON_TRY(tenon_attrs_values(call->attrs, &values));
  TENON_TRY(tenon_op_call(call->op, values, call->inputs, &output, 0));
  const tenon_status_t status = tenon_tensor_save(output, path);
  tenon_tensor_release(output);
  return status;
}

static tenon_status_t add_input(call_t *call, const char *path) {
  if (call->input_count == INPUTS_MOST) return TENON_RANGE;
  tenon_tensor_t **input = &call->inputs[call->input_count++];
  *input = NULL;
  return path ? tenon_tensor_load(path, input) : TENON_OK;
}

static tenon_status_t follow(call_t *call, const char *verb, const char *what, const char *value) {
  if (!strcmp(verb, "op")) return find_op(call, what);
  if (!strcmp(verb, "attr")) return tenon_attrs_parse(call->attrs, what, value);
  if (!strcmp(verb, "input")) return add_input(call, what);
  if (!strcmp(verb, "absent")) return add_input(call, NULL);
  if (!strcmp(verb, "list")) return make_list(call, atoi(what));
  if (!strcmp(verb, "run")) return run(call, what);
  if (strcmp(verb, "seed") != 0) return TENON_UNIMPLEMENTED;
  tenon_random_seed(strtoull(what, NULL, 10));
  return TENON_OK;
}

int main(int argc, char **argv) {
  char line[1000];
  char words[3][300];
  call_t call = {0};
  FILE *script = argc == 3 ? fopen(argv[2], "r") : NULL;
  if (!script) {
    fprintf(stderr, "usage: call LIBRARY SCRIPT\n");
    return 2;
  }
  tenon_status_t status = tenon_library_load(argv[1], 0, NULL);
  while (status == TENON_OK && fgets(line, sizeof line, script)) {
    words[1][0] = words[2][0] = 0;
    sscanf(line, "%299s %299s %299[^\n]", words[0], words[1], words[2]);
    status = follow(&call, words[0], words[1], words[2]);
    if (status != TENON_OK) fprintf(stderr, "%s: status %d: %s\n", line, status, tenon_error());
  }
  begin_call(&call, NULL, NULL);
  fclose(script);
  return status != TENON_OK;
}
