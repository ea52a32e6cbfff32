/* Writes random graphs and reads them again: each one as text in memory. Some of them run, too, and
 * are written as they were compiled; others go through files and an artifact. What was read is
 * compared with what was written part by part, because two texts are also the same if the writer
 * leaves something out, and the results of its runs bit by bit. */
#ifndef TENON_TESTS_RANDOM_AGAIN_H
#define TENON_TESTS_RANDOM_AGAIN_H

#include "criterion.h"

#include "base/file.h"
#include "base/text.h"
#include "core/dtype.h"
#include "core/value.h"
#include "graph/graph.h"
#include "import/text/text.h"

enum {
  RUN_EACH = 8,   /* of so many graphs one runs, and is written as it was compiled */
  FILE_EACH = 50, /* of so many graphs one is written to files */
};

typedef struct written_t {
  int32_t texts;     /* graphs that were written as text and read */
  int32_t without;   /* graphs that have no text */
  int32_t runs;      /* of those with a text: that ran afterwards */
  int32_t artifacts; /* that were loaded from an artifact */
  int32_t derived;   /* of those: that have gradients */
} written_t;

/* Comparing graphs */

static bool is_same_graph(const tenon_graph_t *a, const tenon_graph_t *b);

static bool is_same_tensor(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  if (!a || !b) return a == b;
  bool is = tn_dtype_same(a->dtype, b->dtype) && a->ndim == b->ndim;
  for (int32_t i = 0; is && i < a->ndim; i++)
    is = a->shape[i] == b->shape[i];
  for (int64_t i = 0; is && i < tenon_count(a); i++)
    is = memcmp(tensor_at(a, i), tensor_at(b, i), a->dtype.bits / 8) == 0;
  return is;
}

static bool is_same_attr(const tenon_value_t *a, const tenon_value_t *b) {
  if (a->kind == TENON_KIND_GRAPH && b->kind == TENON_KIND_GRAPH)
    return is_same_graph(a->as.graph, b->as.graph);
  if (a->kind == TENON_KIND_TENSOR && b->kind == TENON_KIND_TENSOR)
    return is_same_tensor(a->as.tensor, b->as.tensor);
  return tn_value_equal(a, b);
}

static bool is_same_value(const tenon_graph_t *a, tenon_edge_t x, const tenon_graph_t *b,
                          tenon_edge_t y) {
  const tn_edge_t *from = &a->edges[x];
  const tn_edge_t *to = &b->edges[y];
  return strcmp(from->name, to->name) == 0 && from->input == to->input &&
         is_same_tensor(from->constant, to->constant);
}

static bool is_same_node(const tenon_graph_t *a, const tn_node_t *x, const tenon_graph_t *b,
                         const tn_node_t *y) {
  bool is = x->op == y->op && strcmp(x->name, y->name) == 0 && x->output_count == y->output_count;
  for (uint32_t i = 0; is && i < x->op->schema.attr_count; i++)
    is = is_same_attr(&x->attrs[i], &y->attrs[i]);
  for (uint32_t i = 0; is && i < x->op->input_count; i++) {
    is = x->operands[i].count == y->operands[i].count;
    for (int32_t k = 0; is && k < x->operands[i].count; k++)
      is = is_same_value(a, x->operands[i].edges[k], b, y->operands[i].edges[k]);
  }
  for (int32_t o = 0; is && o < x->output_count; o++)
    is = is_same_value(a, x->outputs[o], b, y->outputs[o]);
  return is;
}

static bool is_same_input(const tenon_graph_t *a, const tenon_graph_t *b, size_t i) {
  const tn_edge_t *from = &a->edges[a->inputs[i]];
  const tn_edge_t *to = &b->edges[b->inputs[i]];
  bool is = strcmp(from->name, to->name) == 0 && tn_dtype_same(from->dtype, to->dtype) &&
            from->ndim == to->ndim && from->layout == to->layout;
  for (int32_t d = 0; is && d < from->ndim; d++) {
    const tenon_axis_t *x = &a->input_axes[i][d];
    const tenon_axis_t *y = &b->input_axes[i][d];
    is = x->extent == y->extent && !x->name == !y->name;
    if (is && x->name) is = strcmp(x->name, y->name) == 0;
  }
  return is;
}

/* The next node from number n on that no pass removed; NULL: there is none. */
static const tn_node_t *next_node(const tenon_graph_t *graph, size_t *n) {
  while (*n < graph->node_count && !graph->nodes[*n].op)
    ++*n;
  return *n < graph->node_count ? &graph->nodes[(*n)++] : NULL;
}

/* Whether both consist of the same inputs, nodes in the same order, and outputs. */
static bool is_same_graph(const tenon_graph_t *a, const tenon_graph_t *b) {
  size_t at[2] = {0, 0};
  bool is = strcmp(a->name, b->name) == 0 && a->input_count == b->input_count &&
            a->output_count == b->output_count;
  for (size_t i = 0; is && i < a->input_count; i++)
    is = is_same_input(a, b, i);
  while (is) {
    const tn_node_t *x = next_node(a, &at[0]);
    const tn_node_t *y = next_node(b, &at[1]);
    is = !x == !y;
    if (!x || !y) break;
    is = is_same_node(a, x, b, y);
    if (!is) fprintf(stderr, "node %s (%s) differs\n", x->name, x->op->name);
  }
  for (size_t i = 0; is && i < a->output_count; i++)
    is = is_same_value(a, a->outputs[i], b, b->outputs[i]) &&
         strcmp(a->output_names[i], b->output_names[i]) == 0;
  return is;
}

/* Runs */

/* Whether two executables compute the same bits from the same inputs. */
static bool is_same_run(const trio_t *t, tenon_executable_t *a, tenon_executable_t *b,
                        lengths_t lengths) {
  tenon_tensor_t *inputs[PORTS_MOST] = {NULL};
  tenon_tensor_t *first[OUTPUTS_MOST] = {NULL}, *second[OUTPUTS_MOST] = {NULL};
  make_inputs(t->narrow, lengths, 0, inputs);
  bool is = CHECK_STATUS(tenon_executable_run(a, inputs, first, NULL), TENON_OK) &&
            CHECK_STATUS(tenon_executable_run(b, inputs, second, NULL), TENON_OK);
  for (int32_t o = 0; is && o < t->count; o++)
    is = is_same_tensor(first[o], second[o]);
  release_all(inputs, t->narrow->port_count);
  release_all(first, t->count);
  release_all(second, t->count);
  return is;
}

/* Texts */

/* A weight of the list that the printer filled: its key is its number. */
static tenon_status_t take_weight(void *context, const char *key, tenon_dtype_t dtype, int32_t ndim,
                                  const int64_t *shape, tenon_tensor_t **out_tensor) {
  const tn_weight_list_t *list = context;
  const size_t index = strtoull(key, NULL, 10);
  if (!CHECK(index < list->count)) return TENON_INVALID;
  const tenon_status_t status = tn_weight_list_get(list, index, out_tensor);
  if (status != TENON_OK) return status;
  bool is = tn_dtype_same((*out_tensor)->dtype, dtype) && (*out_tensor)->ndim == ndim;
  for (int32_t i = 0; is && i < ndim; i++)
    is = (*out_tensor)->shape[i] == shape[i];
  CHECK(is);
  return TENON_OK;
}

/* Tells the first line in which two texts differ. */
static void tell_lines(const char *first, const char *second) {
  while (*first || *second) {
    const size_t sizes[2] = {strcspn(first, "\n"), strcspn(second, "\n")};
    if (sizes[0] != sizes[1] || memcmp(first, second, sizes[0]) != 0) {
      fprintf(stderr, "written: %.*s\n", (int)sizes[0], first);
      fprintf(stderr, "again:   %.*s\n", (int)sizes[1], second);
      return;
    }
    first += sizes[0] + (first[sizes[0]] == '\n');
    second += sizes[1] + (second[sizes[1]] == '\n');
  }
}

/* Reads a text and prints what was read; NULL: the graph or the text is another one. */
static tenon_graph_t *read_again(const tenon_graph_t *graph, const tn_text_t *text,
                                 tn_weight_list_t *list) {
  const tn_text_source_t source = {take_weight, list};
  tn_weight_list_t second = {.is_numbered = true};
  tn_text_t again = {0};
  tenon_graph_t *read = NULL;
  bool is = CHECK_STATUS(tn_text_parse(text->data, text->size, &source, &read), TENON_OK) &&
            CHECK_STATUS(tn_text_print(read, false, &second, &again), TENON_OK);
  if (is) {
    is = CHECK(again.size == text->size && memcmp(again.data, text->data, text->size) == 0);
    if (!is) tell_lines(tn_text_get(text), tn_text_get(&again));
    is = CHECK(second.count == list->count) && is;
    is = CHECK(is_same_graph(graph, read)) && is;
  }
  tn_weight_list_clear(&second);
  tn_text_clear(&again);
  if (is) return read;
  fprintf(stderr, "%.4000s\n", tn_text_get(text));
  tenon_graph_release(read);
  return NULL;
}

/* Writes a graph as text and reads it. *out_has_text: it has one. Returns NULL if it has none, or
 * if what was read is another graph. */
static tenon_graph_t *through_text(const tenon_graph_t *graph, bool only_used, bool *out_has_text) {
  tn_weight_list_t list = {.is_numbered = true};
  tn_text_t text = {0};
  tenon_graph_t *read = NULL;
  const tenon_status_t status = tn_text_print(graph, only_used, &list, &text);
  *out_has_text = status == TENON_OK;
  if (*out_has_text)
    read = read_again(graph, &text, &list);
  else
    CHECK(status == TENON_UNIMPLEMENTED && strstr(tenon_error(), "has no constants of layout"));
  tn_weight_list_clear(&list);
  tn_text_clear(&text);
  return read;
}

/* Files */

static char again_folder[200];

/* Saves a graph and loads it. The file may be removed then: the graph keeps it mapped. */
static tenon_graph_t *through_file(const tenon_graph_t *graph, const char *ending) {
  char path[300];
  tenon_graph_t *read = NULL;
  if (!*again_folder) CHECK_STATUS(tn_folder_make(again_folder, sizeof again_folder), TENON_OK);
  snprintf(path, sizeof path, "%s/model%s", again_folder, ending);
  if (!CHECK_STATUS(tenon_graph_save(graph, path), TENON_OK)) return NULL;
  CHECK_STATUS(tenon_graph_load(path, NULL, &read), TENON_OK);
  remove(path);
  return read;
}

/* Compares the run of a graph that was read, which it releases, with one of the trio. */
static void check_read(const trio_t *t, tenon_graph_t *read, tenon_executable_t *like,
                       uint32_t flags, const way_t *way, lengths_t lengths) {
  if (!read) return;
  tenon_executable_t *e = compile_emitted(read, flags, way);
  if (e) CHECK(is_same_run(t, like, e, lengths));
  tenon_executable_release(e);
}

/* Differentiates a graph and the one that was read from its artifact: both give the same graph, or
 * the same refusal. Returns whether there are gradients. */
static bool check_gradients(const tenon_graph_t *graph, const tenon_graph_t *read) {
  const tenon_graph_gradients_t options = {.size = sizeof options,
                                           .flags = TENON_GRADIENTS_GIVEN | TENON_GRADIENTS_UNUSED};
  tenon_graph_t *first = NULL, *second = NULL;
  char message[400] = "";
  const tenon_status_t status = tenon_graph_gradients(graph, &options, &first);
  if (status != TENON_OK) snprintf(message, sizeof message, "%s", tenon_error());
  CHECK_STATUS(tenon_graph_gradients(read, &options, &second), status);
  if (first && second) CHECK(is_same_graph(first, second));
  if (status != TENON_OK) CHECK(strncmp(message, tenon_error(), sizeof message - 1) == 0);
  tenon_graph_release(first);
  tenon_graph_release(second);
  return status == TENON_OK;
}

static void check_files(const trio_t *t, const way_t *way, lengths_t lengths, written_t *written) {
  tenon_graph_t *read = through_file(t->graph, TN_TEXT_ENDING);
  if (read) CHECK(is_same_graph(t->graph, read));
  check_read(t, read, t->plain, TENON_COMPILE_PLAIN, NULL, lengths);
  read = through_file(t->graph, ".tenon");
  if (read) CHECK(read->prepared);
  if (read) written->derived += check_gradients(t->graph, read);
  written->artifacts += read != NULL;
  check_read(t, read, t->compiled, 0, way, lengths);
}

/* Writes the graph of a trio in each way and reads it again. */
static void check_written(const trio_t *t, const way_t *way, lengths_t lengths,
                          written_t *written) {
  const uint64_t seed = t->draft->seed;
  const bool is_run = seed % RUN_EACH == 0;
  const int before = check_failures;
  bool has_text, ignored;
  tenon_graph_t *read = through_text(t->graph, false, &has_text);
  written->texts += has_text;
  written->without += !has_text;
  written->runs += read && is_run;
  if (is_run)
    check_read(t, read, t->plain, TENON_COMPILE_PLAIN, NULL, lengths);
  else
    tenon_graph_release(read);
  if (has_text && !way->device_count) {
    const tenon_graph_t *compiled = tenon_executable_graph(t->compiled);
    if (is_run) tenon_graph_release(through_text(compiled, true, &ignored));
    if (seed % FILE_EACH == 0) check_files(t, way, lengths, written);
  }
  if (check_failures > before)
    fprintf(stderr, "graph %llu, written and read, is another one\n", (unsigned long long)seed);
}

/* Removes the folder of the files. */
static void close_written(void) {
  if (*again_folder) tn_folder_remove(again_folder);
  *again_folder = '\0';
}

#endif
