/* Records what the library under test requests from the C library during a call: memory, threads,
 * files. The program's own malloc and similar functions take precedence over those of the C library
 * for all code of this process. */
#ifndef CHECK_INTERCEPT_H
#define CHECK_INTERCEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct request_place_t { /* one place in the library that makes requests */
  const char *what;              /* "malloc" */
  void *address;                 /* return address in the library */
  int64_t count;
  int64_t bytes; /* number of requests, and for memory the total bytes */
} request_place_t;
enum { REQUEST_PLACES_MOST = 64 };
/* Starts recording requests of the library. With `follows` it also records which memory blocks are
 * freed. */
void intercept_begin(bool follows);
void intercept_end(void);
int32_t intercept_requests(const request_place_t **out_places);
/* Number and bytes of the blocks that were requested since the start and not freed. out_address is
 * the place that requested the last of them. */
int64_t intercept_live(int64_t *out_bytes, void **out_address);

#endif
