/* tenon/api/graphs.h: reading, writing, inspecting, building and transforming graphs.  Part of
 * tenon/tenon.h. */
#ifndef TENON_API_GRAPHS_H
#define TENON_API_GRAPHS_H

#include <tenon/api/export.h>
#include <tenon/graph.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A graph is immutable.  It comes from a file or from a builder. */

/* ---- files ----------------------------------------------------------------------------------- */

/* Options of reading a model. */
typedef struct tenon_import_t {
  uint32_t size;
  uint32_t flags;
  const char *folder; /* Folder of external weights; NULL: that of the file. */
} tenon_import_t;

/* Reads an ONNX model, a graph as text (NAME.graph, docs/graph_text.md), an artifact (NAME.tenon,
 * docs/artifacts.md), or a model that a bridge recognises.  Weights stay in the mapped file.
 *
 * Operators of custom domains are looked up as "domain::name"; load their libraries first.
 *
 * Arguments: `options`: NULL: defaults. */
TENON_API tenon_status_t tenon_graph_load(const char *path, const tenon_import_t *options,
                                          tenon_graph_t **out_graph);

/* Reads an ONNX model, a graph as text or an artifact from memory, which must remain valid until
 * the graph is released. */
TENON_API tenon_status_t tenon_graph_read(const void *data, uint64_t size,
                                          const tenon_import_t *options, tenon_graph_t **out_graph);

/* Writes a graph to a file that tenon_graph_load reads back to an equal graph: as text if `path`
 * ends with `.graph`, compiled if it ends with `.tenon` (tenon_graph_pack), otherwise as an ONNX
 * file.
 *
 * As text, large constants are in a file beside it, with the ending `.safetensors`
 * (docs/graph_text.md).  The following holds for an ONNX file.
 *
 * Each operator "ns::name" becomes a node of domain "ns" and type "name", with named attributes.
 * Constants become initialisers.  A graph without a name gets the name "graph".  A number that a
 * 32-bit float cannot represent becomes an attribute of type tensor.
 *
 * Errors: what ONNX cannot represent (other element types, quantised tensors, more than 2 GiB), and
 * sparse or quantised constants in a text; the message names the node or constant.  Existing files
 * are replaced atomically, and remain unchanged after an error. */
TENON_API tenon_status_t tenon_graph_save(const tenon_graph_t *graph, const char *path);

/* Compiles a graph for this process, and writes the artifact: one file with everything that a run
 * needs (docs/artifacts.md).  tenon_graph_save does the same without libraries, if `path` ends with
 * `.tenon`.
 *
 * Arguments: `path`: its name ends with `.tenon`; `libraries`: files of operator libraries that the
 * artifact holds, also for other processors; those for this processor are loaded.
 * Errors: a library that cannot be loaded; sparse or quantised constants; the message names the
 * file or the constant.  An existing file is replaced atomically, and remains unchanged after an
 * error. */
TENON_API tenon_status_t tenon_graph_pack(const tenon_graph_t *graph, const char *path,
                                          const char *const *libraries, int32_t library_count);

/* Compares all checksums of an artifact, and reports its size, weights and libraries, what it was
 * compiled for, and whether this process uses its compiled graph, and if not, why.
 *
 * Errors: a file that is no artifact, or is damaged; the message says where.
 * Ownership: the caller releases *out_text with tenon_text_release. */
TENON_API tenon_status_t tenon_artifact_inspect(const char *path, char **out_text);

/* Writes a graph for other systems, in the standard operators of the format that the end of `path`
 * names: `.onnx`, or a format whose bridge writes models, such as `.mlir`.  With `.graph` the graph
 * is written as it is, by tenon_graph_save.
 *
 * Operators of other namespaces than `core` become custom operators of the format.  What does not
 * depend on inputs is computed and written as constants, and numbers in attributes are rounded as
 * the format requires, so tenon_graph_load gives a graph that computes the same but is not equal.
 *
 * Errors: TENON_INVALID: no format has this ending; TENON_UNIMPLEMENTED: operators that the format
 * cannot express, all of them, with their nodes.  An existing file at `path` is replaced
 * atomically, and remains unchanged after an error. */
TENON_API tenon_status_t tenon_graph_export(const tenon_graph_t *graph, const char *path);

/* ---- inspection ------------------------------------------------------------------------------ */

TENON_API void tenon_graph_retain(const tenon_graph_t *graph);
TENON_API void tenon_graph_release(const tenon_graph_t *graph);
/* Returns the name from the file or the builder; "": none. */
TENON_API const char *tenon_graph_name(const tenon_graph_t *graph);
TENON_API int32_t tenon_graph_input_count(const tenon_graph_t *graph);
TENON_API int32_t tenon_graph_output_count(const tenon_graph_t *graph);
TENON_API tenon_status_t tenon_graph_input(const tenon_graph_t *graph, int32_t index,
                                           tenon_port_t *out_port);
TENON_API tenon_status_t tenon_graph_output(const tenon_graph_t *graph, int32_t index,
                                            tenon_port_t *out_port);

/* Describes the graph as text.
 *
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_graph_dump(const tenon_graph_t *graph, char **out_text);

/* Returns the number of nodes.  Nodes are in an order in which they can run. */
TENON_API int32_t tenon_graph_node_count(const tenon_graph_t *graph);

/* Describes a node.
 *
 * Errors: TENON_RANGE if `index` is out of range. */
TENON_API tenon_status_t tenon_graph_node(const tenon_graph_t *graph, int32_t index,
                                          tenon_graph_part_t *out_node);

/* Describes a value.  Values are numbered from 0.
 *
 * Arguments: `out_type` receives "f32[batch, 128]", with "?" for unknown parts; may be NULL.
 * Errors: TENON_RANGE if `edge` is out of range.
 * Ownership: the caller frees *out_type. */
TENON_API tenon_status_t tenon_graph_edge(const tenon_graph_t *graph, tenon_edge_t edge,
                                          tenon_graph_edge_t *out_edge, char **out_type);

/* Describes the dtype and the inferred extents of a value.
 *
 * Ownership: lent by the graph. */
TENON_API tenon_status_t tenon_graph_value(const tenon_graph_t *graph, tenon_edge_t edge,
                                           tenon_port_t *out_port);

/* ---- building -------------------------------------------------------------------------------- */

/* Creates a builder.  Names are for messages, dumps and ports; NULL: the builder chooses one.
 *
 * Threads: one thread at a time uses a builder. */
TENON_API tenon_status_t tenon_builder_create(tenon_builder_t **out_builder);
TENON_API void tenon_builder_release(tenon_builder_t *builder);

/* Sets the name of the graph, which is copied. */
TENON_API tenon_status_t tenon_builder_name(tenon_builder_t *builder, const char *name);
TENON_API tenon_status_t tenon_builder_input(tenon_builder_t *builder, const char *name,
                                             tenon_dtype_t dtype, int32_t ndim,
                                             const tenon_axis_t *axes, tenon_edge_t *out_edge);

/* Declares that an input is sparse, before a node uses it.  Runs then require a sparse tensor
 * there, and dense ones for other inputs.  A result of a node is sparse if its infer says so.
 *
 * Arguments: `layout`: TENON_DETAIL_CSR or TENON_DETAIL_ROW_SPARSE. */
TENON_API tenon_status_t tenon_builder_sparse(tenon_builder_t *builder, tenon_edge_t edge,
                                              uint32_t layout);

/* Adds a constant.
 *
 * Ownership: the tensor is retained.  It must be in host memory, and nobody may write to it any
 * more. */
TENON_API tenon_status_t tenon_builder_constant(tenon_builder_t *builder, const char *name,
                                                tenon_tensor_t *tensor, tenon_edge_t *out_edge);

/* Adds a node.
 *
 * Arguments: `operands`: one entry for each tensor argument of the schema.  `attrs`: NULL:
 * defaults.  `out_edges` receives `output_count` values: the results in order, with the items of
 * list results one by one.
 * Ownership: `attrs` are copied. */
TENON_API tenon_status_t tenon_builder_node(tenon_builder_t *builder, const char *name,
                                            const tenon_op_t *op, const tenon_value_t *attrs,
                                            const tenon_operand_t *operands,
                                            tenon_edge_t *out_edges, int32_t output_count);
TENON_API tenon_status_t tenon_builder_output(tenon_builder_t *builder, const char *name,
                                              tenon_edge_t edge);

/* Copy the inputs, a node, or the outputs of another graph into the builder.
 *
 * Arguments: `edges` has one entry for each value of `graph`: the value's index in the builder, or
 * -1 if the builder does not have it yet. The functions set the entries of inputs and results.
 * They copy a constant when a node or an output first uses it.
 * Errors: TENON_INVALID if a used value is neither in the builder nor a constant, or if `edges` is
 * NULL. */
TENON_API tenon_status_t tenon_builder_copy_inputs(tenon_builder_t *builder,
                                                   const tenon_graph_t *graph, tenon_edge_t *edges);
TENON_API tenon_status_t tenon_builder_copy_node(tenon_builder_t *builder,
                                                 const tenon_graph_t *graph, int32_t node,
                                                 tenon_edge_t *edges);
TENON_API tenon_status_t tenon_builder_copy_outputs(tenon_builder_t *builder,
                                                    const tenon_graph_t *graph,
                                                    tenon_edge_t *edges);

/* Turns checking on (1) or off (0); initially off.  With checking, the builder infers each node
 * when it is added, and refuses nodes that inference refuses.  Without it, tenon_builder_finish
 * finds them. */
TENON_API void tenon_builder_check(tenon_builder_t *builder, int32_t is_on);

/* Describes what is known about a value, for each result of an inferred node.
 *
 * Ownership: lent by the builder until the next call of this function. */
TENON_API tenon_status_t tenon_builder_value(tenon_builder_t *builder, tenon_edge_t edge,
                                             tenon_port_t *out_port);

/* Verifies the graph and returns it.  The builder is then empty; after an error it is unchanged. */
TENON_API tenon_status_t tenon_builder_finish(tenon_builder_t *builder, tenon_graph_t **out_graph);

/* ---- passes and partitioners ----------------------------------------------------------------- */

/* A pass or a partitioner (tenon/graph.h) of a loaded library.
 * Ownership: strings are valid as long as the library.  NULL: not stated. */
typedef struct tenon_pass_info_t {
  uint32_t size;
  int32_t strategy_count; /* Number of strategies of a partitioner; -1: it is a pass. */
  const char *name;       /* "library::name" */
  const char *doc;
  const char *library;
  const char *library_path;
  const char *const *strategies; /* "name: ns::operator" for each strategy. */
} tenon_pass_info_t;

/* Describes the index-th pass or partitioner of all loaded libraries.
 *
 * Errors: TENON_RANGE if `index` is out of range. */
TENON_API tenon_status_t tenon_pass_info(int32_t index, tenon_pass_info_t *info);

/* A rule by which the compiler rewrites graphs: a built-in one, or one of a loaded library.
 * Ownership: strings are valid as long as the library. */
typedef struct tenon_rewrite_info_t {
  uint32_t size;
  uint32_t reserved;
  const char *library;   /* "": a built-in rule. */
  const char *rule;      /* "name: before -> after" (docs/rewrites.md) */
  const char *condition; /* What the text does not say; "": nothing. */
} tenon_rewrite_info_t;

/* Describes the index-th rewriting rule, in the order in which the compiler applies them.  The
 * field `without` of tenon_compile_t turns rules off, by "name" or "library::name".
 *
 * Errors: TENON_RANGE if `index` is out of range. */
TENON_API tenon_status_t tenon_rewrite_info(int32_t index, tenon_rewrite_info_t *info);

/* Applies a pass or a partitioner.  A partitioner replaces parts of the graph by nodes of its
 * library.
 *
 * `graph` itself does not change.
 *
 * Arguments: `name`: "library::name"; `options`: their meaning depends on the library.
 * Errors: TENON_NOT_FOUND, with the existing names; failures of the library; a result that is not a
 * valid graph.
 * Ownership: the caller releases *out_graph, which may be the same graph with one more
 * reference. */
TENON_API tenon_status_t tenon_graph_apply(const tenon_graph_t *graph, const char *name,
                                           const tenon_option_t *options, int32_t option_count,
                                           tenon_graph_t **out_graph);

/* ---- gradients ------------------------------------------------------------------------------- */

enum {
  /* The gradient of every output is an input of the new graph, also where the output is a single
   * number. */
  TENON_GRADIENTS_GIVEN = 1,
  /* A value on which the outputs do not depend has a gradient of zeros; without the flag it is an
   * error. */
  TENON_GRADIENTS_UNUSED = 2,
  /* Formulas are differentiated as they are written.  Without the flag one that is the formula of
   * an operator, such as gelu, becomes that operator first, and backward needs fewer values. */
  TENON_GRADIENTS_PLAIN = 4
};

/* What to differentiate. */
typedef struct tenon_graph_gradients_t {
  uint32_t size;
  uint32_t flags;             /* TENON_GRADIENTS_... */
  const char *const *outputs; /* Names of the outputs that are differentiated. */
  const char *const *values;  /* Names of the inputs and constants whose gradients are computed. */
  int32_t output_count;       /* 0: all outputs of a float dtype. */
  int32_t value_count;        /* 0: all inputs of a float dtype. */
} tenon_graph_gradients_t;

/* Differentiates a graph: returns a graph that computes the outputs of `graph` and then gradients,
 * by the gradient formulas of the operators.  Compiled, forward and backward are one graph, whose
 * nodes are fused and whose memory is planned together.
 *
 * The inputs of the new graph are those of `graph`; then the constants among `values`, under their
 * names; then, for each differentiated output NAME that is not a single number, its gradient
 * "NAME.grad".  A single number has the gradient 1.  The outputs are those of `graph`, then the
 * gradient "NAME.grad" of each value.
 *
 * Arguments: `options`: NULL: defaults.
 * Errors: TENON_UNIMPLEMENTED for an operator on the way that has no gradient formulas, whose
 * formula reads @state, or that writes to an input; the message names the node.  TENON_NOT_FOUND
 * for an unknown name.  TENON_INVALID for a value that is no float, and for one on which the
 * outputs do not depend.
 * Ownership: the caller releases *out_graph.
 * Threads: any thread. */
TENON_API tenon_status_t tenon_graph_gradients(const tenon_graph_t *graph,
                                               const tenon_graph_gradients_t *options,
                                               tenon_graph_t **out_graph);

#ifdef __cplusplus
}
#endif
#endif
