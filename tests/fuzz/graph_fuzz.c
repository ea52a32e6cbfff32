/* Graphs as text: any bytes are read, compiled and run within bounds, or refused with a message,
 * and a graph that was read is written and read again without a difference. What follows the first
 * zero byte is the file of weights, w.safetensors. */
#include "attempt.h"

#include "base/file.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static char folder[200];

static void start(void) {
  if (*folder) return;
  attempt_start();
  if (tn_folder_make(folder, sizeof folder) != TENON_OK) abort();
}

static void fail(const char *what) {
  fprintf(stderr, "wrong: %s; last message: %s\n", what, tenon_error());
  abort();
}

static void check(tenon_status_t status) {
  if (status == TENON_INTERNAL || (status != TENON_OK && !*tenon_error()))
    fail("a failure without a reason");
}

static void print_path(const char *name, char *out_path, size_t capacity) {
  snprintf(out_path, capacity, "%s/%s", folder, name);
}

static tenon_graph_t *read_again(const tenon_graph_t *graph, const char *path) {
  tenon_graph_t *read = NULL;
  const tenon_status_t status = tenon_graph_save(graph, path);
  check(status);
  if (status == TENON_OK && tenon_graph_load(path, NULL, &read) != TENON_OK)
    fail("the text of a graph cannot be read");
  return read;
}

/* Whether two files have the same lines after the first two, which name the file of weights. */
static bool is_same_text(const char *first, const char *second) {
  tn_file_t a;
  tn_file_t b;
  if (tn_file_map(first, &a) != TENON_OK || tn_file_map(second, &b) != TENON_OK) return false;
  const unsigned char *start_a = memchr(a.data + 14, '(', a.size - 14);
  const unsigned char *start_b = memchr(b.data + 14, '(', b.size - 14);
  const size_t size_a = a.size - (size_t)(start_a - a.data);
  const size_t size_b = b.size - (size_t)(start_b - b.data);
  const bool is_same = size_a == size_b && memcmp(start_a, start_b, size_a) == 0;
  tn_file_unmap(&a);
  tn_file_unmap(&b);
  return is_same;
}

static void check_again(const tenon_graph_t *graph) {
  char first[300];
  char second[300];
  print_path("first.graph", first, sizeof first);
  print_path("second.graph", second, sizeof second);
  tenon_graph_t *read = read_again(graph, first);
  tenon_graph_t *last = read ? read_again(read, second) : NULL;
  if (last && !is_same_text(first, second)) fail("a graph changed when it was written and read");
  tenon_graph_release(read);
  tenon_graph_release(last);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  char weights[300];
  tenon_graph_t *graph = NULL;
  start();
  const unsigned char *zero = size ? memchr(data, 0, size) : NULL;
  const size_t text_size = zero ? (size_t)(zero - data) : size;
  const size_t rest = zero ? size - text_size - 1 : 0;
  print_path("w.safetensors", weights, sizeof weights);
  if (tn_file_replace(weights, zero ? zero + 1 : data, rest, 0600) != TENON_OK) return 0;
  const uint32_t flags = size % 2 ? TENON_COMPILE_PLAIN : 0;
  const attempt_t a = attempt_model(data, text_size, folder, flags);
  if (a.wrong || a.is_fickle) fail(a.wrong ? a.wrong : "the same run ended in another way");
  if (!a.was_read) return 0;
  const tenon_import_t options = {.size = sizeof options, .folder = folder};
  if (tenon_graph_read(data, text_size, &options, &graph) != TENON_OK) return 0;
  check_again(graph);
  tenon_graph_release(graph);
  return 0;
}
