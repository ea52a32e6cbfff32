/* Checks that the memory layout of arguments does not change results. */
#include "run.h"

/* Whether the call changes the extents of a written input, which then depends on its layout. */
static bool changes_headers(const example_t *t, const ran_t *plain) {
  for (uint32_t i = 0; i < t->op->input_count; i++)
    if (plain->written[i] && tenon_count(plain->written[i]) != tenon_count(t->inputs[i]))
      return true;
  return false;
}

static void check_layout(const subject_t *subject, uint8_t how, const char *what,
                         const char *advice) {
  /* Inputs that are written to are dense, unless a kernel declares "strided". */
  uint64_t read = 0;
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    if (!subject->op->schema.inputs[i].is_written) read |= (uint64_t)1 << i;
  if (!read) return;
  examples_t all = examples(subject, !options.quick);
  for (example_t *t; (t = examples_next(&all));) {
    ran_t plain;
    run_plainly(t, &plain);
    bool fine = plain.status == TENON_OK && !changes_headers(t, &plain);
    if (fine)
      fine = run_and_compare(t, &(way_t){.layout = how, .which = read}, &plain, NULL, what, advice);
    for (uint32_t i = 0; i < t->op->input_count && fine && t->op->input_count > 1; i++)
      if (t->inputs[i] && read >> i & 1)
        fine = run_and_compare(t, &(way_t){.layout = how, .which = (uint64_t)1 << i}, &plain, NULL,
                               what, advice);
    if (fine && (how == LAYOUT_GAPS || how == LAYOUT_TRANSPOSED))
      fine = run_and_compare(t,
                             &(way_t){.layout = how,
                                      .provides_outputs = true,
                                      .which = read,
                                      .outputs_have_layout = true,
                                      .poison = 0x55},
                             &plain, NULL, what, advice);
    ran_free(&plain);
  }
}

#define SAME "a call returns the same results whatever the memory layout of its arguments"
#define ADVICE                                                                                     \
  "use strides[] of each tensor if the kernel declares \"strided\", or remove that word"

static void check_gaps(const subject_t *s) {
  check_layout(s, LAYOUT_GAPS, SAME ", here with gaps between elements", ADVICE);
}
static void check_turned(const subject_t *s) {
  check_layout(s, LAYOUT_TRANSPOSED, SAME ", here with the axes in reverse order", ADVICE);
}
static void check_negative(const subject_t *s) {
  check_layout(s, LAYOUT_REVERSED, SAME ", here with a reversed axis",
               ADVICE ", and keep strides signed");
}
static void check_spread(const subject_t *s) {
  check_layout(s, LAYOUT_ZERO_STRIDES, SAME ", here with strides of 0 for extents of 1", ADVICE);
}
static void check_offset(const subject_t *s) {
  check_layout(s, LAYOUT_OFFSET, SAME ", here with an offset from the start of the allocation",
               "start at data, not at the start of the allocation");
}
static void check_unaligned(const subject_t *s) {
  check_layout(
      s, LAYOUT_UNALIGNED, SAME ", here one element after an aligned address",
      "use instructions that need no alignment: tensors are aligned to their elements only");
}

static const char *lacks_purity(const subject_t *s) {
  return subject_is_pure(s) ? NULL : "its results do not depend on its arguments alone";
}

const check_t checks_strides[] = {
    {"read.strides", "Inputs and results with gaps between elements.", NULL, lacks_purity,
     check_gaps},
    {"read.turned", "Inputs and results with their axes in reverse order.", NULL, lacks_purity,
     check_turned},
    {"read.spread", "Inputs whose axes of extent 1 have strides of 0.", NULL, lacks_purity,
     check_spread},
    {"strides.negative", "Inputs whose last axis is reversed.", NULL, lacks_purity, check_negative},
    {"strides.offset", "Inputs that begin 48 bytes after the start of their allocation.", NULL,
     lacks_purity, check_offset},
    {"strides.unaligned", "Inputs that are aligned to their elements only.", NULL, lacks_purity,
     check_unaligned},
    {NULL, NULL, NULL, NULL, NULL}};
