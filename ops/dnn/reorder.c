/* Converts weights from one of oneDNN's layouts to another in each call, for convolutions without
 * packed weights. Layouts that are row-major, or blocked along their first axis alone, are copied
 * by core_move(), on all threads; oneDNN's own reorders run on one, and read large matrices slowly.
 * Called by convolution.c and conv_weight.c.
 * Invariant: elements that pad the last block are zeros. */
#include "../copy.h"
#include "dnn.h"
#include <stdlib.h>
#include <string.h>

/* A layout of f32 that core_move() can read and write. */
typedef struct layout_t {
  int rank;
  int64_t dims[DNNL_MAX_NDIMS];
  int64_t strides[DNNL_MAX_NDIMS]; /* the first one: from block to block */
  int64_t block;                   /* elements of axis 0 that are adjacent; 1: they are not */
} layout_t;

/* Finds the block of axis 0. Returns 0 if there are other blocks. */
static int find_block(const_dnnl_memory_desc_t md, layout_t *layout) {
  int count = 0;
  dnnl_dims_t *blocks = 0;
  dnnl_dims_t *axes = 0;
  layout->block = 1;
  if (dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &count) != dnnl_success) return 0;
  if (count == 0) return 1;
  if (dnnl_memory_desc_query(md, dnnl_query_inner_blks, &blocks) != dnnl_success ||
      dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &axes) != dnnl_success)
    return 0;
  layout->block = (*blocks)[0];
  return count == 1 && (*axes)[0] == 0;
}

/* Whether blocks follow each other without gaps, and nothing but the last one is padded. */
static int has_dense_blocks(const layout_t *layout, const int64_t *padded) {
  int64_t elements = layout->block;
  if (layout->block == 1) return padded[0] == layout->dims[0];
  for (int i = 1; i < layout->rank; i++) {
    if (padded[i] != layout->dims[i]) return 0;
    elements *= layout->dims[i];
  }
  return layout->strides[0] == elements && padded[0] - layout->dims[0] < layout->block;
}

/* Returns 0 if core_move() cannot read or write the layout. */
static int find_layout(const_dnnl_memory_desc_t md, layout_t *out_layout) {
  dnnl_dims_t *dims = 0;
  dnnl_dims_t *strides = 0;
  dnnl_dims_t *padded = 0;
  if (dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &out_layout->rank) != dnnl_success ||
      dnnl_memory_desc_query(md, dnnl_query_dims, &dims) != dnnl_success ||
      dnnl_memory_desc_query(md, dnnl_query_strides, &strides) != dnnl_success ||
      dnnl_memory_desc_query(md, dnnl_query_padded_dims, &padded) != dnnl_success)
    return 0;
  memcpy(out_layout->dims, *dims, sizeof out_layout->dims);
  memcpy(out_layout->strides, *strides, sizeof out_layout->strides);
  return find_block(md, out_layout) && has_dense_blocks(out_layout, *padded);
}

/* The distance of elements of a block along axis 0. */
static int64_t step_in_block(const layout_t *layout) {
  return layout->block > 1 ? 1 : layout->strides[0];
}

/* The distance of elements of axis 0 that are `rows` apart, which are whole blocks. */
static int64_t distance(const layout_t *layout, int64_t rows) {
  return rows / layout->block * layout->strides[0];
}

/* Copies `count` blocks of `rows` elements of axis 0, from element `first` on. */
static tenon_status_t move_blocks(tenon_call_t *call, const layout_t *from, void *data,
                                  const layout_t *to, void *out, int64_t first, int64_t count,
                                  int64_t rows) {
  const tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  const int64_t block = from->block > to->block ? from->block : to->block;
  const tenon_tensor_t x = {.dtype = f32, .data = data};
  tenon_tensor_t y = {.dtype = f32, .data = out};
  move_t move;
  move_begin(&move, &y, &x);
  move.from_offset = distance(from, first);
  move.to_offset = distance(to, first);
  move_axis(&move, count, distance(from, block), distance(to, block));
  for (int i = 1; i < from->rank; i++)
    move_axis(&move, from->dims[i], from->strides[i], to->strides[i]);
  move_axis(&move, rows, step_in_block(from), step_in_block(to));
  return core_move(call, &move);
}

static tenon_status_t move_layout(tenon_call_t *call, const layout_t *from, void *data,
                                  const layout_t *to, void *out) {
  const int64_t block = from->block > to->block ? from->block : to->block;
  const int64_t blocks = from->dims[0] / block;
  const int64_t rest = from->dims[0] % block;
  if (blocks) TENON_TRY(move_blocks(call, from, data, to, out, 0, blocks, block));
  if (!rest) return TENON_OK;
  if (to->block > 1)
    memset((float *)out + distance(to, blocks * block), 0, (size_t)to->strides[0] * sizeof(float));
  return move_blocks(call, from, data, to, out, blocks * block, 1, rest);
}

/* creating */

/* The layouts of a reorder that core_move() can do, or NULL; the caller frees them. */
static layout_t *find_layouts(const_dnnl_memory_desc_t from, const_dnnl_memory_desc_t to) {
  layout_t *layouts = (layout_t *)calloc(2, sizeof *layouts);
  if (layouts && find_layout(from, &layouts[0]) && find_layout(to, &layouts[1]) &&
      (layouts[0].block == 1 || layouts[1].block == 1))
    return layouts;
  free(layouts);
  return 0;
}

static int make_reorder_primitive(dnn_job_t *job) {
  dnnl_primitive_attr_t attributes = 0;
  dnnl_primitive_desc_t desc = 0;
  dnnl_engine_t engine = dnn_engine();
  int good = dnn_attributes(&attributes, 0, FINISH_none, 0, 0) &&
             dnnl_reorder_primitive_desc_create(&desc, job->md[0], engine, job->md[1], engine,
                                                attributes) == dnnl_success &&
             dnn_job_finish(job, desc);
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  return good;
}

dnn_job_t *dnn_reorder_create(const dnn_key_t *key, const_dnnl_memory_desc_t from,
                              const_dnnl_memory_desc_t to) {
  dnn_job_t *job = from && to ? dnn_job_create(key) : 0;
  if (!job) return 0;
  dnn_job_arg(job, DNNL_ARG_FROM, from);
  dnn_job_arg(job, DNNL_ARG_TO, to);
  const int has_descriptors = job->arg_count == 2;
  if (has_descriptors) job->layouts = find_layouts(from, to);
  if (job->layouts || (has_descriptors && make_reorder_primitive(job))) return job;
  dnn_job_destroy(job);
  return 0;
}

/* running */

tenon_status_t dnn_reorder_run(tenon_call_t *call, dnn_job_t *reorder, void *from, void *to) {
  const layout_t *layouts = (const layout_t *)reorder->layouts;
  void *both[2] = {from, to};
  if (layouts) return move_layout(call, &layouts[0], from, &layouts[1], to);
  return dnn_run(call, reorder, both);
}
