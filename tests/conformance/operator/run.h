/* Runs one call of an example in a special way: with a given memory layout of its arguments, and
 * given initial contents of its results. */
#ifndef CHECK_RUN_H
#define CHECK_RUN_H

#include "example.h"

enum { /* Memory layout of an input. */
       LAYOUT_DENSE,
       LAYOUT_GAPS,         /* every second element */
       LAYOUT_REVERSED,     /* last axis reversed */
       LAYOUT_TRANSPOSED,   /* axes in reverse order */
       LAYOUT_UNALIGNED,    /* one element after an aligned address */
       LAYOUT_OFFSET,       /* 48 bytes after the start of its allocation */
       LAYOUT_ZERO_STRIDES, /* extents of 1 get a stride of 0 */
};
enum { /* Location of the arguments' memory. */
       AT_HEAP,
       AT_HEAD, /* begins right after an inaccessible page */
       AT_TAIL, /* ends right before an inaccessible page */
};

typedef struct way_t {
  uint8_t layout;
  uint8_t place;
  uint64_t which; /* bit i: input i has this layout; 0: all inputs */
  uint8_t poison; /* byte that results are filled with before the call */
  /* The caller provides the results where their shapes are known in advance; else the host
   * allocates them. */
  bool provides_outputs;
  bool outputs_have_layout;   /* provided results have the layout of the inputs */
  bool uses_op_run;           /* calls tenon_op_run, without inference */
  const tenon_value_t *attrs; /* replaces the example's attributes */
  bool no_attrs;              /* passes no attributes, so that defaults apply */
  uint64_t wanted;            /* bit o: result o is wanted; 0: all */
  const tenon_op_t *op;       /* replaces the example's operator; NULL: its own */
  /* Id of a crash that does not touch guarded memory; NULL: the check's own id. */
  const char *crash_id;
  uint8_t inside;    /* byte that workspaces and temporaries are filled with */
  bool is_unguarded; /* workspaces and temporaries are the host's own, without guards */
} way_t;

typedef struct ran_t { /* the outcome of a call */
  tenon_status_t status;
  char error[512];
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS]; /* dense copies; NULL: no result */
  tenon_tensor_t *written[EXAMPLE_ARGUMENTS]; /* inputs that the call writes to, after the call */
  uint64_t outputs_given;
} ran_t;

/* Runs the call. What no kernel may do in any case (writes outside its memory, modified inputs or
 * attributes) is reported as a finding at once. */
void run_way(example_t *example, const way_t *way, ran_t *out_ran);
/* Whether the plain call of the first example succeeds. */
bool plain_works(const subject_t *subject);
void ran_free(ran_t *ran);
/* Runs the plain call: dense tensors on the heap. */
void run_plainly(example_t *example, ran_t *out_ran);
/* Runs the call and compares it with `expected`. A difference is reported as a finding of `id` with
 * the advice. Returns true if they agree. */
bool run_and_compare(example_t *example, const way_t *way, const ran_t *expected, const char *id,
                     const char *what, const char *advice);
/* Compares results. Returns NULL if they agree, else a text that is valid until the next call. */
const char *ran_differs(const example_t *example, const ran_t *expected, const ran_t *found,
                        double tolerance);
/* Compares two dense tensors. `tolerance` is a factor on the usual tolerance of the dtype; 0:
 * exactly. */
const char *tensor_differs(const char *name, const tenon_tensor_t *expected,
                           const tenon_tensor_t *found, double tolerance);
/* A dense copy of any tensor. */
tenon_tensor_t *tensor_dense(const tenon_tensor_t *tensor);

#endif
