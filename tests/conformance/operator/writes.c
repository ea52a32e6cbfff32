/* Checks memory around arguments, results that are not written, and results that depend on previous
 * contents of their memory. */
#include <string.h>

#include "run.h"

static void check_outside(const subject_t *subject) {
  examples_t all = examples(subject, !options.quick);
  for (example_t *t; (t = examples_next(&all));) {
    ran_t ran;
    run_way(t, &(way_t){.provides_outputs = true, .place = AT_HEAD, .poison = 0x55}, &ran);
    ran_free(&ran);
    if (has_findings()) break;
    run_way(t,
            &(way_t){.provides_outputs = true,
                     .place = AT_TAIL,
                     .poison = 0x55,
                     .crash_id = "strides.unaligned"},
            &ran);
    ran_free(&ran);
  }
}

/* Extents that are large enough for the widest registers and for several threads. */
static void check_large(const subject_t *subject) {
  static const int64_t extents[] = {1, 17, 131};
  static const char *const labels[] = {"1", "17", "131"};
  for (int i = 0; i < 3; i++) {
    example_t t;
    tn_example_options_t o = {.extent = extents[i], .rank = -1};
    if (example_make(subject, &o, options.seed, labels[i], &t) && t.is_taken) {
      ran_t plain, ran;
      run_plainly(&t, &plain);
      for (int place = AT_HEAD; place <= AT_TAIL && plain.status == TENON_OK; place++) {
        run_way(&t,
                &(way_t){.provides_outputs = true,
                         .place = (uint8_t)place,
                         .poison = 0x55,
                         .crash_id = place == AT_TAIL ? "strides.unaligned" : NULL},
                &ran);
        const char *differs = ran.status != TENON_OK ? ran.error : ran_differs(&t, &plain, &ran, 1);
        if (differs && subject_is_pure(subject))
          finding(&t, "size.each", "a call returns the same results wherever its arguments lie",
                  "check how the loop handles the last elements", "%s", differs);
        ran_free(&ran);
      }
      ran_free(&plain);
    }
    example_free(&t);
  }
}

typedef struct bytes_t {
  int64_t unwritten;
  int64_t differ;
  int64_t count;
  int64_t first_unwritten;
  int64_t first_differs;
} bytes_t;

/* Counts elements that keep the fill pattern in both calls, and elements that differ otherwise. */
static bytes_t compare_bytes(const tenon_tensor_t *a, const tenon_tensor_t *b, uint8_t x,
                             uint8_t y) {
  size_t size = a->dtype.bits / 8u;
  bytes_t found = {0, 0, tenon_count(a), -1, -1};
  for (int64_t i = 0; i < found.count && size; i++) {
    const uint8_t *p = (const uint8_t *)a->data + (size_t)i * size;
    const uint8_t *q = (const uint8_t *)b->data + (size_t)i * size;
    bool all_x = true;
    bool all_y = true;
    for (size_t k = 0; k < size; k++) {
      all_x &= p[k] == x;
      all_y &= q[k] == y;
    }
    if (all_x && all_y) {
      if (!found.unwritten++) found.first_unwritten = i;
    } else if (memcmp(p, q, size) != 0 && !found.differ++)
      found.first_differs = i;
  }
  return found;
}

static void compare_poisons(const example_t *t, const ran_t *a, const ran_t *b) {
  for (uint32_t o = 0; o < t->op->output_count; o++) {
    const tenon_tensor_t *p = a->outputs[o];
    const tenon_tensor_t *q = b->outputs[o];
    const char *name = t->op->schema.outputs[o].name;
    if (!(a->outputs_given & b->outputs_given) >> o || !p || !q || p->ndim != q->ndim ||
        !(a->outputs_given >> o & 1))
      continue;
    bytes_t found = compare_bytes(p, q, 0x55, 0xAA);
    bool is_half = found.unwritten * 2 == found.count && found.count > 2 &&
                   found.first_unwritten * 2 == found.count;
    const char *id = NULL;
    const char *expected = "every element of a result is written";
    const char *advice = "check which elements the loop omits";
    if (is_half) {
      id = "types.infer";
      expected = "the elements have the dtype that infer states";
      advice = "compare the element type of the kernel with the dtype of the result";
    }
    if (found.unwritten)
      finding(t, id, expected, advice,
              "result %s: %lld of %lld elements are not written, the first of them is number %lld",
              name, (long long)found.unwritten, (long long)found.count,
              (long long)found.first_unwritten);
    else if (found.differ)
      finding(t, "read.output", "a result does not depend on the previous contents of its memory",
              "initialise results before adding to them",
              "result %s: %lld of %lld elements differ if results are filled with 0x55 or with "
              "0xaa before, the first of them is number %lld",
              name, (long long)found.differ, (long long)found.count,
              (long long)found.first_differs);
  }
}

static void check_unwritten(const subject_t *subject) {
  examples_t all = examples(subject, !options.quick);
  for (example_t *t; (t = examples_next(&all));) {
    ran_t again, a, b, c;
    run_way(t, &(way_t){.provides_outputs = true, .poison = 0x55}, &a);
    run_way(t, &(way_t){.provides_outputs = true, .poison = 0x55}, &again);
    run_way(t, &(way_t){.provides_outputs = true, .poison = 0xAA}, &b);
    bool same = a.status == TENON_OK && b.status == TENON_OK && again.status == TENON_OK &&
                !ran_differs(t, &a, &again, 0);
    if (same) compare_poisons(t, &a, &b);
    run_way(t, &(way_t){.provides_outputs = true, .poison = 0x55, .inside = 0x7F}, &c);
    const char *differs = same && c.status == TENON_OK ? ran_differs(t, &a, &c, 1) : NULL;
    if (differs)
      finding(t, "workspace.contents",
              "results do not depend on the previous contents of workspaces and temporaries",
              "initialise them before reading them", "%s", differs);
    ran_free(&a);
    ran_free(&again);
    ran_free(&b);
    ran_free(&c);
  }
}

static const char *lacks_code(const subject_t *s) {
  return subject_runs_code(s) ? NULL : "a view runs no code";
}
static const char *lacks_purity(const subject_t *s) {
  if (!subject_runs_code(s)) return "a view runs no code";
  return subject_is_pure(s) ? NULL : "its results do not depend on its arguments alone";
}

const check_t checks_writes[] = {
    {"write.outside",
     "Nothing outside the arguments is read or written: the pages around them are inaccessible.",
     "read.beyond types.infer strides.unaligned workspace.over workspace.under workspace.temporary "
     "alias.inplace alias.undeclared",
     lacks_code, check_outside},
    {"size.each",
     "The same with extents of 1, 17 and 131, and with the same results wherever arguments lie.",
     "strides.unaligned", lacks_code, check_large},
    {"write.unwritten",
     "Results are written completely and do not depend on the previous contents of their memory or "
     "of the workspace.",
     "read.output types.infer workspace.contents", lacks_purity, check_unwritten},
    {NULL, NULL, NULL, NULL, NULL}};
