/* Draws memory use over time; see memory_timeline.h. */
#include "memory_timeline.h"

#include <string.h>

enum {
  COLUMNS = 60,
  DEVICES = 16,
};

typedef struct line_t {
  const char *device;
  uint64_t most;
  uint64_t at[COLUMNS]; /* maximum in each column of the time axis */
  uint64_t now;
  int32_t column; /* `now` has been drawn up to this column */
} line_t;

static line_t *line_of(line_t *lines, int32_t *count, const char *device) {
  for (int32_t i = 0; i < *count; i++)
    if (strcmp(lines[i].device, device) == 0) return &lines[i];
  if (*count == DEVICES) return NULL;
  lines[*count] = (line_t){.device = device};
  return &lines[(*count)++];
}

static void raise_level(line_t *line, int32_t column, uint64_t bytes) {
  if (line->at[column] < bytes) line->at[column] = bytes;
}

/* The present level lasts until `column`. */
static void draw_to(line_t *line, int32_t column) {
  for (; line->column < column; line->column++)
    raise_level(line, line->column, line->now);
  raise_level(line, column, line->now);
}

static void add_bytes(text_t *out, uint64_t bytes) {
  if (bytes < 10000)
    text_add(out, "%7llu B ", (unsigned long long)bytes);
  else if (bytes < 10000000)
    text_add(out, "%7.1f kB", (double)bytes / 1e3);
  else
    text_add(out, "%7.1f MB", (double)bytes / 1e6);
}

static void add_timeline_line(text_t *out, const line_t *line) {
  static const char marks[] = " .:-=+*%#";
  char drawn[COLUMNS + 1] = {0};
  for (int i = 0; i < COLUMNS; i++) {
    double share = line->most ? (double)line->at[i] / (double)line->most : 0;
    drawn[i] = marks[line->at[i] ? 1 + (int)(share * 7 + 0.5) : 0];
  }
  text_add(out, "memory of %-10s  peak ", line->device);
  add_bytes(out, line->most);
  text_add(out, "  |%s|\n", drawn);
}

bool memory_timeline_add(text_t *out, const tenon_profile_t *profile) {
  int32_t count = 0;
  int32_t levels = tenon_profile_level_count(profile);
  line_t lines[DEVICES];
  tenon_level_t level = {.size = sizeof level};
  if (levels == 0 || tenon_profile_level(profile, 0, &level) != TENON_OK) return !out->failed;
  int64_t begin = level.time;
  int64_t end = begin + 1;
  if (tenon_profile_level(profile, levels - 1, &level) == TENON_OK && level.time > begin)
    end = level.time + 1;
  for (int32_t i = 0; i < levels; i++) {
    if (tenon_profile_level(profile, i, &level) != TENON_OK) continue;
    line_t *line = line_of(lines, &count, level.device);
    if (!line) continue;
    draw_to(line, (int32_t)((double)(level.time - begin) / (double)(end - begin) * COLUMNS));
    line->now = level.bytes;
    raise_level(line, line->column, line->now);
    if (line->most < level.bytes) line->most = level.bytes;
  }
  for (int32_t i = 0; i < count; i++) {
    draw_to(&lines[i], COLUMNS - 1);
    add_timeline_line(out, &lines[i]);
  }
  return !out->failed;
}
