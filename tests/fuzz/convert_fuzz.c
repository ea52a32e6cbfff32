/* Conversions: a graph that was read from any model of ONNX or program of StableHLO is written in
 * both formats, or refused with a message; what is written loads again, with the same inputs and
 * outputs. */
#include <ctype.h>

#include "attempt.h"
#include "base/file.h"
#include "damage.h"
#include "import/onnx/export.h"
#include "import/prepare.h"
#include "loader/locate.h"
#include "model.h"
#include "write/program.h"

size_t LLVMFuzzerMutate(unsigned char *data, size_t size, size_t capacity);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t size, size_t capacity, unsigned seed);

static char folder[TN_PATH_SIZE];
static long written[2]; /* graphs, in ONNX and in StableHLO */

static void report_wrong(const char *what) {
  fprintf(stderr, "wrong: %s; last message: %s\n", what, tenon_error());
  abort();
}

static void check_status(tenon_status_t status) {
  if (status == TENON_OK) return;
  if (!*tenon_error()) report_wrong("a failure without a message");
  if (status == TENON_INTERNAL) report_wrong("an internal error");
}

static void end_folder(void) {
  if (getenv("FUZZ_SAY"))
    fprintf(stderr, "written: %ld in ONNX, %ld in StableHLO\n", written[0], written[1]);
  tn_folder_remove(folder);
}

static void make_folder(void) {
  if (*folder) return;
  if (tn_folder_make(folder, sizeof folder) != TENON_OK) report_wrong("no folder");
  atexit(end_folder);
}

/* Whether these are the bytes of a program: its text begins with a word, a comment or a name. */
static bool is_program(const unsigned char *data, size_t size) {
  if (size >= 4 && memcmp(data, "ML\xefR", 4) == 0) return true;
  for (size_t i = 0; i < size && i < 64; i++)
    if (data[i] >= 127 || (data[i] < 32 && !isspace(data[i]))) return false;
  return true;
}

static tenon_graph_t *read_graph(const unsigned char *data, size_t size) {
  const tenon_import_t options = {.size = sizeof options, .folder = MODELS};
  tenon_graph_t *graph = NULL;
  attempt_limit(true);
  check_status(is_program(data, size)
                   ? hlo_program_read((const char *)data, size, "the input", &graph)
                   : tenon_graph_read(data, size, &options, &graph));
  return graph;
}

/* Whether a node has a graph, which may contradict what the node states about its results. */
static bool has_bodies(const tenon_graph_t *graph) {
  for (size_t n = 0; n < graph->node_count; n++)
    for (uint32_t i = 0; i < graph->nodes[n].op->schema.attr_count; i++)
      if (graph->nodes[n].attrs[i].kind == TENON_KIND_GRAPH) return true;
  return false;
}

/* Whether two ports have the same dtype and number of axes as far as both are known. */
static bool is_same_port(const tenon_port_t *a, const tenon_port_t *b) {
  const bool is_known = a->dtype.bits && b->dtype.bits;
  if (is_known && tenon_dtype_id(a->dtype) != tenon_dtype_id(b->dtype)) return false;
  return a->ndim < 0 || b->ndim < 0 || a->ndim == b->ndim;
}

static void compare_graphs(const tenon_graph_t *graph, const tenon_graph_t *again) {
  const int32_t inputs = tenon_graph_input_count(graph);
  const int32_t outputs = tenon_graph_output_count(graph);
  if (tenon_graph_input_count(again) != inputs || tenon_graph_output_count(again) != outputs)
    report_wrong("what was written has other inputs or outputs");
  for (int32_t i = 0; i < inputs + outputs && !has_bodies(graph); i++) {
    tenon_port_t a = {.size = sizeof a};
    tenon_port_t b = {.size = sizeof b};
    const bool is_input = i < inputs;
    check_status(is_input ? tenon_graph_input(graph, i, &a)
                          : tenon_graph_output(graph, i - inputs, &a));
    check_status(is_input ? tenon_graph_input(again, i, &b)
                          : tenon_graph_output(again, i - inputs, &b));
    if (!is_same_port(&a, &b)) report_wrong("an input or output has another type");
  }
}

/* Writes a prepared graph in one format, and reads what was written. */
static void try_writer(const tenon_graph_t *graph, int format) {
  char path[TN_PATH_SIZE + 16];
  tenon_graph_t *again = NULL;
  snprintf(path, sizeof path, "%s/%s", folder, format ? "a.mlir" : "a.onnx");
  attempt_limit(true);
  tenon_status_t status =
      format ? hlo_program_write(graph, path) : tn_onnx_save_standard(graph, path);
  check_status(status);
  if (status != TENON_OK) return;
  written[format]++;
  attempt_limit(true);
  status = format ? hlo_model_read(path, &again) : tenon_graph_load(path, NULL, &again);
  check_status(status);
  if (status == TENON_OK) compare_graphs(graph, again);
  if (status != TENON_OK && status != TENON_MEMORY) report_wrong("what was written does not load");
  tenon_graph_release(again);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  tenon_graph_t *prepared = NULL;
  attempt_start();
  make_folder();
  tenon_graph_t *graph = read_graph(data, size);
  attempt_limit(true);
  if (graph) check_status(tn_export_prepare(graph, &prepared));
  if (prepared) try_writer(prepared, 0);
  if (prepared) try_writer(prepared, 1);
  attempt_limit(false);
  tenon_graph_release(prepared);
  tenon_graph_release(graph);
  return 0;
}

/* mutations of texts */

/* Puts a word in place of [at, end). Returns whether it fits. */
static bool replace_part(damage_t *d, size_t at, size_t end, const char *word) {
  const size_t length = strlen(word);
  if (d->size - (end - at) + length > d->capacity) return false;
  memmove(d->data + at + length, d->data + end, d->size - end);
  memcpy(d->data + at, word, length);
  d->size = d->size - (end - at) + length;
  return true;
}

static bool is_part_of_word(unsigned char c) { return isalnum(c) || c == '_'; }

/* Replaces a word everywhere, so that types still agree. */
static void replace_all(damage_t *d, const char *from, const char *to) {
  const size_t length = strlen(from);
  for (size_t at = 1; at + length < d->size; at++) {
    if (memcmp(d->data + at, from, length) != 0 || isalnum(d->data[at - 1])) continue;
    if (isalnum(d->data[at + length]) && from[length - 1] != 'x') continue;
    if (!replace_part(d, at, at + length, to)) return;
  }
}

/* Replaces a number, or the name of an operation, at one place. */
static void replace_one(damage_t *d) {
  static const char *const numbers[] = {
      "0", "1", "2", "3", "4", "7", "-1", "16", "9223372036854775807"};
  static const char *const names[] = {
      "add",  "multiply",  "subtract",  "maximum", "divide",  "power", "negate", "tanh", "abs",
      "sign", "remainder", "transpose", "reshape", "reverse", "slice", "while",  "if",   "convert"};
  const size_t first = (size_t)damage_random(d, d->size);
  for (size_t at = first; at < d->size; at++) {
    size_t end = at;
    const bool is_start = at > 0 && !is_part_of_word(d->data[at - 1]) && d->data[at - 1] != '%';
    while (end < d->size && is_part_of_word(d->data[end]))
      end++;
    if (is_start && end > at && isdigit(d->data[at]) && isdigit(d->data[end - 1])) {
      (void)replace_part(d, at, end, numbers[damage_random(d, sizeof numbers / sizeof *numbers)]);
      return;
    }
    if (is_start && at > 10 && memcmp(d->data + at - 10, "stablehlo.", 10) == 0) {
      (void)replace_part(d, at, end, names[damage_random(d, sizeof names / sizeof *names)]);
      return;
    }
    if (end > at) at = end;
  }
}

static void change_text(damage_t *d) {
  static const char *const types[] = {"f32", "f64", "i32", "i64", "i1", "i8", "ui8", "bf16", "f16"};
  static const char *const extents[] = {"1x", "2x", "3x", "4x", "8x", "0x"};
  const char *to;
  switch (damage_random(d, 6)) {
  case 0:
    to = types[damage_random(d, sizeof types / sizeof *types)];
    replace_all(d, types[damage_random(d, 4)], to);
    break;
  case 1:
    to = extents[damage_random(d, sizeof extents / sizeof *extents)];
    replace_all(d, extents[damage_random(d, 5)], to);
    break;
  default:
    replace_one(d);
    break;
  }
}

/* Most of these changes leave the file readable, which libFuzzer's own changes seldom do. */
size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t size, size_t capacity, unsigned seed) {
  static damage_fields_t fields;
  damage_t d = {seed, data, size, capacity};
  const bool is_text = size && is_program(data, size) && data[0] != 'M';
  if (damage_random(&d, 8) == 0 || !size) return LLVMFuzzerMutate(data, size, capacity);
  for (uint64_t i = 0, times = 1 + damage_random(&d, 3); i < times; i++) {
    if (is_text)
      change_text(&d);
    else
      damage_message(&d, &fields);
  }
  return d.size;
}
