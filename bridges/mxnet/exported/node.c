/* Creates nodes and parses their attributes; see node.h. */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "direct.h"
#include "message.h"

enum { KEPT_MOST = 1024 };

/* Returns whether the key belongs to MXNet, as "__shape__" does. */
static bool is_own(const char *key) {
  size_t size = strlen(key);
  return size > 4 && strncmp(key, "__", 2) == 0 && strcmp(key + size - 2, "__") == 0;
}

/* attributes */

/* Returns Tenon's name of a dtype that is written as in Python, such as float32 or <class
 * 'numpy.float32'>. */
static const char *dtype_word(const char *text) {
  static const char opening[] = "<class 'numpy.";
  static const char closing[] = "'>";
  size_t size = strlen(text);
  size_t front = sizeof opening - 1;
  size_t back = sizeof closing - 1;
  bool is_class = size > front + back && strncmp(text, opening, front) == 0;
  if (is_class) {
    text += front;
    size -= front + back;
  }
  if (is_class && size == 5 && strncmp(text, "bool_", 5) == 0) size = 4;
  const char *name = dtype_parse(text, size);
  return name ? name : text;
}

/* Sets an attribute from a string that Python's str() made, converted to the schema language: a
 * tuple becomes a list, and cpu(0) becomes cpu. */
static tenon_status_t set_attribute(tenon_attrs_t *attrs, const tenon_argument_t *argument,
                                    const char *text) {
  size_t size = strlen(text);
  if (argument->kind == TENON_KIND_STR && !(argument->is_optional && strcmp(text, "None") == 0))
    return host.tenon_attrs_text(attrs, argument->name, text);
  if (argument->kind == TENON_KIND_DTYPE)
    return host.tenon_attrs_parse(attrs, argument->name, dtype_word(text));
  if (argument->kind == TENON_KIND_DEVICE && strncmp(text, "cpu(", 4) == 0)
    return host.tenon_attrs_parse(attrs, argument->name, "cpu");
  if (size < 2 || text[0] != '(' || text[size - 1] != ')')
    return host.tenon_attrs_parse(attrs, argument->name, text);
  char *list = malloc(size + 1);
  if (!list) return TENON_MEMORY;
  memcpy(list, text, size + 1);
  list[0] = '[';
  list[size - 1] = ']';
  if (size > 2 && list[size - 2] == ',') {
    /* A tuple with one item, "(3,)". */
    list[size - 2] = ']';
    list[size - 1] = 0;
  }
  tenon_status_t status = host.tenon_attrs_parse(attrs, argument->name, list);
  free(list);
  return status;
}

static const tenon_argument_t *attribute_of(const operator_t *self, const char *name) {
  for (int32_t i = 0; i < self->attr_count; i++)
    if (strcmp(self->attrs[i].name, name) == 0) return &self->attrs[i];
  return NULL;
}

static bool attribute_set(node_t *node, arity_t *arity, const char *key, const char *value) {
  const tenon_argument_t *argument = attribute_of(node->self, key);
  if (argument) return set_attribute(node->attrs, argument, value) == TENON_OK || message_of_host();
  if (strcmp(key, "num_args") == 0) {
    arity->num_args = value;
    return true;
  }
  if (strcmp(key, "operand_counts") == 0) {
    arity->operand_counts = value;
    return true;
  }
  if (strcmp(key, "num_outputs") == 0) {
    arity->num_outputs = value;
    return true;
  }
  /* If the attribute does not exist, libtenon reports it. */
  return host.tenon_attrs_parse(node->attrs, key, value) == TENON_OK || message_of_host();
}

/* creation */

static void node_free(node_t *node) {
  if (!node) return;
  for (int32_t r = 0; node->directs && r < node->self->direct_count; r++)
    host.tenon_attrs_release(node->directs[r].attrs);
  host.tenon_attrs_release(node->attrs);
  free(node->directs);
  free(node->inputs);
  free(node->outputs);
  free(node->text);
  free(node->seen);
  free(node);
}

/* Joins keys and values in one block; NULL: out of memory. */
static char *text_of(const char *const *keys, const char *const *values, int32_t count,
                     size_t size) {
  char *text = malloc(size + 1);
  char *at = text;
  for (int32_t i = 0; text && i < count; i++) {
    if (is_own(keys[i])) continue;
    at = stpcpy(at, keys[i]) + 1;
    at = stpcpy(at, values[i]) + 1;
  }
  return text;
}

static node_t *node_new(operator_t *self, const char *const *keys, const char *const *values,
                        int32_t count, size_t size, uint64_t hash) {
  arity_t arity = {NULL, NULL, NULL};
  node_t *node = calloc(1, sizeof *node);
  if (!node) {
    message_set("out of memory");
    return NULL;
  }
  node->self = self;
  node->size = size;
  node->hash = hash;
  node->text = text_of(keys, values, count, size);
  node->inputs = calloc((size_t)self->input_count + 1, sizeof *node->inputs);
  node->outputs = calloc((size_t)self->output_count + 1, sizeof *node->outputs);
  bool is_fine = node->text && node->inputs && node->outputs ? true : message_set("out of memory");
  is_fine =
      is_fine && (host.tenon_attrs_create(self->op, &node->attrs) == TENON_OK || message_of_host());
  for (int32_t i = 0; i < count && is_fine; i++)
    is_fine = is_own(keys[i]) || attribute_set(node, &arity, keys[i], values[i]);
  is_fine = is_fine &&
            (host.tenon_attrs_values(node->attrs, &node->values) == TENON_OK || message_of_host());
  is_fine = is_fine && node_arity_set(node, &arity);
  if (is_fine) node->directs = calloc((size_t)self->direct_count + 1, sizeof *node->directs);
  for (int32_t r = 0; is_fine && node->directs && r < self->direct_count; r++)
    node->directs[r].attrs =
        direct_attrs(&self->directs[r], node->values, &node->directs[r].values);
  if (is_fine) return node;
  node_free(node);
  return NULL;
}

/* lookup */

static bool is_same_node(const node_t *node, const char *const *keys, const char *const *values,
                         int32_t count) {
  const char *at = node->text;
  for (int32_t i = 0; i < count; i++) {
    if (is_own(keys[i])) continue;
    const char *const pair[] = {keys[i], values[i]};
    for (int k = 0; k < 2; k++) {
      size_t size = strlen(pair[k]) + 1;
      if ((size_t)(at - node->text) + size > node->size || memcmp(at, pair[k], size) != 0)
        return false;
      at += size;
    }
  }
  return (size_t)(at - node->text) == node->size;
}

static uint64_t hash_of(const char *const *keys, const char *const *values, int32_t count,
                        size_t *out_size) {
  uint64_t hash = 14695981039346656037u;
  *out_size = 0;
  for (int32_t i = 0; i < count; i++) {
    if (is_own(keys[i])) continue;
    const char *const pair[] = {keys[i], values[i]};
    for (int k = 0; k < 2; k++) {
      const char *at = pair[k];
      do
        hash = (hash ^ (uint8_t)*at) * 1099511628211u;
      while (*at++);
      *out_size += (size_t)(at - pair[k]);
    }
  }
  return hash;
}

/* Another thread may keep an equal node at the same time; both can be used. */
static void keep(operator_t *self, node_t *node, node_t **bucket) {
  if (__atomic_fetch_add(&self->node_count, 1, __ATOMIC_RELAXED) >= KEPT_MOST) return;
  node->is_kept = true;
  node->next = __atomic_load_n(bucket, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(bucket, &node->next, node, true, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {
  }
}

node_t *node_get(operator_t *self, const char *const *keys, const char *const *values,
                 int32_t count) {
  size_t size;
  uint64_t hash = hash_of(keys, values, count, &size);
  node_t **bucket = &self->nodes[hash % OPERATOR_BUCKETS];
  node_t *node = __atomic_load_n(bucket, __ATOMIC_ACQUIRE);
  while (node && !(node->hash == hash && is_same_node(node, keys, values, count)))
    node = node->next;
  if (node) return node;
  node = node_new(self, keys, values, count, size, hash);
  if (node) keep(self, node, bucket);
  return node;
}

void node_release(node_t *node) {
  if (node && !node->is_kept) node_free(node);
}
