/* Builds a library from command-line options; see build.h. libtenon does the compilation. */
#include "build.h"

#include <stdio.h>
#include <string.h>

#include "system.h"

static void print_build_event(void *context, uint32_t what, const char *text) {
  build_t *build = context;
  if (what == TENON_BUILD_REUSED) build->was_reused = true;
  if (what == TENON_BUILD_WORDS)
    fputs(text, stderr);
  else if (build->verbose)
    printf("%s%s\n", what == TENON_BUILD_REUSED ? "reused from the cache: " : "", text);
}

static bool add_option(texts_t *options, const char *before, const char *word) {
  text_t text = {NULL, 0, 0, false};
  text_add(&text, "%s%s", before, word);
  bool fine = !text.failed && texts_add(options, text_get(&text));
  text_free(&text);
  return fine;
}

static bool add_options(texts_t *options, const char *before, const texts_t *words) {
  bool fine = true;
  for (int32_t i = 0; i < words->count; i++)
    fine = fine && add_option(options, before, words->items[i]);
  return fine;
}

bool build_has_device_code(const build_t *build) {
  for (int32_t i = 0; i < build->sources.count; i++)
    if (text_ends_with(build->sources.items[i], ".cu")) return true;
  return false;
}

void build_name_output(build_t *build, text_t *room) {
  if (build->output) return;
  const char *name = text_file_name(build->sources.items[0]);
  const char *dot = strrchr(name, '.');
  text_add(room, "%.*s.so", (int)(dot ? (size_t)(dot - name) : strlen(name)), name);
  build->output = text_get(room);
}

bool build_library(build_t *build, text_t *why) {
  texts_t options = {NULL, 0, 0};
  const bool in_colour = system_is_terminal(true) && !build_has_device_code(build);
  bool fine = !build->level || add_option(&options, "-O", build->level);
  fine = fine && (!build->debug || add_option(&options, "-g", ""));
  fine = fine && (!in_colour || add_option(&options, "-fdiagnostics-color=always", ""));
  fine = fine && add_options(&options, "-I", &build->folders) &&
         add_options(&options, "-D", &build->macros);
  fine = fine && add_options(&options, "", &build->flags) &&
         add_options(&options, "-L", &build->library_folders);
  fine = fine && add_options(&options, "-l", &build->libraries);
  const tenon_build_t work = {.size = sizeof work,
                              .flags = build->fresh ? TENON_BUILD_FRESH : 0,
                              .source_count = (uint32_t)build->sources.count,
                              .option_count = (uint32_t)options.count,
                              .sources = (const char *const *)build->sources.items,
                              .options = (const char *const *)options.items,
                              .say = print_build_event,
                              .context = build};
  build->was_reused = false;
  if (!fine)
    text_add(why, "out of memory");
  else if (tenon_library_build(&work, build->output) != TENON_OK) {
    text_add(why, "%s", tenon_error());
    fine = false;
  }
  texts_free(&options);
  return fine;
}

void build_free(build_t *build) {
  texts_t *const lists[] = {&build->sources,         &build->folders,   &build->macros,
                            &build->library_folders, &build->libraries, &build->flags};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    texts_free(lists[i]);
}
