/* Compiled groups of nodes: the text that is a group's key in the file cache, compilation, and the
 * list of an ordinal's groups. */
#include "device/group.h"

#include <inttypes.h>
#include <string.h>

#include "base/cache.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "device/program.h"

tn_group_counts_t tn_group_counts;
/* Protects the lists of all ordinals. */
static tn_mutex_t lock = TN_MUTEX_INIT;

void tn_groups_in_child(void) { lock = (tn_mutex_t)TN_MUTEX_INIT; }

static void add_tensor_hash(tn_text_t *key, const tenon_tensor_t *t) {
  uint64_t size = 0;
  (void)tn_dtype_bytes(t->dtype, tenon_count(t), &size);
  tn_text_add(key, "=%016" PRIx64 "%016" PRIx64, tn_cache_hash(t->data, (size_t)size, 3),
              tn_cache_hash(t->data, (size_t)size, 4));
}

static void add_numbers(tn_text_t *key, const void *data, size_t size) {
  tn_text_add(key, "%zu:", size);
  tn_text_bytes(key, data, size);
}

/* Nodes with tensors or graphs as attributes are never in groups. */
static void add_value_key(tn_text_t *key, const tenon_value_t *v) {
  tn_text_add(key, " %u.%u:", v->kind, v->count);
  switch (v->kind) {
  case TENON_KIND_NONE:
    return;
  case TENON_KIND_STR:
    add_numbers(key, v->as.s, v->count);
    return;
  case TENON_KIND_INTS:
    add_numbers(key, v->as.ints, v->count * sizeof *v->as.ints);
    return;
  case TENON_KIND_DIMS:
    add_numbers(key, v->as.dims, v->count * sizeof *v->as.dims);
    return;
  case TENON_KIND_FLOATS:
    add_numbers(key, v->as.floats, v->count * sizeof *v->as.floats);
    return;
  case TENON_KIND_STRS:
    for (uint32_t i = 0; i < v->count; i++)
      add_numbers(key, v->as.strs[i].data, v->as.strs[i].size);
    return;
  case TENON_KIND_DTYPE:
    tn_text_add(key, "%x", tenon_dtype_id(v->as.dtype));
    return;
  default:
    tn_text_add(key, "%" PRIx64, (uint64_t)v->as.i);
    return; /* a float is written as its bits */
  }
}

static void add_edge(tn_text_t *key, const tenon_meta_t *edge) {
  tn_text_add(key, "e%x %d", tenon_dtype_id(edge->dtype), (int)edge->ndim);
  for (int32_t d = 0; d < edge->ndim; d++)
    tn_text_add(key, " %" PRId64, edge->dims[d].value);
  for (uint32_t i = 0; i < edge->value_count; i++)
    tn_text_add(key, " =%" PRId64, edge->values[i].value);
  if (edge->value) add_tensor_hash(key, edge->value);
  tn_text_add(key, "\n");
}

static void add_index_list(tn_text_t *key, const uint32_t *list, uint32_t count) {
  tn_text_add(key, "(");
  for (uint32_t i = 0; i < count; i++)
    tn_text_add(key, " %u", list[i]);
  tn_text_add(key, ")");
}

static void add_view(tn_text_t *key, const tenon_graph_view_t *view) {
  for (uint32_t i = 0; i < view->edge_count; i++)
    add_edge(key, view->edges[i]);
  for (uint32_t n = 0; n < view->node_count; n++) {
    const tenon_graph_node_t *node = view->nodes[n];
    tn_text_add(key, "n%s %" PRId64, node->op, node->version);
    for (uint32_t i = 0; i < node->attr_count; i++)
      add_value_key(key, &node->attrs[i]);
    add_index_list(key, node->starts, node->argument_count + 1);
    add_index_list(key, node->inputs, node->starts[node->argument_count]);
    add_index_list(key, node->outputs, node->output_count);
    tn_text_add(key, "\n");
  }
  add_index_list(key, view->inputs, view->input_count);
  add_index_list(key, view->outputs, view->output_count);
}

static tenon_status_t compile_group(tn_ordinal_t *o, const tenon_graph_view_t *view,
                                    const char *settings, const tn_text_t *key, const char *file,
                                    void **out_native) {
  tn_sink_t sink = tn_sink();
  *out_native = NULL;
  const uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->group_compile(&o->context, view, settings, out_native);
  TN_TRY(tn_ordinal_complete(o, errors, "group_compile", status));
  if (!*out_native) return tn_fail(TENON_INTERNAL, "its plug-in returned no compiled group");
  __atomic_add_fetch(&tn_group_counts.compiled, 1, __ATOMIC_RELAXED);
  if (o->table->group_save(&o->context, *out_native, &sink.sink) == TENON_OK && sink.data)
    tn_cache_write(file, key->data, key->size, sink.data, sink.size);
  tn_release_memory(sink.data);
  return TENON_OK;
}

static tenon_status_t load_or_compile(tn_ordinal_t *o, const tenon_graph_view_t *view,
                                      const char *settings, void **out_native) {
  char file[TN_CODE_NAME];
  void *data;
  size_t size;
  tn_text_t key = {0};
  tn_code_key(&key, o);
  tn_text_add(&key, "%s\n", settings);
  add_view(&key, view);
  tenon_status_t status = key.failed ? tn_no_memory("the key of a group", key.size) : TENON_OK;
  bool is_read = false;
  if (status == TENON_OK) {
    tn_code_name(&key, "group", file);
    if (tn_cache_read(file, key.data, key.size, &data,
                      &size)) { /* the plug-in may still refuse the data */
      *out_native = NULL;
      is_read =
          o->table->group_load(&o->context, data, size, out_native) == TENON_OK && *out_native;
      tn_release_memory(data);
    }
    if (is_read)
      __atomic_add_fetch(&tn_group_counts.read, 1, __ATOMIC_RELAXED);
    else
      status = compile_group(o, view, settings, &key, file, out_native);
  }
  tn_text_clear(&key);
  return status;
}

tenon_status_t tn_group_create(tn_ordinal_t *o, const tenon_graph_view_t *view,
                               const char *settings, const char *name, tn_group_t **out_group) {
  tn_group_t *g = tn_allocate_zero(1, sizeof *g);
  tenon_status_t status = g && (g->name = tn_copy_text(name, strlen(name)))
                              ? TENON_OK
                              : tn_no_memory("a group", sizeof *g);
  if (status == TENON_OK) status = load_or_compile(o, view, settings, &g->native);
  if (status != TENON_OK) {
    if (g) tn_release_memory(g->name);
    tn_release_memory(g);
    return status;
  }
  g->ordinal = o;
  g->device = o->context.device;
  tn_mutex_lock(&lock);
  g->after = o->groups;
  if (g->after) g->after->before = g;
  o->groups = g;
  tn_mutex_unlock(&lock);
  *out_group = g;
  return TENON_OK;
}

void tn_group_release(tn_group_t *g) {
  if (!g) return;
  /* After a fork the device may be lost. */
  bool works = tn_ordinal_of(g->device) != NULL;
  tn_mutex_lock(&lock);
  tn_ordinal_t *o = g->ordinal;
  if (o) {
    *(g->before ? &g->before->after : &o->groups) = g->after;
    if (g->after) g->after->before = g->before;
    if (works) o->table->group_free(&o->context, g->native);
  }
  tn_mutex_unlock(&lock);
  if (o) tn_streams_forget_name(g->name);
  tn_release_memory(g->name);
  tn_release_memory(g);
}

void tn_groups_release(tn_ordinal_t *o) {
  tn_mutex_lock(&lock);
  for (tn_group_t *g = o->groups, *next; g; g = next) {
    next = g->after;
    if (o->state == TN_ORDINAL_WORKS) o->table->group_free(&o->context, g->native);
    g->ordinal = NULL;
    g->before = g->after = NULL;
  }
  o->groups = NULL;
  tn_mutex_unlock(&lock);
}

uint64_t tn_groups_count(const tn_ordinal_t *o) {
  uint64_t count = 0;
  tn_mutex_lock(&lock);
  for (const tn_group_t *g = o->groups; g; g = g->after)
    count++;
  tn_mutex_unlock(&lock);
  return count;
}
