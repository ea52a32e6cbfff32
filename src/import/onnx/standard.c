/* Writes the ONNX side of a row: the outermost call takes the names of the node's results and its
 * attributes, calls inside it get names of their own. The file is written from its end, so a call
 * is written before the calls in it. Called by export.c. Invariant: a malformed row is a bug of
 * the export and never read beyond its end. */
#include "import/onnx/standard.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/element.h"
#include "import/onnx/import.h"

enum { NESTED_MAX = 8, ARGUMENTS_MAX = 32 }; /* of one call of a row, without items of lists */

/* A call in a row, and the names of its inputs. */
typedef struct call_t {
  tn_words_t type;
  const char **inputs;
  uint32_t input_count;
  uint32_t input_most;
  const char *nested[NESTED_MAX]; /* texts of calls and constants inside this one */
  const char *nested_names[NESTED_MAX];
  uint32_t nested_count;
} call_t;

typedef struct writing_t {
  const tn_standard_t *site;
  const char *at;
  tenon_status_t status;
} writing_t;

static char peek(writing_t *writing) {
  while (*writing->at == ' ')
    writing->at++;
  return *writing->at;
}

static bool take_mark(writing_t *writing, char c) {
  if (peek(writing) != c) return false;
  writing->at++;
  return true;
}

static tn_words_t read_word(writing_t *writing) {
  (void)peek(writing);
  tn_words_t word = {writing->at, 0};
  while (isalnum((unsigned char)*writing->at) || *writing->at == '_' || *writing->at == '.')
    writing->at++;
  word.size = (size_t)(writing->at - word.text);
  return word;
}

static bool is_word(tn_words_t word, const char *text) {
  return word.size == strlen(text) && memcmp(word.text, text, word.size) == 0;
}

static void report_malformed(writing_t *writing) {
  if (writing->status == TENON_OK)
    writing->status = tn_fail(TENON_INTERNAL, "bug in the export: row '%s' is malformed at '%s'",
                              writing->site->match->left, writing->at);
}

/* The operands that a name of the row stands for. */
static int32_t find_input(const tn_standard_t *site, tn_words_t word, int32_t *out_first) {
  *out_first = 0;
  for (uint32_t i = 0; i < site->match->input_count; i++) {
    tn_words_t own = site->match->inputs[i];
    if (own.size == word.size && memcmp(own.text, word.text, own.size) == 0) return (int32_t)i;
    *out_first += site->node->operands[i].count;
  }
  return -1;
}

static void add_operand(writing_t *writing, call_t *call, const char *name) {
  if (call->input_count == call->input_most)
    report_malformed(writing);
  else
    call->inputs[call->input_count++] = name;
}

/* Adds a call or a constant inside the call, which is written later. */
static void add_nested(writing_t *writing, call_t *call, const char *text) {
  char *name = NULL;
  if (call->nested_count == NESTED_MAX) {
    report_malformed(writing);
    return;
  }
  if (writing->status == TENON_OK)
    writing->status = tn_export_name(writing->site->export, writing->site->node->name, &name);
  call->nested[call->nested_count] = text;
  call->nested_names[call->nested_count++] = name;
  add_operand(writing, call, name);
}

/* Skips to the bracket that closes a call, after its "(". */
static void skip_call(writing_t *writing) {
  int depth = 1;
  for (; *writing->at && depth; writing->at++)
    depth += (*writing->at == '(') - (*writing->at == ')');
}

/* Writes a list of integers, the permutation that swaps the last two axes of an input. */
static void write_swap(writing_t *writing, const char *name, size_t before) {
  const tn_standard_t *site = writing->site;
  tn_writer_t *w = &site->export->writer;
  int32_t first;
  int32_t input = find_input(site, read_word(writing), &first);
  if (input < 0 || !site->node->operands[input].count) {
    report_malformed(writing);
    return;
  }
  int32_t rank = site->graph->edges[site->node->operands[input].edges[0]].ndim;
  if (rank < 2) {
    writing->status = tn_fail(TENON_UNIMPLEMENTED, "the rank of an operand is not known");
    return;
  }
  for (int32_t d = rank; d-- > 0;) {
    int64_t from = d;
    if (d == rank - 1) from = rank - 2;
    if (d == rank - 2) from = rank - 1;
    tn_write_int(w, 8, from);
  }
  tn_write_int(w, 20, TN_ATTRIBUTE_INTS);
  tn_write_text(w, 1, name);
  tn_write_message(w, 5, before);
}

/* Writes an attribute that the row states: 'text', or perm=swap:x. */
static void write_stated(writing_t *writing, tn_words_t word) {
  tn_export_t *export = writing->site->export;
  tn_writer_t *w = &export->writer;
  size_t before = w->size;
  char *name = tn_arena_text(&export->arena, word.text, word.size);
  if (!name) {
    writing->status = tn_no_memory("an attribute", word.size);
    return;
  }
  if (take_mark(writing, '\'')) {
    size_t size = strcspn(writing->at, "'");
    tn_write_bytes(w, 4, writing->at, size);
    writing->at += size;
    if (!take_mark(writing, '\'')) report_malformed(writing);
    tn_write_int(w, 20, TN_ATTRIBUTE_STRING);
    tn_write_text(w, 1, name);
    tn_write_message(w, 5, before);
  } else if (is_word(read_word(writing), "swap") && take_mark(writing, ':')) {
    write_swap(writing, name, before);
  } else {
    report_malformed(writing);
  }
}

static void write_int(tn_writer_t *w, const char *name, int64_t value) {
  size_t before = w->size;
  tn_write_int(w, 3, value);
  tn_write_int(w, 20, TN_ATTRIBUTE_INT);
  tn_write_text(w, 1, name);
  tn_write_message(w, 5, before);
}

/* Split states the number of its results unless it has their sizes. */
static void write_num_outputs(writing_t *writing) {
  const tn_standard_t *site = writing->site;
  int32_t first;
  int32_t input = find_input(site, (tn_words_t){"sizes", 5}, &first);
  if (input >= 0 && site->node->operands[input].count) return;
  write_int(&site->export->writer, "num_outputs", site->node->output_count);
}

/* Recurrent operators of ONNX state the number of hidden values, which the recurrent weights have
 * as their last extent. */
static void write_hidden_size(writing_t *writing) {
  const tn_standard_t *site = writing->site;
  int32_t first;
  int32_t input = find_input(site, (tn_words_t){"r", 1}, &first);
  if (input < 0 || !site->node->operands[input].count) return;
  const tn_edge_t *edge = &site->graph->edges[site->node->operands[input].edges[0]];
  if (edge->ndim < 1) return;
  tenon_dim_t dim = tn_extents_resolve(site->graph->extents, edge->dims[edge->ndim - 1]);
  if (tenon_is_known(dim)) write_int(&site->export->writer, "hidden_size", dim.value);
}

/* MatMulNBits states how many rows and columns its packed weights have. */
static void write_packed_sizes(writing_t *writing) {
  const tn_standard_t *site = writing->site;
  const tn_node_t *node = site->node;
  const tn_edge_t *x = &site->graph->edges[node->operands[0].edges[0]];
  const tn_edge_t *weights = &site->graph->edges[node->operands[1].edges[0]];
  const bool has_ranks = x->ndim > 0 && weights->ndim > 0;
  tenon_dim_t k = {0};
  tenon_dim_t n = {0};
  if (has_ranks) k = tn_extents_resolve(site->graph->extents, x->dims[x->ndim - 1]);
  if (has_ranks) n = tn_extents_resolve(site->graph->extents, weights->dims[0]);
  if (!has_ranks || !tenon_is_known(k) || !tenon_is_known(n)) {
    writing->status = tn_fail(TENON_UNIMPLEMENTED, "the extents of its weights are not known");
    return;
  }
  write_int(&site->export->writer, "N", n.value);
  write_int(&site->export->writer, "K", k.value);
}

/* Reads one argument of a call; attributes are written at once. */
static void read_operand(writing_t *writing, call_t *call) {
  const tn_standard_t *site = writing->site;
  int32_t first;
  if (take_mark(writing, '-')) {
    const tn_words_t word = read_word(writing);
    if (is_word(word, "hidden_size")) write_hidden_size(writing);
    if (is_word(word, "num_outputs")) write_num_outputs(writing);
    if (is_word(word, "packed_sizes")) write_packed_sizes(writing);
    return;
  }
  bool is_list = take_mark(writing, '*');
  const char *begin = writing->at;
  tn_words_t word = read_word(writing);
  if (take_mark(writing, '(')) {
    skip_call(writing);
    add_nested(writing, call, begin);
    return;
  }
  if (take_mark(writing, ':')) {
    (void)read_word(writing);
    add_nested(writing, call, begin);
    return;
  }
  if (take_mark(writing, '=')) {
    write_stated(writing, word);
    return;
  }
  (void)take_mark(writing, '?');
  int32_t input = find_input(site, word, &first);
  int32_t count = input < 0 ? 0 : site->node->operands[input].count;
  for (int32_t k = 0; k < count; k++)
    add_operand(writing, call, site->inputs[first + k]);
  if (!count && !is_list) add_operand(writing, call, "");
}

/* Writes the attributes that the match found. */
static void write_attrs(writing_t *writing) {
  const tn_standard_match_t *match = writing->site->match;
  const tn_node_t *node = writing->site->node;
  for (uint32_t i = match->attr_count; i-- > 0 && writing->status == TENON_OK;) {
    const tn_standard_attr_t *attr = &match->attrs[i];
    tn_export_t *export = writing->site->export;
    char *name = tn_arena_text(&export->arena, attr->name.text, attr->name.size);
    char *choice = tn_arena_text(&export->arena, attr->choice.text, attr->choice.size);
    writing->status =
        !name || !choice
            ? tn_no_memory("an attribute", attr->name.size)
            : tn_export_standard_attr(export, name, choice, &node->op->schema.attrs[attr->index],
                                      &node->attrs[attr->index]);
  }
}

static void write_call(writing_t *writing, const char *const *outputs, int32_t output_count,
                       bool is_outermost);

/* Writes a Constant, such as "0.5:x": a number of the dtype of an input. */
static void write_constant(writing_t *writing, const char *name) {
  const tn_standard_t *site = writing->site;
  tn_writer_t *w = &site->export->writer;
  double number = strtod(read_word(writing).text, NULL);
  unsigned char room[16] = {0};
  tenon_tensor_t view;
  int32_t first;
  if (!take_mark(writing, ':')) report_malformed(writing);
  int32_t input = find_input(site, read_word(writing), &first);
  if (input < 0 || writing->status != TENON_OK) {
    report_malformed(writing);
    return;
  }
  tenon_dtype_t dtype = site->graph->edges[site->node->operands[input].edges[0]].dtype;
  tn_element_put(dtype, room, 0, number, 0);
  size_t before = w->size;
  writing->status = tenon_tensor_view(&view, room, dtype, 0, NULL, NULL, NULL);
  if (writing->status == TENON_OK) writing->status = tn_export_tensor(site->export, 5, NULL, &view);
  tn_write_int(w, 20, TN_ATTRIBUTE_TENSOR);
  tn_write_text(w, 1, "value");
  tn_write_message(w, 5, before);
  tn_write_text(w, 4, "Constant");
  tn_write_text(w, 2, name);
  tn_write_message(w, 1, before);
}

static void write_nested(writing_t *writing, const call_t *call) {
  for (uint32_t i = call->nested_count; i-- > 0 && writing->status == TENON_OK;) {
    writing->at = call->nested[i];
    if (isalpha((unsigned char)*writing->at))
      write_call(writing, &call->nested_names[i], 1, false);
    else
      write_constant(writing, call->nested_names[i]);
  }
}

/* Writes the type of a node, and its domain if the row states one. */
static void write_type(writing_t *writing, tn_words_t word) {
  tn_export_t *export = writing->site->export;
  char *type = tn_arena_text(&export->arena, word.text, word.size);
  if (!type && writing->status == TENON_OK) writing->status = tn_no_memory("a node", word.size);
  if (writing->status != TENON_OK) return;
  char *dot = strrchr(type, '.');
  if (dot) {
    *dot = 0;
    writing->status = tn_export_domain(export, type, writing->site->match->since);
    tn_write_text(&export->writer, 7, type);
  }
  tn_write_text(&export->writer, 4, dot ? dot + 1 : type);
}

static void write_call(writing_t *writing, const char *const *outputs, int32_t output_count,
                       bool is_outermost) {
  tn_export_t *export = writing->site->export;
  tn_writer_t *w = &export->writer;
  call_t call = {.type = read_word(writing)};
  size_t before = w->size;
  call.input_most = ARGUMENTS_MAX;
  for (uint32_t i = 0; i < writing->site->match->input_count; i++)
    call.input_most += (uint32_t)writing->site->node->operands[i].count;
  call.inputs = tn_arena_array(&export->arena, call.input_most, sizeof *call.inputs);
  if (!call.inputs) {
    writing->status = tn_no_memory("a node", call.input_most);
    return;
  }
  if (!take_mark(writing, '(')) report_malformed(writing);
  if (is_outermost) write_attrs(writing);
  while (writing->status == TENON_OK && !take_mark(writing, ')')) {
    if (!peek(writing)) report_malformed(writing);
    read_operand(writing, &call);
    (void)take_mark(writing, ',');
  }
  write_type(writing, call.type);
  if (writing->status != TENON_OK) return;
  if (is_outermost) tn_write_text(w, 3, writing->site->name);
  for (int32_t o = output_count; o-- > 0;)
    tn_write_text(w, 2, outputs[o]);
  while (call.input_count && !*call.inputs[call.input_count - 1])
    call.input_count--;
  for (uint32_t i = call.input_count; i-- > 0;)
    tn_write_text(w, 1, call.inputs[i]);
  tn_write_message(w, 1, before);
  write_nested(writing, &call);
}

tenon_status_t tn_standard_write(const tn_standard_t *site) {
  writing_t writing = {site, site->match->left, TENON_OK};
  int32_t count = site->node->output_count;
  while (count > 1 && !*site->outputs[count - 1])
    count--;
  write_call(&writing, site->outputs, count, true);
  return writing.status == TENON_OK ? site->export->writer.status : writing.status;
}
