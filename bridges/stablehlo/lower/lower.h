/* The program that is being lowered, the operation that is being lowered, and what lowerings build
 * with. Failures are sticky: after the first one, or after hlo_missing, the functions here and in
 * expression.h add nothing to the graph and return EDGE_NONE.
 *
 * Each file of lower/ calls only files that are listed before it:
 *   lower.c       failures, values, calls of operators, constants, properties of values
 *   expression.c  runs texts such as "mul(a, exp(b))"
 *   narrow.c      integers of fewer bits than a byte
 *   quantised.c   integers that stand for floats
 *   arguments.c   attributes and extents of an operation
 *   scan.c        loops that write rows
 *   region.c      evaluates regions and calls functions
 *   body.c        regions as graphs of their own
 *   lower_*.c     lowerings, by family
 *   custom.c      operations that become operators of loaded libraries
 *   table.c       finds the lowering of an operation */
#ifndef BRIDGES_STABLEHLO_LOWER_LOWER_H
#define BRIDGES_STABLEHLO_LOWER_LOWER_H

#include "base/arena.h"
#include "parse/module.h"

enum {
  EDGE_NONE = -1,
  HLO_CALLS_MAX = 64,           /* Levels of calls of functions. */
  HLO_OPERATIONS_MAX = 1 << 20, /* Operations that are lowered, each as often as it is inlined. */
  HLO_BOUND_MAX = 1 << 24,      /* Values of functions, each as often as it is inlined. */
  HLO_MISSING_MAX = 100,
};

/* What a value of the program is in the graph that is being built. */
typedef struct hlo_bound_t {
  tenon_edge_t edge;      /* The value, or its real part. */
  tenon_edge_t imaginary; /* Its imaginary part; EDGE_NONE: the value is not complex. */
  tenon_edge_t narrow;    /* A value that broadcasts to this one; EDGE_NONE: there is none. */
  bool is_set;
  bool is_missing; /* It comes from an operation that is not supported. */
  const hlo_attr_t *constant;
  const struct hlo_bound_t *items; /* The items of a tuple. */
  /* Tags that scan.c describes: the value is slope * counter + offset of a loop; or a state of it
   * that is stacked, by its number from 1; or always true (1) or false (-1). */
  const struct hlo_scan_t *scan;
  int64_t slope;
  int64_t offset;
  int32_t stacked;
  int32_t truth;
} hlo_bound_t;

typedef struct hlo_frame_t { /* A call of a function. */
  struct hlo_frame_t *outer;
  const hlo_function_t *function;
  hlo_bound_t *bound; /* One for each value of the function. */
  int32_t level;
} hlo_frame_t;

typedef struct hlo_missing_t { /* Operations that are not supported for one reason. */
  struct hlo_missing_t *next;
  const char *name;
  const char *reason;
  const char *at; /* Of the first one. */
  int count;
} hlo_missing_t;

typedef struct hlo_lower_t {
  tn_arena_t *arena;
  const hlo_module_t *module;
  tenon_builder_t *builder; /* Of the graph that is being built. */
  hlo_frame_t *frame;
  const hlo_op_t *op;
  const struct hlo_row_t *row;
  hlo_missing_t *missing;
  int32_t missing_count;
  int32_t operation_count;
  int64_t bound_count;
  int32_t part;     /* 0, 1: real or imaginary parts are being lowered; -1: neither. */
  int32_t scans;    /* The number of loops around that stack rows. */
  int32_t elements; /* If above 0, a region for single elements is applied to whole tensors. */
  bool is_missing;  /* The current operation is not supported. */
  tenon_status_t status;
} hlo_lower_t;

/* Flags of a lowering. */
enum {
  HLO_ELEMENTWISE = 1, /* It works on whole tensors as it does on single elements. */
  HLO_BY_PARTS = 2, /* For complex numbers it runs once for the real, once for the other parts. */
};

/* How an operation of StableHLO is lowered. */
typedef struct hlo_row_t {
  const char *name;
  const char *text;         /* An expression for numbers, of the operands a, b, c. */
  const char *bool_text;    /* The same for bools; NULL: as for numbers. */
  const char *complex_text; /* "real; imaginary" of a + ib and c + id; NULL: not supported. */
  void (*lower)(hlo_lower_t *lower); /* If not NULL, used instead of the texts. */
  unsigned flags;
  const char *refusal; /* If not NULL: why the operation is not supported. */
} hlo_row_t;
typedef struct hlo_rows_t {
  const hlo_row_t *items;
  size_t count;
} hlo_rows_t;
#define HLO_ROWS(name) const hlo_rows_t name = {rows, sizeof rows / sizeof *rows}

/* failures */

bool hlo_stopped(const hlo_lower_t *lower);
/* Reports that the program is wrong. */
void hlo_wrong(hlo_lower_t *lower, const char *format, ...) TENON_FORMAT(2, 3);
/* Records that the current operation is not supported, and why. */
void hlo_missing(hlo_lower_t *lower, const char *format, ...) TENON_FORMAT(2, 3);
bool hlo_has_failed(hlo_lower_t *lower, tenon_status_t status);
void *hlo_lower_take(hlo_lower_t *lower, size_t count, size_t size);

/* values */

hlo_bound_t *hlo_bound_of(hlo_lower_t *lower, const hlo_value_t *value);
/* The operand of the current operation; fails if it does not exist. */
hlo_bound_t *hlo_operand(hlo_lower_t *lower, int32_t index);
/* The edge of an operand that is a real tensor, or of the part that is being lowered. */
tenon_edge_t hlo_edge(hlo_lower_t *lower, int32_t index);
const hlo_type_t *hlo_operand_type(hlo_lower_t *lower, int32_t index);
const hlo_type_t *hlo_result_type(hlo_lower_t *lower, int32_t index);
/* Sets a result of the current operation, after a check against its type. */
void hlo_give(hlo_lower_t *lower, int32_t index, tenon_edge_t edge);
void hlo_give_bound(hlo_lower_t *lower, int32_t index, hlo_bound_t bound);
hlo_bound_t hlo_real(tenon_edge_t edge);
hlo_bound_t hlo_complex(tenon_edge_t real, tenon_edge_t imaginary);
bool hlo_is_complex(const hlo_type_t *type);
bool hlo_is_float(tenon_dtype_t dtype);
bool hlo_is_bool(tenon_dtype_t dtype);
/* The dtype of the parts of a complex dtype; other dtypes as they are. */
tenon_dtype_t hlo_part_dtype(tenon_dtype_t dtype);

/* calls */

typedef struct hlo_edges_t { /* The values of an argument, or of the results of a call. */
  const tenon_edge_t *edges;
  int32_t count;
  bool is_list;
} hlo_edges_t;
/* Adds a node and takes `attrs` over. */
hlo_edges_t hlo_call(hlo_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                     const hlo_edges_t *operands, int32_t operand_count, int32_t wanted);

/* constants */

tenon_edge_t hlo_tensor(hlo_lower_t *lower, tenon_tensor_t *tensor); /* takes the tensor over */
tenon_edge_t hlo_ints(hlo_lower_t *lower, const int64_t *values, int32_t count);
tenon_edge_t hlo_scalar(hlo_lower_t *lower, tenon_dtype_t dtype, double value);
/* The value of a constant attribute. */
hlo_bound_t hlo_constant(hlo_lower_t *lower, const hlo_attr_t *attr);

/* properties of values */

tenon_dtype_t hlo_dtype(hlo_lower_t *lower, tenon_edge_t edge);
int32_t hlo_rank(hlo_lower_t *lower, tenon_edge_t edge);
int64_t hlo_extent(hlo_lower_t *lower, tenon_edge_t edge, int32_t axis); /* -1: unknown */

#endif
