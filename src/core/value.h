/* Attribute values: checking against a schema, reading from text, copying, comparing, printing. */
#ifndef TN_CORE_VALUE_H
#define TN_CORE_VALUE_H

#include "base/text.h"
#include "core/schema.h"

/* Longest list of tensors whose length is stated by an attribute. */
enum { TN_LIST_MAX = 1 << 20 };

/* Checks `value` against the attribute and converts it to the form that kernels see: the string of
 * a choice becomes its index, an int for a float becomes a float, an int list for a dim list
 * becomes dims, and a single element for a list becomes a list. Strings and lists are copied to the
 * arena; tensors and graphs are borrowed. The message names the operator, the attribute, the
 * expected and the found value. */
tenon_status_t tn_value_convert(const tn_schema_t *schema, const tn_argument_t *attr,
                                const tenon_value_t *value, tn_arena_t *arena,
                                tenon_value_t *out_value);
/* The same without the names in the message ("expected int, found 'abc'"). */
tenon_status_t tn_value_fit(const tn_argument_t *attr, const tenon_value_t *value,
                            tn_arena_t *arena, tenon_value_t *out_value);
/* The same from text, with the literals of the schema language; lists may omit the brackets ("1,2")
 * and strings the quotes. */
tenon_status_t tn_value_parse(const tn_schema_t *schema, const tn_argument_t *attr,
                              const char *text, tn_arena_t *arena, tenon_value_t *out_value);
/* Checks that every attribute has a value and that lists have their declared lengths. The message
 * lists all missing required attributes. */
tenon_status_t tn_values_check(const tn_schema_t *schema, const tenon_value_t *values);
/* Tensors and graphs are equal only if they are the same object. */
bool tn_value_equal(const tenon_value_t *a, const tenon_value_t *b);
/* Deep copy into the arena (tensors and graphs are borrowed). */
bool tn_value_copy(const tenon_value_t *value, tn_arena_t *arena, tenon_value_t *out_value);
/* Prints a value in the schema language. `attr` may be NULL; choices are then printed as
 * numbers. */
void tn_value_print(const tn_argument_t *attr, const tenon_value_t *value, tn_text_t *text);
/* Prints a string in the schema language, in quotes. */
void tn_value_quote(const char *data, size_t size, tn_text_t *text);
const char *tn_kind_name(uint32_t kind); /* "int", "list of floats", ... */

#endif
