/* run.h: one call of a trial, run in a special way: where its arguments lie and how, what its
 * results were full of before. */
#ifndef CHECK_RUN_H
#define CHECK_RUN_H

#include "trial.h"

enum { /* how an input lies */
       LIE_DENSE,
       LIE_GAPS,      /* every second element */
       LIE_REVERSED,  /* the last axis backwards */
       LIE_TURNED,    /* axes in the other order */
       LIE_UNALIGNED, /* one element behind an aligned address */
       LIE_OFFSET,    /* 48 bytes behind the beginning of its memory */
       /* extents of 1 with a stride of 0, and the first axis repeated where that is what it
        * holds */
       LIE_SPREAD,
};
enum { /* where memory of arguments is */
       AT_HEAP,
       AT_HEAD, /* begins where a page that nobody may touch ends */
       AT_TAIL, /* ends where one begins */
};

typedef struct way_t {
  uint8_t lie;
  uint8_t place;
  uint64_t which; /* bits of the inputs that lie so; 0: all */
  uint8_t poison; /* what results are full of before */
  bool
      gives; /* results are given (where their shapes are known before), else the host makes them */
  bool lies_given;            /* given results lie as inputs do */
  bool by_run;                /* tenon_op_run: no inference */
  const tenon_value_t *attrs; /* in place of the trial's */
  bool no_attrs;              /* none: defaults */
  uint64_t wanted;            /* bits of results, 0: all */
  const tenon_op_t *op;       /* in place of the trial's, NULL: its own */
  const char *crash_id; /* of a crash that is no touch of guarded memory; NULL: the check's own */
  uint8_t inside;       /* what workspaces and temporaries are full of */
  bool bare;            /* the host's own memory for workspaces and temporaries */
} way_t;

typedef struct ran_t { /* what came of it */
  tenon_status_t status;
  char error[512];
  tenon_tensor_t *outputs[TRIAL_ARGUMENTS]; /* dense copies; NULL: there is none */
  tenon_tensor_t *written[TRIAL_ARGUMENTS]; /* inputs that are written to, afterwards */
  uint64_t outputs_given;
} ran_t;

/* Runs it.  What a kernel may not do in any way (writes outside, changed inputs, changed
 * attributes) is a finding at once. */
void run_way(trial_t *trial, const way_t *way, ran_t *out_ran);
/* Does the plain call of the first sample succeed? */
bool plain_works(const subject_t *subject);
void ran_free(ran_t *ran);
/* The plain call, dense and from the heap. */
void run_plainly(trial_t *trial, ran_t *out_ran);
/* Runs it so and compares with `expected`; what differs is a finding of `id` with that advice.
 * True: fine. */
bool run_and_compare(trial_t *trial, const way_t *way, const ran_t *expected, const char *id,
                     const char *what, const char *advice);
/* Compares results; NULL: they agree, else a text that lasts until the next call. */
const char *ran_differs(const trial_t *trial, const ran_t *expected, const ran_t *found,
                        double tolerance);
/* The same of two dense tensors.  tolerance: how many times what is usual for the dtype; 0:
 * exactly. */
const char *tensor_differs(const char *name, const tenon_tensor_t *expected,
                           const tenon_tensor_t *found, double tolerance);
/* A dense copy of any tensor. */
tenon_tensor_t *tensor_dense(const tenon_tensor_t *tensor);

#endif
