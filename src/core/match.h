/* The fast matcher of TYPES and SHAPES, for calls in which nothing has to be inferred: no lists,
 * every extent a known number, no error message. A call that does not match is passed to
 * tn_types_apply and tn_patterns_apply, which decide and report. SHAPES are compiled for the
 * matcher when a library is loaded. */
#ifndef TN_CORE_MATCH_H
#define TN_CORE_MATCH_H

#include "core/tensor.h"
#include "core/types.h"

struct tn_patterns_t;

enum { TN_MATCH_SLOTS = 128 };

/* The compiled pattern of one input or result. */
typedef struct tn_match_pattern_t {
  /* for each extent after "...": its index in tn_match_t.slots */
  const uint8_t *slots;
  int32_t count;   /* number of `slots`; -1: an input without a pattern, or with `same_as` */
  int32_t same_as; /* see tn_pattern_t */
  /* if `binds`: slot of the first extent; the slots of the others follow */
  uint8_t first;
  /* an input in which some extent is the first of its name, or any extent is accepted */
  bool binds;
  bool compares; /* some extent has a fixed value */
  bool has_leading;
  bool is_optional;
} tn_match_pattern_t;

/* A slot whose value comes from a number or an attribute. */
typedef struct tn_match_preset_t {
  uint8_t slot;
  int32_t attr; /* index of the attribute; -1: `number` */
  int64_t number;
} tn_match_preset_t;

typedef struct tn_matcher_t {
  /* the operator must have these of TENON_POINTWISE and TENON_RANDOM for the match to be
   * complete */
  uint64_t traits;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t preset_count;
  const tn_match_pattern_t *inputs;
  const tn_match_pattern_t *outputs;
  const tn_match_preset_t *presets;
} tn_matcher_t;

/* Dtypes and shapes of one call. */
typedef struct tn_match_t {
  int64_t leading_count;
  /* leading extents end in the middle of the array; the other extents of a result follow */
  int64_t shape[2 * TENON_RANK_MAX];
  int64_t slots[TN_MATCH_SLOTS];   /* values of extents; none is negative */
  uint32_t ids[TN_TYPE_VARIABLES]; /* dtype of each type variable */
} tn_match_t;

/* Compiles patterns. Patterns without text mean a pointwise operator: all inputs broadcast together
 * and every result has that shape. *out_matcher is NULL if the matcher cannot decide calls of this
 * schema (no inputs, lists, results with alias marks or without a pattern, a device attribute), or
 * if there are not enough slots. */
tenon_status_t tn_matcher_create(const struct tn_patterns_t *patterns, const tn_schema_t *schema,
                                 tn_arena_t *arena, const tn_matcher_t **out_matcher);
/* The id of a result's dtype; 0 if the infer function states it or its attribute is absent. */
static inline uint32_t tn_match_dtype(const tn_match_t *match, const tn_types_t *types,
                                      const tenon_value_t *attrs, uint32_t output) {
  const tn_type_source_t *source = &types->outputs[output];
  if (source->kind == TN_TYPE_VARIABLE) return match->ids[source->index];
  if (source->kind == TN_TYPE_FIXED) return tenon_dtype_id(source->fixed);
  bool is_stated = source->kind == TN_TYPE_ATTR && attrs[source->index].kind == TENON_KIND_DTYPE;
  return is_stated ? tenon_dtype_id(attrs[source->index].as.dtype) : 0;
}
/* The shape of a result; valid until the next result's shape is requested. NULL if no tensor can
 * have that shape. */
const int64_t *tn_match_shape(tn_match_t *match, const tn_matcher_t *matcher, uint32_t output,
                              tenon_tensor_t *const *inputs, int32_t *out_ndim);

/* Fills the slots of numbers and attributes. Returns false if an attribute is absent or not a valid
 * extent. */
bool tn_match_presets(const tn_matcher_t *matcher, const tenon_value_t *attrs, tn_match_t *match);

/* inline functions that run in every call */

static inline bool tn_match_broadcast(tn_match_t *m, const int64_t *shape, int64_t count) {
  int64_t *to = m->shape + TENON_RANK_MAX - count;
  int64_t fresh = count - m->leading_count;
  int64_t i = 0;
  if (count > TENON_RANK_MAX) return false;
  if (fresh > 0) m->leading_count = count;
  for (; i < fresh; i++)
    if ((to[i] = shape[i]) < 0) return false;
  for (; i < count; i++) {
    if (to[i] == shape[i] || shape[i] == 1) continue;
    if (to[i] != 1 || shape[i] < 0) return false;
    to[i] = shape[i];
  }
  return true;
}

static inline bool tn_match_type(const tn_types_t *types, uint32_t input,
                                 const tenon_value_t *attrs, tenon_dtype_t dtype, tn_match_t *m) {
  const tn_type_source_t *source = &types->inputs[input];
  if (__builtin_expect(source->kind == TN_TYPE_VARIABLE, 1)) {
    if (!source->binds) return m->ids[source->index] == tenon_dtype_id(dtype);
    m->ids[source->index] = tenon_dtype_id(dtype);
    if (__builtin_expect(tn_dtype_same(source->fixed, dtype), 1)) return true;
  }
  return tn_types_admit(types, source, attrs, dtype);
}

static inline bool tn_match_slots(const tn_match_pattern_t *pattern, const int64_t *shape,
                                  const tn_match_t *m) {
  for (int64_t k = 0; k < pattern->count; k++)
    if (m->slots[pattern->slots[k]] != shape[k]) return false;
  return true;
}

/* Whether both shapes are equal and no extent is negative. */
static inline bool tn_match_same(const int64_t *a, const int64_t *b, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (a[i] != b[i] || a[i] < 0) return false;
  return true;
}

static inline bool tn_match_like(const tenon_tensor_t *like, const tenon_tensor_t *t) {
  return like && like->ndim == t->ndim && tn_match_same(like->shape, t->shape, t->ndim);
}

static inline bool tn_match_input(const tn_match_pattern_t *pattern, tenon_tensor_t *const *inputs,
                                  const tenon_tensor_t *t, tn_match_t *m) {
  const int64_t *shape = t->shape;
  int64_t leading = (int64_t)t->ndim - pattern->count;
  if (__builtin_expect(leading != 0, 0)) { /* also the case of an input without a pattern */
    if (pattern->count < 0)
      return pattern->same_as < 0 || tn_match_like(inputs[pattern->same_as], t);
    if (leading < 0 || !pattern->has_leading || !tn_match_broadcast(m, shape, leading))
      return false;
    shape += leading;
  }
  if (pattern->binds) {
    int64_t *to = m->slots + pattern->first;
    for (int64_t k = 0; k < pattern->count; k++)
      if ((to[k] = shape[k]) < 0) return false;
  }
  return !pattern->compares || tn_match_slots(pattern, shape, m);
}

static inline bool tn_match_output(const tn_match_pattern_t *pattern, tenon_tensor_t *const *inputs,
                                   const tenon_tensor_t *t, const tn_match_t *m) {
  if (__builtin_expect(pattern->same_as >= 0, 0)) return tn_match_like(inputs[pattern->same_as], t);
  int64_t leading = pattern->has_leading ? m->leading_count : 0;
  return t->ndim == leading + pattern->count &&
         (!leading || tn_match_same(m->shape + TENON_RANK_MAX - leading, t->shape, leading)) &&
         tn_match_slots(pattern, t->shape + leading, m);
}

/* Whether the inputs and all results that are not NULL have the declared dtypes and shapes, and the
 * results have memory. With `may_create`, NULL is also accepted for results that are not
 * optional. */
static inline __attribute__((always_inline)) bool
tn_match(const tn_matcher_t *matcher, const tn_types_t *types, const tenon_value_t *attrs,
         tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs, bool may_create,
         tn_match_t *m) {
  m->leading_count = 0;
  if (__builtin_expect(matcher->preset_count, 0) && !tn_match_presets(matcher, attrs, m))
    return false;
  for (uint32_t i = 0; i < matcher->input_count; i++) {
    const tn_match_pattern_t *pattern = &matcher->inputs[i];
    const tenon_tensor_t *t = inputs[i];
    if (__builtin_expect(t != NULL, 1)) {
      if (!tn_match_type(types, i, attrs, t->dtype, m) || !tn_match_input(pattern, inputs, t, m))
        return false;
    } else if (!pattern->is_optional || pattern->binds || types->inputs[i].binds) {
      /* an absent input cannot bind a name or a type variable: the slow path decides */
      return false;
    }
  }
  for (uint32_t o = 0; o < matcher->output_count; o++) {
    const tn_match_pattern_t *pattern = &matcher->outputs[o];
    const tenon_tensor_t *t = outputs[o];
    if (t ? t->keys & TN_TENSOR_UNSET ||
                tn_match_dtype(m, types, attrs, o) != tenon_dtype_id(t->dtype) ||
                !tn_match_output(pattern, inputs, t, m)
          : !may_create && !pattern->is_optional)
      return false;
  }
  return true;
}

#endif
