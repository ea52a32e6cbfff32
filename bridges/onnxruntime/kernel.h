/* Kernels: objects that a library creates for a node, and the state of an operator, which holds
 * them. */
#ifndef BRIDGES_ONNXRUNTIME_KERNEL_H
#define BRIDGES_ONNXRUNTIME_KERNEL_H

#include <pthread.h>

#include "info.h"
#include "operator.h"

typedef struct kernel_t {
  struct kernel_t *next;
  const overload_t *overload;
  void *object; /* of the library */
  OrtKernelInfo *info;
  /* the calls that it serves */
  uint64_t wanted; /* bit i: the node has result i */
  uint32_t in_count;
  uint32_t out_count;
  uint8_t elements[]; /* of the inputs; UNDEFINED: absent */
} kernel_t;

/* The kernels of an operator with its attributes. They are added as calls need them. */
typedef struct state_t {
  const operator_t *op;
  const tenon_value_t *attributes;
  pthread_mutex_t lock; /* held while a kernel is created */
  kernel_t *kernels;    /* atomic; the newest first */
} state_t;

/* The inputs and results of a call, in the order in which the library counts them. */
typedef struct signature_t {
  const uint8_t *elements;
  uint32_t in_count;
  uint32_t out_count;
  uint64_t wanted;
} signature_t;

tenon_status_t state_create(tenon_node_t *node);
void state_destroy(void *state);
/* Finds the kernel for a call, or creates it. Returns NULL with the reason in `why`.
 * Threads: any; a kernel that exists is found without a lock. */
const kernel_t *state_kernel(state_t *state, const signature_t *signature, char *why,
                             size_t capacity);
/* Creates the kernel of a node of a graph, with the shapes and the constants that are known. */
tenon_status_t kernel_prepare(tenon_node_t *node);
void kernel_release(void *kernel);

#endif
