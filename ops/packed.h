/* Weights that a kernel packs when it is prepared, and that an artifact holds (docs/artifacts.md).
 * A kernel asks for the bytes that it packed when the artifact was written. Otherwise it packs as
 * usual, and says what it packed, in case an artifact is being written.
 * Invariant: the bytes are untrusted, and so is what is said about their layout; a kernel reads no
 * more of them than it would have packed. */
#ifndef TENON_OPS_PACKED_H
#define TENON_OPS_PACKED_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/op.h>

enum { PACKED_NOTES = 2 };

/* Bytes that a kernel packed. The notes mean something to the kernel alone. */
typedef struct packed_block_t {
  const void *data;
  uint64_t size;
  int64_t notes[PACKED_NOTES];
} packed_block_t;

/* Takes the next block of the node that is being prepared on this thread. `size_of` says how many
 * bytes there must be with these notes; 0: the notes are not possible. Returns: the bytes, which
 * live as long as the plan and are read-only; NULL: pack. */
const void *core_packed_take(uint64_t (*size_of)(void *context, const int64_t *notes),
                             void *context);
/* Says what was packed. The bytes must stay as long as the plan. */
void core_packed_keep(const void *data, uint64_t size, const int64_t *notes);

/* What the host connects when it starts. */
typedef struct packed_host_t {
  int (*take)(packed_block_t *out_block); /* 0: there is no block */
  void (*refuse)(void);                   /* the kernel cannot use the block that it took */
  void (*keep)(const packed_block_t *block);
} packed_host_t;
TENON_C void core_packed_connect(const packed_host_t *host);
/* What the layout of packed weights depends on, beside the node: versions and instruction sets. */
TENON_C void core_packed_describe(char *out_text, size_t capacity);

#endif
