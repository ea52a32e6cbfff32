/* intercept.h: what the library under test asks of the C library itself while it is in a call:
 * memory, threads, files.  Our malloc and its like stand before the C library's for all code of
 * this process. */
#ifndef CHECK_INTERCEPT_H
#define CHECK_INTERCEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct asked_t { /* one place that asks */
  const char *what;      /* "malloc" */
  void *address;         /* in the library */
  int64_t count;
  int64_t bytes; /* times; of memory, of all */
} asked_t;
enum { ASKED_MOST = 64 };
/* From here on what is asked inside of the library is written down; `follows`: and which of it is
 * freed again. */
void intercept_begin(bool follows);
void intercept_end(void);
int32_t intercept_asked(const asked_t **out_places);
/* Blocks and bytes that were asked for since the beginning and are not freed yet; out_address: who
 * asked for the last of them. */
int64_t intercept_live(int64_t *out_bytes, void **out_address);

#endif
