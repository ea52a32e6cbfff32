/* A prepared call: the operator, its attributes, and which operand belongs to which argument. It is
 * made from the text that the custom call carries, and stays until the process ends. */
#ifndef BRIDGES_JAX_CALL_H
#define BRIDGES_JAX_CALL_H

#include <stdbool.h>
#include <string.h>
#include <tenon/tenon.h>

#include "common/model.h"
#include "xla.h"

enum {
  CALL_MOST = 64,         /* arguments, and results, of an operator */
  CALL_TENSORS_MOST = 256 /* operands, and results, of a custom call; items of lists count */
};

/* What becomes of a result of the operator. */
enum {
  RESULT_GIVEN = 0,    /* the operator writes to XLA's buffer */
  RESULT_COPIED = 1,   /* the operator allocates it; its elements are copied to XLA's buffers */
  RESULT_PADDED = 2,   /* as COPIED; the buffer is larger, and another buffer receives the shape */
  RESULT_UNWANTED = 3, /* optional, and not requested */
  RESULT_WRITTEN = 4   /* it is an argument that the operator writes to */
};

typedef struct call_t {
  struct call_t *next;  /* the list of all prepared calls */
  const tenon_op_t *op; /* NULL: the call runs a model */
  model_t model;        /* The inputs of a model are one list of tensors. */
  tenon_attrs_t *attrs;
  tenon_value_t values[CALL_MOST]; /* arguments as tenon_op_call_values takes them; only those of
                                    * attributes are set */
  int32_t counts[CALL_MOST];       /* operands of each input; -1: the input is absent */
  bool is_list[CALL_MOST];
  uint8_t results[CALL_MOST]; /* RESULT_... */
  uint32_t input_count;
  uint32_t value_count;
  uint32_t output_count;
  uint64_t wanted;    /* as for tenon_op_call */
  uint64_t written;   /* bit i: the operator writes to input i */
  uint64_t host;      /* bit i: the host reads input i (`@host`) */
  uint64_t given;     /* gradients: the results that have one; 0: this is no gradient */
  uint64_t requested; /* gradients: the inputs that get one */
  bool
      is_forward; /* tangents of the inputs in `requested` become those of the results in `given` */
  bool is_random; /* the last operand is the key */
  bool keeps;     /* the call may keep its arguments, as views and tapes do */
  bool has_fixed_shapes;  /* shapes and dtypes determine those of the results */
  bool is_plain;          /* single tensors only, and every result is RESULT_GIVEN */
  uint32_t operand_count; /* operands of the inputs */
  /* XLA's dtypes of the operands, a byte for each, with which the call was found to be capturable;
   * 0: none. Atomic. */
  uint64_t captured;
  size_t size; /* of the text, without the zero byte */
  char text[];
} call_t;

static inline bool call_has_text(const call_t *call, const char *text, size_t size) {
  return call->size == size && memcmp(call->text, text, size) == 0;
}

/* Finds or makes the prepared call of a text, which may end without a zero byte. */
tenon_status_t call_prepare(const char *text, size_t size, const call_t **out_call);

const char *call_name(const call_t *call); /* for messages */

tenon_dtype_t call_dtype(int32_t xla_dtype); /* of a buffer that was checked */
/* Returns false if XLA's dtype has no counterpart. */
bool call_dtype_of(const xla_buffer_t *buffer, tenon_dtype_t *out_dtype);
/* Returns the address of a buffer's elements. XLA may pass NULL for a buffer without elements. */
static inline void *call_data(const xla_buffer_t *buffer) {
  static _Alignas(64) char no_elements[64];
  return buffer->data ? buffer->data : no_elements;
}
/* Maps tangents of the requested inputs to tangents of the given results.
 *
 * Arguments: `values`: the arguments, whose tensors the host owns. `tangents`: one for each operand
 * of the requested inputs. `zeros`: one of the dtype, shape and device of each given result; items
 * of lists count.
 * Returns: out_tangents[k], NULL where the result does not depend on the inputs.
 * Ownership: the caller releases out_tangents[k], also after an error. */
tenon_status_t call_tangents(const call_t *call, const tenon_value_t *values,
                             tenon_tensor_t *const *tangents, int32_t tangent_count,
                             tenon_tensor_t *const *zeros, tenon_tensor_t **out_tangents,
                             int32_t count);

/* Lets parallel loops of this thread use XLA's threads until call_leave_threads. */
typedef struct call_threads_t {
  tenon_thread_pool_t pool;
  const tenon_thread_pool_t *before;
} call_threads_t;
void call_enter_threads(call_threads_t *threads, const xla_frame_t *frame);
void call_leave_threads(const call_threads_t *threads);

#endif
