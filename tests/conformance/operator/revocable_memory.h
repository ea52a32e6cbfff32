/* Memory for the arguments of a call that is made inaccessible as a whole afterwards, so that code
 * which kept a pointer to it crashes. */
#ifndef CHECK_REVOCABLE_MEMORY_H
#define CHECK_REVOCABLE_MEMORY_H

#include "example.h"

typedef struct pages_t {
  char *base;
  size_t size;
  size_t used;
} pages_t;

bool pages_open(pages_t *pages, size_t size);
void *pages_take(pages_t *pages, size_t size); /* NULL: the pages are full */
void *pages_copy(pages_t *pages, const void *from, size_t size);
/* Makes the pages inaccessible. Their addresses are not reused until pages_close. */
void pages_lock(pages_t *pages);
void pages_close(pages_t *pages);
/* Opens pages with views of all inputs, and with results shaped like `outputs`; elements, extents
 * and the tensor structures lie in the pages. Returns false if the operator has arguments that
 * cannot lie there, such as lists. */
bool pages_place(const example_t *example, pages_t *pages, tenon_tensor_t *const *outputs,
                 tenon_tensor_t **out_inputs, tenon_tensor_t **out_outputs);

#endif
