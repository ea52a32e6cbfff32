/* Messages between the host and an isolated library's process: numbers of 8 bytes and runs of
 * bytes, in order.  Written by one side, read by the other.  Invariant: a reader never looks past
 * its bytes, and what a malformed message gives is 0 and `failed`. */
#ifndef TN_ISOLATION_WIRE_H
#define TN_ISOLATION_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/op.h>

typedef struct tn_wire_t {
  unsigned char *data;
  uint64_t size; /* bytes of room to write to, or of the message */
  uint64_t at;
  bool failed; /* it did not fit, or it was not what was expected */
} tn_wire_t;

static inline tn_wire_t tn_wire(void *data, uint64_t size) {
  return (tn_wire_t){data, size, 0, false};
}

/* The place of that many bytes, which are passed; NULL: there are not so many.  What follows is
 * aligned to 8. */
void *tn_wire_take(tn_wire_t *wire, uint64_t size);
void tn_put(tn_wire_t *wire, uint64_t number);
void tn_put_bytes(tn_wire_t *wire, const void *data,
                  uint64_t size);                    /* with their number in front */
void tn_put_text(tn_wire_t *wire, const char *text); /* NULL is told from "" */
void tn_put_numbers(tn_wire_t *wire, const void *data,
                    uint64_t count); /* of 8 bytes each, without their number */
uint64_t tn_get(tn_wire_t *wire);
int64_t tn_get_between(tn_wire_t *wire, int64_t least,
                       int64_t most); /* else it fails, and gives `least` */
const void *tn_get_bytes(tn_wire_t *wire, uint64_t *out_size); /* where they lie in the message */
const char *tn_get_text(tn_wire_t *wire); /* the same; it ends with 0.  NULL: none */
const void *tn_get_numbers(tn_wire_t *wire, uint64_t count);

#endif
