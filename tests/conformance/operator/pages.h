/* pages.h: memory for the arguments of a call that is taken away as a whole afterwards: who still
 * has a pointer to it crashes. */
#ifndef CHECK_PAGES_H
#define CHECK_PAGES_H

#include "trial.h"

typedef struct pages_t {
  char *base;
  size_t size;
  size_t used;
} pages_t;

bool pages_open(pages_t *pages, size_t size);
void *pages_take(pages_t *pages, size_t size); /* NULL: there is no more */
void *pages_copy(pages_t *pages, const void *from, size_t size);
/* From here on nobody can read or write there, and nothing else comes to lie there. */
void pages_lock(pages_t *pages);
void pages_close(pages_t *pages);
/* Opens pages with views of all inputs, and with results like `outputs`: elements, extents and the
 * structures themselves. False: it takes or gives what cannot lie there. */
bool pages_place(const trial_t *trial, pages_t *pages, tenon_tensor_t *const *outputs,
                 tenon_tensor_t **out_inputs, tenon_tensor_t **out_outputs);

#endif
