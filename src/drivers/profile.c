/* Profiles: recording and reading spans, and writing the Chrome trace.  Runs record nodes, and
 * the service `zone` records spans within them. */
#include "drivers/profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"

struct tenon_profile_t {
  tenon_span_t *spans;
  size_t count;
  size_t capacity;
  tenon_level_t *levels;
  size_t level_count;
  size_t level_capacity;
  int32_t open[32]; /* indices of the open spans */
  int32_t depth;
  int32_t lost;
  tn_arena_t arena;
  tn_map_t texts; /* holds each text once */
};

tenon_status_t tenon_profile_create(tenon_profile_t **out_profile) {
  *out_profile = tn_allocate_zero(1, sizeof **out_profile);
  return *out_profile ? TENON_OK : tn_no_memory("a profile", sizeof **out_profile);
}

void tenon_profile_release(tenon_profile_t *profile) {
  if (!profile) return;
  tn_release_memory(profile->spans);
  tn_release_memory(profile->levels);
  tn_map_clear(&profile->texts);
  tn_arena_clear(&profile->arena);
  tn_release_memory(profile);
}

static const char *once(tenon_profile_t *profile, const char *text) {
  size_t size = strlen(text);
  if (size == 0) return "";
  char *known = tn_map_get(&profile->texts, text, size);
  if (known) return known;
  if (!(known = tn_arena_text(&profile->arena, text, size))) return "";
  if (!tn_map_put(&profile->texts, text, size, known)) return known;
  return known;
}

void tn_profile_open(tenon_profile_t *profile, const char *name, const char *kind) {
  int32_t most = (int32_t)(sizeof profile->open / sizeof *profile->open);
  if (profile->depth >= most || !tn_grow((void **)&profile->spans, &profile->capacity,
                                         profile->count, sizeof *profile->spans)) {
    /* The spans are nested too deeply, or memory ran out: this span and its end are left out. */
    profile->lost++;
    return;
  }
  profile->open[profile->depth] = (int32_t)profile->count;
  profile->spans[profile->count++] = (tenon_span_t){.size = sizeof(tenon_span_t),
                                                    .depth = profile->depth++,
                                                    .name = once(profile, name),
                                                    .kind = once(profile, kind),
                                                    .begin = tn_now()};
}

void tn_profile_work(tenon_profile_t *profile, int32_t depth, tn_work_t work) {
  if (depth >= profile->depth) return; /* the span was left out */
  tenon_span_t *span = &profile->spans[profile->open[depth]];
  span->bytes = work.bytes;
  span->operations = work.operations;
}

void tn_profile_close(tenon_profile_t *profile) {
  if (profile->lost)
    profile->lost--;
  else if (profile->depth)
    profile->spans[profile->open[--profile->depth]].end = tn_now();
}

void tn_profile_level(tenon_profile_t *profile, const char *device, uint64_t bytes) {
  /* If memory runs out, the level is left out. */
  if (!tn_grow((void **)&profile->levels, &profile->level_capacity, profile->level_count,
               sizeof *profile->levels))
    return;
  profile->levels[profile->level_count++] =
      (tenon_level_t){sizeof(tenon_level_t), 0, once(profile, device), tn_now(), bytes};
}

int32_t tn_profile_depth(const tenon_profile_t *profile) { return profile->depth + profile->lost; }

void tn_profile_close_to(tenon_profile_t *profile, int32_t depth) {
  while (tn_profile_depth(profile) > depth)
    tn_profile_close(profile);
}

int32_t tenon_profile_count(const tenon_profile_t *profile) { return (int32_t)profile->count; }

tenon_status_t tenon_profile_span(const tenon_profile_t *profile, int32_t index,
                                  tenon_span_t *span) {
  if (index < 0 || (size_t)index >= profile->count)
    return tn_fail(TENON_RANGE, "span %d of a profile of %zu", (int)index, profile->count);
  uint32_t size = span->size < sizeof *span ? span->size : (uint32_t)sizeof *span;
  memcpy(span, &profile->spans[index], size);
  span->size = size;
  return TENON_OK;
}

int32_t tenon_profile_level_count(const tenon_profile_t *profile) {
  return (int32_t)profile->level_count;
}

tenon_status_t tenon_profile_level(const tenon_profile_t *profile, int32_t index,
                                   tenon_level_t *level) {
  if (index < 0 || (size_t)index >= profile->level_count)
    return tn_fail(TENON_RANGE, "level %d of a profile of %zu", (int)index, profile->level_count);
  uint32_t size = level->size < sizeof *level ? level->size : (uint32_t)sizeof *level;
  memcpy(level, &profile->levels[index], size);
  level->size = size;
  return TENON_OK;
}

static void add_level(tn_text_t *json, const tenon_level_t *level, int64_t start) {
  int64_t at = level->time - start;
  tn_text_t name = {0};
  tn_text_add(&name, "memory of %s", level->device);
  tn_text_add(json, "{\"ph\": \"C\", \"pid\": 1, \"name\": ");
  tn_text_json(json, tn_text_get(&name));
  tn_text_clear(&name);
  tn_text_add(json, ", \"ts\": %lld.%03d, \"args\": {\"bytes\": %llu}}", (long long)(at / 1000),
              (int)(at % 1000), (unsigned long long)level->bytes);
}

static void add_span(tn_text_t *json, const tenon_span_t *span, int64_t start) {
  int64_t at = span->begin - start;
  int64_t took = span->end - span->begin;
  tn_text_add(json, "{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"name\": ");
  tn_text_json(json, span->name);
  tn_text_add(json, ", \"cat\": ");
  tn_text_json(json, *span->kind ? span->kind : "span");
  /* Not %f, whose decimal point depends on the locale. */
  tn_text_add(json, ", \"ts\": %lld.%03d, \"dur\": %lld.%03d", (long long)(at / 1000),
              (int)(at % 1000), (long long)(took / 1000), (int)(took % 1000));
  if (span->bytes > 0)
    tn_text_add(json, ", \"args\": {\"bytes\": %llu, \"operations\": %llu}",
                (unsigned long long)span->bytes, (unsigned long long)span->operations);
  tn_text_add(json, "}");
}

tenon_status_t tenon_profile_write(const tenon_profile_t *profile, const char *path) {
  FILE *file = fopen(path, "w");
  if (!file) return tn_fail(tn_file_status(errno), "%s: %s", path, strerror(errno));
  int64_t start = profile->count ? profile->spans[0].begin : 0;
  if (profile->level_count && profile->levels[0].time < start) start = profile->levels[0].time;
  bool lost = false;
  fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", file);
  size_t count = profile->count + profile->level_count;
  for (size_t i = 0; i < count; i++) {
    tn_text_t json = {0};
    if (i < profile->count)
      add_span(&json, &profile->spans[i], start);
    else
      add_level(&json, &profile->levels[i - profile->count], start);
    lost |= json.failed;
    fprintf(file, "%s%s\n", tn_text_get(&json), i + 1 < count ? "," : "");
    tn_text_clear(&json);
  }
  fputs("]}\n", file);
  int problem = ferror(file) ? errno : 0;
  if (fclose(file) != 0 && !problem) problem = errno;
  if (lost) return tn_no_memory("a trace", count);
  if (!problem) return TENON_OK;
  return tn_fail(tn_file_status(problem), "%s: cannot write the file: %s", path, strerror(problem));
}
