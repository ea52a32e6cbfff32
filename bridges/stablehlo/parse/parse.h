/* What the files of the parser offer each other. */
#ifndef BRIDGES_STABLEHLO_PARSE_PARSE_H
#define BRIDGES_STABLEHLO_PARSE_PARSE_H

#include "parse/cursor.h"

/* type.c */

const hlo_type_t *hlo_parse_type(hlo_cursor_t *cursor);
/* Reads `(a, b) -> c`, `a, b -> c`, `a, b` or `a`. *out_has_arrow: the part after the arrow is in
 * `results`; otherwise all types are in `operands`. */
void hlo_parse_signature(hlo_cursor_t *cursor, hlo_list_t *operands, hlo_list_t *results,
                         bool *out_has_arrow);

/* literal.c */

/* Reads `dense<...>` or `dense_resource<...>`; the type follows after a colon. */
void hlo_parse_dense(hlo_cursor_t *cursor, hlo_attr_t *attr);

/* narrow.c */

/* Rounds a number to a float of 8 or 16 bits. Returns false if the dtype is none. */
bool hlo_narrow_float(tenon_dtype_t dtype, double value, uint16_t *out_bits);
/* Extends the sign of each element of a constant if its type has integers below a byte. Returns
 * false if an element has more bits. */
bool hlo_narrow_integers(const hlo_type_t *type, tenon_tensor_t *tensor);

/* attribute.c */

void hlo_parse_attr(hlo_cursor_t *cursor, hlo_attr_t *attr);
/* Reads {name = value, ...} and adds its entries to those that `dict` already has. */
void hlo_parse_dict(hlo_cursor_t *cursor, hlo_attr_t *dict);
void hlo_dict_add(hlo_cursor_t *cursor, hlo_attr_t *dict, const char *name, const hlo_attr_t *attr);
/* Returns a LIST attribute of the items. */
hlo_attr_t hlo_attr_of_list(const char *at, const hlo_list_t *items);

/* scope.c */

/* Begins the names of a function, or of a region in it. Names of a region end with it. */
void hlo_scope_begin(hlo_cursor_t *cursor, bool is_function);
void hlo_scope_end(hlo_cursor_t *cursor);
/* Defines the value %name, or %name#number. `result`: its index among the results of `op`, or among
 * the arguments if `op` is NULL. */
hlo_value_t *hlo_scope_define(hlo_cursor_t *cursor, const char *name, int64_t number,
                              const hlo_type_t *type, hlo_op_t *op, int32_t result);
/* Finds a value by name and, for an operation with several results, the number of its result. */
hlo_value_t *hlo_scope_use(hlo_cursor_t *cursor, const char *at, const char *name, int64_t number);
int32_t hlo_scope_depth(const hlo_cursor_t *cursor);
int32_t hlo_scope_count(const hlo_cursor_t *cursor); /* Values of the current function. */

/* operation.c */

/* Reads operations up to the closing bracket of a region, which is not consumed. */
void hlo_parse_operations(hlo_cursor_t *cursor, hlo_region_t *region);
/* Reads the arguments (%a: type, ...) of a region or function. */
void hlo_parse_arguments(hlo_cursor_t *cursor, hlo_region_t *region, const char ***out_names);

/* Reads {...}: an optional head ^name(arguments): and operations. Arguments may be defined before.
 * `out_names` may be NULL. */
void hlo_parse_region(hlo_cursor_t *cursor, hlo_region_t *region, const char ***out_names);

/* function.c */

/* Reads a whole program. The tensors of *out_module must be released with hlo_module_release. */
tenon_status_t hlo_parse_module(const char *text, size_t size, tn_arena_t *arena,
                                hlo_module_t *out_module);
void hlo_module_release(hlo_module_t *module);

#endif
