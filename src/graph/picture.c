/* Writes an executable's graph as DOT, see picture.h. Items are the nodes of the graph. Constants
 * are no items: a node states those that it reads. Of a block that repeats the first occurrence is
 * drawn, and one box stands for the others. */
#include "graph/picture.h"

#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/value.h"
#include "drivers/region.h"

enum {
  NAME_BYTES = 36, /* of a name in a box */
  CONSTANTS = 3,   /* that a box lists */
};

/* A node as it is drawn. */
typedef struct item_t {
  int32_t unit;   /* the region or offloaded subgraph that it belongs to; 0: none */
  int32_t action; /* 1 + the number of its action in its stage; 0: it has none */
  int32_t copies; /* actions that copy what it reads to another layout */
  int32_t hidden; /* 1 + the repeated block whose box stands for it; 0: it is drawn */
} item_t;

typedef struct picture_t {
  const tenon_executable_t *executable;
  const tenon_graph_t *graph;
  const tn_run_t *run; /* NULL: the graph alone is drawn */
  item_t *items;
  int32_t count;
  tn_repeat_t *repeats;
  size_t repeat_count;
  tn_map_t sources; /* nodes before the rewriting, by name */
  tn_text_t *text;
} picture_t;

static const char *const device_fills[] = {"#f8fafc", "#dbeafe", "#ede9fe", "#fce7f3",
                                           "#ccfbf1", "#fee2e2", "#ecfccb", "#e0e7ff"};
enum { FILLS = sizeof device_fills / sizeof *device_fills };

/* Texts */

/* Bytes of the UTF-8 character at `c`; 0 if it is not valid, or a control character. */
static size_t character_size(const unsigned char *c) {
  if (*c < 0x80) return *c >= 0x20 && *c != 0x7f;
  const size_t size = 2u + (*c >= 0xe0) + (*c >= 0xf0);
  if (*c < 0xc2 || *c > 0xf4) return 0;
  for (size_t i = 1; i < size; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  const bool is_surrogate = *c == 0xed && c[1] >= 0xa0;
  const bool is_overlong = (*c == 0xe0 && c[1] < 0xa0) || (*c == 0xf0 && c[1] < 0x90);
  const bool is_beyond = *c == 0xf4 && c[1] >= 0x90;
  const bool is_none = *c == 0xef && c[1] == 0xbf && c[2] >= 0xbe; /* U+FFFE and U+FFFF */
  return is_surrogate || is_overlong || is_beyond || is_none ? 0 : size;
}

void tn_picture_escape(const char *string, size_t most, tn_text_t *text) {
  static const char reserved[] = "&<>\"'";
  static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  const size_t all = strlen(string);
  const unsigned char *c = (const unsigned char *)string;
  if (all > most) {
    c += all - most;
    while ((*c & 0xc0) == 0x80)
      c++;
    tn_text_add(text, "\xe2\x80\xa6"); /* an ellipsis */
  }
  while (*c) {
    const size_t size = character_size(c);
    const char *at = strchr(reserved, *c);
    if (at)
      tn_text_add(text, "%s", entities[at - reserved]);
    else if (size)
      tn_text_bytes(text, (const char *)c, size);
    else
      tn_text_add(text, "\xef\xbf\xbd");
    c += size ? size : 1;
  }
}

/* Graphviz refuses an empty label with letters of its own. */
static const char *or_none(const char *name) { return *name ? name : "(no name)"; }

static bool is_built_in(const tn_node_t *node) { return strncmp(node->op->name, "core::", 6) == 0; }

const char *tn_picture_operator(const tn_node_t *node) {
  return is_built_in(node) ? node->op->name + 6 : node->op->name;
}

/* The type of a value; with a plan its shape has numbers. */
static void add_type(const picture_t *p, int32_t edge, tn_text_t *text) {
  const tn_allocation_t *a = p->run ? &p->run->allocations[edge] : NULL;
  char shape[160];
  if (!a || !a->tensor || a->tensor->view.keys & TN_TENSOR_UNSET) {
    tn_edge_print(p->graph, &p->graph->edges[edge], text);
    return;
  }
  tn_text_add(text, "%s%s", tn_dtype_name(a->tensor->view.dtype),
              tn_shape_print(a->tensor->view.ndim, a->tensor->view.shape, shape, sizeof shape));
}

static void add_escaped_type(const picture_t *p, int32_t edge) {
  tn_text_t type = {0};
  add_type(p, edge, &type);
  tn_picture_escape(tn_text_get(&type), 80, p->text);
  tn_text_clear(&type);
}

/* Attributes that are not the default, but no graphs and no tensors. */
static void add_attrs(const tn_node_t *node, tn_text_t *text) {
  const tn_schema_t *schema = &node->op->schema;
  for (uint32_t i = 0; i < schema->attr_count; i++) {
    const tenon_value_t *value = &node->attrs[i];
    const bool is_default =
        schema->attrs[i].has_default && tn_value_equal(value, &schema->defaults[i]);
    const bool is_long = value->kind == TENON_KIND_STR && value->count > 60;
    if (is_default || is_long || value->kind == TENON_KIND_NONE || value->kind == TENON_KIND_GRAPH)
      continue;
    tn_text_add(text, "%s%s=", text->size ? ", " : "", schema->attrs[i].name);
    tn_value_print(&schema->attrs[i], value, text);
  }
}

/* Operands */

/* Calls `each` for each value that a node reads. */
static void each_operand(const picture_t *p, int32_t n, void *context,
                         void (*each)(const picture_t *p, int32_t n, int32_t edge, void *context)) {
  const tn_node_t *node = &p->graph->nodes[n];
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++)
      each(p, n, node->operands[i].edges[k], context);
}

/* Likeness of nodes */

static uint64_t mix(uint64_t sign, uint64_t number) {
  sign = (sign ^ number) * 0x9e3779b97f4a7c15u;
  return sign ^ sign >> 29;
}

static uint64_t mix_text(uint64_t sign, const tn_text_t *text) {
  const char *data = tn_text_get(text);
  for (size_t i = 0; i < text->size; i++)
    sign = mix(sign, (unsigned char)data[i]);
  return sign;
}

/* A number that nodes have in common if they compute alike. */
static uint64_t sign_of(const picture_t *p, int32_t n) {
  const tn_node_t *node = &p->graph->nodes[n];
  const item_t *item = &p->items[n];
  tn_text_t words = {0};
  uint64_t sign = mix(1, (uint64_t)(uintptr_t)node->op);
  add_attrs(node, &words);
  for (int32_t o = 0; o < node->output_count; o++)
    add_type(p, node->outputs[o], &words);
  sign = mix_text(sign, &words);
  tn_text_clear(&words);
  if (p->executable->placement.device_count)
    sign = mix(sign, p->executable->placement.nodes[n].device_index);
  sign = mix(sign, (uint64_t)item->copies);
  const bool begins = n == 0 || item->unit != p->items[n - 1].unit;
  return mix(sign, (uint64_t)(item->unit != 0) * 4 + (uint64_t)(item->action != 0) * 2 + begins);
}

/* Whether an operand of node `a` and one of node `b` have their values from the same place: both
 * from outside, from nodes at the same distance, or from the same node. */
static bool is_operand_like(const picture_t *p, int32_t a, int32_t a_edge, int32_t b,
                            int32_t b_edge) {
  const int32_t a_maker = p->graph->edges[a_edge].producer;
  const int32_t b_maker = p->graph->edges[b_edge].producer;
  if (a_maker < 0 || b_maker < 0) return a_maker < 0 && b_maker < 0;
  return a - a_maker == b - b_maker || a_maker == b_maker;
}

static bool is_node_like(const void *context, int32_t a, int32_t b) {
  const picture_t *p = context;
  const tn_node_t *left = &p->graph->nodes[a];
  const tn_node_t *right = &p->graph->nodes[b];
  for (uint32_t i = 0; i < left->op->input_count; i++) {
    if (left->operands[i].count != right->operands[i].count) return false;
    for (int32_t k = 0; k < left->operands[i].count; k++)
      if (!is_operand_like(p, a, left->operands[i].edges[k], b, right->operands[i].edges[k]))
        return false;
  }
  return true;
}

static tenon_status_t find_repeats(picture_t *p) {
  uint64_t *signs = tn_allocate(((size_t)p->count + 1) * sizeof *signs);
  bool *may_begin = tn_allocate((size_t)p->count + 1);
  tenon_status_t status = signs && may_begin ? TENON_OK : tn_no_memory("a picture", 0);
  for (int32_t n = 0; n < p->count && status == TENON_OK; n++) {
    signs[n] = sign_of(p, n);
    may_begin[n] = n == 0 || !p->items[n].unit || p->items[n].unit != p->items[n - 1].unit;
  }
  if (status == TENON_OK)
    status = tn_picture_repeats(&(tn_sequence_t){p->count, signs, may_begin, is_node_like, p},
                                &p->repeats, &p->repeat_count);
  tn_release_memory(signs);
  tn_release_memory(may_begin);
  for (size_t r = 0; r < p->repeat_count; r++) {
    const tn_repeat_t *repeat = &p->repeats[r];
    for (int32_t i = repeat->size; i < repeat->size * repeat->count; i++)
      p->items[repeat->first + i].hidden = 1 + (int32_t)r;
  }
  return status;
}

/* Units */

/* Finds the node of a member of a region, which has the name of the node itself. */
static void mark_member(picture_t *p, const tn_stage_t *stage, const char *name, int32_t unit,
                        int32_t action) {
  for (int32_t n = stage->begin; n < stage->end; n++)
    if (p->graph->nodes[n].name == name) {
      p->items[n].unit = unit;
      p->items[n].action = action;
    }
}

static void mark_plan(picture_t *p) {
  int32_t units = 0;
  for (size_t s = 0; s < p->run->stage_count; s++) {
    const tn_stage_t *stage = &p->run->stages[s];
    for (size_t a = 0; a < stage->action_count; a++) {
      const tn_action_t *action = &stage->actions[a];
      if (action->kernel) p->items[action->step].action = 1 + (int32_t)a;
      if (!action->kernel && !action->region) p->items[action->step].copies++;
      if (!action->region) continue;
      units++;
      for (int32_t m = 0; m < action->region->count; m++)
        mark_member(p, stage, action->region->members[m].node, units, 1 + (int32_t)a);
    }
  }
}

static void mark_items(picture_t *p) {
  for (int32_t n = 0; n < p->count; n++)
    p->items[n].unit = p->graph->nodes[n].group;
  if (p->run) mark_plan(p);
}

/* Nodes */

static void add_id(const picture_t *p, int32_t n) {
  if (p->items[n].hidden)
    tn_text_add(p->text, "repeat%d", (int)p->items[n].hidden);
  else
    tn_text_add(p->text, "node%d", (int)n);
}

typedef struct constants_t {
  int32_t count;
  tn_text_t words;
} constants_t;

static void add_constant(const picture_t *p, int32_t n, int32_t edge, void *context) {
  constants_t *constants = context;
  (void)n;
  if (!p->graph->edges[edge].constant) return;
  if (constants->count++ >= CONSTANTS) return;
  tn_text_add(&constants->words, "%s", constants->words.size ? ", " : "");
  tn_edge_print(p->graph, &p->graph->edges[edge], &constants->words);
}

/* A line of small letters under the operator. */
static void add_line(const picture_t *p, const char *before, const char *words, size_t most) {
  tn_text_add(p->text, "<BR/><FONT POINT-SIZE=\"8\" COLOR=\"#475569\">%s", before);
  tn_picture_escape(words, most, p->text);
  tn_text_add(p->text, "</FONT>");
}

static int32_t operand_count(const tn_node_t *node) {
  int32_t count = 0;
  for (uint32_t i = 0; i < node->op->input_count; i++)
    count += node->operands[i].count;
  return count;
}

/* Attributes that rules set, such as the activation of a convolution. */
static void add_changed_attrs(const tn_node_t *node, const tn_node_t *source, tn_text_t *words) {
  const tn_schema_t *schema = &node->op->schema;
  for (uint32_t i = 0; i < schema->attr_count; i++) {
    const bool is_graph = node->attrs[i].kind == TENON_KIND_GRAPH;
    if (is_graph || tn_value_equal(&node->attrs[i], &source->attrs[i])) continue;
    tn_text_add(words, "%s%s=", words->size ? ", " : "now ", schema->attrs[i].name);
    tn_value_print(&schema->attrs[i], &node->attrs[i], words);
  }
}

/* Says what rules did to a node; nothing if it is as it was imported. */
static void add_change(const picture_t *p, const tn_node_t *node, tn_text_t *words) {
  const tn_node_t *source = tn_map_get(&p->sources, node->name, strlen(node->name));
  if (!source) {
    tn_text_add(words, "made by a rule");
    return;
  }
  if (source->op != node->op) {
    tn_text_add(words, "was %s", tn_picture_operator(source));
    return;
  }
  add_changed_attrs(node, source, words);
  const int32_t more = operand_count(node) - operand_count(source);
  const char *before = words->size ? ", " : "now ";
  if (more > 0) tn_text_add(words, "%s%d more to read", before, (int)more);
  if (more < 0) tn_text_add(words, "%s%d fewer to read", before, (int)-more);
}

static void add_lines(const picture_t *p, int32_t n, const char *change) {
  const tn_node_t *node = &p->graph->nodes[n];
  constants_t constants = {0};
  add_line(p, "", or_none(node->name), NAME_BYTES);
  each_operand(p, n, &constants, add_constant);
  if (constants.count > CONSTANTS)
    tn_text_add(&constants.words, " and %d more", (int)constants.count - CONSTANTS);
  if (constants.count) add_line(p, "constants ", tn_text_get(&constants.words), 80);
  tn_text_clear(&constants.words);
  if (*change) add_line(p, "", change, 80);
  if (p->run && p->items[n].action) {
    tn_text_t words = {0};
    tn_text_add(&words, "%d", (int)p->items[n].action - 1);
    if (p->items[n].copies)
      tn_text_add(&words, ", after %d cop%s to another layout", (int)p->items[n].copies,
                  p->items[n].copies > 1 ? "ies" : "y");
    add_line(p, "action ", tn_text_get(&words), 60);
    tn_text_clear(&words);
  }
}

static const char *fill_of(const picture_t *p, int32_t n, bool is_rewritten) {
  const tn_placement_t *placement = &p->executable->placement;
  if (placement->device_count) return device_fills[placement->nodes[n].device_index % FILLS];
  return is_rewritten ? "#fef08a" : device_fills[0];
}

static void add_node(const picture_t *p, int32_t n) {
  const tn_node_t *node = &p->graph->nodes[n];
  tn_text_t change = {0};
  const bool has_no_work = p->run && !p->items[n].action;
  tn_text_t attrs = {0};
  add_change(p, node, &change);
  add_attrs(node, &attrs);
  tn_text_add(p->text, "  node%d [label=<<B>", (int)n);
  tn_picture_escape(tn_picture_operator(node), 60, p->text);
  tn_text_add(p->text, "</B>");
  add_lines(p, n, tn_text_get(&change));
  tn_text_add(p->text, ">, tooltip=<");
  tn_picture_escape(node->name, 400, p->text);
  tn_text_add(p->text, ": ");
  tn_picture_escape(node->op->name, 200, p->text);
  tn_text_add(p->text, "(");
  tn_picture_escape(tn_text_get(&attrs), 400, p->text);
  tn_text_add(p->text, ")>, fillcolor=\"%s\"", fill_of(p, n, change.size > 0));
  if (!is_built_in(node)) tn_text_add(p->text, ", color=\"#ea580c\", penwidth=2");
  if (has_no_work) tn_text_add(p->text, ", style=\"rounded,filled,dashed\", fontcolor=\"#64748b\"");
  tn_text_add(p->text, "];\n");
  tn_text_clear(&attrs);
  tn_text_clear(&change);
}

static void add_unit_label(const picture_t *p, int32_t n) {
  const item_t *item = &p->items[n];
  if (!p->run) {
    tn_text_add(p->text, "offloaded subgraph %d", (int)item->unit);
    return;
  }
  for (size_t s = 0; s < p->run->stage_count; s++) {
    const tn_stage_t *stage = &p->run->stages[s];
    if (n < stage->begin || n >= stage->end) continue;
    const tn_region_t *region = stage->actions[item->action - 1].region;
    const int64_t piece = tn_region_is_small(region) ? region->rows : region->piece;
    tn_text_add(p->text, "region of %d nodes, %lld of %lld rows of %lld at a time",
                (int)region->count, (long long)piece, (long long)region->rows,
                (long long)region->width);
  }
}

/* Draws the items of a unit in one box, with the first of them. */
static void add_unit(const picture_t *p, int32_t first) {
  const int32_t unit = p->items[first].unit;
  tn_text_add(p->text, "  subgraph cluster_unit%d { label=\"", (int)unit);
  add_unit_label(p, first);
  tn_text_add(
      p->text,
      "\"; fontsize=9; style=\"rounded,filled\"; fillcolor=\"#dcfce7\"; color=\"#16a34a\";\n");
  for (int32_t n = first; n < p->count; n++)
    if (p->items[n].unit == unit && !p->items[n].hidden) add_node(p, n);
  tn_text_add(p->text, "  }\n");
}

static bool is_first_of_unit(const picture_t *p, int32_t n) {
  for (int32_t i = n - 1; i >= 0; i--)
    if (p->items[i].unit == p->items[n].unit && !p->items[i].hidden) return false;
  return true;
}

static void add_items(const picture_t *p, int32_t begin, int32_t end) {
  for (int32_t n = begin; n < end; n++) {
    if (p->items[n].hidden) continue;
    if (!p->items[n].unit)
      add_node(p, n);
    else if (is_first_of_unit(p, n))
      add_unit(p, n);
  }
}

static void add_repeat(const picture_t *p, size_t r) {
  const tn_repeat_t *repeat = &p->repeats[r];
  tn_text_add(p->text,
              "  subgraph cluster_repeat%d { label=\"block 1 of %d\"; fontsize=10; style=dashed; "
              "color=\"#94a3b8\";\n",
              (int)r + 1, (int)repeat->count);
  add_items(p, repeat->first, repeat->first + repeat->size);
  tn_text_add(p->text, "  }\n  repeat%d [shape=box3d, style=filled, fillcolor=\"#e2e8f0\", label=<",
              (int)r + 1);
  if (repeat->count > 2)
    tn_text_add(p->text, "<B>blocks 2 to %d</B><BR/>the same %d nodes, %d times>];\n",
                (int)repeat->count, (int)repeat->size, (int)repeat->count - 1);
  else
    tn_text_add(p->text, "<B>block 2</B><BR/>the same %d nodes>];\n", (int)repeat->size);
}

static void add_all_items(const picture_t *p) {
  int32_t at = 0;
  for (size_t r = 0; r < p->repeat_count; r++) {
    add_items(p, at, p->repeats[r].first);
    add_repeat(p, r);
    at = p->repeats[r].first + p->repeats[r].size * p->repeats[r].count;
  }
  add_items(p, at, p->count);
}

/* Edges */

static void add_ports(const picture_t *p) {
  const tenon_graph_t *g = p->graph;
  for (size_t i = 0; i < g->input_count; i++) {
    tn_text_add(p->text, "  input%zu [label=<", i);
    tn_picture_escape(or_none(g->edges[g->inputs[i]].name), NAME_BYTES, p->text);
    tn_text_add(p->text, ">, shape=ellipse, fillcolor=\"#bfdbfe\", color=\"#3b82f6\"];\n");
  }
  for (size_t i = 0; i < g->output_count; i++) {
    tn_text_add(p->text, "  output%zu [label=<", i);
    tn_picture_escape(or_none(g->output_names[i]), NAME_BYTES, p->text);
    tn_text_add(p->text, ">, shape=ellipse, fillcolor=\"#bbf7d0\", color=\"#16a34a\"];\n");
  }
}

/* Begins an arrow with where a value comes from. Returns false if it is a constant. */
static bool begin_arrow(const picture_t *p, int32_t edge) {
  const tn_edge_t *e = &p->graph->edges[edge];
  if (e->producer < 0 && e->input < 0) return false;
  tn_text_add(p->text, "  ");
  if (e->producer >= 0)
    add_id(p, e->producer);
  else
    tn_text_add(p->text, "input%d", (int)e->input);
  tn_text_add(p->text, " -> ");
  return true;
}

static void end_arrow(const picture_t *p, int32_t edge) {
  const bool is_tile = p->run && p->run->allocations[edge].where == TN_ALLOCATION_TILE;
  tn_text_add(p->text, " [label=<");
  add_escaped_type(p, edge);
  tn_text_add(p->text, ">, tooltip=<");
  tn_picture_escape(p->graph->edges[edge].name, 400, p->text);
  tn_text_add(p->text, "%s>];\n", is_tile ? " (in a tile of the region)>, style=<dashed" : "");
}

/* Arrows of a box that stands for many nodes are drawn once for each node that they come from. */
static void add_arrow(const picture_t *p, int32_t n, int32_t edge, void *context) {
  int32_t *last_reader = context; /* of each edge: 1 + the repeated block that has an arrow of it */
  const int32_t producer = p->graph->edges[edge].producer;
  const int32_t hidden = p->items[n].hidden;
  if (hidden && producer >= 0 && p->items[producer].hidden == hidden) return;
  if (hidden && last_reader[edge] == hidden) return;
  if (!begin_arrow(p, edge)) return;
  if (hidden) last_reader[edge] = hidden;
  add_id(p, n);
  end_arrow(p, edge);
}

static tenon_status_t add_arrows(const picture_t *p) {
  int32_t *last_reader = tn_allocate_zero(p->graph->edge_count + 1, sizeof *last_reader);
  if (!last_reader) return tn_no_memory("a picture", p->graph->edge_count);
  for (int32_t n = 0; n < p->count; n++)
    each_operand(p, n, last_reader, add_arrow);
  for (size_t i = 0; i < p->graph->output_count; i++) {
    if (!begin_arrow(p, p->graph->outputs[i])) continue;
    tn_text_add(p->text, "output%zu", i);
    end_arrow(p, p->graph->outputs[i]);
  }
  tn_release_memory(last_reader);
  return TENON_OK;
}

/* The whole picture */

static void add_key(const picture_t *p, const char *style, const char *words) {
  tn_text_add(p->text, "<TD %s><FONT POINT-SIZE=\"9\">%s</FONT></TD>", style, words);
}

/* The title, and what colours mean. */
static void add_title(const picture_t *p) {
  const tn_placement_t *placement = &p->executable->placement;
  char room[64];
  tn_text_add(p->text,
              "  labelloc=t; label=<<TABLE BORDER=\"0\" CELLBORDER=\"1\" COLOR=\"#94a3b8\" "
              "CELLSPACING=\"4\"><TR><TD BORDER=\"0\" COLSPAN=\"12\"><B>");
  tn_picture_escape(or_none(p->executable->source->name), 80, p->text);
  tn_text_add(p->text, "</B>: %d nodes%s</TD></TR><TR>", (int)p->count,
              p->run ? " as they are planned" : "");
  for (int32_t d = 0; d < placement->device_count; d++)
    tn_text_add(p->text, "<TD BGCOLOR=\"%s\"><FONT POINT-SIZE=\"9\">%s</FONT></TD>",
                device_fills[d % FILLS], tn_device_text(placement->devices[d], room, sizeof room));
  if (!placement->device_count)
    add_key(p, "BGCOLOR=\"#fef08a\"", "made or changed by a rewriting rule");
  add_key(p, "COLOR=\"#ea580c\" BORDER=\"2\"", "operator of a library");
  if (p->run) {
    add_key(p, "BGCOLOR=\"#dcfce7\"", "nodes that run as one");
    add_key(p, "STYLE=\"dashed\"", "without work in a run");
  }
  tn_text_add(p->text, "</TR></TABLE>>;\n");
}

static void write_picture(picture_t *p, tenon_status_t *status) {
  tn_text_add(p->text,
              "digraph model {\n"
              "  rankdir=TB; ranksep=0.3; nodesep=0.2; fontname=\"Helvetica\";\n"
              "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", "
              "fontsize=11, color=\"#94a3b8\", fillcolor=\"#f8fafc\", margin=\"0.12,0.05\"];\n"
              "  edge [fontname=\"Helvetica\", fontsize=8, color=\"#64748b\", "
              "fontcolor=\"#334155\", arrowsize=0.6];\n");
  add_title(p);
  add_ports(p);
  add_all_items(p);
  *status = add_arrows(p);
  tn_text_add(p->text, "}\n");
}

static tenon_status_t index_sources(picture_t *p) {
  const tenon_graph_t *source = p->executable->source;
  for (size_t n = 0; n < source->node_count; n++) {
    const tn_node_t *node = &source->nodes[n];
    if (!tn_map_put(&p->sources, node->name, strlen(node->name), (void *)(uintptr_t)node))
      return tn_no_memory("a picture", n);
  }
  return TENON_OK;
}

tenon_status_t tn_picture_graph(const tenon_executable_t *executable, const tn_run_t *run,
                                bool is_whole, tn_text_t *text) {
  picture_t p = {.executable = executable, .graph = executable->graph, .run = run, .text = text};
  p.count = (int32_t)p.graph->node_count;
  p.items = tn_allocate_zero((size_t)p.count + 1, sizeof *p.items);
  tenon_status_t status = p.items ? index_sources(&p) : tn_no_memory("a picture", 0);
  if (status == TENON_OK) {
    mark_items(&p);
    if (!is_whole) status = find_repeats(&p);
  }
  if (status == TENON_OK) write_picture(&p, &status);
  tn_map_clear(&p.sources);
  tn_release_memory(p.items);
  tn_release_memory(p.repeats);
  return status;
}
