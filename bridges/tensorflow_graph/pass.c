/* The graph pass: TensorFlow calls it for each graph with nodes on the CPU. Groups of pointwise
 * nodes become nodes that Tenon compiles. Whatever goes wrong, the graph stays as it was. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tensorflow.h>

#include "graph.h"
#include "grappler.h"
#include "tf.h"

#define EXPORT __attribute__((visibility("default")))

enum { REPORT_MOST = 64 * 1024 };

static void (*list_size)(const tf_item_t *, int *out_count, size_t *out_size, tf_status_t *);
static void (*list_names)(const tf_item_t *, char **names, size_t *sizes, int count, void *storage,
                          size_t storage_size, tf_status_t *);

/* ---- the report ------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char report[REPORT_MOST];
static size_t report_size;

/* Adds a line, and prints it if TENON_TENSORFLOW_GRAPHS is set. A report that is full keeps its
 * first lines. */
static void add_report_line(const char *line) {
  pthread_mutex_lock(&lock);
  const size_t size = strlen(line);
  if (size < REPORT_MOST - report_size) {
    memcpy(report + report_size, line, size + 1);
    report_size += size;
  }
  pthread_mutex_unlock(&lock);
  if (secure_getenv("TENON_TENSORFLOW_GRAPHS")) fprintf(stderr, "tenon: %s", line);
}

/* Returns the report: a line for each graph, since the last call with `clears`. For Python, which
 * calls it with its interpreter lock. */
EXPORT const char *tenon_tensorflow_graph_report(int32_t clears);
EXPORT const char *tenon_tensorflow_graph_report(int32_t clears) {
  static char text[REPORT_MOST];
  pthread_mutex_lock(&lock);
  memcpy(text, report, report_size + 1);
  if (clears) report_size = 0;
  report[report_size] = 0;
  pthread_mutex_unlock(&lock);
  return text;
}

static void report_graph(const graph_t *graph) {
  char line[400];
  int32_t taken = 0;
  int32_t groups = 0;
  int32_t given_up = 0;
  int32_t alone = 0;
  for (int32_t g = 0; g < graph->group_count; g++) {
    if (graph->groups[g].text) taken += graph->groups[g].node_count;
    groups += graph->groups[g].text != NULL;
    given_up += !graph->groups[g].text && graph->groups[g].node_count > 1;
    alone += graph->groups[g].node_count == 1;
  }
  if (graph->why)
    snprintf(line, sizeof line, "graph of %d nodes: took nothing: %s\n", graph->node_count,
             graph->why);
  else
    snprintf(
        line, sizeof line,
        "graph of %d nodes: took %d in %d groups; left %d alone in their group, %d groups that "
        "Tenon refused, and %d that are not pointwise\n",
        graph->node_count, taken, groups, alone, given_up, graph->node_count - taken - alone);
  add_report_line(line);
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* Marks the nodes that TensorFlow fetches or needs by their names. Returns false if it does not say
 * which. */
static bool keep_nodes(graph_t *graph, const tf_item_t *item, tf_status_t *status) {
  int count = 0;
  size_t size = 0;
  list_size(item, &count, &size, status);
  if (tf.TF_GetCode(status) != TF_OK || count < 0) return false;
  char **names = calloc((size_t)count + 1, sizeof *names);
  size_t *sizes = calloc((size_t)count + 1, sizeof *sizes);
  char *storage = malloc(size + 1);
  const bool has_memory = names && sizes && storage;
  if (has_memory) list_names(item, names, sizes, count, storage, size, status);
  const bool is_good = has_memory && tf.TF_GetCode(status) == TF_OK;
  for (int i = 0; is_good && i < count; i++) {
    const int32_t node = graph_find(graph, (bytes_t){names[i], sizes[i]});
    if (node >= 0) graph->nodes[node].is_kept = true;
  }
  free(names);
  free(sizes);
  free(storage);
  return is_good;
}

/* Transforms a graph. Returns false if the graph stays as it is. */
static bool transform(bytes_t in, const tf_item_t *item, message_t *out, tf_status_t *status) {
  graph_t graph;
  bool is_changed = false;
  if (graph_read(&graph, in)) {
    if (!graph.why && !keep_nodes(&graph, item, status))
      graph.why = "TensorFlow does not say which nodes it needs";
    if (!graph.why) groups_find(&graph);
    for (int32_t g = 0; g < graph.group_count; g++)
      is_changed = is_changed || graph.groups[g].text;
    if (is_changed) graph_write(&graph, out);
    report_graph(&graph);
  }
  graph_free(&graph);
  return is_changed && !out->is_failed;
}

static void release_message(void *data, size_t size) {
  (void)size;
  free(data);
}

static void optimize(void *optimizer, const tf_buffer_t *in, const tf_item_t *item,
                     tf_buffer_t *out, tf_status_t *status) {
  message_t made = {NULL, 0, 0, false};
  const bytes_t message = {in->data, in->size};
  (void)optimizer;
  if (!transform(message, item, &made, status)) {
    made.size = 0;
    made.is_failed = false;
    message_append(&made, message);
  }
  *out = (tf_buffer_t){made.data, made.size, release_message};
  tf.TF_SetStatus(status, TF_OK, "");
  if (made.is_failed) tf.TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory: a graph");
}

static void *create_optimizer(void) { return &lock; }
static void destroy_optimizer(void *optimizer) { (void)optimizer; }

static tenon_status_t start_pass(const grappler_t *call) {
  const char *error = NULL;
  *(void **)&list_size = tf_find("TF_GetNodesToPreserveListSize");
  *(void **)&list_names = tf_find("TF_GetNodesToPreserveList");
  if (call->major != GRAPPLER_MAJOR || !list_size || !list_names)
    return tenon_error_set(TENON_PRECONDITION,
                           "this TensorFlow has another interface for graph passes: use "
                           "TensorFlow 2.21");
  const tenon_status_t status = tenon_tensorflow_register("core", NULL, &error);
  return status == TENON_OK ? status : tenon_error_set(status, error);
}

/* TensorFlow calls it when it loads the library. */
EXPORT void TF_InitGraph(grappler_t *call, tf_status_t *status);
EXPORT void TF_InitGraph(grappler_t *call, tf_status_t *status) {
  char error[600];
  if (!tf_open(error, sizeof error)) { /* Without its functions, no status can be set. */
    fprintf(stderr, "tenon: %s\n", error);
    return;
  }
  const tenon_status_t result = start_pass(call);
  call->size = GRAPPLER_SIZE(grappler_t, optimizer);
  call->configs->size = GRAPPLER_SIZE(grappler_configs_t, settings);
  *call->optimizer = (grappler_optimizer_t){.size = GRAPPLER_SIZE(grappler_optimizer_t, destroy),
                                            .create = create_optimizer,
                                            .optimize = optimize,
                                            .destroy = destroy_optimizer};
  call->type = "CPU";
  tf.TF_SetStatus(status, result, result == TENON_OK ? "" : tenon_error());
}
