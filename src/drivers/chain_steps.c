/* Runs chains on elements of their operands, see chain_steps.h. */
#include "drivers/chain_steps.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/scratch.h"
#include "base/status.h"
#include "core/convert.h"
#include "core/dtype.h"

static int64_t size_of(tenon_dtype_t dtype) { return dtype.bits * dtype.lanes / 8; }

static float read_as_f32(const void *data, tenon_dtype_t dtype) {
  const tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  float number;
  if (tn_dtype_same(dtype, f32))
    memcpy(&number, data, sizeof number);
  else
    tn_convert(data, dtype, &number, f32, 1);
  return number;
}

/* Whether the results of a link are smaller than f32. */
static bool is_narrow(int32_t code) {
  return code == TN_LINK_STORE_BOOL || code == TN_LINK_ROUND_BF16 || code == TN_LINK_ROUND_F16;
}

void tn_chain_make_link(const tn_chain_step_t *step, void *data, void *out, tn_link_t *out_link) {
  const bool takes_number = data && step->reach == TN_REACH_NUMBER;
  *out_link = (tn_link_t){.code = step->code, .number = step->number};
  if (takes_number)
    out_link->number = read_as_f32(data, step->dtype);
  else
    out_link->run = data;
  if (is_narrow(step->code))
    out_link->narrow = out;
  else
    out_link->out = out;
}

tenon_status_t tn_chain_begin(const tn_chain_t *chain, tn_chain_fn function,
                              tn_chain_pass_t *out_pass) {
  const size_t count = (size_t)chain->count;
  *out_pass = (tn_chain_pass_t){.chain = chain, .function = function};
  out_pass->links = tn_scratch(count * sizeof *out_pass->links);
  out_pass->places = tn_scratch(count * sizeof *out_pass->places);
  out_pass->moves = tn_scratch(2 * count * sizeof *out_pass->moves);
  out_pass->runs = tn_scratch(count * sizeof *out_pass->runs);
  if (!out_pass->links || !out_pass->places || !out_pass->moves || !out_pass->runs)
    return tn_no_memory("a region", count);
  for (size_t k = 0; k < count; k++)
    out_pass->places[k] = (tn_chain_place_t){0};
  return TENON_OK;
}

/* Notes that a field of a link changes with the piece. A chain that begins once with each piece
 * finds in it what is of the piece. */
static void add_move(tn_chain_pass_t *pass, void **at, int64_t size, bool is_piece) {
  const tn_chain_move_t move = {at, *at, size, is_piece};
  if (!is_piece || pass->chain->has_runs) pass->moves[pass->move_count++] = move;
}

static int64_t size_of_result(int32_t code) {
  if (code == TN_LINK_STORE_BOOL) return 1;
  return is_narrow(code) ? 2 : 4;
}

void tn_chain_place(tn_chain_pass_t *pass) {
  const tn_chain_t *chain = pass->chain;
  for (int32_t k = 0; k < chain->count; k++) {
    const tn_chain_step_t *step = &chain->steps[k];
    const tn_chain_place_t *place = &pass->places[k];
    tn_link_t *link = &pass->links[k];
    tn_chain_make_link(step, place->data, place->out, link);
    if (place->out)
      add_move(pass, is_narrow(step->code) ? &link->narrow : &link->out, size_of_result(step->code),
               place->is_piece_out);
    if (place->data && step->reach == TN_REACH_RUNS)
      pass->runs[pass->run_count++] = k;
    else if (place->data && step->reach != TN_REACH_NUMBER)
      add_move(pass, &link->run, size_of(step->dtype), place->is_piece);
  }
}

void tn_chain_set_piece(tn_chain_pass_t *pass, int32_t step, void *data) {
  tn_link_t *link = &pass->links[step];
  link->run = data;
  for (int32_t k = 0; k < pass->move_count; k++)
    if (pass->moves[k].at == &link->run) pass->moves[k].data = data;
}

static int64_t offset_of_run(const tn_runs_t *runs, int64_t run) {
  if (runs->ndim == 1) return run * runs->strides[0];
  int64_t offset = 0;
  for (int32_t i = runs->ndim - 1; i >= 0; i--) {
    offset += run % runs->extents[i] * runs->strides[i];
    run /= runs->extents[i];
  }
  return offset;
}

/* Sets what a link reads from element `at` on. Returns how many elements it has there. */
static int64_t enter_run(const tn_chain_step_t *step, const tn_chain_place_t *place, int64_t first,
                         int64_t at, tn_link_t *link) {
  const tn_runs_t *runs = &step->runs;
  const int64_t behind = at % runs->length;
  const int64_t begin = place->is_piece ? first / runs->length : 0;
  char *data = place->data + offset_of_run(runs, at / runs->length - begin);
  if (step->is_number)
    link->number = read_as_f32(data, step->dtype);
  else
    link->run = data + behind * size_of(step->dtype);
  return runs->length - behind;
}

/* Sets the links of a chain to run from element `at` of the results on, in a piece that begins with
 * element `first`. Returns the number of elements that lie in the same runs, at most `count`. */
static int64_t enter(const tn_chain_pass_t *pass, int64_t first, int64_t at, int64_t count) {
  for (int32_t k = 0; k < pass->move_count; k++) {
    const tn_chain_move_t *move = &pass->moves[k];
    *move->at = move->data + (move->is_piece ? at - first : at) * move->size;
  }
  for (int32_t k = 0; k < pass->run_count; k++) {
    const int32_t step = pass->runs[k];
    const int64_t length =
        enter_run(&pass->chain->steps[step], &pass->places[step], first, at, &pass->links[step]);
    if (length < count) count = length;
  }
  return count;
}

void tn_chain_run(const tn_chain_pass_t *pass, int64_t first, int64_t count) {
  const int64_t end = first + count;
  for (int64_t at = first; at < end;) {
    const int64_t length = enter(pass, first, at, end - at);
    pass->function(pass->links, pass->chain->count, length);
    at += length;
  }
}
