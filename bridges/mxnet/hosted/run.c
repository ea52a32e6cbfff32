#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "infer.h"
#include "random.h"

enum { FEW = 12 }; /* up to this number of tensors, the arrays are on the stack */

typedef struct side_t { /* the inputs or the outputs, as arrays */
  int count;
  const int64_t **shapes;
  void **data;
  void **indices;
  void **indptr;
  size_t *versions;
  const char **devices;
  int64_t *indices_counts;
  int64_t *indptr_counts;
  int *ndims;
  int *dtypes;
  int *ids;
  int *storages;
} side_t;
enum { PER_TENSOR = 8 * 8 + 4 * 4 };

typedef struct block_t { /* host memory for a call on another device */
  struct block_t *next;
} block_t;

typedef struct frame_t {
  tenon_call_t *call;
  state_t *state;
  tenon_device_t device;
  size_t version; /* the version of all inputs */
  side_t in;
  side_t out;
  author_fn function;
  void *object; /* the object of a stateful operator */
  void *random;
  block_t *blocks;
  char why[WHY];
} frame_t;

/* functions that the library calls */

static void *allocate_there(void *handle, int bytes) {
  const frame_t *f = handle;
  return bytes < 0 ? NULL : f->call->host->allocate(f->call, (uint64_t)bytes);
}

static void *allocate_here(void *handle, int bytes) {
  frame_t *f = handle;
  if (bytes < 0) return NULL;
  block_t *block = aligned_alloc(64, ((size_t)bytes + 64 + 63) / 64 * 64);
  if (!block) return NULL;
  block->next = f->blocks;
  f->blocks = block;
  return (char *)block + 64;
}

/* Creates the parts of a sparse result. After a failure the library receives NULL, and the call
 * fails with `why`. */
static void make_sparse(void *handle, int output, int count, int pointers, void **data,
                        int64_t **indices, int64_t **indptr) {
  frame_t *f = handle;
  *data = NULL;
  *indices = NULL;
  if (pointers) *indptr = NULL;
  const tenon_tensor_t *t =
      output >= 0 && output < f->out.count && !f->state->is_list ? f->call->outputs[output] : NULL;
  if (!t || !t->detail || f->out.storages[output] == STORAGE_DENSE || count < 0) {
    snprintf(f->why, sizeof f->why,
             "it made a sparse array of %d elements for output %d, which is not a sparse output of "
             "this call",
             count, output);
    return;
  }
  if (f->call->host->sparse(f->call, (uint32_t)output, t->ndim, t->shape, count) != TENON_OK) {
    snprintf(f->why, sizeof f->why, "%s", tenon_error());
    return;
  }
  *data = t->detail->values->data;
  *indices = t->detail->indices->data;
  if (t->detail->kind == TENON_DETAIL_CSR && pointers) *indptr = t->detail->indptr->data;
}

/* tensors */

static char *side_open(side_t *side, int count, char *room) {
  const size_t n = (size_t)count;
  side->count = count;
  side->shapes = (const int64_t **)(void *)room;
  side->data = (void **)(side->shapes + n);
  side->indices = side->data + n;
  side->indptr = side->indices + n;
  side->versions = (size_t *)(side->indptr + n);
  side->devices = (const char **)(side->versions + n);
  side->indices_counts = (int64_t *)(void *)(side->devices + n);
  side->indptr_counts = side->indices_counts + n;
  side->ndims = (int *)(side->indptr_counts + n);
  side->dtypes = side->ndims + n;
  side->ids = side->dtypes + n;
  side->storages = side->ids + n;
  return (char *)(side->storages + n);
}

static void sparse_set(side_t *side, int k, const tenon_detail_t *detail) {
  side->storages[k] = detail->kind == TENON_DETAIL_CSR ? STORAGE_CSR : STORAGE_ROWS;
  if (!detail->values) return; /* It is a result, and the library creates its parts. */
  side->data[k] = detail->values->data;
  side->indices[k] = detail->indices->data;
  side->indices_counts[k] = detail->indices->shape[0];
  if (detail->indptr) {
    side->indptr[k] = detail->indptr->data;
    side->indptr_counts[k] = detail->indptr->shape[0];
  }
}

/* Checks a sparse result, because what a library writes is not trusted. */
static bool check_sparse_output(frame_t *f, int output, const tenon_tensor_t *t) {
  tenon_tensor_t *checked = NULL;
  /* The result is dense, or it was not created, which the host reports. */
  if (!t->detail || !t->detail->values) return true;
  if (tenon_tensor_create_sparse(t->detail, t->ndim, t->shape, 0, &checked) == TENON_OK) {
    tenon_tensor_release(checked);
    return true;
  }
  snprintf(f->why, sizeof f->why, "it made a sparse output %d that is none: %s", output,
           tenon_error());
  return false;
}

static bool side_set(frame_t *f, side_t *side, int k, const tenon_tensor_t *t) {
  const int dtype = dtype_to(t->dtype);
  if (dtype < 0) {
    snprintf(f->why, sizeof f->why,
             "a tensor has dtype %s: expected f32, f64, f16, u8, i32, i8 or i64, the dtypes of "
             "MXNet libraries",
             tenon_dtype_name(t->dtype));
    return false;
  }
  side->shapes[k] = t->shape;
  side->ndims[k] = t->ndim;
  side->dtypes[k] = dtype;
  side->data[k] = (char *)t->data + t->byte_offset;
  side->versions[k] = f->version;
  side->devices[k] = device_name(t->device);
  side->ids[k] = t->device.id;
  side->storages[k] = STORAGE_DENSE;
  side->indices[k] = side->indptr[k] = NULL;
  side->indices_counts[k] = side->indptr_counts[k] = 0;
  if (t->detail) sparse_set(side, k, t->detail);
  return true;
}

/* Sets the shapes of results whose extents were not known when their memory was allocated. */
static bool resize(frame_t *f, tenon_tensor_t *const *in) {
  const state_t *s = f->state;
  size_t total = TENON_RANK_MAX;
  for (int i = 0; i < s->in_count; i++)
    total += (size_t)in[i]->ndim;
  int64_t *extents = malloc(total * sizeof *extents + (size_t)(s->in_count + 1) * sizeof(int));
  int64_t *at = extents;
  if (!extents) {
    snprintf(f->why, sizeof f->why, "out of memory");
    return false;
  }
  int *ndims = (int *)(void *)(extents + total);
  for (int i = 0; i < s->in_count; i++) {
    ndims[i] = in[i]->ndim;
    for (int32_t d = 0; d < in[i]->ndim; d++)
      *at++ = in[i]->shape[d];
  }
  shapes_t shapes;
  bool good = infer_shapes(s, ndims, extents, &shapes, f->why, sizeof f->why);
  for (int o = 0; o < s->out_count && good; o++) {
    for (int d = 0; d < shapes.ndims[o]; d++)
      extents[d] = shapes.shapes[o][d];
    good = f->call->host->resize(f->call, (uint32_t)o, shapes.ndims[o], extents) == TENON_OK;
  }
  shapes_free(&shapes);
  free(extents);
  return good;
}

/* the call */

#define SIDE_(s) s.shapes, s.ndims, s.data, s.dtypes, s.versions, s.devices, s.ids, s.count
#define COMPUTE_(f)                                                                                \
  SIDE_((f)->in), SIDE_((f)->out), (f)->call->stream ? allocate_here : allocate_there, (f),        \
      allocate_there, (f), (f)->call->stream, make_sparse, (f), (f)->in.storages,                  \
      (f)->out.storages, (f)->in.indices, (f)->out.indices, (f)->in.indptr, (f)->out.indptr,       \
      (f)->in.indices_counts, (f)->out.indices_counts, (f)->in.indptr_counts,                      \
      (f)->out.indptr_counts, (f)->random, NULL

static int compute(void *argument) {
  frame_t *f = argument;
  const state_t *s = f->state;
  return s->op->library->abi._opCallFCompute(f->function, s->keys, s->values, s->count,
                                             COMPUTE_(f));
}
static int forward_object(void *argument) {
  frame_t *f = argument;
  return f->state->op->library->abi._opCallFStatefulCompute(1, f->object, COMPUTE_(f));
}
static int backward_object(void *argument) {
  frame_t *f = argument;
  return f->state->op->library->abi._opCallFStatefulCompute(0, f->object, COMPUTE_(f));
}

/* Calls the library's function on both sides of the frame. `forward` are the inputs of the forward
 * call, which select the object of a stateful operator. */
static bool run_function(frame_t *f, bool is_forward, tenon_tensor_t *const *forward) {
  const hosted_op_t *op = f->state->op;
  const functions_t *of = is_forward ? &op->forward : &op->backward;
  const bool is_stateful = op->create.cpu || op->create.gpu;
  const char *what = is_forward ? "forward" : "backward";
  instance_t *instance = NULL;
  if (is_stateful &&
      !(instance = state_instance(f->state, f->device, forward, f->why, sizeof f->why)))
    return false;
  f->function = f->device.type == 1 ? of->cpu : of->gpu;
  if (instance) {
    f->object = instance->object;
    pthread_mutex_lock(&instance->turns);
  }
  f->random = random_begin(f->call->random);
  int (*call_object)(void *) = is_forward ? forward_object : backward_object;
  int result = guard_call(instance ? call_object : compute, f, f->why, sizeof f->why);
  random_end(f->call->random);
  if (instance) pthread_mutex_unlock(&instance->turns);
  for (block_t *b = f->blocks, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  if (result > 0 && *f->why) result = -1; /* A callback failed. */
  return state_check(f->state, result, what, f->why, sizeof f->why);
}

typedef struct tensors_t {
  tenon_tensor_t *const *items;
  int count;
} tensors_t;

/* Returns `count` tensors from `first` on or, if the operator has the list form, the items of the
 * list at `list`. */
static tensors_t take_tensors(const state_t *s, tenon_tensor_t *const *tensors, int list, int first,
                              int count) {
  if (!s->is_list) return (tensors_t){tensors + first, count};
  const tenon_tensor_t *of = tensors[list];
  return (tensors_t){of->data, (int)of->shape[0]};
}

static tenon_status_t call_with(tenon_call_t *call, const tensors_t *in, int in_parts,
                                tensors_t out, bool is_forward, tensors_t forward) {
  _Alignas(16) char few[FEW * PER_TENSOR];
  frame_t f = {.call = call, .state = call->state};
  int count = 0;
  for (int p = 0; p < in_parts; p++)
    count += in[p].count;
  f.device = (tenon_device_t){1, 0};
  if (count)
    f.device = (in[0].count ? in[0] : in[1]).items[0]->device;
  else if (out.count)
    f.device = out.items[0]->device;
  char *room = few;
  if (count + out.count > FEW && !(room = malloc((size_t)(count + out.count) * PER_TENSOR)))
    return tenon_fail(call, TENON_MEMORY, "out of memory");
  room = side_open(&f.in, count, room);
  (void)side_open(&f.out, out.count, room);
  f.version = (size_t)__atomic_add_fetch(&f.state->version, 1, __ATOMIC_RELAXED);
  bool good = true;
  for (int o = 0; o < out.count && good && is_forward && !f.state->is_list; o++)
    /* The result has no memory yet, or it is empty. */
    if (!out.items[o]->data && !out.items[o]->detail) {
      good = resize(&f, in[0].items);
      break;
    }
  for (int o = 0; o < out.count && good && f.state->op->is_subgraph; o++)
    if (!out.items[o]->data && tenon_count(out.items[o]) != 0) {
      good = false;
      snprintf(f.why, sizeof f.why, "the shape of result %d is unknown before the operator runs",
               o);
    }
  for (int p = 0, k = 0; p < in_parts; p++)
    for (int i = 0; i < in[p].count && good; i++)
      good = side_set(&f, &f.in, k++, in[p].items[i]);
  for (int o = 0; o < out.count && good; o++)
    good = side_set(&f, &f.out, o, out.items[o]);
  good = good && run_function(&f, is_forward, forward.items);
  for (int o = 0; o < out.count && good; o++)
    good = check_sparse_output(&f, o, out.items[o]);
  if ((char *)(void *)f.in.shapes != few) free(f.in.shapes);
  if (good) return TENON_OK;
  return *f.why ? tenon_fail(call, TENON_UNKNOWN, "%s", f.why) : TENON_UNKNOWN;
}

tenon_status_t run_forward(tenon_call_t *call) {
  const state_t *s = call->state;
  const tensors_t in = take_tensors(s, call->inputs, 0, 0, s->in_count);
  return call_with(call, &in, 1, take_tensors(s, call->outputs, 0, 0, s->out_count), true, in);
}

/* The inputs of the call are the gradients of the outputs, the forward inputs and the forward
 * outputs. Its results are the gradients of the inputs. */
tenon_status_t run_backward(tenon_call_t *call) {
  const state_t *s = call->state;
  const tensors_t in[] = {
      take_tensors(s, call->inputs, 0, 0, s->out_count),
      take_tensors(s, call->inputs, 1, s->out_count, s->in_count),
      take_tensors(s, call->inputs, 2, s->out_count + s->in_count, s->out_count)};
  return call_with(call, in, 3, take_tensors(s, call->outputs, 0, 0, s->in_count), false, in[1]);
}
