/* Attributes of the current operation, and extents of its values. An attribute has one name in the
 * short form of the text and may have another one in the generic form. */
#ifndef BRIDGES_STABLEHLO_LOWER_ARGUMENTS_H
#define BRIDGES_STABLEHLO_LOWER_ARGUMENTS_H

#include "lower/lower.h"

enum { HLO_INTS_MAX = 4 * TENON_RANK_MAX };

/* Finds an attribute by either name; `other` may be NULL. */
const hlo_attr_t *hlo_attr(hlo_lower_t *lower, const char *name, const char *other);
/* Reads up to HLO_INTS_MAX integers of a list, a tensor, or a list of lists. Returns their number;
 * -1: the attribute is absent. */
int32_t hlo_attr_ints(hlo_lower_t *lower, const char *name, const char *other, int64_t *out);
/* The same for a list that must have `count` integers; each is `otherwise` if it is absent. */
void hlo_attr_exactly(hlo_lower_t *lower, const char *name, const char *other, int32_t count,
                      int64_t otherwise, int64_t *out);
/* Reads axes of a tensor with `rank` axes: in range, and each at most once. Returns their number.
 */
int32_t hlo_attr_axes(hlo_lower_t *lower, const char *name, const char *other, int32_t rank,
                      int64_t *out);
int64_t hlo_attr_int(hlo_lower_t *lower, const char *name, const char *other, int64_t otherwise);
const char *hlo_attr_word(hlo_lower_t *lower, const char *name, const char *other,
                          const char *otherwise);
/* Reads the integers of an attribute's field. The same rules as for hlo_attr_ints. */
int32_t hlo_ints_of(hlo_lower_t *lower, const hlo_attr_t *attr, int64_t *out);

/* Reads the integers of an operand that is a constant. Returns their number; -1: it is none. */
int32_t hlo_known(hlo_lower_t *lower, int32_t operand, int64_t *out);
/* Returns whether sums and products with a number stay within 64 bits: it is below 2^31. */
bool hlo_is_moderate(int64_t number);
bool hlo_contains(const int64_t *items, int32_t count, int64_t item);
/* Writes integers as "1, 2, 3". Returns `out`. */
const char *hlo_join(const int64_t *items, int32_t count, char *out, size_t room);
enum { HLO_JOIN_MAX = 21 * HLO_INTS_MAX };

/* Reshapes a value. At most one extent may be -1. */
tenon_edge_t hlo_reshape(hlo_lower_t *lower, tenon_edge_t edge, const int64_t *dims, int32_t ndim);
tenon_edge_t hlo_expand(hlo_lower_t *lower, tenon_edge_t edge, const int64_t *dims, int32_t ndim);
tenon_edge_t hlo_transpose(hlo_lower_t *lower, tenon_edge_t edge, const int64_t *perm,
                           int32_t ndim);
/* One extent of a value, as a host list with one integer. */
tenon_edge_t hlo_extent_edge(hlo_lower_t *lower, tenon_edge_t edge, int32_t axis);
tenon_edge_t hlo_cast(hlo_lower_t *lower, tenon_edge_t edge, tenon_dtype_t dtype);
/* 0, 1, ... along an axis, with extent 1 in the others; i64. */
tenon_edge_t hlo_iota(hlo_lower_t *lower, int64_t extent, int32_t axis, int32_t ndim);
tenon_edge_t hlo_concat(hlo_lower_t *lower, const tenon_edge_t *edges, int32_t count, int32_t axis);
/* Elements begin, begin + step, ... up to end, which is not included, along one axis. */
tenon_edge_t hlo_slice(hlo_lower_t *lower, tenon_edge_t edge, int32_t axis, int64_t begin,
                       int64_t end, int64_t step);
/* Pads with a value at both ends of each axis; negative numbers remove elements. */
tenon_edge_t hlo_pad(hlo_lower_t *lower, tenon_edge_t edge, tenon_edge_t value, const int64_t *low,
                     const int64_t *high, const int64_t *interior, int32_t ndim);

#endif
