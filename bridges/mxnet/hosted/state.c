#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "message.h"

static const uint32_t dtypes[DTYPES] = {TENON_F32, TENON_F64, TENON_F16, TENON_U8,
                                        TENON_I32, TENON_I8,  TENON_I64};

int dtype_to(tenon_dtype_t dtype) {
  for (int i = 0; i < DTYPES; i++)
    if (dtypes[i] == tenon_dtype_id(dtype)) return i;
  return -1;
}

bool dtype_from(int number, tenon_dtype_t *out) {
  if (number < 0 || number >= DTYPES) return false;
  *out = tenon_dtype(dtypes[number]);
  return true;
}

const char *device_name(tenon_device_t device) { return device.type == 1 ? "cpu" : "gpu"; }

bool state_check(const state_t *state, int result, const char *what, char *why, size_t capacity) {
  char said[WHY / 2];
  if (result > 0) return true;
  snprintf(said, sizeof said, "%s", result < 0 ? why : "");
  snprintf(why, capacity, "%s failed%s%s", what, result < 0 ? ": " : "", said);
  if (result == 0) hosted_messages(state->op->library, why, capacity);
  return false;
}

/* attributes */

static bool set_attributes(state_t *state, const tenon_value_t *list, char *why, size_t capacity) {
  size_t size = 0;
  for (uint32_t i = 0; i < list->count; i++)
    size += list->as.strs[i].size + 1;
  char *at = state->text = malloc(size + 1);
  state->keys = calloc(list->count + 1, sizeof *state->keys);
  state->values = calloc(list->count + 1, sizeof *state->values);
  if (!at || !state->keys || !state->values) {
    snprintf(why, capacity, "out of memory");
    return false;
  }
  for (uint32_t i = 0; i < list->count; i++) {
    const tenon_string_t *text = &list->as.strs[i];
    char *equals = memcpy(at, text->data, text->size);
    at[text->size] = 0;
    if (strlen(at) != text->size || !(equals = strchr(at, '=')) || equals == at) {
      snprintf(why, capacity, "attribute '%.100s': expected name=value", at);
      return false;
    }
    *equals = 0;
    state->keys[i] = at;
    state->values[i] = equals + 1;
    at += text->size + 1;
  }
  state->count = (int)list->count;
  return true;
}

typedef struct asked_t {
  state_t *state;
  int *which;
  int which_count;
} asked_t;

static int parse(void *argument) {
  state_t *s = ((asked_t *)argument)->state;
  return s->op->library->abi._opCallParseAttrs(s->op->parse, s->keys, s->values, s->count,
                                               &s->in_count, &s->out_count);
}

static int mutates(void *argument) {
  asked_t *a = argument;
  return a->state->op->library->abi._opCallMutateInputs(a->state->op->mutates, a->state->keys,
                                                        a->state->values, a->state->count,
                                                        &a->which, &a->which_count);
}

/* Finds the inputs that the operator writes to, as bits. */
static bool find_written(state_t *state, uint64_t *out, char *why, size_t capacity) {
  asked_t asked = {.state = state};
  *out = 0;
  if (!state->op->mutates) return true;
  if (!state_check(state, guard_call(mutates, &asked, why, capacity), "mutateInputs", why,
                   capacity))
    return false;
  bool good = true;
  for (int i = 0; i < asked.which_count && good; i++) {
    good = asked.which[i] >= 0 && asked.which[i] < state->in_count && asked.which[i] < 64;
    if (good)
      *out |= (uint64_t)1 << asked.which[i];
    else
      snprintf(why, capacity, "mutateInputs returned input %d, but the operator has %d inputs",
               asked.which[i], state->in_count);
  }
  if (asked.which) state->op->library->abi._opCallFree(asked.which);
  return good;
}

static bool find_extra(state_t *state, char *why, size_t capacity) {
  for (int i = 0; i < state->count; i++) {
    char *end;
    if (strcmp(state->keys[i], HOSTED_EXTRA) != 0) continue;
    const long extra = strtol(state->values[i], &end, 10);
    if (*end || end == state->values[i] || extra < 0 || extra > 1 << 16) {
      snprintf(why, capacity,
               "attribute %s='%.100s': expected the number of inputs that a pass added",
               HOSTED_EXTRA, state->values[i]);
      return false;
    }
    state->extra = (int)extra;
  }
  return true;
}

/* Checks the attributes of a subgraph operator. Its graph determines the number of inputs and
 * results. */
static bool fits_subgraph(state_t *state, const tenon_value_t *attrs, char *why, size_t capacity) {
  bool has_text = false;
  if (!attrs[0].as.graph) {
    snprintf(why, capacity, "the node has no graph");
    return false;
  }
  for (int i = 0; i < state->count; i++)
    has_text |= strcmp(state->keys[i], HOSTED_SUBGRAPH) == 0;
  if (!has_text) {
    snprintf(why, capacity,
             "attribute %s is missing: only partitioners of the library create such nodes",
             HOSTED_SUBGRAPH);
    return false;
  }
  state->in_count = tenon_graph_input_count(attrs[0].as.graph);
  state->out_count = (int)attrs[1].as.i;
  return true;
}

bool state_counts(const hosted_op_t *op, const char *const *keys, const char *const *values,
                  int count, int *out_in, int *out_out, char *why, size_t capacity) {
  state_t state = {.op = op, .count = count, .in_count = -1, .out_count = -1};
  asked_t asked = {.state = &state};
  state.keys = (const char **)(uintptr_t)keys;
  state.values = (const char **)(uintptr_t)values;
  if (!state_check(&state, guard_call(parse, &asked, why, capacity), "parseAttrs", why, capacity))
    return false;
  *out_in = state.in_count;
  *out_out = state.out_count;
  if (state.in_count >= 0 && state.out_count >= 0 && state.out_count < 1 << 16) return true;
  snprintf(why, capacity, "parseAttrs returned %d inputs and %d outputs, which is not possible",
           state.in_count, state.out_count);
  return false;
}

/* Checks that the operator has the inputs and results of its schema also with these attributes. */
static bool fits(state_t *state, char *why, size_t capacity) {
  const hosted_op_t *op = state->op;
  uint64_t written;
  asked_t asked = {.state = state};
  if (op->parse &&
      !state_check(state, guard_call(parse, &asked, why, capacity), "parseAttrs", why, capacity))
    return false;
  if (state->in_count < 0 || state->out_count < 0) {
    snprintf(why, capacity, "parseAttrs returned %d inputs and %d outputs, which is not possible",
             state->in_count, state->out_count);
    return false;
  }
  if (!find_written(state, &written, why, capacity)) return false;
  if (state->is_list || (state->in_count == op->in_count && state->out_count == op->out_count &&
                         written == op->written))
    return true;
  snprintf(why, capacity,
           "for these attributes the operator has %d inputs and %d outputs, %s: call %s.list, "
           "which accepts any number",
           state->in_count, state->out_count,
           written == op->written ? "other numbers than without attributes"
                                  : "and writes to other inputs",
           op->name);
  return false;
}

/* the state */

static const hosted_op_t *find_op(const hosted_t *library, const tenon_op_t *op,
                                  bool *out_is_list) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  const char *name = strstr(info.name, "::") + 2;
  const char *point = strchr(name, '.');
  const size_t size = point ? (size_t)(point - name) : strlen(name);
  /* The first round looks for the whole name, because an operator may itself be called
   * _backward_x. */
  for (int pass = 0; pass < 2; pass++) {
    const size_t prefix = pass ? strlen("_backward_") : 0;
    if (pass && strncmp(name, "_backward_", prefix) != 0) break;
    for (int i = 0; i < library->op_count; i++) {
      const hosted_op_t *o = &library->ops[i];
      if (strlen(o->name) != size - prefix || memcmp(o->name, name + prefix, size - prefix) != 0)
        continue;
      *out_is_list = point || o->in_count < 0;
      return o;
    }
  }
  return NULL;
}

void state_destroy(void *pointer) {
  state_t *state = pointer;
  if (!state) return;
  for (instance_t *i = state->instances, *next; i; i = next) {
    next = i->next;
    if (state->op->library->abi._opCallDestroyOpState)
      state->op->library->abi._opCallDestroyOpState(i->object);
    pthread_mutex_destroy(&i->turns);
    free(i);
  }
  pthread_mutex_destroy(&state->lock);
  free(state->text);
  free(state->keys);
  free(state->values);
  free(state);
}

tenon_status_t state_create(tenon_node_t *node) {
  char why[WHY] = "";
  bool is_list = false;
  const hosted_op_t *op = find_op(node->context, node->op, &is_list);
  if (!op) return tenon_fail(node, TENON_INTERNAL, "the library no longer has this operator");
  state_t *state = calloc(1, sizeof *state);
  if (!state) return tenon_fail(node, TENON_MEMORY, "%s: out of memory", op->name);
  pthread_mutex_init(&state->lock, NULL);
  state->op = op;
  state->is_list = is_list;
  state->in_count = state->out_count = -1;
  bool good = set_attributes(state, &node->attrs[op->is_subgraph ? 2 : 0], why, sizeof why) &&
              find_extra(state, why, sizeof why);
  if (good && op->is_subgraph)
    good = fits_subgraph(state, node->attrs, why, sizeof why);
  else if (good)
    good = fits(state, why, sizeof why);
  if (good) {
    node->state = state;
    return TENON_OK;
  }
  state_destroy(state);
  return tenon_fail(node, TENON_INVALID, "%s", why);
}

/* objects of stateful operators */

typedef struct create_t {
  const state_t *state;
  tenon_device_t device;
  author_fn function;
  unsigned **shapes;
  int *ndims;
  int *dtypes;
  int count;
  void *object;
} create_t;

static int create(void *argument) {
  create_t *c = argument;
  const state_t *s = c->state;
  const hosted_t *l = s->op->library;
  /* In version 7 the function receives only the attributes. */
  if (l->version == 7) {
    create_7_fn create_7;
    _Static_assert(sizeof create_7 == sizeof l->abi._opCallCreateOpState,
                   "one is called as the other");
    memcpy(&create_7, &l->abi._opCallCreateOpState, sizeof create_7);
    return create_7(c->function, s->keys, s->values, s->count, &c->object);
  }
  return l->abi._opCallCreateOpState(c->function, s->keys, s->values, s->count,
                                     device_name(c->device), c->device.id, c->shapes, c->ndims,
                                     c->count, c->dtypes, &c->object);
}

static bool make_object(create_t *c, const int64_t *key, unsigned *extents, char *why,
                        size_t capacity) {
  for (int i = 0; i < c->count; i++) {
    c->dtypes[i] = (int)*key++;
    c->ndims[i] = (int)*key++;
    c->shapes[i] = extents;
    for (int d = 0; d < c->ndims[i]; d++)
      *extents++ = (unsigned)*key++;
  }
  if (!state_check(c->state, guard_call(create, c, why, capacity), "createOpState", why, capacity))
    return false;
  if (c->object) return true;
  snprintf(why, capacity, "createOpState returned no state");
  return false;
}

static instance_t *add_instance(state_t *state, tenon_device_t device, const int64_t *key, int size,
                                char *why, size_t capacity) {
  const size_t count = (size_t)(state->in_count + state->extra);
  instance_t *made = malloc(sizeof *made + (size_t)size * sizeof *key);
  char *room =
      malloc(count * (sizeof(unsigned *) + 2 * sizeof(int)) + (size_t)size * sizeof(unsigned) + 8);
  create_t c = {.state = state, .device = device, .count = size ? (int)count : 0};
  c.function = device.type == 1 ? state->op->create.cpu : state->op->create.gpu;
  bool good = made && room;
  if (!good)
    snprintf(why, capacity, "out of memory");
  else {
    c.shapes = (unsigned **)(void *)room;
    c.ndims = (int *)(void *)(c.shapes + count);
    c.dtypes = c.ndims + count;
    good = make_object(&c, key, (unsigned *)(c.dtypes + count), why, capacity);
  }
  free(room);
  if (!good) {
    free(made);
    return NULL;
  }
  *made =
      (instance_t){.next = state->instances, .object = c.object, .device = device, .count = size};
  memcpy(made->key, key, (size_t)size * sizeof *key);
  pthread_mutex_init(&made->turns, NULL);
  return state->instances = made;
}

instance_t *state_instance(state_t *state, tenon_device_t device, tenon_tensor_t *const *inputs,
                           char *why, size_t capacity) {
  int64_t few[64];
  int64_t *key = few;
  size_t size = 0;
  size_t most = 0;
  const bool any_shape = state->op->library->version == 7;
  const int count = state->in_count + state->extra;
  for (int i = 0; i < count && !any_shape; i++)
    most += 2 + (size_t)inputs[i]->ndim;
  if (most > 64 && !(key = malloc(most * sizeof *key))) {
    snprintf(why, capacity, "out of memory");
    return NULL;
  }
  for (int i = 0; i < count && !any_shape; i++) {
    key[size++] = dtype_to(inputs[i]->dtype);
    key[size++] = inputs[i]->ndim;
    for (int32_t d = 0; d < inputs[i]->ndim; d++)
      key[size++] = inputs[i]->shape[d];
  }
  pthread_mutex_lock(&state->lock);
  instance_t *found = state->instances;
  while (found &&
         (found->device.type != device.type || found->device.id != device.id ||
          (size_t)found->count != size || memcmp(found->key, key, size * sizeof *key) != 0))
    found = found->next;
  if (!found) found = add_instance(state, device, key, (int)size, why, capacity);
  pthread_mutex_unlock(&state->lock);
  if (key != few) free(key);
  return found;
}
