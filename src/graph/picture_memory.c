/* Draws the arenas of a plan as SVG: which memory each value has, and during which actions. */
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "graph/picture.h"

enum {
  LEFT = 8,
  TOP = 24,     /* of a stage, for its title */
  HEIGHT = 320, /* of an arena */
  BOTTOM = 40,
  COLUMN = 24, /* the width of an action, unless there are many */
  WIDEST = 1600,
  LABEL_HEIGHT = 12,
};
static const double letter = 6.6; /* width of a letter of the font */

/* The scale of a stage. */
typedef struct scale_t {
  double column; /* width of an action */
  double byte;   /* height of a byte */
  double base;   /* of the arena's first byte */
  int32_t actions;
} scale_t;

/* A value or the workspace of an action, in the arena. */
typedef struct span_t {
  const char *name;
  const char *label; /* in the box */
  const char *type;
  const char *fill;
  uint64_t offset;
  uint64_t size;
  int32_t first;
  int32_t last;
} span_t;

static void add_span(const scale_t *scale, const span_t *span, tn_text_t *text) {
  const double x = LEFT + span->first * scale->column;
  const double width = (span->last - span->first + 1) * scale->column;
  const double height = (double)span->size * scale->byte;
  const double y = scale->base - (double)span->offset * scale->byte - height;
  const int32_t letters = (int32_t)((width - 6) / letter);
  tn_text_add(text, "<g><title>");
  tn_picture_escape(span->name, 400, text);
  tn_text_add(text,
              "\n%s\n%llu bytes at %llu\nactions %d to %d</title><rect x=\"%.1f\" y=\"%.1f\" ",
              span->type, (unsigned long long)span->size, (unsigned long long)span->offset,
              (int)span->first, (int)span->last, x, y);
  tn_text_add(text,
              "width=\"%.1f\" height=\"%.1f\" fill=\"%s\" stroke=\"#1d4ed8\" "
              "stroke-width=\"0.5\"/>",
              width, height, span->fill);
  if (height >= LABEL_HEIGHT && letters >= 2) {
    tn_text_add(text, "<text x=\"%.1f\" y=\"%.1f\">", x + 3, y + height / 2 + 4);
    char label[32];
    snprintf(label, sizeof label, "%.*s", (int)letters, span->label);
    tn_picture_escape(label, sizeof label, text);
    tn_text_add(text, "</text>");
  }
  tn_text_add(text, "</g>\n");
}

/* The value's place in the arena. Returns false if it has none. */
static bool find_span(const tn_run_t *run, const tn_stage_t *stage, int32_t edge, span_t *out) {
  const tn_allocation_t *a = &run->allocations[edge];
  const tenon_graph_t *graph = run->executable->graph;
  const bool is_copy = edge >= (int32_t)graph->edge_count;
  const int32_t end = (int32_t)stage->action_count;
  const int32_t producer = is_copy ? -1 : graph->edges[edge].producer;
  if (a->where != TN_ALLOCATION_ARENA) return false;
  *out = (span_t){.label = producer < 0 ? "copy" : tn_picture_operator(&graph->nodes[producer]),
                  .name = is_copy ? "(dense copy)" : graph->edges[edge].name,
                  .fill = is_copy ? "#fde68a" : "#bfdbfe",
                  .offset = a->offset,
                  .size = a->size,
                  .first = a->first,
                  .last = a->last < end ? a->last : end};
  return true;
}

static void add_values(const tn_run_t *run, const tn_stage_t *stage, const scale_t *scale,
                       tn_text_t *text) {
  for (size_t i = 0; i < stage->planned_count; i++) {
    span_t span;
    char shape[160];
    char type[200];
    if (!find_span(run, stage, stage->edges[i], &span)) continue;
    const tenon_tensor_t *t = &run->allocations[stage->edges[i]].tensor->view;
    snprintf(type, sizeof type, "%s%s", tn_dtype_name(t->dtype),
             tn_shape_print(t->ndim, t->shape, shape, sizeof shape));
    span.type = type;
    add_span(scale, &span, text);
  }
  for (size_t i = 0; i < stage->action_count; i++) {
    const tn_action_t *action = &stage->actions[i];
    if (!action->workspace_size) continue;
    const span_t span = {
        "(workspace)",          "workspace", "of one action", "#cbd5e1", action->workspace_offset,
        action->workspace_size, (int32_t)i,  (int32_t)i};
    add_span(scale, &span, text);
  }
}

static uint64_t live_bytes(const tn_run_t *run, const tn_stage_t *stage, int32_t action) {
  uint64_t live = 0;
  for (size_t i = 0; i < stage->planned_count; i++) {
    span_t span;
    if (find_span(run, stage, stage->edges[i], &span) && span.first <= action &&
        action <= span.last)
      live += span.size;
  }
  if ((size_t)action < stage->action_count) live += stage->actions[action].workspace_size;
  return live;
}

/* The bytes that are alive during each action: no plan can take less than their maximum. */
static void add_live_line(const tn_run_t *run, const tn_stage_t *stage, const scale_t *scale,
                          tn_text_t *text) {
  tn_text_add(text, "<polyline fill=\"none\" stroke=\"#dc2626\" points=\"");
  for (int32_t action = 0; action < scale->actions; action++) {
    const double y = scale->base - (double)live_bytes(run, stage, action) * scale->byte;
    tn_text_add(text, "%.1f,%.1f %.1f,%.1f ", LEFT + action * scale->column, y,
                LEFT + (action + 1) * scale->column, y);
  }
  tn_text_add(text, "\"><title>bytes alive</title></polyline>\n");
}

static int32_t add_regions(const tn_stage_t *stage, const scale_t *scale, tn_text_t *text) {
  int32_t count = 0;
  for (size_t i = 0; i < stage->action_count; i++) {
    if (!stage->actions[i].region) continue;
    count++;
    tn_text_add(text, "<g><title>action %zu: ", i);
    tn_picture_escape(stage->actions[i].label, 400, text);
    tn_text_add(text,
                "</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"8\" "
                "fill=\"#16a34a\" stroke=\"#fff\" stroke-width=\"0.5\"/></g>\n",
                LEFT + (double)i * scale->column, scale->base + 2, scale->column);
  }
  return count;
}

static int32_t columns_of(const tn_run_t *run, const tn_stage_t *stage) {
  int32_t columns = (int32_t)stage->action_count;
  for (size_t i = 0; i < stage->planned_count; i++) {
    span_t span;
    if (find_span(run, stage, stage->edges[i], &span) && span.last >= columns)
      columns = span.last + 1;
  }
  return columns > 0 ? columns : 1;
}

/* Draws a stage and returns its width. */
static double add_stage(const tn_run_t *run, size_t index, double top, tn_text_t *text) {
  const tn_stage_t *stage = &run->stages[index];
  scale_t scale = {.actions = columns_of(run, stage), .base = top + TOP + HEIGHT};
  char title[200];
  scale.column = scale.actions * COLUMN > WIDEST ? (double)WIDEST / scale.actions : COLUMN;
  scale.byte = (double)HEIGHT / (stage->arena_size ? (double)stage->arena_size : 1);
  snprintf(title, sizeof title,
           "stage %zu: nodes %d to %d, %zu actions, %llu bytes; at most %llu are alive at a time",
           index, (int)stage->begin, (int)stage->end - 1, stage->action_count,
           (unsigned long long)stage->arena_size, (unsigned long long)stage->arena_bound);
  tn_text_add(text, "<text x=\"%d\" y=\"%.0f\" font-weight=\"bold\">%s</text>\n", LEFT, top + 14,
              title);
  add_values(run, stage, &scale, text);
  const int32_t regions = add_regions(stage, &scale, text);
  add_live_line(run, stage, &scale, text);
  tn_text_add(text,
              "<text x=\"%d\" y=\"%.0f\" fill=\"#475569\">%d of the actions are regions (green); "
              "red: bytes alive</text>\n",
              LEFT, scale.base + 24, (int)regions);
  const double words = (double)strlen(title) * (letter + 0.6);
  const double drawn = scale.actions * scale.column;
  return (drawn > words ? drawn : words) + 2 * LEFT;
}

void tn_picture_memory(const tn_run_t *run, tn_text_t *text) {
  tn_text_t body = {0};
  double width = 0;
  double top = 0;
  for (size_t s = 0; s < run->stage_count; s++) {
    const double drawn = add_stage(run, s, top, &body);
    if (drawn > width) width = drawn;
    top += TOP + HEIGHT + BOTTOM;
  }
  tn_text_add(text,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
              "viewBox=\"0 0 %.0f %.0f\" font-family=\"monospace\" font-size=\"11\" "
              "fill=\"#0f172a\">\n",
              width, top, width, top);
  tn_text_bytes(text, tn_text_get(&body), body.size);
  text->failed |= body.failed;
  tn_text_add(text, "</svg>\n");
  tn_text_clear(&body);
}
