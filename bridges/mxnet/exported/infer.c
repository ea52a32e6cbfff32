/* Infers dtypes and shapes for MXNet; see infer.h. MXNet asks for shapes without stating dtypes,
 * and for dtypes without stating shapes. */
#include "infer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "memo.h"
#include "message.h"

/* tensors without data */

/* one block of memory: pointers to the arguments in the form that Tenon takes, and an item for each
 * array */
typedef struct metas_t {
  tenon_meta_t **arguments;
  tenon_meta_t **pointers;
  tenon_meta_t *items;
  tenon_meta_t *lists;
  tenon_dim_t *dims;
} metas_t;

static bool metas_open(const node_t *node, const int *ranks, metas_t *m) {
  size_t arrays = (size_t)node->input_count;
  size_t arguments = (size_t)node->self->input_count;
  size_t extents = 0;
  for (size_t i = 0; ranks && i < arrays; i++)
    extents += (size_t)ranks[i];
  m->items = malloc((arrays + arguments) * (sizeof *m->items + sizeof m->items) +
                    (extents + 1) * sizeof *m->dims);
  if (!m->items) return message_set("out of memory");
  m->lists = m->items + arrays;
  m->dims = (tenon_dim_t *)(void *)(m->lists + arguments);
  m->arguments = (tenon_meta_t **)(void *)(m->dims + extents);
  m->pointers = m->arguments + arguments;
  for (size_t k = 0; k < arrays; k++) {
    m->items[k] = (tenon_meta_t){.size = sizeof *m->items, .device = {1, 0}};
    m->pointers[k] = &m->items[k];
  }
  for (size_t i = 0; i < arguments; i++) {
    const span_t *span = &node->inputs[i];
    m->arguments[i] = span->is_list ? &m->lists[i] : &m->items[span->first];
    if (span->is_absent) m->arguments[i] = NULL;
    if (!span->is_list) continue;
    m->lists[i] = (tenon_meta_t){
        .size = sizeof *m->lists, .dtype = tenon_dtype(TENON_LIST), .device = {1, 0}};
    m->lists[i].count = (uint32_t)span->count;
    m->lists[i].items = &m->pointers[span->first];
  }
  return true;
}

/* Returns the name of the argument that an array belongs to, for messages. */
static const char *argument_name(const node_t *node, int array) {
  for (int32_t i = 0; i < node->self->input_count; i++)
    if (array >= node->inputs[i].first && array < node->inputs[i].first + node->inputs[i].count)
      return node->self->inputs[i].name;
  return "";
}

static bool counts_check(const node_t *node, int in_count, int out_count) {
  if (in_count == node->input_count && out_count == node->output_count) return true;
  return message_set("%s: expected %d arrays and %d results, found %d and %d", node->self->full,
                     node->input_count, node->output_count, in_count, out_count);
}

/* dtypes */

static bool dtypes_set(const node_t *node, const int *types, const metas_t *m) {
  for (int k = 0; k < node->input_count; k++)
    if (!dtype_from(types[k], &m->items[k].dtype))
      return message_set("%s: input '%s': the MXNet dtype %d has no counterpart in Tenon: expected "
                         "float32, float64, float16, uint8, int32, int8, int64, bool or bfloat16",
                         node->self->full, argument_name(node, k), types[k]);
  return true;
}

static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;

static void seen_set(node_t *node, unsigned *const *in, const int *ranks) {
  size_t size = 1;
  for (int k = 0; k < node->input_count; k++)
    size += (size_t)ranks[k] + 1;
  int32_t *seen = calloc(size, sizeof *seen);
  int32_t *at = seen;
  for (int k = 0; seen && k < node->input_count; k++) {
    *at++ = ranks[k];
    for (int d = 0; d < ranks[k]; d++)
      *at++ = (int32_t)in[k][d];
  }
  pthread_mutex_lock(&seen_lock);
  int32_t *before = node->seen;
  node->seen = seen;
  pthread_mutex_unlock(&seen_lock);
  free(before);
}

/* Combines the shapes that MXNet asked about last with these dtypes. Returns false if MXNet has not
 * asked. */
static bool seen_get(node_t *node, const int *types, metas_t *m) {
  int *ranks = calloc((size_t)node->input_count + 1, sizeof *ranks);
  bool is_set = false;
  pthread_mutex_lock(&seen_lock);
  const int32_t *at = node->seen;
  for (int k = 0; at && ranks && k < node->input_count; at += ranks[k] + 1, k++)
    ranks[k] = *at;
  if (node->seen && ranks && (is_set = metas_open(node, ranks, m))) {
    tenon_dim_t *dims = m->dims;
    at = node->seen;
    for (int k = 0; k < node->input_count; k++) {
      m->items[k].ndim = *at++;
      m->items[k].dims = dims;
      for (int d = 0; d < ranks[k]; d++)
        *dims++ = tenon_extent(*at++);
    }
  }
  pthread_mutex_unlock(&seen_lock);
  free(ranks);
  if (is_set) dtypes_set(node, types, m);
  return is_set;
}

static tenon_dtype_t result_dtype(const tenon_meta_t *result) {
  const tenon_dtype_t none = {0, 0, 0};
  if (!result) return none;
  if (!result->items) return result->dtype;
  return result->count ? result->items[0]->dtype : none;
}

/* Determines the dtypes that only the inference of shapes finds. */
static void open_types(node_t *node, const int *in, tenon_dtype_t *dtypes) {
  const tenon_meta_t *const *results;
  tenon_shapes_t *shapes = NULL;
  metas_t m;
  if (!seen_get(node, in, &m)) return;
  if (host.tenon_shapes_create(&shapes) == TENON_OK &&
      host.tenon_shapes_infer(shapes, node->self->op, node->values, m.arguments, 0, &results) ==
          TENON_OK)
    for (int32_t o = 0; o < node->self->output_count; o++)
      if (!dtypes[o].bits) dtypes[o] = result_dtype(results[o]);
  host.tenon_shapes_release(shapes);
  free(m.items);
}

bool infer_types(node_t *node, int *in, int in_count, int *out, int out_count) {
  const operator_t *self = node->self;
  tenon_dtype_t dtypes[OPERATOR_MOST] = {{0, 0, 0}};
  metas_t m;
  if (!counts_check(node, in_count, out_count) || !metas_open(node, NULL, &m)) return false;
  bool is_fine = dtypes_set(node, in, &m);
  bool is_known = true;
  is_fine =
      is_fine && (host.tenon_types_infer(self->op, node->values, m.arguments, dtypes) == TENON_OK ||
                  message_of_host());
  for (int k = 0; k < in_count && is_fine; k++) {
    in[k] = dtype_to(m.items[k].dtype);
    is_known = is_known && m.items[k].dtype.bits;
  }
  if (is_fine && is_known && self->has_open) open_types(node, in, dtypes);
  for (int32_t o = 0; o < self->output_count && is_fine; o++) {
    const span_t *span = &node->outputs[o];
    int number = dtype_to(dtypes[o]);
    if (dtypes[o].bits && number < 0)
      is_fine = message_set("%s: result '%s' has dtype %s, which MXNet does not support",
                            self->full, self->outputs[o].name, host.tenon_dtype_name(dtypes[o]));
    for (int32_t k = 0; k < span->count; k++)
      out[span->first + k] = number;
  }
  free(m.items);
  return is_fine;
}

/* shapes */

static bool known_check(const node_t *node, unsigned *const *in, const int *ranks) {
  for (int k = 0; k < node->input_count; k++) {
    bool is_known = ranks[k] >= 0;
    for (int d = 0; d < ranks[k]; d++)
      is_known = is_known && in[k][d] <= INT32_MAX;
    if (!is_known)
      return message_set("%s: the shape of input '%s' is unknown, and operators of libraries "
                         "cannot wait for it: state it (shape=..., in_units=...)",
                         node->self->full, argument_name(node, k));
  }
  return true;
}

/* Infers the results of the inputs in `m`. Returns NULL with a message after a failure. `shapes`
 * holds the results; the caller releases it in either case. */
static const tenon_meta_t *const *results_of(const node_t *node, const metas_t *m,
                                             tenon_shapes_t **shapes) {
  const tenon_meta_t *const *results = NULL;
  *shapes = NULL;
  if (host.tenon_shapes_create(shapes) == TENON_OK &&
      host.tenon_shapes_infer(*shapes, node->self->op, node->values, m->arguments, 0, &results) ==
          TENON_OK)
    return results;
  message_of_host();
  return NULL;
}

static bool shape_set(const node_t *node, int32_t o, const tenon_meta_t *result, shapes_t *out,
                      int32_t at) {
  const operator_t *self = node->self;
  unsigned *extents = malloc(sizeof *extents * ((size_t)(result->ndim > 0 ? result->ndim : 0) + 1));
  if (!extents) return message_set("out of memory");
  out->extents[at] = extents;
  out->ranks[at] = result->ndim ? result->ndim : 1;
  extents[0] = 1;
  for (int32_t d = 0; d < result->ndim; d++) {
    const tenon_dim_t extent = result->dims[d];
    if (!tenon_is_known(extent))
      return message_set(
          "%s: extent %d of result '%s' depends on data, but MXNet must know it before the call",
          self->full, d, self->outputs[o].name);
    if (extent.value > INT32_MAX)
      return message_set("%s: extent %d of result '%s' is %lld, which exceeds the 32 bits of "
                         "MXNet's library interface",
                         self->full, d, self->outputs[o].name, (long long)extent.value);
    extents[d] = (unsigned)extent.value;
  }
  return result->ndim >= 0 ||
         message_set(
             "%s: the rank of result '%s' depends on data, but MXNet must know it before the call",
             self->full, self->outputs[o].name);
}

static bool result_set(const node_t *node, int32_t o, const tenon_meta_t *result, shapes_t *out) {
  const span_t *span = &node->outputs[o];
  if (!span->is_list) return shape_set(node, o, result, out, span->first);
  if ((int32_t)result->count != span->count)
    return message_set("%s: result '%s' is a list of %u tensors, but num_outputs leaves %d for it",
                       node->self->full, node->self->outputs[o].name, result->count, span->count);
  for (int32_t k = 0; k < span->count; k++)
    if (!shape_set(node, o, result->items[k], out, span->first + k)) return false;
  return true;
}

static void shapes_free(shapes_t *shapes, int count) {
  for (int k = 0; shapes->extents && k < count; k++)
    free(shapes->extents[k]);
  free(shapes->extents);
  free(shapes->ranks);
  *shapes = (shapes_t){NULL, NULL};
}

static bool shapes_open(shapes_t *shapes, int count) {
  const size_t size = (size_t)count + 1;
  shapes->extents = malloc(size * sizeof *shapes->extents);
  shapes->ranks = malloc(size * sizeof *shapes->ranks);
  if (shapes->extents) memset(shapes->extents, 0, size * sizeof *shapes->extents);
  return (shapes->extents && shapes->ranks) || message_set("out of memory");
}

static bool copy_set(shapes_t *out, int at, uint32_t rank, const unsigned *extents) {
  out->ranks[at] = (int)rank;
  if (!(out->extents[at] = malloc(sizeof *extents * ((size_t)rank + 1))))
    return message_set("out of memory");
  if (rank) memcpy(out->extents[at], extents, rank * sizeof *extents);
  return true;
}

static bool shapes_infer(const node_t *node, unsigned *const *in, const int *ranks, shapes_t *out) {
  tenon_shapes_t *table = NULL;
  const tenon_meta_t *const *results = NULL;
  metas_t m;
  if (!metas_open(node, ranks, &m)) return false;
  tenon_dim_t *dims = m.dims;
  for (int k = 0; k < node->input_count; k++) {
    m.items[k].ndim = ranks[k];
    m.items[k].dims = dims;
    for (int d = 0; d < ranks[k]; d++)
      *dims++ = tenon_extent(in[k][d]);
  }
  bool is_fine = (results = results_of(node, &m, &table)) != NULL;
  for (int32_t o = 0; o < node->self->output_count && is_fine; o++)
    is_fine = result_set(node, o, results[o], out);
  host.tenon_shapes_release(table);
  free(m.items);
  return is_fine;
}

static bool results_get(const node_t *node, unsigned *const *in, const int *ranks, shapes_t *out) {
  numbers_t given = {0, {0}};
  numbers_t found = {0, {0}};
  for (int k = 0; k < node->input_count; k++)
    numbers_add(&given, (uint32_t)ranks[k], in[k]);
  const numbers_t *known = memo_get(node, &given);
  const uint32_t *at = known ? known->all : NULL;
  if (!known && !shapes_infer(node, in, ranks, out)) return false;
  for (int k = 0; k < node->output_count; k++) {
    if (!known)
      numbers_add(&found, (uint32_t)out->ranks[k], out->extents[k]);
    else if (!copy_set(out, k, *at, at + 1))
      return false;
    else
      at += *at + 1;
  }
  if (!known) memo_put(node, &given, &found);
  return true;
}

bool infer_shapes(node_t *node, unsigned *const *in, const int *in_ranks, int in_count,
                  int out_count, shapes_t *out_in, shapes_t *out_results) {
  *out_in = *out_results = (shapes_t){NULL, NULL};
  if (!counts_check(node, in_count, out_count) || !known_check(node, in, in_ranks)) return false;
  bool is_fine = shapes_open(out_in, in_count) && shapes_open(out_results, out_count);
  for (int k = 0; k < in_count && is_fine; k++)
    is_fine = copy_set(out_in, k, (uint32_t)in_ranks[k], in[k]);
  is_fine = is_fine && results_get(node, in, in_ranks, out_results);
  if (is_fine && node->self->has_open) seen_set(node, in, in_ranks);
  if (is_fine) return true;
  shapes_free(out_in, in_count);
  shapes_free(out_results, out_count);
  return false;
}

bool infer_ranks(const node_t *node, const int64_t *const *in, const int *in_ranks,
                 const int *in_types, int *out_ranks) {
  tenon_shapes_t *table = NULL;
  const tenon_meta_t *const *results;
  metas_t m;
  if (!metas_open(node, in_ranks, &m)) return false;
  for (int k = 0; k < node->input_count; k++) {
    m.items[k].ndim = in_ranks[k];
    m.items[k].dims = (tenon_dim_t *)(uintptr_t)in[k];
  }
  bool is_fine = dtypes_set(node, in_types, &m) && (results = results_of(node, &m, &table));
  for (int32_t o = 0; o < node->self->output_count && is_fine; o++) {
    const span_t *span = &node->outputs[o];
    for (int32_t k = 0; k < span->count; k++)
      out_ranks[span->first + k] = span->is_list ? results[o]->items[k]->ndim : results[o]->ndim;
  }
  host.tenon_shapes_release(table);
  free(m.items);
  return is_fine;
}
