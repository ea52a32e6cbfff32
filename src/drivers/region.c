/* Runs regions, see region.h. */
#include "drivers/region.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/parallel.h"
#include "base/poll.h"
#include "base/reason.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/tensor.h"
#include "drivers/pieces.h"
#include "drivers/slice.h"

enum {
  STREAMS = 16,  /* operands in memory that are prefetched, at most */
  GRAIN = 32768, /* calls of loops for an element each that are worth a thread */
};

typedef struct pass_t {
  const tn_region_t *region;
  const tn_drive_t *drives; /* of each member that is a loop */
} pass_t;

/* An operand in memory, of which each row of the region has some bytes. */
typedef struct stream_t {
  const char *data;
  int64_t row_size;
  int64_t share; /* bytes that are prefetched during one call */
} stream_t;

/* The rows that one thread passes over. */
typedef struct span_t {
  const pass_t *pass;
  int64_t begin;
  int64_t end;
  char **tiles;
  stream_t *streams;
  int32_t stream_count;
} span_t;

/* One thread's pass over the rows of a member. */
typedef struct member_pass_t {
  tn_drive_t drive;
  tn_pieces_t pieces;
  tn_slice_t slice;
  tn_chain_pass_t chain; /* of the first member of a chain */
} member_pass_t;

static tenon_status_t explain(const tn_region_member_t *member, tenon_status_t status,
                              uint64_t errors) {
  const tenon_op_t *op = member->frame.call.op;
  if (status == TENON_OK) return status;
  status = tn_reason_complete(status, errors, op->name, "kernel");
  return tn_prefix(status, "node '%s' (%s): ", member->node, op->name);
}

/* Gives each value in a tile its place in scratch memory, for `count` rows. */
static tenon_status_t place_tiles(const tn_region_t *region, int64_t count, char ***out_tiles) {
  char **tiles = tn_scratch(((size_t)region->tile_count + 1) * sizeof *tiles);
  for (int32_t k = 0; tiles && k < region->tile_count; k++)
    if (!(tiles[k] = tn_scratch((size_t)(count * region->tile_size[k])))) tiles = NULL;
  *out_tiles = tiles;
  return tiles ? TENON_OK : tn_no_memory("a region", (size_t)count);
}

/* The whole value that is operand i of a member. */
static char *whole_operand(const tn_region_member_t *member, int32_t i, char *const *tiles) {
  const tenon_call_t *call = &member->frame.call;
  const int32_t inputs = (int32_t)call->op->input_count;
  const tenon_tensor_t *t = i < inputs ? call->inputs[i] : call->outputs[i - inputs];
  return member->tiles[i] >= 0 ? tiles[member->tiles[i]] : (char *)t->data + t->byte_offset;
}

/* Runs a chain none of whose operands lies in runs on whole values. */
static tenon_status_t run_even_chain(const tn_region_t *region, const tn_chain_t *chain,
                                     int64_t length, char *const *tiles) {
  tn_link_t *links = tn_scratch((size_t)chain->count * sizeof *links);
  if (!links) return tn_no_memory("a region", (size_t)chain->count);
  for (int32_t k = 0; k < chain->count; k++) {
    const tn_chain_step_t *step = &chain->steps[k];
    const tn_region_member_t *member = &region->members[step->member];
    void *data = step->operand >= 0 ? whole_operand(member, step->operand, tiles) : NULL;
    void *out = step->result >= 0 ? whole_operand(member, step->result, tiles) : NULL;
    tn_chain_make_link(step, data, out, &links[k]);
  }
  region->run_chain(links, chain->count, length);
  return TENON_OK;
}

/* Runs a chain on whole values. */
static tenon_status_t run_whole_chain(const tn_region_t *region, const tn_chain_t *chain,
                                      char *const *tiles) {
  const tenon_call_t *call = &region->members[chain->steps[0].member].frame.call;
  const int64_t length = tenon_count(call->outputs[0]);
  tn_chain_pass_t pass;
  if (!chain->has_runs) return run_even_chain(region, chain, length, tiles);
  TN_TRY(tn_chain_begin(chain, region->run_chain, &pass));
  for (int32_t k = 0; k < chain->count; k++) {
    const tn_chain_step_t *step = &chain->steps[k];
    const tn_region_member_t *member = &region->members[step->member];
    if (step->operand >= 0) pass.places[k].data = whole_operand(member, step->operand, tiles);
    if (step->result >= 0) pass.places[k].out = whole_operand(member, step->result, tiles);
  }
  tn_chain_place(&pass);
  tn_chain_run(&pass, 0, length);
  return TENON_OK;
}

/* Few elements: each member runs as it would alone, on whole values in scratch memory. */
static tenon_status_t run_whole(tn_region_t *region) {
  char **tiles;
  TN_TRY(place_tiles(region, region->rows, &tiles));
  for (int32_t m = 0; m < region->count; m++) {
    tn_region_member_t *member = &region->members[m];
    tenon_call_t *call = &member->frame.call;
    const uint32_t inputs = call->op->input_count;
    if (member->chain && !member->chain->packs) {
      tn_scratch_mark_t mark = tn_scratch_mark();
      TN_TRY(run_whole_chain(region, member->chain, tiles));
      tn_scratch_reset(mark);
      m += member->chain->members - 1;
      continue;
    }
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

static uint32_t operand_count(const tn_region_member_t *member) {
  return member->frame.call.op->input_count + member->frame.call.op->output_count;
}

/* Copies the operands of a loop, with the tiles of this thread. */
static tenon_status_t begin_loop(const span_t *span, size_t m, member_pass_t *p) {
  const tn_region_t *region = span->pass->region;
  const tn_region_member_t *member = &region->members[m];
  const tn_drive_t *from = &span->pass->drives[m];
  const int64_t width = member->width;
  p->drive = *from;
  p->drive.operands = tn_scratch(from->it->count * sizeof *from->operands);
  if (!p->drive.operands) return tn_no_memory("a region", 0);
  for (uint32_t i = 0; i < from->it->count; i++) {
    p->drive.operands[i] = from->operands[i];
    if (member->tiles[i] >= 0) p->drive.operands[i].data = span->tiles[member->tiles[i]];
    if (member->is_link) p->drive.operands[i].packs = member->packed >> i & 1;
  }
  return tn_pieces_begin(&p->drive, span->begin * width, span->end * width, region->piece * width,
                         &p->pieces);
}

static tenon_status_t begin_slice(const span_t *span, size_t m, member_pass_t *p) {
  const tn_region_t *region = span->pass->region;
  const tn_region_member_t *member = &region->members[m];
  const uint32_t n = operand_count(member);
  char **memory = tn_scratch(n * sizeof *memory);
  if (!memory) return tn_no_memory("a region", 0);
  for (uint32_t i = 0; i < n; i++)
    memory[i] = member->tiles[i] >= 0 ? span->tiles[member->tiles[i]] : NULL;
  const int64_t count = region->rows * member->width;
  return tn_slice_begin(&member->frame, count, member->axes, memory, &p->slice);
}

static tenon_status_t run_member(const tn_region_member_t *member, member_pass_t *p, int64_t at,
                                 int64_t rows) {
  const int64_t first = at * member->width;
  const int64_t count = rows * member->width;
  return member->axes ? tn_slice_run(&p->slice, first, count)
                      : tn_pieces_run(&p->pieces, first, count);
}

/* Makes the links of a chain, which begins with member m. */
static tenon_status_t begin_chain(const span_t *span, size_t m, member_pass_t *passes) {
  const tn_region_t *region = span->pass->region;
  const tn_chain_t *chain = region->members[m].chain;
  tn_chain_pass_t *pass = &passes[m].chain;
  TN_TRY(tn_chain_begin(chain, region->run_chain, pass));
  for (int32_t k = 0; k < chain->count; k++) {
    const tn_chain_step_t *step = &chain->steps[k];
    const tn_region_member_t *member = &region->members[step->member];
    tn_chain_place_t *place = &pass->places[k];
    if (step->operand >= 0 && step->reach == TN_REACH_PACKED) {
      place->data = passes[step->member].pieces.tiles[step->operand];
      place->is_piece = true;
    } else if (step->operand >= 0) {
      place->data = whole_operand(member, step->operand, span->tiles);
      place->is_piece = member->tiles[step->operand] >= 0;
    }
    if (step->result < 0) continue;
    place->out = whole_operand(member, step->result, span->tiles);
    place->is_piece_out = member->tiles[step->result] >= 0;
  }
  tn_chain_place(pass);
  return TENON_OK;
}

/* Runs the chain that begins with member m. */
static void run_chain(const tn_region_t *region, size_t m, member_pass_t *passes, int64_t at,
                      int64_t rows) {
  const tn_region_member_t *member = &region->members[m];
  const int64_t first = at * member->width;
  const int64_t length = rows * member->width;
  for (size_t k = m; member->chain->packs && k < m + (size_t)member->chain->members; k++)
    if (region->members[k].packed) tn_pieces_load(&passes[k].pieces, first, length);
  for (int32_t k = 0; member->chain->packs && k < member->chain->count; k++) {
    const tn_chain_step_t *step = &member->chain->steps[k];
    if (step->operand >= 0 && step->reach == TN_REACH_PACKED)
      tn_chain_set_piece(&passes[m].chain, k, passes[step->member].pieces.data[step->operand]);
  }
  tn_chain_run(&passes[m].chain, first, length);
}

/* Adds the operand to the streams if it is one, and no other member has it. */
static void add_stream(const span_t *span, const tenon_tensor_t *t, const tenon_tensor_t *result,
                       int64_t calls, stream_t *streams, int32_t *count) {
  const tn_region_t *region = span->pass->region;
  const int64_t elements = tenon_count(t);
  const size_t size = (size_t)t->ndim * sizeof *t->strides;
  const bool is_in_order =
      !(t->keys & TN_KEY_STRIDED) || (t->ndim == result->ndim && tn_is_packed(t) &&
                                      memcmp(t->strides, result->strides, size) == 0);
  if (!is_in_order || elements % region->rows) return;
  for (int32_t k = 0; k < *count; k++)
    if (streams[k].data == t->data) return;
  const int64_t row_size = elements / region->rows * (t->dtype.bits * t->dtype.lanes / 8);
  const int64_t share = (row_size * region->piece / calls + 64) & -64;
  streams[(*count)++] = (stream_t){t->data, row_size, share};
}

/* Lists the operands in memory of which each piece has other elements. */
static void find_streams(span_t *span, stream_t *streams, int32_t most) {
  const tn_region_t *region = span->pass->region;
  int64_t calls = 0;
  span->streams = streams;
  span->stream_count = 0;
  for (int32_t m = 0; m < region->count; m++)
    calls += !region->members[m].is_link || region->members[m].chain;
  for (int32_t m = 0; m < region->count && calls > 1; m++) {
    const tn_region_member_t *member = &region->members[m];
    const tenon_call_t *call = &member->frame.call;
    const uint32_t inputs = call->op->input_count;
    for (uint32_t i = 0; i < operand_count(member) && span->stream_count < most; i++) {
      const tenon_tensor_t *t = i < inputs ? call->inputs[i] : call->outputs[i - inputs];
      if (t && member->tiles[i] < 0)
        add_stream(span, t, call->outputs[0], calls, streams, &span->stream_count);
    }
  }
}

/* Brings a share of what rows [begin, end) have in the streams to the cache. It is part of its
 * caller, because gcc leaves out calls of functions that do nothing but prefetch. */
static inline __attribute__((always_inline)) void prefetch_share(const span_t *span, int64_t begin,
                                                                 int64_t end, int64_t call) {
  for (int32_t k = 0; k < span->stream_count; k++) {
    const stream_t *stream = &span->streams[k];
    const char *data = stream->data + begin * stream->row_size;
    int64_t stop = (call + 1) * stream->share;
    if (stop > (end - begin) * stream->row_size) stop = (end - begin) * stream->row_size;
    for (int64_t at = call * stream->share; at < stop; at += 64)
      __builtin_prefetch(data + at);
  }
}

/* Runs all members on the piece that begins at a row, while the next piece comes to the cache. */
static tenon_status_t run_piece(const span_t *span, member_pass_t *passes, int64_t at) {
  const tn_region_t *region = span->pass->region;
  const int64_t next = span->end - at < region->piece ? span->end : at + region->piece;
  const int64_t next_end = span->end - next < region->piece ? span->end : next + region->piece;
  int64_t calls = 0;
  for (size_t m = 0; m < (size_t)region->count; m++) {
    const tn_region_member_t *member = &region->members[m];
    if (member->is_link && !member->chain) continue;
    prefetch_share(span, next, next_end, calls++);
    if (member->is_link) {
      run_chain(region, m, passes, at, next - at);
      continue;
    }
    const uint64_t errors = tn_error_count();
    tenon_status_t status = run_member(member, &passes[m], at, next - at);
    if (__builtin_expect(status != TENON_OK, 0)) return explain(member, status, errors);
  }
  return TENON_OK;
}

static tenon_status_t run_pieces(const pass_t *pass, int64_t begin, int64_t end) {
  const tn_region_t *region = pass->region;
  const size_t count = (size_t)region->count;
  span_t span = {.pass = pass, .begin = begin, .end = end};
  stream_t streams[STREAMS];
  member_pass_t *passes = tn_scratch(count * sizeof *passes);
  if (!passes) return tn_no_memory("a region", count * sizeof *passes);
  TN_TRY(place_tiles(region, region->piece, &span.tiles));
  find_streams(&span, streams, STREAMS);
  for (size_t m = 0; m < count; m++) {
    const tn_region_member_t *member = &region->members[m];
    if (member->is_link && !member->packed) continue;
    TN_TRY(member->axes ? begin_slice(&span, m, &passes[m]) : begin_loop(&span, m, &passes[m]));
  }
  for (size_t m = 0; m < count; m++)
    if (region->members[m].chain) TN_TRY(begin_chain(&span, m, passes));
  for (int64_t at = begin; at < end; at += region->piece) {
    TN_TRY(tn_poll());
    TN_TRY(run_piece(&span, passes, at));
  }
  return TENON_OK;
}

static tenon_status_t run_pieces_part(void *argument, int64_t begin, int64_t end) {
  const pass_t *pass = argument;
  const int64_t piece = pass->region->piece;
  const int64_t rows = pass->region->rows;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = run_pieces(pass, begin * piece, end * piece < rows ? end * piece : rows);
  tn_scratch_reset(mark);
  return status;
}

/* Describes how the operands of a loop are passed. A value in a tile that has fewer elements than
 * the loop's results has one for each row. */
static tenon_status_t set_up_loop(tn_region_member_t *member, tenon_iterator_t *it,
                                  tn_drive_t *drive) {
  TN_TRY(tn_iterator_make_apart(&member->frame.call, it));
  TN_TRY(tn_drive_begin(&member->frame.call, member->frame.kernel, it, drive));
  for (uint32_t i = 0; i < it->count; i++) {
    tn_loop_operand_t *operand = &drive->operands[i];
    operand->is_piece = member->tiles[i] >= 0;
    if (!operand->is_piece) continue;
    operand->repeats = it->end / tenon_count(it->tensors[i]);
    operand->packs = operand->converts || operand->repeats > 1;
  }
  tn_drive_flatten(drive);
  return TENON_OK;
}

static tenon_status_t run_parts(tn_region_t *region) {
  const size_t count = (size_t)region->count;
  tn_drive_t *drives = tn_scratch(count * sizeof *drives);
  tenon_iterator_t *iterators = tn_scratch(count * sizeof *iterators);
  int64_t least = 1; /* pieces of a part */
  if (!drives || !iterators) return tn_no_memory("a region", count * sizeof *drives);
  for (size_t m = 0; m < count; m++) {
    tn_region_member_t *member = &region->members[m];
    if (member->axes || (member->is_link && !member->packed)) continue;
    TN_TRY(set_up_loop(member, &iterators[m], &drives[m]));
    const int64_t pieces = tn_drive_bands(&drives[m], region->piece * member->width);
    if (pieces > least) least = pieces;
  }
  const int64_t piece = region->piece;
  const int64_t grain = GRAIN / (piece * region->width) / region->count;
  pass_t pass = {region, drives};
  return tn_parallel((region->rows + piece - 1) / piece, grain > least ? grain : least,
                     run_pieces_part, &pass);
}

/* Whether a chain of few elements needs operands packed, which pieces do. */
static bool has_packed(const tn_region_t *region) {
  bool packs = false;
  for (int32_t m = 0; m < region->count; m++)
    packs |= region->members[m].chain && region->members[m].chain->packs;
  return packs;
}

tenon_status_t tn_region_run(tn_region_t *region) {
  tn_scratch_mark_t mark = tn_scratch_mark();
  const bool is_whole = tn_region_is_small(region) && !has_packed(region);
  tenon_status_t status = is_whole ? run_whole(region) : run_parts(region);
  tn_scratch_reset(mark);
  return status;
}

/* Whether an operand of a member was counted already, as an operand of the same member or of one
 * before it. */
static bool is_counted(const tn_region_t *region, int32_t member, uint32_t operand,
                       const tenon_tensor_t *tensor) {
  for (int32_t m = 0; m <= member; m++) {
    const tenon_call_t *call = &region->members[m].frame.call;
    const uint32_t inputs = call->op->input_count;
    const uint32_t count = m < member ? inputs + call->op->output_count : operand;
    for (uint32_t i = 0; i < count; i++)
      if ((i < inputs ? call->inputs[i] : call->outputs[i - inputs]) == tensor) return true;
  }
  return false;
}

tn_work_t tn_region_work(const tn_region_t *region) {
  tn_work_t work = {0, 0};
  for (int32_t m = 0; m < region->count; m++) {
    const tn_region_member_t *member = &region->members[m];
    const tenon_call_t *call = &member->frame.call;
    const uint32_t inputs = call->op->input_count;
    work.operations += tn_work_of_tensors(call->op, call->inputs, call->outputs).operations;
    for (uint32_t i = 0; i < inputs + call->op->output_count; i++) {
      const tenon_tensor_t *tensor = i < inputs ? call->inputs[i] : call->outputs[i - inputs];
      if (!tensor || member->tiles[i] >= 0 || is_counted(region, m, i, tensor)) continue;
      const tn_size_t size = tn_size_of_tensor(tensor);
      work.bytes += tn_size_bytes(&size);
    }
  }
  return work;
}
