/* Attribute values: checking against a schema, reading from text, copying, comparing, printing. */
#ifndef TN_CORE_VALUE_H
#define TN_CORE_VALUE_H

#include "base/text.h"
#include "core/schema.h"

enum { TN_LIST_MAX = 1 << 20 }; /* no list of tensors whose length an attribute states is longer */

/* Checks `value` against the attribute and writes the form that kernels see: a string of a choice
 * becomes its index, an int for a float a float, an int list for a dim list dims, one element for a
 * list a list of one ... Texts and lists are copied to the arena (tensors and graphs are borrowed).
 * The message names operator, attribute, expected and found. */
tenon_status_t tn_value_convert(const tn_schema_t *schema, const tn_argument_t *attr,
                                const tenon_value_t *value, tn_arena_t *arena,
                                tenon_value_t *out_value);
/* The same without the names in front of the message ("expected int, found 'abc'"). */
tenon_status_t tn_value_fit(const tn_argument_t *attr, const tenon_value_t *value,
                            tn_arena_t *arena, tenon_value_t *out_value);
/* The same from text, in the schema language's literals; lists also without brackets ("1,2"), texts
 * without quotes. */
tenon_status_t tn_value_parse(const tn_schema_t *schema, const tn_argument_t *attr,
                              const char *text, tn_arena_t *arena, tenon_value_t *out_value);
/* Every attribute has a value (a missing required one is an error that lists all), and lists that
 * state numbers fit. */
tenon_status_t tn_values_check(const tn_schema_t *schema, const tenon_value_t *values);
bool tn_value_equal(const tenon_value_t *a,
                    const tenon_value_t *b); /* tensors and graphs: the same object */
/* Deep copy into the arena (tensors and graphs are borrowed). */
bool tn_value_copy(const tenon_value_t *value, tn_arena_t *arena, tenon_value_t *out_value);
/* As the schema language writes it; `attr` may be NULL (choices are then printed as numbers). */
void tn_value_print(const tn_argument_t *attr, const tenon_value_t *value, tn_text_t *text);
const char *tn_kind_name(uint32_t kind); /* "int", "list of floats", ... */

#endif
