/* Runs a pass on a graph in JSON form with its parameters, and reads the result. The library must
 * not write to the graph's own constants, so it receives copies; copies that it changed replace the
 * old constants in the new graph. */
#include "pass.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "common/guard.h"
#include "message.h"
#include "nnvm_block.h"
#include "nnvm_read.h"
#include "state.h"

typedef struct passing_t {
  const hosted_pass_t *pass;
  nnvm_t old;
  tn_arena_t arena;
  const char **keys;
  const char **values;
  int count;
  nnvm_block_t args;
  nnvm_block_t aux;
  tenon_tensor_t **copies; /* the copies of `args`, followed by those of `aux` */
  nnvm_param_t *params;
  char *json; /* allocated by the library */
} passing_t;

/* parameters */

/* Takes the tensor over. */
static tenon_status_t add_param(passing_t *p, const char *name, tenon_tensor_t *tensor) {
  nnvm_param_t *made = tn_arena_array(&p->arena, 1, sizeof *made);
  if (!made || !(made->name = tn_arena_text(&p->arena, name, strlen(name)))) {
    tenon_tensor_release(tensor);
    return tn_no_memory("a parameter", 0);
  }
  made->tensor = tensor;
  made->next = p->params;
  p->params = made;
  return TENON_OK;
}

static tenon_status_t copy_block(nnvm_block_t *b, tenon_tensor_t **copies) {
  for (int i = 0; i < b->count; i++) {
    tenon_dtype_t dtype;
    (void)dtype_from(b->dtypes[i], &dtype);
    TENON_TRY(tenon_tensor_create(dtype, b->ndims[i], b->shapes[i], &copies[i]));
    const size_t size = (size_t)tenon_count(copies[i]) * dtype.bits / 8;
    if (size) memcpy(copies[i]->data, b->data[i], size);
  }
  return TENON_OK;
}

/* Lets the library write to the copies; `own` keeps the pointers to the graph's own constants. */
static void lend(nnvm_block_t *b, tenon_tensor_t **copies, void **own) {
  for (int i = 0; i < b->count; i++) {
    own[i] = b->data[i];
    b->data[i] = copies[i]->data;
  }
}

static tenon_status_t find_changed(passing_t *p, const nnvm_block_t *b, tenon_tensor_t **copies,
                                   void *const *own) {
  for (int i = 0; i < b->count; i++) {
    const size_t size = (size_t)tenon_count(copies[i]) * copies[i]->dtype.bits / 8;
    if (!size || memcmp(copies[i]->data, own[i], size) == 0) continue;
    tenon_tensor_t *changed = copies[i];
    copies[i] = NULL;
    TENON_TRY(add_param(p, b->names[i], changed));
  }
  return TENON_OK;
}

static tenon_status_t add_zeroed_param(passing_t *p, const char *name, tenon_tensor_t *tensor) {
  memset(tensor->data, 0, (size_t)tenon_count(tensor) * tensor->dtype.bits / 8);
  return add_param(p, name, tensor);
}

/* The library calls this function to create a parameter. It cannot report a failure to the library,
 * so it throws an exception through the library to guard_call. */
static void allocate(const void *handle, const int64_t *shape, int ndim, const char *device, int id,
                     int dtype, const char *name, int is_arg, void **data) {
  passing_t *p = (passing_t *)(uintptr_t)handle;
  tenon_dtype_t type = {0, 0, 0};
  tenon_tensor_t *tensor = NULL;
  char why[WHY];
  (void)id;
  (void)is_arg;
  *data = NULL;
  snprintf(why, sizeof why, "parameter '%.100s': ", name ? name : "");
  char *end = why + strlen(why);
  const size_t room = sizeof why - strlen(why);
  if (!name || !*name)
    snprintf(end, room, "expected a name");
  else if (!device || strcmp(device, "cpu") != 0)
    snprintf(
        end, room,
        "expected the device 'cpu', since parameters of graphs are in host memory; found '%.20s'",
        device ? device : "");
  else if (!dtype_from(dtype, &type))
    snprintf(end, room, "expected a dtype from 0 to 6, found %d", dtype);
  else if (ndim < 0 || ndim > TENON_RANK_MAX || (ndim && !shape))
    snprintf(end, room, "%d dimensions are not supported", ndim);
  else if (tenon_tensor_create(type, ndim, shape, &tensor) != TENON_OK)
    snprintf(end, room, "%s", tenon_error());
  else if (add_zeroed_param(p, name, tensor) != TENON_OK)
    snprintf(end, room, "out of memory");
  else {
    *data = tensor->data;
    return;
  }
  guard_throw(why);
}

/* the call */

#define BLOCK(b)                                                                                   \
  (b).names, (b).count, (b).data, (b).shapes, (b).ndims, (b).dtypes, (b).versions, (b).devices,    \
      (b).ids

static int run_pass(void *argument) {
  passing_t *p = argument;
  return p->pass->library->abi._passCallGraphPass(p->pass->function, p->old.json, &p->json, p->keys,
                                                  p->values, p->count, p->pass->table.name,
                                                  BLOCK(p->args), BLOCK(p->aux), allocate, p);
}

/* Determines the size of the returned text. In version 7 the text is not terminated, so it ends
 * with the brace that closes the first one; otherwise it ends with a zero byte. */
static tenon_status_t measure(const passing_t *p, size_t *out_size) {
  const size_t most = malloc_usable_size(p->json);
  int depth = 0;
  bool is_text = false;
  *out_size = strnlen(p->json, most);
  if (p->pass->library->version != 7)
    return *out_size < most
               ? TENON_OK
               : tn_fail(TENON_INVALID, "its graph text does not end with a zero byte");
  for (size_t i = 0; i < most; i++) {
    const char c = p->json[i];
    if (is_text && c == '\\')
      i++;
    else if (c == '"')
      is_text = !is_text;
    else if (!is_text && c == '{')
      depth++;
    else if (!is_text && c == '}' && --depth == 0) {
      *out_size = i + 1;
      return TENON_OK;
    }
  }
  return tn_fail(TENON_INVALID, "its graph text ends before the last closing brace");
}

static tenon_status_t call_library(passing_t *p) {
  char why[WHY] = "";
  const int result = guard_call(run_pass, p, why, sizeof why);
  if (result > 0) return p->json ? TENON_OK : tn_fail(TENON_INVALID, "it returned no graph");
  if (result < 0) return tn_fail(TENON_UNKNOWN, "%s", why);
  snprintf(why, sizeof why, "it failed");
  hosted_messages(p->pass->library, why, sizeof why);
  return tn_fail(TENON_UNKNOWN, "%s", why);
}

static tenon_status_t pass_graph(passing_t *p, const tenon_pass_call_t *call,
                                 tenon_graph_t **out_graph) {
  size_t size;
  const size_t options = (size_t)call->option_count + 1;
  p->keys = tn_arena_array(&p->arena, options, sizeof *p->keys);
  p->values = tn_arena_array(&p->arena, options, sizeof *p->values);
  if (!p->keys || !p->values) return tn_no_memory("a pass", 0);
  p->count = call->option_count;
  for (int i = 0; i < p->count; i++) {
    p->keys[i] = call->options[i].name;
    p->values[i] = call->options[i].value;
  }
  TENON_TRY(nnvm_write(call->graph, NULL, NULL, &p->old));
  TENON_TRY(nnvm_blocks(&p->old, &p->arena, &p->args, &p->aux));
  const size_t count = (size_t)(p->args.count + p->aux.count) + 1;
  void **own = tn_arena_array(&p->arena, count, sizeof *own);
  p->copies = tn_arena_array(&p->arena, count, sizeof *p->copies);
  if (!p->copies || !own) return tn_no_memory("parameters", 0);
  tenon_tensor_t **aux = p->copies + p->args.count;
  TENON_TRY(copy_block(&p->args, p->copies));
  TENON_TRY(copy_block(&p->aux, aux));
  lend(&p->args, p->copies, own);
  lend(&p->aux, aux, own + p->args.count);
  tenon_status_t status = call_library(p);
  if (status == TENON_OK) status = find_changed(p, &p->args, p->copies, own);
  if (status == TENON_OK) status = find_changed(p, &p->aux, aux, own + p->args.count);
  if (status == TENON_OK) status = measure(p, &size);
  return status == TENON_OK
             ? nnvm_read(p->pass->library, &p->old, p->json, size, p->params, out_graph)
             : status;
}

tenon_status_t pass_run(tenon_pass_call_t *call, tenon_graph_t **out_graph) {
  passing_t p = {.pass = (const hosted_pass_t *)call->pass};
  tenon_status_t status = pass_graph(&p, call, out_graph);
  for (nnvm_param_t *at = p.params; at; at = at->next)
    tenon_tensor_release(at->tensor);
  for (int i = 0; p.copies && i < p.args.count + p.aux.count; i++)
    tenon_tensor_release(p.copies[i]);
  if (p.json) p.pass->library->abi._opCallFree(p.json);
  nnvm_clear(&p.old);
  tn_arena_clear(&p.arena);
  return status;
}
