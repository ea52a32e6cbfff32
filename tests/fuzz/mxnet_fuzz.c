/* MXNet's model files: any bytes give a graph that compiles, or are refused with a message. The
 * bytes before the first 0 are the symbol file, and the rest are the parameters. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/model.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void put(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static char folder[] = "/dev/shm/tenon-fuzz-XXXXXX";
  static char symbol[64], params[64];
  const unsigned char *zero = size ? memchr(data, 0, size) : NULL;
  size_t text = zero ? (size_t)(zero - data) : size;
  tenon_graph_t *graph = NULL;
  tenon_executable_t *executable = NULL;
  if (!*symbol) {
    if (!mkdtemp(folder)) abort();
    snprintf(symbol, sizeof symbol, "%s/n-symbol.json", folder);
    snprintf(params, sizeof params, "%s/n-0000.params", folder);
  }
  put(symbol, data, text);
  if (zero)
    put(params, zero + 1, size - text - 1);
  else
    unlink(params);
  if (mxnet_model_read(symbol, NULL, &graph) != TENON_OK) {
    if (!*tenon_error()) abort();
    return 0;
  }
  (void)tenon_executable_create(graph, NULL, &executable);
  tenon_executable_release(executable);
  tenon_graph_release(graph);
  return 0;
}
