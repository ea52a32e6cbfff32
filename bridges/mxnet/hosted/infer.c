#include "infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"

/* shapes */

typedef struct asked_t {
  const state_t *state;
  int *in_ndims;
  unsigned **in_shapes;
  shapes_t *out;
} asked_t;

static int ask_shapes(void *argument) {
  asked_t *a = argument;
  const state_t *s = a->state;
  return s->op->library->abi._opCallInferShape(
      s->op->shapes, s->keys, s->values, s->count, a->in_shapes, a->in_ndims, s->in_count,
      &a->out->new_shapes, &a->out->new_ndims, &a->out->shapes, &a->out->ndims, s->out_count);
}

void shapes_free(shapes_t *shapes) {
  void (*release)(void *) = shapes->library->abi._opCallFree;
  for (int i = 0; shapes->new_shapes && i < shapes->new_count; i++)
    release(shapes->new_shapes[i]);
  for (int i = 0; shapes->shapes && i < shapes->count; i++)
    release(shapes->shapes[i]);
  void *const arrays[] = {shapes->new_shapes, shapes->shapes, shapes->new_ndims, shapes->ndims};
  for (int i = 0; i < 4; i++)
    if (arrays[i]) release(arrays[i]);
}

bool infer_shapes(const state_t *s, const int *ndims, const int64_t *extents, shapes_t *out,
                  char *why, size_t capacity) {
  unsigned few[64], *shapes[16];
  unsigned *numbers = few;
  unsigned **starts = shapes;
  int few_ndims[16];
  int *own_ndims = few_ndims;
  size_t total = 0;
  size_t count = (size_t)s->in_count;
  *out = (shapes_t){.library = s->op->library, .new_count = s->in_count, .count = s->out_count};
  for (size_t i = 0; i < count; i++)
    total += (size_t)ndims[i];
  char *room = NULL;
  if (count > 16 || total > 64) {
    if (!(room = malloc(count * (sizeof *starts + sizeof *ndims) + total * sizeof *numbers + 8))) {
      snprintf(why, capacity, "out of memory");
      return false;
    }
    starts = (unsigned **)(void *)room;
    own_ndims = (int *)(void *)(starts + count);
    numbers = (unsigned *)(own_ndims + count);
  }
  bool good = true;
  /* The arrays are copies, because the library may write to all of them. */
  for (size_t i = 0; i < count && good; i++) {
    own_ndims[i] = ndims[i];
    starts[i] = numbers;
    for (int d = 0; d < ndims[i] && good; d++) {
      good = *extents <= UINT32_MAX;
      if (!good)
        snprintf(why, capacity,
                 "input %zu has an extent of %lld, which exceeds the 32 bits of MXNet's library "
                 "interface",
                 i, (long long)*extents);
      *numbers++ = (unsigned)*extents++;
    }
  }
  asked_t asked = {s, own_ndims, starts, out};
  good = good &&
         state_check(s, guard_call(ask_shapes, &asked, why, capacity), "inferShape", why, capacity);
  free(room);
  for (int o = 0; o < s->out_count && good; o++) {
    good = out->ndims[o] >= 0 && out->ndims[o] <= TENON_RANK_MAX;
    if (!good)
      snprintf(why, capacity, "inferShape returned %d dimensions for output %d", out->ndims[o], o);
  }
  return good;
}

/* dtypes and storage types */

typedef struct numbers_t {
  const state_t *state;
  author_fn function;
  int (*call)(author_fn, ATTRIBUTES, int *in, int in_count, int *out, int out_count);
  int *in;
  int in_count;
  int *out;
  int out_count;
} numbers_t;

static int ask_numbers(void *argument) {
  const numbers_t *n = argument;
  const state_t *s = n->state;
  return n->call(n->function, s->keys, s->values, s->count, n->in, n->in_count, n->out,
                 n->out_count);
}

static bool infer_dtypes(const state_t *s, tenon_meta_t *const *in, tenon_meta_t *const *out,
                         int *numbers, char *why, size_t capacity) {
  int *own = numbers;
  int *made = numbers + s->in_count;
  for (int i = 0; i < s->in_count; i++)
    if ((own[i] = dtype_to(in[i]->dtype)) < 0) {
      snprintf(why, capacity,
               "input %d has dtype %s: expected f32, f64, f16, u8, i32, i8 or i64, the dtypes of "
               "MXNet libraries",
               i, tenon_dtype_name(in[i]->dtype));
      return false;
    }
  for (int o = 0; o < s->out_count; o++)
    made[o] = -1;
  numbers_t asked = {s,    s->op->dtypes, s->op->library->abi._opCallInferType, own, s->in_count,
                     made, s->out_count};
  if (!state_check(s, guard_call(ask_numbers, &asked, why, capacity), "inferType", why, capacity))
    return false;
  for (int o = 0; o < s->out_count; o++)
    if (!dtype_from(made[o], &out[o]->dtype)) {
      snprintf(why, capacity, "inferType returned dtype %d for output %d: expected 0 to 6", made[o],
               o);
      return false;
    }
  return true;
}

static int storage_to(uint32_t layout) {
  if (layout == TENON_DETAIL_CSR) return STORAGE_CSR;
  return layout == TENON_DETAIL_ROW_SPARSE ? STORAGE_ROWS : STORAGE_DENSE;
}

/* Infers the layouts of the results. `numbers` holds the storage types of the inputs, followed by
 * room for those of the results. Without inferSType, all inputs and results must be dense, as in
 * MXNet. */
static bool infer_layouts(const state_t *s, int *numbers, int in_count, tenon_meta_t *const *out,
                          int out_count, char *why, size_t capacity) {
  static const uint32_t layouts[] = {0, TENON_DETAIL_ROW_SPARSE, TENON_DETAIL_CSR};
  int *made = numbers + in_count;
  for (int i = 0; i < in_count && !s->op->storages; i++)
    if (numbers[i] != STORAGE_DENSE) {
      snprintf(why, capacity,
               "input %d is sparse, and the library has no inferSType: make it dense first", i);
      return false;
    }
  if (!s->op->storages) return true;
  for (int o = 0; o < out_count; o++)
    made[o] = -1;
  numbers_t asked = {s,        s->op->storages, s->op->library->abi._opCallInferSType,
                     numbers,  in_count,        made,
                     out_count};
  if (!state_check(s, guard_call(ask_numbers, &asked, why, capacity), "inferSType", why, capacity))
    return false;
  for (int o = 0; o < out_count; o++) {
    if (made[o] < STORAGE_DENSE || made[o] > STORAGE_CSR) {
      snprintf(
          why, capacity,
          "inferSType returned %d for output %d: expected 0 (dense), 1 (row_sparse) or 2 (csr)",
          made[o], o);
      return false;
    }
    out[o]->layout = layouts[made[o]];
  }
  return true;
}

static bool infer_storages(const state_t *s, tenon_meta_t *const *in, tenon_meta_t *const *out,
                           int *numbers, char *why, size_t capacity) {
  for (int i = 0; i < s->in_count; i++)
    numbers[i] = storage_to(in[i]->layout);
  return infer_layouts(s, numbers, s->in_count, out, s->out_count, why, capacity);
}

/* infer */

/* Collects the ranks and the extents of all inputs, one input after the other. Returns false if one
 * of them is unknown. */
static bool known_extents(const state_t *s, tenon_meta_t *const *in, int *ndims, int64_t *extents) {
  for (int i = 0; i < s->in_count; i++) {
    if ((ndims[i] = in[i]->ndim) < 0) return false;
    for (int32_t d = 0; d < in[i]->ndim; d++) {
      if (!tenon_is_known(in[i]->dims[d]) || in[i]->dims[d].value < 0) return false;
      *extents++ = in[i]->dims[d].value;
    }
  }
  return true;
}

static bool set_shapes(const state_t *s, tenon_meta_t *const *in, tenon_meta_t *const *out,
                       int *ndims, int64_t *extents, char *why, size_t capacity) {
  shapes_t shapes;
  /* Libraries do not support symbolic extents, so the shapes stay unknown until the operator
   * runs. */
  if (!known_extents(s, in, ndims, extents)) {
    for (int o = 0; o < s->out_count; o++)
      out[o]->ndim = -1;
    return true;
  }
  bool good = infer_shapes(s, ndims, extents, &shapes, why, capacity);
  for (int o = 0; o < s->out_count && good; o++) {
    out[o]->ndim = shapes.ndims[o];
    for (int d = 0; d < shapes.ndims[o]; d++)
      out[o]->dims[d] = tenon_extent(shapes.shapes[o][d]);
  }
  shapes_free(&shapes);
  return good;
}

static bool infer_all(const state_t *s, tenon_meta_t *const *in, tenon_meta_t *const *out,
                      char *why, size_t capacity) {
  size_t total = 1;
  for (int i = 0; i < s->in_count; i++)
    total += in[i]->ndim > 0 ? (size_t)in[i]->ndim : 0;
  int64_t *extents =
      malloc(total * sizeof *extents + (size_t)(s->in_count + s->out_count + 1) * sizeof(int));
  if (!extents) {
    snprintf(why, capacity, "out of memory");
    return false;
  }
  int *numbers = (int *)(void *)(extents + total);
  bool good = infer_dtypes(s, in, out, numbers, why, capacity) &&
              infer_storages(s, in, out, numbers, why, capacity) &&
              set_shapes(s, in, out, numbers, extents, why, capacity);
  free(extents);
  return good;
}

tenon_status_t infer_forward(tenon_infer_t *infer) {
  const state_t *s = infer->state;
  char why[WHY] = "";
  tenon_meta_t *const *in = infer->inputs;
  tenon_meta_t *const *out = infer->outputs;
  if (s->is_list) {
    if (in[0]->count != (uint32_t)(s->in_count + s->extra))
      return tenon_fail(infer, TENON_INVALID, "expected %d inputs for these attributes, found %u",
                        s->in_count + s->extra, in[0]->count);
    tenon_status_t status = infer->host->list(infer, 0, (uint32_t)s->out_count);
    if (status != TENON_OK) return status;
    in = in[0]->items;
    out = out[0]->items;
  }
  return infer_all(s, in, out, why, sizeof why) ? TENON_OK
                                                : tenon_fail(infer, TENON_INVALID, "%s", why);
}

tenon_status_t infer_subgraph(tenon_infer_t *infer) {
  const state_t *s = infer->state;
  if (infer->inputs[0]->count != (uint32_t)(s->in_count + s->extra))
    return tenon_fail(infer, TENON_INVALID,
                      "its graph has %d inputs, and passes added %d: found %u", s->in_count,
                      s->extra, infer->inputs[0]->count);
  if (s->op->library->is_random) infer->draws = tenon_extent(1);
  return TENON_OK;
}

static void copy_meta(tenon_meta_t *to, const tenon_meta_t *from) {
  to->dtype = from->dtype;
  to->ndim = from->ndim;
  for (int32_t d = 0; d < from->ndim; d++)
    to->dims[d] = from->dims[d];
}

/* inferSType also serves the gradient; its inputs are then the gradients, the inputs and the
 * outputs. */
static tenon_status_t infer_backward_layouts(tenon_infer_t *infer, tenon_meta_t *const *out) {
  const state_t *s = infer->state;
  char why[WHY] = "";
  int *numbers = malloc((size_t)(2 * (s->in_count + s->out_count)) * sizeof *numbers);
  int count = 0;
  if (!numbers) return tenon_fail(infer, TENON_MEMORY, "out of memory");
  for (int p = 0; p < (s->is_list ? 3 : 2 * s->out_count + s->in_count); p++) {
    const tenon_meta_t *part = infer->inputs[p];
    for (uint32_t i = 0; i < (s->is_list ? part->count : 1); i++)
      numbers[count++] = storage_to((s->is_list ? part->items[i] : part)->layout);
  }
  bool good = infer_layouts(s, numbers, count, out, s->in_count, why, sizeof why);
  free(numbers);
  return good ? TENON_OK : tenon_fail(infer, TENON_INVALID, "%s", why);
}

tenon_status_t infer_backward(tenon_infer_t *infer) {
  const state_t *s = infer->state;
  tenon_meta_t *const *in = infer->inputs + s->out_count;
  tenon_meta_t *const *out = infer->outputs;
  if (s->is_list) {
    const uint32_t counts[] = {(uint32_t)s->out_count, (uint32_t)(s->in_count + s->extra),
                               (uint32_t)s->out_count};
    for (int i = 0; i < 3; i++)
      if (infer->inputs[i]->count != counts[i])
        return tenon_fail(infer, TENON_INVALID,
                          "expected gradients of %d outputs, then %d inputs, then %d outputs",
                          s->out_count, s->in_count + s->extra, s->out_count);
    tenon_status_t status = infer->host->list(infer, 0, (uint32_t)(s->in_count + s->extra));
    if (status != TENON_OK) return status;
    in = infer->inputs[1]->items;
    out = infer->outputs[0]->items;
  }
  for (int i = 0; i < s->in_count + s->extra; i++)
    copy_meta(out[i], in[i]);
  return s->op->storages ? infer_backward_layouts(infer, out) : TENON_OK;
}
