/* The list of checks, and helpers that ask for properties of operators. */
#include <string.h>

#include "core/dtype.h"
#include "core/types.h"
#include "operator/op.h"
#include "suite.h"

extern const check_t checks_plain[], checks_types[], checks_shapes[], checks_writes[],
    checks_aliases[], checks_strides[], checks_sizes[], checks_values[], checks_attributes[],
    checks_optionals[], checks_state[], checks_gradients[], checks_batching[], checks_threads[],
    checks_pointers[], checks_isa[], checks_devices[], checks_determinism[], checks_huge[],
    checks_environment[], checks_failures[], checks_graphs[], checks_extents[], checks_recorded[];

const check_t *const check_groups[] = {
    checks_plain,    checks_types,     checks_shapes,      checks_writes,     checks_aliases,
    checks_strides,  checks_sizes,     checks_values,      checks_attributes, checks_optionals,
    checks_state,    checks_gradients, checks_batching,    checks_threads,    checks_pointers,
    checks_isa,      checks_devices,   checks_determinism, checks_huge,       checks_environment,
    checks_failures, checks_graphs,    checks_extents,     checks_recorded,   NULL};

bool subject_is_pure(const subject_t *s) {
  bool writes = false;
  for (uint32_t i = 0; i < s->op->input_count; i++)
    writes |= s->op->schema.inputs[i].is_written;
  return s->op->traits & TENON_PURE || s->op->traits & TENON_RANDOM || writes;
}

bool subject_runs_code(const subject_t *s) { return s->op->kernels != NULL; }

bool subject_has_floats(const subject_t *s, bool outputs) {
  const tenon_op_t *op = s->op;
  uint64_t floats = tn_dtype_set("float", 5);
  for (uint32_t i = 0; i < (outputs ? op->output_count : op->input_count); i++) {
    const tn_type_source_t *source = outputs ? &op->types.outputs[i] : &op->types.inputs[i];
    if (source->kind == TN_TYPE_VARIABLE
            ? op->types.sets[source->index] & floats
            : source->kind == TN_TYPE_FIXED && floats >> tn_dtype_index(source->fixed) & 1)
      return true;
  }
  return false;
}
