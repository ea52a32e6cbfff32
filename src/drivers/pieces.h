/* Going over the arguments of a call of a loop kernel, piece by piece: which operands are passed as
 * they lie in memory, and which are packed into tiles in cache. The driver of single loops and that
 * of regions use it. Invariant: the kernel sees dense runs that do not overlap. */
#ifndef TN_DRIVERS_PIECES_H
#define TN_DRIVERS_PIECES_H

#include "drivers/iterator.h"

typedef struct tn_loop_operand_t {
  char *data;        /* NULL: absent */
  int64_t size;      /* bytes of an element in memory */
  int64_t loop_size; /* bytes of an element as the loop sees it */
  tenon_dtype_t dtype;
  tenon_dtype_t loop_dtype;
  bool is_output;
  bool converts;
  bool packs;             /* a tile is passed: the loop never sees the operand's memory */
  bool is_scalar;         /* one element serves for all */
  bool is_piece;          /* `data` holds the elements of the current piece only */
  int64_t repeats;        /* if is_piece: how many elements of the iteration have each element */
  const int64_t *strides; /* those of the iterator */
} tn_loop_operand_t;

/* A call of a loop kernel, and how its operands are passed. */
typedef struct tn_drive_t {
  tenon_call_t *call;
  const tn_kernel_t *kernel;
  const tenon_iterator_t *it;
  int64_t total;               /* number of elements */
  int64_t inner;               /* extent of the innermost axis */
  tn_loop_operand_t *operands; /* it->count of them */
} tn_drive_t;

/* Rows of an operand whose columns are adjacent in memory, copied to row-major order: pieces with
 * fewer rows than a cache line has elements would fetch each line again and again. */
typedef struct tn_band_t {
  char *memory;  /* NULL: the operand has none */
  int64_t rows;  /* of a band at most */
  int64_t begin; /* elements [begin, end) of the iteration are in memory */
  int64_t end;
} tn_band_t;

/* One thread's pass over the elements of a drive. */
typedef struct tn_pieces_t {
  const tn_drive_t *drive;
  int64_t begin; /* the elements of the pass: [begin, end) */
  int64_t end;
  int64_t most; /* elements of a piece at most */
  bool has_tiles;
  char **tiles;     /* of each operand; NULL: none */
  bool *is_filled;  /* of each operand: its tile holds the elements of every piece */
  bool *is_tried;   /* of each operand: `is_filled` is known */
  tn_band_t *bands; /* of each operand; NULL: no operand has any */
  char *spare;      /* a tile for conversions */
  void **data;
  int64_t *strides;
  tenon_loop_t loop;
} tn_pieces_t;

/* Describes the operands in scratch memory. The iterator must stay valid. */
tenon_status_t tn_drive_begin(tenon_call_t *call, const tn_kernel_t *kernel,
                              const tenon_iterator_t *it, tn_drive_t *out_drive);
/* Makes every operand a tile that is not one run of elements, so that pieces may span rows. Returns
 * whether any operand is a tile. */
bool tn_drive_flatten(tn_drive_t *drive);
/* Returns how many pieces of `most` elements a pass has at least, if an operand is transposed: a
 * pass that ends within a band reads its cache lines in part. 0: no operand is. */
int64_t tn_drive_bands(const tn_drive_t *drive, int64_t most);
/* Returns the argument of a loop function; the caller sets `count` and `first`. */
static inline tenon_loop_t tn_loop_argument(const tenon_call_t *call, const tn_kernel_t *kernel,
                                            void *const *data, const int64_t *strides) {
  return (tenon_loop_t){.size = sizeof(tenon_loop_t),
                        .phase = TENON_PHASE_LOOP,
                        .host = call->host,
                        .op = call->op,
                        .attrs = call->attrs,
                        .context = kernel->context,
                        .state = call->state,
                        .data = data,
                        .stride = strides,
                        .seed = call->random ? call->random->seed : 0,
                        .offset = call->random ? call->random->offset : 0};
}
/* Load or store elements [first, first + count) of an operand: between its memory and a tile of the
 * dtype that the loop sees. `spare` holds as many elements of either dtype. */
void tn_operand_load(const tn_drive_t *drive, const tn_loop_operand_t *operand, int64_t first,
                     int64_t count, char *tile, char *spare);
void tn_operand_store(const tn_drive_t *drive, const tn_loop_operand_t *operand, int64_t first,
                      int64_t count, char *tile, char *spare);
/* Begins a pass over elements [begin, end) with pieces of at most `most` elements. Pieces begin at
 * multiples of `most`. The drive was flattened. Its tiles are in scratch memory. */
tenon_status_t tn_pieces_begin(const tn_drive_t *drive, int64_t begin, int64_t end, int64_t most,
                               tn_pieces_t *out_pieces);
/* Sets `data` to what the loop gets for elements [first, first + count). */
void tn_pieces_load(tn_pieces_t *pieces, int64_t first, int64_t count);
/* Calls the loop for these elements. */
tenon_status_t tn_pieces_run(tn_pieces_t *pieces, int64_t first, int64_t count);

#endif
