/* Compares kernels for several instruction sets with the baseline kernels, on this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "inspect/example.h"
#include "operator/names.h"
#include "operator/table.h"
#include "run.h"

/* Extents with and without a remainder for every vector width. */
static const int64_t extents[] = {0, 1, 37, 64, 83};
enum { EXTENTS = sizeof extents / sizeof *extents };

static bool has_isa(const tenon_op_t *op, int rank) {
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    if (k->backend == &tn_backend_cpu && k->words.isa == rank) return true;
  return false;
}

static const char *lacks_isa(const subject_t *subject) {
  bool any = false;
  for (int rank = 1; tn_cpu_word(rank); rank++)
    any |= has_isa(subject->op, rank);
  if (!any) return "it has kernels for one instruction set only";
  return subject_is_pure(subject) ? NULL : "equal calls do not return equal results";
}

static bool rebuild_table(const tenon_op_t *op) {
  tn_registry_lock();
  tenon_status_t status = tn_table_build((tenon_op_t *)(uintptr_t)op);
  tn_registry_unlock();
  return status == TENON_OK;
}

/* Sets the limit of instruction sets; NULL: none. */
static bool set_limit(const char *word) {
  const char *variable = "TENON_CPU_CAPABILITY";
  const bool is_set = word ? !setenv(variable, word, 1) : !unsetenv(variable);
  tn_cpu_limit_read();
  return is_set;
}

/* Rebuilds the dispatch table, so that the best kernel up to that instruction set is used. */
static bool limit_isa(const tenon_op_t *op, const char *word) {
  return set_limit(word) && rebuild_table(op);
}

static void compare_kernels(example_t *example, const char *word, const char *id) {
  ran_t plain, special;
  if (!limit_isa(example->op, "default")) return;
  run_plainly(example, &plain);
  bool has_baseline = plain.status == TENON_OK;
  bool is_limited = limit_isa(example->op, word);
  run_way(example, &(way_t){.place = AT_TAIL, .crash_id = id}, &special);
  if (is_limited && has_baseline) {
    const char *differs =
        special.status == TENON_OK ? ran_differs(example, &plain, &special, 4) : special.error;
    if (differs)
      finding(example, id,
              "kernels for every instruction set return what the baseline kernel returns",
              "compare both kernels on this call (TENON_CPU_CAPABILITY=default, and the name of "
              "the instruction set)",
              "the kernel for %s: %s", word, differs);
  }
  ran_free(&plain);
  ran_free(&special);
}

static void run_isa(const subject_t *subject) {
  for (int rank = 1; tn_cpu_word(rank); rank++) {
    const char *word = tn_cpu_word(rank);
    char id[40], label[64];
    if (!has_isa(subject->op, rank)) continue;
    snprintf(id, sizeof id, "isa.%s", word);
    set_limit(NULL);
    if (!tn_cpu_has(rank)) {
      note(NULL, id, "the kernel for %s was not tried: this processor does not support it", word);
      continue;
    }
    for (uint32_t s = 0, n = tn_example_count(subject->op); s < n; s++)
      for (int e = 0; e < EXTENTS && !has_findings(); e++) {
        example_t example;
        tn_example_options_t made = {.index = s, .extent = extents[e], .rank = -1};
        snprintf(label, sizeof label, "%u.%s.%lld", s, word, (long long)extents[e]);
        if (!example_make(subject, &made, options.seed, label, &example)) continue;
        if (example.is_taken) compare_kernels(&example, word, id);
        example_free(&example);
      }
  }
  set_limit(NULL);
  rebuild_table(subject->op);
}

const check_t checks_isa[] = {
    {"isa.kernels",
     "Kernels for every instruction set of this processor return what the baseline kernel returns.",
     "isa.neon isa.dotprod isa.sve isa.avx2 isa.avx512 isa.avx512vnni isa.avx512bf16 isa.amx",
     lacks_isa, run_isa},
    {NULL, NULL, NULL, NULL, NULL}};
