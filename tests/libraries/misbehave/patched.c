/* Multiplies by the digit of a text that a test changes in the file. */
#include "misbehave.h"

static const volatile char factor[] = "FACTOR=2";

static tenon_status_t multiply(tenon_call_t *call) {
  const float *x = (const float *)call->inputs[0]->data;
  float *y = (float *)call->outputs[0]->data;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    y[i] = x[i] * (float)(factor[7] - '0');
  return TENON_OK;
}

MISBEHAVE(patched, multiply)
