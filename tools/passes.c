/* Lists, describes and applies passes and partitioners of loaded libraries; see passes.h. */
#include "passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void passes_print(void) {
  tenon_pass_info_t info = {.size = sizeof info};
  for (int32_t i = 0; tenon_pass_info(i, &info) == TENON_OK; i++) {
    const char *doc = info.doc ? info.doc : "";
    const char *kind = info.strategy_count < 0 ? "pass" : "partitioner";
    if (i == 0) printf("\n%-36s  %-11s  about\n", "pass", "kind");
    printf("%-36s  %-11s  %.*s\n", info.name, kind, (int)strcspn(doc, "\n"), doc);
  }
}

void rewrites_print(void) {
  tenon_rewrite_info_t info = {.size = sizeof info};
  for (int32_t i = 0; tenon_rewrite_info(i, &info) == TENON_OK; i++) {
    printf("%s%s%s\n", info.library, *info.library ? "::" : "", info.rule);
    if (*info.condition) printf("    %s\n", info.condition);
  }
}

bool passes_show(const char *name) {
  tenon_pass_info_t info = {.size = sizeof info};
  int32_t i = 0;
  while (tenon_pass_info(i, &info) == TENON_OK && strcmp(info.name, name) != 0)
    i++;
  if (tenon_pass_info(i, &info) != TENON_OK) return false;
  printf("%s\n\nkind       %s\n", info.name, info.strategy_count < 0 ? "pass" : "partitioner");
  if (info.doc && *info.doc) printf("about      %s\n", info.doc);
  for (int32_t s = 0; s < info.strategy_count; s++)
    printf("%-10s %s\n", s ? "" : "strategies", info.strategies[s]);
  if (*info.library_path)
    printf("library    %s (%s)\n", info.library, info.library_path);
  else
    printf("library    %s\n", info.library);
  return true;
}

/* Applies one pass, given as "name,key=value,..."; `words` is modified. */
static bool apply_pass(char *words, tenon_graph_t **graph, text_t *why) {
  tenon_option_t options[64];
  tenon_graph_t *made = NULL;
  int32_t count = 0;
  char *next = strchr(words, ',');
  if (next) *next++ = 0;
  for (char *at = next; at; at = next) {
    char *equals = strchr(at, '=');
    if ((next = strchr(at, ','))) *next++ = 0;
    if (!equals || equals == at || (next && equals > next) || count == 64) {
      text_add(why, "--apply %s: '%s': expected KEY=VALUE and at most 64 options", words, at);
      return false;
    }
    *equals = 0;
    options[count++] = (tenon_option_t){at, equals + 1};
  }
  if (tenon_graph_apply(*graph, words, options, count, &made) != TENON_OK) {
    text_add(why, "%s", tenon_error());
    return false;
  }
  tenon_graph_release(*graph);
  *graph = made;
  return true;
}

bool passes_apply(const texts_t *wanted, tenon_graph_t **graph, text_t *why) {
  bool fine = true;
  for (int32_t i = 0; fine && i < wanted->count; i++) {
    char *words = strdup(wanted->items[i]);
    fine = words && apply_pass(words, graph, why);
    if (!words) text_add(why, "out of memory");
    free(words);
  }
  return fine;
}
