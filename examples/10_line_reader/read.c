/* Reads pictures of lines, against tenon/tenon.h alone. Usage: read MODEL LIBRARY PICTURE... It
 * prints the text of each picture. The model is compiled once and takes pictures of any width. An
 * error in one picture is reported, and the others are still read. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

enum { OUTPUTS_MAX = 8 };

/* Returns which output of the model is `text`; -1: there is none, or the model has other inputs
 * besides a picture. */
static int32_t text_of(const tenon_graph_t *graph) {
  tenon_port_t port = {.size = sizeof port};
  if (tenon_graph_input_count(graph) != 1 || tenon_graph_output_count(graph) > OUTPUTS_MAX)
    return -1;
  for (int32_t i = 0; i < tenon_graph_output_count(graph); i++)
    if (tenon_graph_output(graph, i, &port) == TENON_OK && !strcmp(port.name, "text") &&
        tenon_dtype_id(port.dtype) == TENON_STRING)
      return i;
  return -1;
}

static tenon_status_t read_line(tenon_executable_t *model, int32_t text, tenon_tensor_t *picture) {
  tenon_tensor_t *outputs[OUTPUTS_MAX] = {NULL};
  TENON_TRY(tenon_executable_run(model, &picture, outputs, NULL));
  for (int64_t i = 0; i < tenon_count(outputs[text]); i++) {
    const tenon_string_t *line = (const tenon_string_t *)outputs[text]->data + i;
    printf("%.*s\n", (int)line->size, line->data);
  }
  for (int i = 0; i < OUTPUTS_MAX; i++)
    tenon_tensor_release(outputs[i]);
  return TENON_OK;
}

int main(int argc, char **argv) {
  tenon_graph_t *graph = NULL;
  tenon_executable_t *model = NULL;
  int32_t text = -1;
  int failed = 0;
  if (argc < 4) {
    fprintf(stderr, "usage: read MODEL LIBRARY PICTURE...\n");
    return 2;
  }
  if (tenon_library_load(argv[2], 0, NULL) || tenon_graph_load(argv[1], NULL, &graph) ||
      tenon_executable_create(graph, NULL, &model)) {
    fprintf(stderr, "read: %s\n", tenon_error());
    failed = 1;
  } else if ((text = text_of(graph)) < 0) {
    fprintf(stderr,
            "read: %s is not a model with one input (a picture) and an output `text` of strings\n",
            argv[1]);
    failed = 1;
  }
  for (int i = 3; i < argc && text >= 0; i++) {
    tenon_tensor_t *picture = NULL;
    if (tenon_tensor_load(argv[i], &picture)) {
      fprintf(stderr, "read: %s\n", tenon_error());
      failed = 1;
    } else if (read_line(model, text, picture)) {
      fprintf(stderr, "read: %s: %s\n", argv[i], tenon_error());
      failed = 1;
    }
    tenon_tensor_release(picture);
  }
  tenon_executable_release(model);
  tenon_graph_release(graph);
  tenon_shutdown();
  return failed;
}
