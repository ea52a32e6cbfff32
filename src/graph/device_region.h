/* Regions on devices: pointwise nodes with source kernels on one device, which run as one kernel.
 * Each element of an operand is read once, the members' kernels run on variables of an item one
 * after the other, and only results that others read are stored. Regions are found when an
 * executable is compiled, for all shapes; a kernel is compiled when a run first needs it. */
#ifndef TN_GRAPH_DEVICE_REGION_H
#define TN_GRAPH_DEVICE_REGION_H

#include "base/text.h"
#include "device/fused.h"
#include "graph/executable.h"

/* A compiled form of a region, for operands that lie in these ways. */
typedef struct tn_device_layout_t {
  struct tn_device_layout_t *next;
  tn_fused_layout_t layout;
  tn_text_t text;
  tenon_code_t code;
  tenon_code_kernel_t kernel;
} tn_device_layout_t;

typedef struct tn_device_region_t {
  int32_t device_index;
  int32_t *nodes; /* members, in their order; the region runs in the place of the first one */
  const tn_kernel_t **kernels;
  int32_t *edges; /* of each value */
  int32_t ndim;   /* of the results */
  tn_fused_t fused;
  int32_t read_count;
  int32_t written_count;
  const char *label;
  /* The first node that reads the region's values and is no member (NULL: there is none), and why
   * it is none. */
  const char *next;
  const char *next_op;
  const char *reason;
  /* While the executable runs. */
  tn_mutex_t lock;
  tn_device_layout_t *layouts; /* atomic; newest first */
  uint64_t launches;           /* atomic */
  char *failure;               /* why its nodes run one by one; NULL: they do not. Atomic */
} tn_device_region_t;

/* Finds the regions of an executable that is not planned, which has been placed. */
tenon_status_t tn_device_regions_find(tenon_executable_t *executable);
void tn_device_regions_release(tn_device_regions_t *regions);
void tn_device_regions_print(const tenon_executable_t *executable, tn_text_t *text);

/* Runs a region. `inputs` are the values that it reads, in their order, on its device; `outputs`
 * receives those that others read. *out_ran is false if the nodes have to run one by one. */
tenon_status_t tn_device_region_run(const tenon_executable_t *executable,
                                    tn_device_region_t *region, tenon_tensor_t *const *inputs,
                                    tenon_tensor_t **outputs, bool *out_ran);

#endif
