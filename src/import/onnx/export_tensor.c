/* Writes tensors and types to ONNX files. Called by export.c and export_attribute.c. The elements
 * of large tensors begin at multiples of 64 bytes in the file, so that a program can use them in
 * place after mapping the file. */
#include <string.h>

#include "base/status.h"
#include "core/dtype.h"
#include "import/onnx/export.h"
#include "import/onnx/tensor.h"

enum { ALIGNED_FROM = 4096 }; /* bytes: smaller tensors are not aligned */

static tenon_status_t dtype_number(tenon_dtype_t dtype, int64_t *out_number) {
  *out_number = dtype.bits ? tn_onnx_number(dtype) : 0;
  if (*out_number || !dtype.bits) return TENON_OK;
  return tn_fail(TENON_UNIMPLEMENTED, "ONNX has no element type for %s", tn_dtype_name(dtype));
}

/* Writes the elements of a dense tensor in host memory. */
static void write_elements(tn_export_t *export, const tenon_tensor_t *tensor, uint64_t size) {
  tn_writer_t *w = &export->writer;
  if (tn_dtype_is(tensor->dtype, TENON_STRING)) {
    const tenon_string_t *strings = tensor->data;
    for (int64_t i = tenon_count(tensor); i-- > 0;)
      tn_write_bytes(w, 6, strings[i].data, strings[i].size);
  } else if (size >= ALIGNED_FROM) {
    export->is_aligned = true;
    /* field 12 is doc_string, behind the elements */
    tn_write_padding(w, 12, size, TN_EXPORT_ALIGNMENT);
    tn_write_bytes(w, 9, tensor->data, size);
  } else {
    tn_write_bytes(w, 9, tensor->data, size);
  }
}

tenon_status_t tn_export_tensor(tn_export_t *export, uint32_t field, const char *name,
                                const tenon_tensor_t *tensor) {
  tn_writer_t *w = &export->writer;
  tenon_tensor_t *copy = NULL;
  uint64_t size = 0;
  int64_t number;
  size_t before = w->size;
  TN_TRY(dtype_number(tensor->dtype, &number));
  if (tensor->detail)
    return tn_fail(TENON_UNIMPLEMENTED, "ONNX has no tensors of layout %s",
                   tenon_tensor_layout(tensor));
  if (!tn_dtype_bytes(tensor->dtype, tenon_count(tensor), &size) || size > TN_WRITER_MOST - w->size)
    return tn_fail(
        TENON_RANGE,
        "with this tensor the file exceeds 2 GiB, the largest size that protobuf allows");
  if (tensor->device.type != 1 || tensor->keys & TN_KEY_STRIDED) {
    TN_TRY(tenon_tensor_copy_to(tensor, (tenon_device_t){1, 0}, &copy));
    tensor = copy;
  }
  write_elements(export, tensor, size);
  if (name) tn_write_text(w, 8, name);
  tn_write_int(w, 2, number);
  for (int32_t d = tensor->ndim; d-- > 0;)
    tn_write_int(w, 1, tensor->shape[d]);
  tn_write_message(w, field, before);
  tenon_tensor_release(copy);
  return w->status;
}

/* Writes the extents of an edge. `axes` overrides them for inputs and outputs of the model; NULL:
 * the inferred extents. */
static tenon_status_t write_shape(tn_export_t *export, const tenon_graph_t *graph,
                                  const tn_edge_t *edge, const tenon_axis_t *axes) {
  tn_writer_t *w = &export->writer;
  size_t before = w->size;
  for (int32_t d = edge->ndim; d-- > 0;) {
    size_t inside = w->size;
    tenon_dim_t dim =
        axes ? tenon_extent(axes[d].extent) : tn_extents_resolve(graph->extents, edge->dims[d]);
    tn_text_t text = {0};
    if (axes ? axes[d].extent >= 0 : tenon_is_known(dim))
      tn_write_int(w, 1, dim.value);
    else if (axes && axes[d].name)
      tn_write_text(w, 2, axes[d].name);
    else if (!axes)
      tn_extents_print(graph->extents, dim, &text);
    bool failed = text.failed;
    if (text.size && !failed) tn_write_text(w, 2, tn_text_get(&text));
    tn_text_clear(&text);
    if (failed) return tn_no_memory("a shape", 0);
    tn_write_message(w, 1, inside);
  }
  tn_write_message(w, 2, before);
  return TENON_OK;
}

tenon_status_t tn_export_value(tn_export_t *export, uint32_t field, const tenon_graph_t *graph,
                               tenon_edge_t index, const char *name, const tenon_axis_t *axes) {
  tn_writer_t *w = &export->writer;
  const tn_edge_t *edge = &graph->edges[index];
  int64_t number;
  size_t before = w->size;
  const bool is_list = tn_dtype_is(edge->dtype, TENON_LIST);
  if (is_list) {
    tn_export_list_type(export, graph, index, before);
    tn_write_message(w, 2, before); /* field type */
    tn_write_text(w, 1, name);
    tn_write_message(w, field, before);
    return w->status;
  }
  tenon_status_t status = dtype_number(edge->dtype, &number);
  if (status == TENON_OK && edge->layout)
    status = tn_fail(TENON_UNIMPLEMENTED,
                     "it is sparse, but Tenon writes dense tensors only to ONNX files");
  if (status == TENON_OK && edge->ndim >= 0) status = write_shape(export, graph, edge, axes);
  if (status != TENON_OK) return tn_prefix(status, "value '%s': ", name);
  tn_write_int(w, 1, number);
  tn_write_message(w, 1, before); /* field tensor_type */
  tn_write_message(w, 2, before); /* field type */
  tn_write_text(w, 1, name);
  tn_write_message(w, field, before);
  return w->status;
}
