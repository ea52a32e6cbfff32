/* tenon/api/shapes.h: inference of dtypes and symbolic shapes without data.  Part of
 * tenon/tenon.h. */
#ifndef TENON_API_SHAPES_H
#define TENON_API_SHAPES_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A table of symbols, for tracers and compilers of other frameworks.  Extents are numbers, or
 * symbols of a table.
 *
 * Threads: one thread at a time uses a table. */
typedef struct tenon_shapes_t tenon_shapes_t;
TENON_API tenon_status_t tenon_shapes_create(tenon_shapes_t **out_shapes);
TENON_API void tenon_shapes_release(tenon_shapes_t *shapes);

/* Creates a symbol: an extent that is at least 0. */
TENON_API tenon_status_t tenon_shapes_symbol(tenon_shapes_t *shapes, tenon_dim_t *out_dim);

/* Infers the results of a call.
 *
 * Facts about symbols that one call establishes hold for later calls with the same table;
 * tenon_shapes_part returns them.
 *
 * Arguments: `inputs`: one for each tensor argument (NULL: omitted), with size, dtype, ndim and
 * dims; for lists count and items; for known values `value`.  If a dtype is unknown (no bits), the
 * function uses one that the schema allows, and only the shapes of the results are meaningful.
 * `attrs` and `wanted`: as for calls; DIM attributes may be symbols.
 * Returns: out_results[o] is the meta of result o, for lists with its items; NULL for an optional
 * result that is not wanted.
 * Ownership: the table owns the results. */
TENON_API tenon_status_t tenon_shapes_infer(tenon_shapes_t *shapes, const tenon_op_t *op,
                                            const tenon_value_t *attrs, tenon_meta_t *const *inputs,
                                            uint64_t wanted,
                                            const tenon_meta_t *const **out_results);

/* Infers only the dtypes of the results, for frameworks that infer dtypes separately from shapes.
 *
 * Arguments: `inputs`: the function reads dtype, count and items, and fills in an unknown dtype (no
 * bits) if the other inputs or the schema determine it.  `out_dtypes`: one for each result, for
 * lists that of the items; no bits: it depends on something unknown, or on shapes. */
TENON_API tenon_status_t tenon_types_infer(const tenon_op_t *op, const tenon_value_t *attrs,
                                           tenon_meta_t *const *inputs, tenon_dtype_t *out_dtypes);

/* Kinds of tenon_part_t. */
enum {
  TENON_PART_NUMBER = 1,    /* A number. */
  TENON_PART_SYMBOL = 2,    /* A symbol of tenon_shapes_symbol. */
  TENON_PART_OPERATION = 3, /* An operation on two extents. */
  /* An extent that only run determines: at least b and at most a (-1: no upper bound). */
  TENON_PART_FOUND = 4
};

/* One step of the computation of an extent. */
typedef struct tenon_part_t {
  uint32_t size;
  uint32_t kind;      /* TENON_PART_... */
  uint32_t operation; /* OPERATION: TENON_DIM_... */
  uint32_t reserved;
  tenon_dim_t a; /* NUMBER, SYMBOL: the extent itself, as it is known now. */
  tenon_dim_t b;
} tenon_part_t;
TENON_API tenon_status_t tenon_shapes_part(tenon_shapes_t *shapes, tenon_dim_t dim,
                                           tenon_part_t *part);

#ifdef __cplusplus
}
#endif
#endif
