/* An isolated library in the host: a descriptor made from what its worker process declares, with
 * functions that forward each call. */
#ifndef TN_ISOLATION_PROXY_H
#define TN_ISOLATION_PROXY_H

#include "base/arena.h"
#include "base/map.h"
#include "isolation/client.h"
#include "operator/op.h"

/* An operator and its number in messages. */
typedef struct tn_known_t {
  const tenon_op_t *op; /* atomic; NULL: free */
  uint32_t number;
} tn_known_t;

typedef struct tn_proxy_t {
  tn_client_t *client;
  tenon_descriptor_t descriptor;
  uint32_t op_count;
  uint32_t known_capacity; /* a power of two */
  tn_known_t *known;       /* hash table by address, filled by the first call of each operator */
  tn_map_t names;          /* from name to number + 1 */
  tn_mutex_t lock;         /* protects insertion into `known` */
  tn_arena_t arena;
} tn_proxy_t;

/* The functions of the descriptor. */
tenon_status_t tn_proxy_run(tenon_call_t *call);
tenon_status_t tn_proxy_infer(tenon_infer_t *infer);
tenon_status_t tn_proxy_validate(tenon_node_t *node);
tenon_status_t tn_proxy_create(tenon_node_t *node);
void tn_proxy_destroy(void *state);

/* How often a call is made that ended because of another call. */
enum { TN_TRIES = 4 };
/* Writes the verb, the operator, and its state (NULL: none) or its attributes. The state of another
 * operator (`@state`) is sent together with the attributes. */
tenon_status_t tn_proxy_arguments(tn_exchange_t *x, uint64_t verb, const tenon_op_t *op,
                                  uint32_t number, const tenon_value_t *attrs, void *state);
/* Reads the reply of run and places the results. */
tenon_status_t tn_proxy_results(tn_exchange_t *x, tenon_call_t *call);

/* Fills the descriptor from the client's description. An error lists everything in it that
 * isolation does not support. */
tenon_status_t tn_proxy_describe(tn_proxy_t *proxy);
/* Finds the number of an operator that the library declares or extends. */
tenon_status_t tn_proxy_number(tn_proxy_t *proxy, const tenon_op_t *op, uint32_t *out_number);
/* Creates the owner of `size` bytes of shared memory at `offset`. Releasing it frees the memory. */
tenon_status_t tn_proxy_block(tn_share_t *share, uint64_t offset, uint64_t size,
                              void **out_context);
void tn_proxy_block_release(void *context);

#endif
