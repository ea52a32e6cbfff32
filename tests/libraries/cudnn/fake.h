/* What a test sets in the fake cuDNN of fake.c, and what it reads from it. */
#ifndef TENON_TESTS_FAKE_CUDNN_H
#define TENON_TESTS_FAKE_CUDNN_H

#include "cuda/dnn.h"

enum {
  FAKE_NOT_SUPPORTED = 3000,
  FAKE_BAD_PARAM = 2000,
  FAKE_EXECUTION_FAILED = 5000,
};

typedef struct fake_cudnn_t {
  int proposed[DNN_CONVOLUTION_FWD_ALGO_COUNT];
  /* Proposed algorithms, the best one first; their math is the default one. */
  int proposed_count;
  cu_enum_t proposed_status[DNN_CONVOLUTION_FWD_ALGO_COUNT];
  size_t workspaces[DNN_CONVOLUTION_FWD_ALGO_COUNT];
  cu_result_t run_status[DNN_CONVOLUTION_FWD_ALGO_COUNT];
  cu_result_t fused_status;
  cu_result_t create_status;
  int creates;
  int heuristics;
  int sets;
  int transforms;
  int forwards;
  int fused;
  int adds;
  int activations;
  int last_algorithm; /* calls since the counters were set to 0 */
  int live;           /* live handles and descriptors */
  void *last_stream;
  const char *complaint; /* the first rule of the manual that was broken */
} fake_cudnn_t;

#endif
