/* What a compiled graph and its packed weights depend on, and the checksums of an artifact. Called
 * by write.c and read.c. Invariant: two processes with the same identity compile a graph to the
 * same nodes and pack weights in the same way. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/checksum.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/status.h"
#include "base/thread.h"
#include "import/artifact/artifact.h"
#include "import/artifact/identity.h"
#include "operator/library.h"
#include "operator/names.h"
#include "registry/reload.h"

/* The checksum of the sources that compile graphs and pack weights, which the build writes. */
#if defined(__has_include)
#if __has_include("tenon_sources.h")
#include "tenon_sources.h"
#endif
#endif
#ifndef TENON_SOURCES_TEXT
#define TENON_SOURCES_TEXT "unknown"
#endif

/* Identity */

/* Adds the checksum of all rewriting rules, which loaded libraries may bring. */
static tenon_status_t add_rules(tn_text_t *text) {
  tn_text_t rules = {0};
  tenon_rewrite_info_t rule = {.size = sizeof rule};
  for (int32_t i = 0; tenon_rewrite_info(i, &rule) == TENON_OK; i++)
    tn_text_add(&rules, "%s %s\n", rule.library, rule.rule);
  const uint64_t sum = tn_checksum(tn_text_get(&rules), rules.size);
  const bool is_fine = !rules.failed;
  tn_text_add(text, "rewriting rules: checksum %016llx\n", (unsigned long long)sum);
  tn_text_clear(&rules);
  return is_fine ? TENON_OK : tn_no_memory("rewriting rules", 0);
}

static tenon_status_t print_identity(tn_text_t *text) {
  char kernels[200];
  tn_packing_describe(kernels, sizeof kernels);
  tn_text_add(text, "Tenon: %s, sources %s\n", tenon_version(), TENON_SOURCES_TEXT);
  tn_text_add(text, "built-in kernels: %s\n", kernels);
  tn_text_add(text, "processor:");
  for (int i = 0; tn_cpu_word(i); i++)
    if (tn_cpu_has(i)) tn_text_add(text, " %s", i ? tn_cpu_word(i) : "default");
  tn_text_add(text, "\n");
  TN_TRY(add_rules(text));
  return text->failed ? tn_no_memory("an artifact", text->size) : TENON_OK;
}

/* What the identity may change with: the libraries that are loaded. */
static bool add_library_number(void *context, tn_library_t *library) {
  uint64_t *number = context;
  const uintptr_t parts[] = {(uintptr_t)library, (uintptr_t)library->rules};
  *number = *number * 31 + tn_checksum(parts, sizeof parts);
  return true;
}

/* The identity that was printed last, and for which libraries. */
static struct {
  tn_mutex_t lock;
  uint64_t number;
  char text[700];
} last = {TN_MUTEX_INIT, 0, ""};

tn_mutex_t *tn_artifacts_mutex(void) { return &last.lock; }

static bool add_last(uint64_t number, tn_text_t *text) {
  tn_mutex_lock(&last.lock);
  const bool is_known = last.number == number && *last.text;
  if (is_known) tn_text_bytes(text, last.text, strlen(last.text));
  tn_mutex_unlock(&last.lock);
  return is_known && !text->failed;
}

static void keep_last(uint64_t number, const tn_text_t *text) {
  tn_mutex_lock(&last.lock);
  last.number = number;
  const int size = snprintf(last.text, sizeof last.text, "%s", tn_text_get(text));
  if (size >= (int)sizeof last.text) *last.text = 0;
  tn_mutex_unlock(&last.lock);
}

tenon_status_t tn_artifact_identify(tn_text_t *text) {
  tn_text_t fresh = {0};
  uint64_t number = tn_registry_reloads();
  tn_registry_walk(add_library_number, &number);
  if (add_last(number, text)) return TENON_OK;
  const tenon_status_t status = print_identity(&fresh);
  tn_text_bytes(text, tn_text_get(&fresh), fresh.size);
  if (status == TENON_OK) keep_last(number, &fresh);
  tn_text_clear(&fresh);
  return status == TENON_OK && text->failed ? tn_no_memory("an artifact", text->size) : status;
}

/* Checksums */

typedef struct summing_t {
  const tn_summed_t *items;
  const uint64_t *first; /* the first piece of each item, and the number of pieces */
  size_t count;
  uint64_t *sums;
} summing_t;

static tenon_status_t sum_pieces(void *argument, int64_t begin, int64_t end) {
  const summing_t *s = argument;
  size_t low = 0;
  size_t high = s->count;
  while (low + 1 < high) { /* the item of the first piece */
    const size_t middle = (low + high) / 2;
    if (s->first[middle] <= (uint64_t)begin)
      low = middle;
    else
      high = middle;
  }
  for (uint64_t piece = (uint64_t)begin; piece < (uint64_t)end; piece++) {
    while (piece >= s->first[low + 1])
      low++;
    const tn_summed_t *item = &s->items[low];
    s->sums[piece] = tn_checksum_piece(item->data, item->size, piece - s->first[low]);
  }
  return TENON_OK;
}

tenon_status_t tn_artifact_sum(tn_summed_t *items, size_t count) {
  uint64_t *first = tn_allocate((count + 1) * sizeof *first);
  if (!first) return tn_no_memory("checksums", count);
  first[0] = 0;
  for (size_t i = 0; i < count; i++)
    first[i + 1] = first[i] + tn_checksum_pieces(items[i].size);
  summing_t s = {items, first, count, tn_allocate((first[count] + 1) * sizeof *s.sums)};
  tenon_status_t status = s.sums ? TENON_OK : tn_no_memory("checksums", first[count]);
  if (s.sums) status = tn_parallel((int64_t)first[count], 1, sum_pieces, &s);
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    items[i].sum = tn_checksum_join(s.sums + first[i], first[i + 1] - first[i]);
  tn_release_memory(s.sums);
  tn_release_memory(first);
  return status;
}
