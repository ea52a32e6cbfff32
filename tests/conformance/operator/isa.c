/* Kernels of several instruction sets against those of the baseline, on this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "inspect/trial.h"
#include "operator/names.h"
#include "operator/table.h"
#include "run.h"

/* Extents that leave a rest for every width of vectors, and none. */
static const int64_t extents[] = {0, 1, 37, 64, 83};
enum { EXTENTS = sizeof extents / sizeof *extents };

static bool has_isa(const tenon_op_t *op, int rank) {
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    if (k->backend == &tn_backend_cpu && k->words.isa == rank) return true;
  return false;
}

static const char *lacks(const subject_t *subject) {
  bool any = false;
  for (int rank = 1; tn_cpu_word(rank); rank++)
    any |= has_isa(subject->op, rank);
  if (!any) return "it has kernels of one instruction set";
  return subject_is_pure(subject) ? NULL : "calls that are equal do not give equal results";
}

static bool build(const tenon_op_t *op) {
  tn_registry_lock();
  tenon_status_t status = tn_table_build((tenon_op_t *)(uintptr_t)op);
  tn_registry_unlock();
  return status == TENON_OK;
}

/* From here on the best kernel up to that instruction set serves. */
static bool limit(const tenon_op_t *op, const char *word) {
  return !setenv("TENON_CPU_CAPABILITY", word, 1) && build(op);
}

static void compare(trial_t *trial, const char *word, const char *id) {
  ran_t plain, special;
  if (!limit(trial->op, "default")) return;
  run_plainly(trial, &plain);
  bool has_baseline = plain.status == TENON_OK;
  bool is_limited = limit(trial->op, word);
  run_way(trial, &(way_t){.place = AT_TAIL, .crash_id = id}, &special);
  if (is_limited && has_baseline) {
    const char *differs =
        special.status == TENON_OK ? ran_differs(trial, &plain, &special, 4) : special.error;
    if (differs)
      finding(trial, id, "kernels of every instruction set give what the baseline's gives",
              "compare the two on this call (TENON_CPU_CAPABILITY=default and the word of the set)",
              "the kernel for %s: %s", word, differs);
  }
  ran_free(&plain);
  ran_free(&special);
}

static void run(const subject_t *subject) {
  for (int rank = 1; tn_cpu_word(rank); rank++) {
    const char *word = tn_cpu_word(rank);
    char id[40], label[64];
    if (!has_isa(subject->op, rank)) continue;
    snprintf(id, sizeof id, "isa.%s", word);
    unsetenv("TENON_CPU_CAPABILITY");
    if (!tn_cpu_has(rank)) {
      note(NULL, id, "its kernel for %s was not tried: this processor has not got it", word);
      continue;
    }
    for (uint32_t s = 0, n = tn_trial_count(subject->op); s < n; s++)
      for (int e = 0; e < EXTENTS && !has_findings(); e++) {
        trial_t trial;
        tn_trial_options_t made = {.index = s, .extent = extents[e], .rank = -1};
        snprintf(label, sizeof label, "%u.%s.%lld", s, word, (long long)extents[e]);
        if (!trial_make(subject, &made, options.seed, label, &trial)) continue;
        if (trial.is_taken) compare(&trial, word, id);
        trial_free(&trial);
      }
  }
  unsetenv("TENON_CPU_CAPABILITY");
  build(subject->op);
}

const check_t checks_isa[] = {
    {"isa.kernels",
     "Kernels of every instruction set that this processor has give what the baseline's gives.",
     "isa.neon isa.dotprod isa.sve isa.avx2 isa.avx512 isa.avx512vnni isa.avx512bf16 isa.amx",
     lacks, run},
    {NULL, NULL, NULL, NULL, NULL}};
