/* The text of a fused kernel: the source kernels of several calls, each of which runs for one
 * element of its arguments, one after the other in one item. Values between them are variables of
 * the item. Called by graph/device_region.c. */
#ifndef TN_DEVICE_FUSED_H
#define TN_DEVICE_FUSED_H

#include <tenon/source.h>

#include "device/program.h"

enum {
  TN_FUSED_OPERANDS = 20, /* tensors that a fused kernel reads or writes at most */
  TN_FUSED_WALKED = 8,    /* of which so many are strided or broadcast */
};

/* Where an operand has the element for element i of the results. */
enum {
  TN_FUSED_DENSE, /* it is element i */
  TN_FUSED_ONE,   /* it has one element */
  TN_FUSED_WALK,  /* the kernel computes its position */
};

/* A value of the region. */
typedef struct tn_fused_value_t {
  tenon_dtype_t dtype;
  bool is_read;         /* an operand that the kernel reads */
  bool is_written;      /* a result that is stored */
  const void *constant; /* the element, if it is known; NULL: it is not */
} tn_fused_value_t;

/* An argument of a member's kernel: a value of the region or, if `value` is -1, some bytes. */
typedef struct tn_fused_argument_t {
  int32_t value;
  uint32_t size;
  const void *bytes;
} tn_fused_argument_t;

typedef struct tn_fused_member_t {
  const tenon_code_t *code;
  uint32_t kernel;
  const char *constants; /* NULL: none */
  uint32_t argument_count;
  const tn_fused_argument_t *arguments;
} tn_fused_member_t;

typedef struct tn_fused_t {
  const tn_fused_member_t *members;
  const tn_fused_value_t *values;
  int32_t member_count;
  int32_t value_count;
} tn_fused_t;

/* How the operands of a launch lie. It decides which kernel the launch needs. */
typedef struct tn_fused_layout_t {
  uint8_t ways[TN_FUSED_OPERANDS]; /* of the values that are read, in their order: TN_FUSED_... */
  uint8_t rank;                    /* of the walk; 0: nothing is walked */
  bool is_wide;                    /* positions need 64 bits */
} tn_fused_layout_t;

/* The last argument of a launch if anything is walked. */
typedef struct tn_fused_walk_t {
  int64_t count;
  int64_t shape[8];
  int64_t first[TN_FUSED_WALKED];
  int64_t strides[TN_FUSED_WALKED][8];
} tn_fused_walk_t;

/* The name of the kernel in the text. Its arguments are the values that are read, then those that
 * are written, then the number of elements (i64), or the first bytes of a walk. */
#define TN_FUSED_KERNEL "tenon_fused"
void tn_fused_text(uint32_t language, const tn_fused_t *fused, const tn_fused_layout_t *layout,
                   tn_text_t *text);
/* The bytes of a walk of so many operands. */
uint64_t tn_fused_walk_size(uint32_t operands);

#endif
