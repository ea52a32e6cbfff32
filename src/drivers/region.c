/* Runs regions of loop kernels, see region.h. */
#include "drivers/region.h"

#include <tenon/tenon.h>

#include "base/parallel.h"
#include "base/reason.h"
#include "base/scratch.h"
#include "base/status.h"
#include "drivers/pieces.h"

enum {
  WHOLE = 8192,  /* elements up to which it costs more to make pieces than they save */
  GRAIN = 32768, /* calls of loops for an element each that are worth a thread */
};

typedef struct pass_t {
  const tn_region_t *region;
  const tn_drive_t *drives; /* of each member */
} pass_t;

static tenon_status_t explain(const tn_region_member_t *member, tenon_status_t status,
                              uint64_t errors) {
  const tenon_op_t *op = member->frame.call.op;
  if (status == TENON_OK) return status;
  status = tn_reason_complete(status, errors, op->name, "kernel");
  return tn_prefix(status, "node '%s' (%s): ", member->node, op->name);
}

/* Gives each value in a tile its place in scratch memory. */
static tenon_status_t place_tiles(const tn_region_t *region, int64_t count, char ***out_tiles) {
  char **tiles = tn_scratch(((size_t)region->tile_count + 1) * sizeof *tiles);
  for (int32_t k = 0; tiles && k < region->tile_count; k++)
    if (!(tiles[k] = tn_scratch((size_t)(count * region->tile_size[k])))) tiles = NULL;
  *out_tiles = tiles;
  return tiles ? TENON_OK : tn_no_memory("a region", (size_t)count);
}

/* Few elements: each member runs as it would alone, on whole values in scratch memory. */
static tenon_status_t run_whole(tn_region_t *region) {
  char **tiles;
  TN_TRY(place_tiles(region, region->total, &tiles));
  for (int32_t m = 0; m < region->count; m++) {
    tn_region_member_t *member = &region->members[m];
    tenon_call_t *call = &member->frame.call;
    const uint32_t inputs = call->op->input_count;
    for (uint32_t i = 0; i < inputs + call->op->output_count; i++)
      if (member->tiles[i] >= 0)
        (i < inputs ? call->inputs[i] : call->outputs[i - inputs])->data = tiles[member->tiles[i]];
    const uint64_t errors = tn_error_count();
    tenon_status_t status = member->frame.kernel->run(call);
    if (member->frame.temporaries) tn_frame_clean(&member->frame);
    TN_TRY(explain(member, status, errors));
  }
  return TENON_OK;
}

/* Copies the operands of each member, with the tiles of this thread. */
static tenon_status_t begin_members(const pass_t *pass, int64_t begin, int64_t end,
                                    char *const *tiles, tn_drive_t *drives, tn_pieces_t *pieces) {
  for (int32_t m = 0; m < pass->region->count; m++) {
    const tn_drive_t *from = &pass->drives[m];
    const int32_t *member_tiles = pass->region->members[m].tiles;
    drives[m] = *from;
    drives[m].operands = tn_scratch(from->it->count * sizeof *from->operands);
    if (!drives[m].operands) return tn_no_memory("a region", 0);
    for (uint32_t i = 0; i < from->it->count; i++) {
      drives[m].operands[i] = from->operands[i];
      if (member_tiles[i] >= 0) drives[m].operands[i].data = tiles[member_tiles[i]];
    }
    TN_TRY(tn_pieces_begin(&drives[m], begin, end, pass->region->piece, &pieces[m]));
  }
  return TENON_OK;
}

static tenon_status_t run_pieces(const pass_t *pass, int64_t begin, int64_t end) {
  const tn_region_t *region = pass->region;
  const size_t count = (size_t)region->count;
  char **tiles;
  tn_drive_t *drives = tn_scratch(count * sizeof *drives);
  tn_pieces_t *pieces = tn_scratch(count * sizeof *pieces);
  if (!drives || !pieces) return tn_no_memory("a region", count * sizeof *pieces);
  TN_TRY(place_tiles(region, region->piece, &tiles));
  TN_TRY(begin_members(pass, begin, end, tiles, drives, pieces));
  for (int64_t at = begin; at < end; at += region->piece) {
    const int64_t length = end - at < region->piece ? end - at : region->piece;
    for (size_t m = 0; m < count; m++) {
      const uint64_t errors = tn_error_count();
      tenon_status_t status = tn_pieces_run(&pieces[m], at, length);
      if (__builtin_expect(status != TENON_OK, 0))
        return explain(&region->members[m], status, errors);
    }
  }
  return TENON_OK;
}

static tenon_status_t run_pieces_part(void *argument, int64_t begin, int64_t end) {
  const pass_t *pass = argument;
  const int64_t piece = pass->region->piece;
  const int64_t total = pass->region->total;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status =
      run_pieces(pass, begin * piece, end * piece < total ? end * piece : total);
  tn_scratch_reset(mark);
  return status;
}

static tenon_status_t run_parts(tn_region_t *region) {
  const size_t count = (size_t)region->count;
  tn_drive_t *drives = tn_scratch(count * sizeof *drives);
  tenon_iterator_t *iterators = tn_scratch(count * sizeof *iterators);
  if (!drives || !iterators) return tn_no_memory("a region", count * sizeof *drives);
  for (size_t m = 0; m < count; m++) {
    tn_frame_t *frame = &region->members[m].frame;
    TN_TRY(tn_iterator_make_apart(&frame->call, &iterators[m]));
    TN_TRY(tn_drive_begin(&frame->call, frame->kernel, &iterators[m], &drives[m]));
    for (uint32_t i = 0; i < iterators[m].count; i++) {
      tn_loop_operand_t *operand = &drives[m].operands[i];
      operand->is_piece = region->members[m].tiles[i] >= 0;
      if (operand->is_piece) operand->packs = operand->converts;
    }
    tn_drive_flatten(&drives[m]);
  }
  const int64_t piece = region->piece;
  const int64_t grain = GRAIN / piece / region->count;
  pass_t pass = {region, drives};
  return tn_parallel((region->total + piece - 1) / piece, grain > 0 ? grain : 1, run_pieces_part,
                     &pass);
}

tenon_status_t tn_region_run(tn_region_t *region) {
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = region->total <= WHOLE ? run_whole(region) : run_parts(region);
  tn_scratch_reset(mark);
  return status;
}
