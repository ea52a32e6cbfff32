/* A library that is loaded and unloaded while other threads call it. Its kernel writes the number
 * of the file that it was built into, and notices if it runs although its library was unloaded. */
#include <stdlib.h>
#include <tenon/op.h>

static volatile int is_gone;

static tenon_status_t open_library(tenon_node_t *node) {
  (void)node;
  /* If the system kept the library loaded, it still has the old value. */
  is_gone = 0;
  return TENON_OK;
}

static void close_library(void *state) {
  (void)state;
  is_gone = 1;
}

static tenon_status_t number(tenon_call_t *call) {
  int steps = 200 + (int)(*(const double *)
                               call->inputs[0]
                                   /* The run is long enough that an unload during it is noticed. */
                                   ->data);
  double *y = call->outputs[0]->data;
  for (int i = 0; i < 4; i++)
    y[i] = TEST_NUMBER;
  for (int i = 0; i < steps; i++)
    if (is_gone) abort();
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(retired, "0.1.0",
  TENON_OPEN(open_library, close_library),
  TENON_EXTEND("stressed::swapped", TENON_KERNEL("cpu", number)))
