/* strides: the same elements, lying otherwise. */
#include "run.h"

/* What it does to a written input's extents goes by where it lies. */
static bool changes_headers(const trial_t *t, const ran_t *plain) {
  for (uint32_t i = 0; i < t->op->input_count; i++)
    if (plain->written[i] && tenon_count(plain->written[i]) != tenon_count(t->inputs[i]))
      return true;
  return false;
}

static void lie(const subject_t *subject, uint8_t how, const char *what, const char *advice) {
  uint64_t read = 0; /* inputs that are written to are dense, unless a kernel says "strided" */
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    if (!subject->op->schema.inputs[i].is_written) read |= (uint64_t)1 << i;
  if (!read) return;
  trials_t all = trials(subject, !options.quick);
  for (trial_t *t; (t = trials_next(&all));) {
    ran_t plain;
    run_plainly(t, &plain);
    bool fine = plain.status == TENON_OK && !changes_headers(t, &plain);
    if (fine)
      fine = run_and_compare(t, &(way_t){.lie = how, .which = read}, &plain, NULL, what, advice);
    for (uint32_t i = 0; i < t->op->input_count && fine && t->op->input_count > 1; i++)
      if (t->inputs[i] && read >> i & 1)
        fine = run_and_compare(t, &(way_t){.lie = how, .which = (uint64_t)1 << i}, &plain, NULL,
                               what, advice);
    if (fine && (how == LIE_GAPS || how == LIE_TURNED))
      fine = run_and_compare(
          t, &(way_t){.lie = how, .gives = true, .which = read, .lies_given = true, .poison = 0x55},
          &plain, NULL, what, advice);
    ran_free(&plain);
  }
}

#define SAME "a call gives the same however its arguments lie"
#define ADVICE                                                                                     \
  "use strides[] of each tensor where the kernel says \"strided\", or leave that word out"

static void strided(const subject_t *s) {
  lie(s, LIE_GAPS, SAME ", with gaps between elements", ADVICE);
}
static void turned(const subject_t *s) {
  lie(s, LIE_TURNED, SAME ", with axes in the other order", ADVICE);
}
static void negative(const subject_t *s) {
  lie(s, LIE_REVERSED, SAME ", backwards", ADVICE ", and keep strides signed");
}
static void spread(const subject_t *s) {
  lie(s, LIE_SPREAD, SAME ", with strides of 0 where extents are 1", ADVICE);
}
static void offset(const subject_t *s) {
  lie(s, LIE_OFFSET, SAME ", behind the beginning of their memory",
      "begin at data, not at the memory's beginning");
}
static void unaligned(const subject_t *s) {
  lie(s, LIE_UNALIGNED, SAME ", one element behind an aligned address",
      "load with instructions that need no alignment: tensors are aligned to their elements only");
}

static const char *lacks_purity(const subject_t *s) {
  return subject_is_pure(s) ? NULL : "its results are not those of its arguments alone";
}

const check_t checks_strides[] = {
    {"read.strides", "Inputs and results with gaps between elements.", NULL, lacks_purity, strided},
    {"read.turned", "Inputs and results with their axes in the other order.", NULL, lacks_purity,
     turned},
    {"read.spread", "Inputs whose axes of extent 1 have strides of 0.", NULL, lacks_purity, spread},
    {"strides.negative", "Inputs whose last axis goes backwards.", NULL, lacks_purity, negative},
    {"strides.offset", "Inputs that begin 48 bytes behind their memory's beginning.", NULL,
     lacks_purity, offset},
    {"strides.unaligned", "Inputs that are aligned to their elements only.", NULL, lacks_purity,
     unaligned},
    {NULL, NULL, NULL, NULL, NULL}};
