/* An isolated library in the host: its descriptor, made of what its process says, and its
 * functions' stand-ins. */
#ifndef TN_ISOLATION_PROXY_H
#define TN_ISOLATION_PROXY_H

#include "base/arena.h"
#include "base/map.h"
#include "isolation/client.h"
#include "operator/op.h"

typedef struct tn_known_t { /* an operator and its number */
  const tenon_op_t *op;     /* atomic; NULL: free */
  uint32_t number;
} tn_known_t;

typedef struct tn_proxy_t {
  tn_client_t *client;
  tenon_descriptor_t descriptor;
  uint32_t op_count;
  uint32_t known_capacity; /* a power of two */
  tn_known_t *known;       /* by address; filled in as they are called */
  tn_map_t names;          /* number + 1 */
  tn_mutex_t lock;         /* of filling in */
  tn_arena_t arena;
} tn_proxy_t;

/* The stand-ins. */
tenon_status_t tn_proxy_run(tenon_call_t *call);
tenon_status_t tn_proxy_infer(tenon_infer_t *infer);
tenon_status_t tn_proxy_validate(tenon_node_t *node);
tenon_status_t tn_proxy_create(tenon_node_t *node);
void tn_proxy_destroy(void *state);

enum { TN_TRIES = 4 }; /* of a call that another one's fault ended */
/* Verb, operator, and its state (NULL: none) or its attributes.  A state of another operator
 * (`@state`) comes with both. */
tenon_status_t tn_proxy_arguments(tn_exchange_t *x, uint64_t verb, const tenon_op_t *op,
                                  uint32_t number, const tenon_value_t *attrs, void *state);
/* Reads the reply of run. */
tenon_status_t tn_proxy_results(tn_exchange_t *x, tenon_call_t *call);
tenon_status_t tn_proxy_nonsense(const tn_exchange_t *x, const char *what);

/* Fills in the descriptor from the client's description; what isolation does not serve is an error
 * that lists all of it. */
tenon_status_t tn_proxy_describe(tn_proxy_t *proxy);
/* The number of an operator of the library, or that it adds kernels to. */
tenon_status_t tn_proxy_number(tn_proxy_t *proxy, const tenon_op_t *op, uint32_t *out_number);
/* `size` bytes of the shared memory as a tensor's; they go back when it is released. */
tenon_status_t tn_proxy_block(tn_share_t *share, uint64_t offset, uint64_t size,
                              void **out_context);
void tn_proxy_block_release(void *context);

#endif
