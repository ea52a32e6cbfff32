/* Copies of descriptors whose functions are wrappers; see probe.h. A library function is not told
 * on whose behalf it is called, so each of them needs a wrapper function of its own, which a pool
 * provides. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

/* Functions numbered by the octal digits of their names: 4,096 for kernels and loops, 512 for
 * functions that an operator has once. */
#define EIGHT(F, p) F(p##0) F(p##1) F(p##2) F(p##3) F(p##4) F(p##5) F(p##6) F(p##7)
#define EIGHT_2(F, p)                                                                              \
  EIGHT(F, p##0)                                                                                   \
  EIGHT(F, p##1)                                                                                   \
  EIGHT(F, p##2) EIGHT(F, p##3) EIGHT(F, p##4) EIGHT(F, p##5) EIGHT(F, p##6) EIGHT(F, p##7)
#define EIGHT_3(F, p)                                                                              \
  EIGHT_2(F, p##0)                                                                                 \
  EIGHT_2(F, p##1)                                                                                 \
  EIGHT_2(F, p##2)                                                                                 \
  EIGHT_2(F, p##3) EIGHT_2(F, p##4) EIGHT_2(F, p##5) EIGHT_2(F, p##6) EIGHT_2(F, p##7)
#define EIGHT_4(F, p)                                                                              \
  EIGHT_3(F, p##0)                                                                                 \
  EIGHT_3(F, p##1)                                                                                 \
  EIGHT_3(F, p##2)                                                                                 \
  EIGHT_3(F, p##3) EIGHT_3(F, p##4) EIGHT_3(F, p##5) EIGHT_3(F, p##6) EIGHT_3(F, p##7)
#define FEW(F) EIGHT_3(F, 0)
#define MANY(F) EIGHT_4(F, 0)
enum {
  FEW_COUNT = 512,
  MANY_COUNT = 4096,
};

#define POOL(name, count, LIST, result, type, parameter)                                           \
  static type name##_own[count];                                                                   \
  static uint32_t name##_used;                                                                     \
  LIST(POOL_##name)                                                                                \
  static type const name##_pool[count] = {LIST(POOL_NAME_##name)};                                 \
  /* Takes a function from the pool for `own`; returns `own` itself if the pool is empty. */       \
  static tenon_any_fn take_##name(tenon_any_fn own) {                                              \
    if (name##_used == (count)) return own;                                                        \
    name##_own[name##_used] = (type)own;                                                           \
    return (tenon_any_fn)name##_pool[name##_used++];                                               \
  }
#define POOL_run(n)                                                                                \
  static tenon_status_t run_##n(tenon_call_t *c) { return probe_run_around(run_own[n], c); }
#define POOL_NAME_run(n) run_##n,
#define POOL_loop(n)                                                                               \
  static tenon_status_t loop_##n(const tenon_loop_t *c) {                                          \
    return probe_loop_around(loop_own[n], c);                                                      \
  }
#define POOL_NAME_loop(n) loop_##n,
#define POOL_stub(n)                                                                               \
  static tenon_status_t stub_##n(const tenon_iterator_t *c) {                                      \
    return probe_stub_around(stub_own[n], c);                                                      \
  }
#define POOL_NAME_stub(n) stub_##n,
#define POOL_infer(n)                                                                              \
  static tenon_status_t infer_##n(tenon_infer_t *c) { return probe_infer_around(infer_own[n], c); }
#define POOL_NAME_infer(n) infer_##n,
#define POOL_node(n)                                                                               \
  static tenon_status_t node_##n(tenon_node_t *c) { return probe_node_around(node_own[n], c); }
#define POOL_NAME_node(n) node_##n,
#define POOL_destroy(n)                                                                            \
  static void destroy_##n(void *c) { probe_destroy_around(destroy_own[n], c); }
#define POOL_NAME_destroy(n) destroy_##n,
/* clang-format off */
POOL(run, MANY_COUNT, MANY, tenon_status_t, tenon_run_fn, tenon_call_t *)
POOL(loop, MANY_COUNT, MANY, tenon_status_t, tenon_loop_fn, const tenon_loop_t *)
POOL(stub, FEW_COUNT, FEW, tenon_status_t, tenon_stub_fn, const tenon_iterator_t *)
POOL(infer, FEW_COUNT, FEW, tenon_status_t, tenon_infer_fn, tenon_infer_t *)
POOL(node, FEW_COUNT, FEW, tenon_status_t, tenon_node_fn, tenon_node_t *)
POOL(destroy, FEW_COUNT, FEW, void, tenon_free_fn, void *)
/* clang-format on */

static tenon_any_fn wrap_function(uint32_t tag, tenon_any_fn own) {
  if (!own || own == (tenon_any_fn)tenon_fallback_cpu) return own;
  switch (tag & ~TENON_MUST) {
  case TENON_TAG_KERNEL:
  case TENON_TAG_COMPOSITE:
  case TENON_TAG_SOURCE:
    return take_run(own);
  case TENON_TAG_LOOP:
  case TENON_TAG_ROW:
    return take_loop(own);
  case TENON_TAG_STUB:
    return take_stub(own);
  case TENON_TAG_INFER:
    return take_infer(own);
  case TENON_TAG_CREATE:
  case TENON_TAG_PREPARE:
    return take_node(own);
  case TENON_TAG_DESTROY:
    return take_destroy(own);
  default:
    return own;
  }
}

tenon_any_fn probe_original(tenon_any_fn ours) {
  for (uint32_t i = 0; i < run_used; i++)
    if (ours == (tenon_any_fn)run_pool[i]) return (tenon_any_fn)run_own[i];
  for (uint32_t i = 0; i < loop_used; i++)
    if (ours == (tenon_any_fn)loop_pool[i]) return (tenon_any_fn)loop_own[i];
  return ours;
}

typedef struct items_t {
  tenon_item_t *items;
  size_t count;
  size_t capacity;
} items_t;

static void add_item(items_t *list, tenon_item_t item) {
  if (list->count == list->capacity) {
    list->capacity = list->capacity ? 2 * list->capacity : 64;
    list->items = realloc(list->items, list->capacity * sizeof item);
    if (!list->items) abort();
  }
  list->items[list->count++] = item;
}

/* "ns::add.out(Tensor x)" becomes "ns::add.out_reference(Tensor x)". */
static const char *twin_schema(const char *schema) {
  size_t head = strcspn(schema, "(");
  size_t name = head;
  size_t size = strlen(schema) + 16;
  while (name && (schema[name - 1] == ' ' || schema[name - 1] == '\n' || schema[name - 1] == '\t'))
    name--;
  char *made = malloc(size);
  if (!made) abort();
  snprintf(made, size, "%.*s_reference%s", (int)name, schema, schema + head);
  return made;
}

/* Adds an operator whose only kernel is the reference of the operator that begins at items[0]. */
static void add_twin(items_t *list, const tenon_item_t *items, const tenon_item_t *end) {
  tenon_any_fn reference = NULL;
  for (const tenon_item_t *i = items; i < end; i++)
    if ((i->tag & ~TENON_MUST) == TENON_TAG_REFERENCE) reference = i->function;
  if (!reference) return;
  for (const tenon_item_t *i = items; i < end; i++) {
    tenon_item_t copy = *i;
    switch (i->tag & ~TENON_MUST) {
    case TENON_TAG_OP:
      copy.text = twin_schema(i->text);
      break;
    case TENON_TAG_TYPES:
    case TENON_TAG_SHAPES:
    case TENON_TAG_WHERE:
    case TENON_TAG_TRAITS:
    case TENON_TAG_INFER:
    case TENON_TAG_CREATE:
    case TENON_TAG_DESTROY:
    case TENON_TAG_USES:
    case TENON_TAG_VERSION:
      break;
    default:
      continue;
    }
    add_item(list, copy);
  }
  add_item(list, (tenon_item_t){TENON_TAG_KERNEL, 0, 0, "cpu", reference});
}

static const tenon_item_t *copy_items(const tenon_item_t *items) {
  items_t list = {NULL, 0, 0};
  items_t twins = {NULL, 0, 0};
  const tenon_item_t *begun = NULL;
  for (const tenon_item_t *i = items;; i++) {
    uint32_t tag = i->tag & ~TENON_MUST;
    if (begun && (tag == TENON_TAG_OP || tag == TENON_TAG_EXTEND || tag == TENON_TAG_GROUP ||
                  tag == TENON_TAG_END)) {
      add_twin(&twins, begun, i);
      begun = NULL;
    }
    if (tag == TENON_TAG_END) break;
    if (tag == TENON_TAG_OP && i->text) begun = i;
    tenon_item_t copy = *i;
    if (tag == TENON_TAG_GROUP && i->text)
      copy.text = copy_items(i->text);
    else
      copy.function = wrap_function(i->tag, i->function);
    add_item(&list, copy);
  }
  for (size_t k = 0; k < twins.count; k++)
    add_item(&list, twins.items[k]);
  add_item(&list, (tenon_item_t){TENON_TAG_END, 0, 0, NULL, NULL});
  free(twins.items);
  return list.items;
}

const tenon_descriptor_t *probe_descriptor(const tenon_descriptor_t *descriptor) {
  tenon_descriptor_t *copy = malloc(sizeof *copy);
  if (!copy) abort();
  probe_start();
  *copy = *descriptor;
  copy->items = copy_items(descriptor->items);
  return copy;
}
