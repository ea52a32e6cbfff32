/* The shape matcher: compilation, and the parts of matching that are not inline; see match.h.
 * Matching runs in every call. Invariant: after the inputs matched, every slot that a result uses
 * has a value. */
#include "core/match.h"

#include <string.h>

#include "base/status.h"
#include "core/pattern.h"

/* compilation */

typedef struct compiler_t {
  tn_match_preset_t presets[TN_MATCH_SLOTS];
  uint32_t preset_count;
  uint32_t slot_count;
  /* bit mask of the names that an attribute or an earlier input has bound */
  uint64_t bound;
  uint8_t names[64]; /* slot of each name; patterns have at most 64 names */
} compiler_t;

static bool add_preset(compiler_t *c, int32_t attr, int64_t number, uint8_t *out_slot) {
  uint32_t i = 0;
  while (i < c->preset_count && (c->presets[i].attr != attr || c->presets[i].number != number))
    i++;
  if (i == c->preset_count) {
    if (c->slot_count == TN_MATCH_SLOTS) return false;
    c->presets[c->preset_count++] = (tn_match_preset_t){(uint8_t)c->slot_count++, attr, number};
  }
  *out_slot = c->presets[i].slot;
  return true;
}

static bool compile_pattern(compiler_t *c, const tn_pattern_t *pattern, bool is_input,
                            uint8_t *slots, tn_match_pattern_t *out) {
  uint32_t first = c->slot_count;
  uint32_t count = (uint32_t)pattern->count;
  if (is_input && first + count > TN_MATCH_SLOTS) return false;
  if (is_input) c->slot_count += count; /* slots for this input's own extents, which it may need */
  out->slots = slots;
  out->first = (uint8_t)first;
  out->count = pattern->is_given && !(is_input && pattern->same_as >= 0) ? pattern->count : -1;
  out->same_as = pattern->same_as;
  out->has_leading = pattern->has_leading;
  for (uint32_t k = 0; k < count; k++) {
    const tn_pattern_extent_t *extent = &pattern->extents[k];
    bool is_name = extent->kind == TN_EXTENT_NAME;
    bool is_bound = is_name && c->bound >> extent->number & 1;
    slots[k] = (uint8_t)(first + k);
    if (extent->kind == TN_EXTENT_NUMBER) {
      if (!add_preset(c, -1, extent->number, &slots[k])) return false;
      out->compares = true;
    } else if (is_bound) {
      slots[k] = c->names[extent->number];
      out->compares = true;
    } else {
      out->binds = true;
      if (is_name) {
        c->names[extent->number] = slots[k];
        c->bound |= (uint64_t)1 << extent->number;
      }
    }
  }
  return true;
}

/* Whether a call needs more than the dtypes and shapes of its tensors. A result is on the device of
 * the inputs, unless there are no inputs or an attribute states the device. */
static bool needs_inference(const tn_schema_t *schema, const tn_patterns_t *patterns) {
  if (!schema->input_count) return true;
  for (uint32_t i = 0; i < schema->attr_count; i++)
    if (schema->attrs[i].kind == TENON_KIND_DEVICE) return true;
  for (uint32_t i = 0; i < schema->input_count; i++)
    if (schema->inputs[i].kind == TENON_KIND_TENSORS) return true;
  for (uint32_t o = 0; o < schema->output_count; o++)
    if (schema->outputs[o].kind == TENON_KIND_TENSORS || schema->outputs[o].mark ||
        (patterns->text && !patterns->outputs[o].is_given))
      return true;
  return false;
}

tenon_status_t tn_matcher_create(const tn_patterns_t *patterns, const tn_schema_t *schema,
                                 tn_arena_t *arena, const tn_matcher_t **out_matcher) {
  static const tn_pattern_t any = {.is_given = true, .has_leading = true, .same_as = -1};
  uint32_t total = schema->input_count + schema->output_count;
  *out_matcher = NULL;
  if (needs_inference(schema, patterns)) return TENON_OK;
  compiler_t c = {0};
  for (uint32_t i = 0; i < patterns->name_count; i++) {
    if (patterns->name_attrs[i] < 0) continue;
    if (!add_preset(&c, patterns->name_attrs[i], 0, &c.names[i])) return TENON_OK;
    c.bound |= (uint64_t)1 << i;
  }
  tn_matcher_t *matcher = tn_arena_array(arena, 1, sizeof *matcher);
  tn_match_pattern_t *compiled = tn_arena_array(arena, total, sizeof *compiled);
  if (!matcher || !compiled) return tn_no_memory("shapes", total * sizeof *compiled);
  for (uint32_t i = 0; i < total; i++) {
    bool is_input = i < schema->input_count;
    const tn_argument_t *argument =
        is_input ? &schema->inputs[i] : &schema->outputs[i - schema->input_count];
    /* patterns of results follow those of inputs */
    const tn_pattern_t *pattern = !patterns->text ? &any : &patterns->inputs[i];
    uint8_t *slots = tn_arena_array(arena, (size_t)pattern->count, sizeof *slots);
    if (!slots) return tn_no_memory("shapes", (size_t)pattern->count);
    compiled[i].is_optional = argument->is_optional;
    if (!compile_pattern(&c, pattern, is_input, slots, &compiled[i])) return TENON_OK;
  }
  tn_match_preset_t *presets = tn_arena_array(arena, c.preset_count, sizeof *presets);
  if (!presets) return tn_no_memory("shapes", c.preset_count * sizeof *presets);
  memcpy(presets, c.presets, c.preset_count * sizeof *presets);
  *matcher = (tn_matcher_t){.traits = patterns->text || !schema->output_count ? 0 : TENON_POINTWISE,
                            .input_count = schema->input_count,
                            .output_count = schema->output_count,
                            .preset_count = c.preset_count,
                            .inputs = compiled,
                            .outputs = compiled + schema->input_count,
                            .presets = presets};
  *out_matcher = matcher;
  return TENON_OK;
}

/* matching */

bool tn_match_presets(const tn_matcher_t *matcher, const tenon_value_t *attrs, tn_match_t *m) {
  for (uint32_t i = 0; i < matcher->preset_count; i++) {
    const tn_match_preset_t *preset = &matcher->presets[i];
    int64_t value = preset->number;
    if (preset->attr >= 0) {
      const tenon_value_t *attr = &attrs[preset->attr];
      if (attr->kind != TENON_KIND_INT && attr->kind != TENON_KIND_DIM)
        return false; /* the attribute is absent */
      value = attr->kind == TENON_KIND_INT ? attr->as.i : attr->as.dim.value;
      if (value < 0) return false;
    }
    m->slots[preset->slot] = value;
  }
  return true;
}

const int64_t *tn_match_shape(tn_match_t *m, const tn_matcher_t *matcher, uint32_t output,
                              tenon_tensor_t *const *inputs, int32_t *out_ndim) {
  const tn_match_pattern_t *pattern = &matcher->outputs[output];
  if (pattern->same_as >= 0) {
    const tenon_tensor_t *like = inputs[pattern->same_as];
    *out_ndim = like->ndim;
    return tn_match_same(like->shape, like->shape, like->ndim) ? like->shape : NULL;
  }
  int64_t *shape = m->shape + TENON_RANK_MAX;
  int64_t leading = pattern->has_leading ? m->leading_count : 0;
  for (int64_t k = 0; k < pattern->count; k++)
    shape[k] = m->slots[pattern->slots[k]];
  *out_ndim = (int32_t)leading + pattern->count;
  return *out_ndim <= TENON_RANK_MAX ? shape - leading : NULL;
}
