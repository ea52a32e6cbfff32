/* The program that is being written, and the operations that writers compose. Operations are
 * printed in MLIR's generic form, which every reader accepts. Failures are sticky: after the first
 * one, or after hlo_write_missing, the functions print nothing and return a value that is not used.
 *
 * Each file of write/ calls only files that are listed before it:
 *   write.c       failures, values, constants, operands and attributes of the node
 *   operation.c   operations with inferred types: element-wise, shapes, reductions, products
 *   formula.c     runs texts such as "multiply(a, logistic(a))"
 *   write_*.c     writers of operators, by family
 *   table.c       finds the writer of an operator
 *   program.c     the whole program */
#ifndef BRIDGES_STABLEHLO_WRITE_WRITE_H
#define BRIDGES_STABLEHLO_WRITE_WRITE_H

#include <stdbool.h>
#include <stdio.h>
#include <tenon/tenon.h>

#include "base/arena.h"

enum { HLO_WRITE_MISSING_MAX = 100 };

typedef struct hlo_val_t { /* A value of the program. */
  int32_t id;              /* It is called %vID, or %vID#part; -1: there is none. */
  int32_t part;
  bool is_part;
  tenon_dtype_t dtype;
  int32_t ndim;
  int64_t dims[TENON_RANK_MAX];
} hlo_val_t;

typedef struct hlo_write_t {
  tn_arena_t *arena;
  const tenon_graph_t *graph;
  FILE *out;
  int32_t next;             /* The number of the next value. */
  const hlo_val_t **values; /* One for each edge of the graph; NULL: not written yet. */
  int32_t edge_count;
  tenon_graph_part_t node; /* The node that is being written. */
  tenon_op_info_t op;
  const struct hlo_write_row_t *row;
  /* Writes all nodes of `graph`. A pointer, because program.c is above the writers of bodies. */
  void (*write_nodes)(struct hlo_write_t *w);
  bool is_missing; /* The node cannot be written. */
  char *missing;   /* All nodes that cannot be written, one line each. */
  int32_t missing_count;
  tenon_status_t status;
} hlo_write_t;

/* How a core operator is written. */
typedef struct hlo_write_row_t {
  const char *name; /* Without "core::". */
  const char *text; /* A formula of the inputs a, b, c; NULL: `write` writes it. */
  void (*write)(hlo_write_t *w);
} hlo_write_row_t;
typedef struct hlo_write_rows_t {
  const hlo_write_row_t *items;
  size_t count;
} hlo_write_rows_t;
#define HLO_WRITE_ROWS(name) const hlo_write_rows_t name = {rows, sizeof rows / sizeof *rows}

/* failures */

bool hlo_write_stopped(const hlo_write_t *w);
/* Keeps a failure. Returns whether there is one. */
bool hlo_write_failed(hlo_write_t *w, tenon_status_t status);
/* Records why the node cannot be written. */
void hlo_write_missing(hlo_write_t *w, const char *format, ...) TENON_FORMAT(2, 3);

/* types */

bool hlo_same_shape(const hlo_val_t *a, const hlo_val_t *b);
int64_t hlo_val_count(const hlo_val_t *value);
bool hlo_dtype_is_float(tenon_dtype_t dtype);
bool hlo_dtype_is_bool(tenon_dtype_t dtype);
bool hlo_dtype_is_unsigned(tenon_dtype_t dtype);
/* A type without a value. */
hlo_val_t hlo_type_of(tenon_dtype_t dtype, int32_t ndim, const int64_t *dims);
void hlo_print_type(FILE *out, const hlo_val_t *type);
/* Prints "(tensor<2xf32>, tensor<i1>)". */
void hlo_print_types(FILE *out, const hlo_val_t *types, int32_t count);
/* Prints a string with the escapes of MLIR; bytes that are not ASCII are escaped too. */
void hlo_print_text(FILE *out, const char *text, size_t size);
/* Prints "[1, 2]", or "array<i64: 1, 2>". */
void hlo_print_list(FILE *out, const int64_t *items, int32_t count);
void hlo_print_array(FILE *out, const int64_t *items, int32_t count);
/* Formats text in the arena. */
const char *hlo_format(hlo_write_t *w, const char *format, ...) TENON_FORMAT(2, 3);
const char *hlo_array_text(hlo_write_t *w, const int64_t *items, int32_t count);
const char *hlo_list_text(hlo_write_t *w, const int64_t *items, int32_t count);

/* values of the graph */

/* The type of a value as inference found it; missing if it is not fixed. */
hlo_val_t hlo_edge_type(hlo_write_t *w, tenon_edge_t edge);
/* The value; a constant is printed when it is first used. */
hlo_val_t hlo_edge_value(hlo_write_t *w, tenon_edge_t edge);
void hlo_bind(hlo_write_t *w, tenon_edge_t edge, hlo_val_t value);
/* Gives the results of a node that cannot be written values of their types, so that the nodes after
 * it are checked too. */
void hlo_give_unwritten(hlo_write_t *w);
/* The name of a value: "%v3". */
const char *hlo_val_text(hlo_write_t *w, const hlo_val_t *value);

/* values of the node */

/* The number of operands of an input, 0 if it is absent. */
int32_t hlo_operand_count(const hlo_write_t *w, int32_t input);
hlo_val_t hlo_item(hlo_write_t *w, int32_t input, int32_t item);
/* The operand of an input that is one tensor; missing if it is absent. */
hlo_val_t hlo_in(hlo_write_t *w, int32_t input);
/* The type of a result as inference found it. */
hlo_val_t hlo_result(hlo_write_t *w, int32_t index);
/* Sets a result, after a check of its type; a tensor with another dtype is converted. */
void hlo_give_val(hlo_write_t *w, int32_t index, hlo_val_t value);
bool hlo_is_wanted(const hlo_write_t *w, int32_t index);
/* The integers of a constant input. Missing if it is not constant or longer than `most`. Returns
 * their number; 0 if the input is absent. */
int32_t hlo_known_ints(hlo_write_t *w, int32_t input, int64_t *out, int32_t most);
/* The number that a constant input holds. */
bool hlo_known_number(hlo_write_t *w, int32_t input, double *out);

/* attributes of the node */

/* The attribute; NULL if the operator has none of this name. */
const tenon_value_t *hlo_write_attr(hlo_write_t *w, const char *name);
int64_t hlo_write_int(hlo_write_t *w, const char *name);
double hlo_write_number(hlo_write_t *w, const char *name);
/* The name of a choice. */
const char *hlo_write_choice(hlo_write_t *w, const char *name);
/* The list, or `count` times `otherwise` if it is empty. */
void hlo_write_ints(hlo_write_t *w, const char *name, int64_t otherwise, int64_t *out,
                    int32_t count);
/* An axis that counts from the end if it is negative. */
int32_t hlo_axis(hlo_write_t *w, int64_t axis, int32_t ndim);

/* printing */

/* Prints an operation with one result of this type. `attrs`: "" or properties without brackets;
 * `region`: NULL or its lines. */
hlo_val_t hlo_emit(hlo_write_t *w, const char *name, hlo_val_t type, const char *attrs,
                   const char *region, const hlo_val_t *operands, int32_t count);
hlo_val_t hlo_tensor_constant(hlo_write_t *w, const tenon_tensor_t *tensor);
hlo_val_t hlo_number(hlo_write_t *w, tenon_dtype_t dtype, double number);
/* An i64 scalar. */
hlo_val_t hlo_whole_number(hlo_write_t *w, int64_t number);
/* Integers as an i64 tensor with one axis. */
hlo_val_t hlo_int_list(hlo_write_t *w, const int64_t *items, int32_t count);

#endif
