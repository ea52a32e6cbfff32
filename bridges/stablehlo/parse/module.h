/* A program of StableHLO as the parser builds it: a module with functions, whose operations use and
 * define values. Everything lives in one arena. The parser has checked that each operand is defined
 * before its use and has the type that the operation states; it knows no operation's meaning.
 *
 * Each file of parse/ calls only files that are listed before it:
 *   cursor.c     characters, words, and messages with line and column
 *   type.c       types
 *   literal.c    the elements of constants
 *   attribute.c  attributes
 *   scope.c      names of values
 *   operation.c  operations and regions
 *   function.c   functions and the module */
#ifndef BRIDGES_STABLEHLO_PARSE_MODULE_H
#define BRIDGES_STABLEHLO_PARSE_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/tenon.h>

#include "base/arena.h"

typedef enum hlo_type_kind_t {
  HLO_TENSOR,
  HLO_TUPLE,
  HLO_TOKEN,
  HLO_OTHER, /* A type that only attributes use, such as index or none. */
} hlo_type_kind_t;

/* How integers stand for floats: (integer - zero) * scale. */
typedef struct hlo_quant_t {
  tenon_dtype_t expressed; /* The type of the floats. */
  int64_t least;
  int64_t most;
  int32_t axis;  /* That has a scale and a zero for each index; -1: there is one of each. */
  int32_t count; /* Of scales and of zeros. */
  const double *scales;
  const int64_t *zeros;
} hlo_quant_t;

typedef struct hlo_type_t {
  hlo_type_kind_t kind;
  tenon_dtype_t dtype;      /* Of a quantised type, that of the integers. */
  const hlo_quant_t *quant; /* NULL: the type is not quantised. */
  uint8_t bits; /* Of an integer below a byte, which is kept in range in `dtype`; else 0. */
  int32_t ndim;
  const int64_t *dims; /* -1: known only when the program runs. */
  const struct hlo_type_t *const *items;
  int32_t item_count; /* Of a tuple. */
} hlo_type_t;

typedef enum hlo_attr_kind_t {
  HLO_ATTR_INT,
  HLO_ATTR_FLOAT,
  HLO_ATTR_BOOL,
  HLO_ATTR_TEXT,   /* "text" */
  HLO_ATTR_WORD,   /* A bare word, or the value of an enumeration. */
  HLO_ATTR_SYMBOL, /* @name */
  HLO_ATTR_LIST,   /* [a, b], array<i64: a, b>, or the parts of `[a] x [b] -> [c]`. */
  HLO_ATTR_DICT,   /* {name = value}, or the fields of #dialect.name<name = value>. */
  HLO_ATTR_TENSOR, /* dense<...> */
  HLO_ATTR_TYPE,
} hlo_attr_kind_t;

typedef struct hlo_attr_t {
  hlo_attr_kind_t kind;
  bool is_splat; /* TENSOR: `tensor` has the one element that all elements equal. */
  const char *at;
  int64_t integer; /* INT and BOOL. */
  double number;   /* FLOAT, and INT converted. */
  const char *text;
  const struct hlo_attr_t *items; /* LIST and DICT. */
  const char *const *names;       /* DICT. */
  int32_t count;
  tenon_tensor_t *tensor;
  const hlo_type_t *type; /* TENSOR and TYPE. */
} hlo_attr_t;

typedef struct hlo_value_t {
  const char *name; /* Without %. */
  const hlo_type_t *type;
  struct hlo_op_t *op; /* NULL: an argument of a function or region. */
  int32_t index;       /* Among the values of the function. */
  int32_t result;      /* Among the results of the operation or the arguments. */
  int32_t depth;       /* The number of regions around it within its function. */
} hlo_value_t;

typedef struct hlo_region_t {
  hlo_value_t **args;
  struct hlo_op_t *first;
  struct hlo_op_t *last; /* The terminator; NULL: the region is empty. */
  int32_t arg_count;
  int32_t depth; /* The depth of the values that it defines. */
} hlo_region_t;

typedef struct hlo_op_t {
  struct hlo_op_t *next;
  const char *name; /* "stablehlo.add" */
  const char *at;   /* Where it begins in the text. */
  hlo_value_t **operands;
  hlo_value_t **results;
  hlo_attr_t attrs; /* A DICT. */
  hlo_region_t *regions;
  int32_t operand_count;
  int32_t result_count;
  int32_t region_count;
} hlo_op_t;

typedef struct hlo_function_t {
  struct hlo_function_t *next;
  const char *name;
  const char *at;
  hlo_region_t body;
  const char **arg_names; /* From locations such as loc("x"); NULL: none. */
  const char **result_names;
  const hlo_attr_t *arg_attrs; /* From bytecode: a LIST with a DICT for each argument; else NULL. */
  int32_t result_count;
  int32_t value_count;
  bool is_public;
} hlo_function_t;

typedef struct hlo_module_t {
  const char *name;
  hlo_function_t *functions;
  struct hlo_tensors_t *tensors; /* All tensors of attributes. */
  const char *begin;             /* What places are counted from. */
  bool is_bytecode;
} hlo_module_t;

/* Finds an attribute by name; NULL: the operation does not have it. */
const hlo_attr_t *hlo_attr_find(const hlo_attr_t *dict, const char *name);
/* Adds an attribute. The arrays are copied first, because other operations may share them. */
tenon_status_t hlo_attr_add(hlo_attr_t *dict, tn_arena_t *arena, const char *name,
                            const hlo_attr_t *attr);
/* Adds a function to the module. Returns NULL, or what is wrong with the function, as the end of a
 * sentence that begins with its name. */
const char *hlo_module_add(hlo_module_t *module, hlo_function_t *function);
/* Creates a tensor that the module owns. */
tenon_status_t hlo_module_tensor(hlo_module_t *module, tn_arena_t *arena, tenon_dtype_t dtype,
                                 int32_t ndim, const int64_t *dims, tenon_tensor_t **out_tensor);
/* Writes where a place of the program is, such as "line 3, column 5". */
void hlo_module_place(const hlo_module_t *module, const char *at, char *out, size_t room);
/* Writes a type as the text states it, such as tensor<2x?xf32>. */
void hlo_type_text(const hlo_type_t *type, char *out, size_t room);
bool hlo_type_equal(const hlo_type_t *a, const hlo_type_t *b);
/* Either may be NULL. */
bool hlo_quant_equal(const hlo_quant_t *a, const hlo_quant_t *b);
/* Returns whether the type is a tensor whose extents are all known. */
bool hlo_type_is_static(const hlo_type_t *type);

#endif
