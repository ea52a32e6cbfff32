/* Runs a SavedModel by TensorFlow's C library, without Python: deploy MODEL INPUT RESULT LIBRARY
 * [PLUGIN]. The file INPUT has rows of three floats. Without PLUGIN, the operators are registered
 * by tenon/tensorflow.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tensorflow.h>
#include <tensorflow/c/c_api.h>

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check(const char *what, const TF_Status *status) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

static void register_operators(const char *library, const char *plugin, TF_Status *status) {
  const char *error = NULL;
  if (!plugin) {
    if (tenon_tensorflow_load(library, &error) != TENON_OK) fail("tenon_tensorflow_load", error);
    return;
  }
  if (tenon_library_load(library, 0, NULL) != TENON_OK) fail("tenon_library_load", tenon_error());
  TF_LoadLibrary(plugin, status);
  check("TF_LoadLibrary", status);
}

static TF_Tensor *read_input(const char *path) {
  FILE *file = fopen(path, "rb");
  float rows[300];
  const size_t count = file ? fread(rows, sizeof *rows, 300, file) : 0;
  if (!count) fail(path, "no input");
  fclose(file);
  const int64_t dims[] = {(int64_t)(count / 3), 3};
  TF_Tensor *tensor = TF_AllocateTensor(TF_FLOAT, dims, 2, count * sizeof *rows);
  memcpy(TF_TensorData(tensor), rows, count * sizeof *rows);
  return tensor;
}

int main(int count, char **arguments) {
  const char *tags[] = {"serve"};
  if (count < 5) fail("deploy", "MODEL INPUT RESULT LIBRARY [PLUGIN]");
  TF_Status *status = TF_NewStatus();
  register_operators(arguments[4], count > 5 ? arguments[5] : NULL, status);
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session =
      TF_LoadSessionFromSavedModel(options, NULL, arguments[1], tags, 1, graph, NULL, status);
  check("TF_LoadSessionFromSavedModel", status);
  const TF_Output input = {TF_GraphOperationByName(graph, "serving_default_x"), 0};
  const TF_Output output = {TF_GraphOperationByName(graph, "StatefulPartitionedCall"), 0};
  if (!input.oper || !output.oper) fail(arguments[1], "the signature has other nodes");
  TF_Tensor *x = read_input(arguments[2]);
  TF_Tensor *y = NULL;
  TF_SessionRun(session, NULL, &input, &x, 1, &output, &y, 1, NULL, 0, NULL, status);
  check("TF_SessionRun", status);
  FILE *result = fopen(arguments[3], "wb");
  if (!result || !fwrite(TF_TensorData(y), TF_TensorByteSize(y), 1, result)) fail("result", "?");
  fclose(result);
  TF_DeleteTensor(x);
  TF_DeleteTensor(y);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
