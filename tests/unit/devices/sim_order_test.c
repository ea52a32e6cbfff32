/* The checker of the device sim against random programs. The required order is computed with sets
 * of pieces, without clocks, and the checker must agree about the program, and about each variant
 * that omits one of its waits. */
#include "devices/sim.h"

enum {
  PIECES = 20,
  STREAMS = 5,
  STEPS = 200,
  PER_ORDINAL = 3,
}; /* streams 0 to 2 are ordinal 0's */

typedef struct access_t {
  int memory;
  int begin;
  int end;
  int is_write; /* memories 0 and 1 are ordinal 0's */
} access_t;

typedef struct step_t {
  enum {
    PIECE,
    FOLLOW,
    SYNC,
  } kind;
  int stream;
  int piece; /* FOLLOW: the piece that is waited for */
  int count;
  int is_peer;
  access_t accesses[2];
} step_t;

typedef struct program_t {
  step_t steps[STEPS];
  int count;
} program_t;

/* The truth about a program, computed with sets of pieces and without clocks: the first piece that
 * races, the pieces with which it races, and the waits that change nothing. */
typedef struct truth_t {
  int piece;      /* -1: no race */
  uint64_t races; /* the pieces with which it races */
  uint64_t implied;
} truth_t;

static uint64_t drawn;
static int draw(int below) {
  drawn = drawn * 6364136223846793005u + 1442695040888963407u;
  return (int)((drawn >> 33) % (uint64_t)below);
}

static int conflict(const step_t *a, const step_t *b) {
  for (int i = 0; i < a->count; i++)
    for (int k = 0; k < b->count; k++) {
      const access_t *x = &a->accesses[i];
      const access_t *y = &b->accesses[k];
      if (x->memory == y->memory && x->begin < y->end && y->begin < x->end &&
          (x->is_write || y->is_write))
        return 1;
    }
  return 0;
}

/* Sets of pieces. */
typedef struct order_t {
  uint64_t known[STREAMS];
  uint64_t at[PIECES];
  uint64_t all[STREAMS];
  uint64_t sync; /* at: the pieces known to be complete right after that piece */
  const step_t *pieces[PIECES];
  int count;
  int fresh[STREAMS][STEPS];
  int fresh_count[STREAMS];
  truth_t truth;
} order_t;

static uint64_t races_with(const order_t *o, const step_t *step) {
  uint64_t races = 0;
  for (int j = 0; j < o->count; j++)
    if (!((o->known[step->stream] | o->sync) >> j & 1) && conflict(o->pieces[j], step))
      races |= (uint64_t)1 << j;
  return races;
}

static void order_take(order_t *o, const step_t *step) {
  uint64_t *known = &o->known[step->stream];
  int *fresh = o->fresh[step->stream];
  int *fresh_count = &o->fresh_count[step->stream];
  *known |= o->sync * (step->kind != SYNC);
  if (step->kind == SYNC) {
    o->sync |= *known | o->all[step->stream];
  } else if (step->kind == FOLLOW) {
    uint64_t more = o->at[step->piece];
    if (!(more & ~*known)) {
      o->truth.implied++;
      return;
    }
    for (int i = 0; i < *fresh_count;)
      if (!(o->at[fresh[i]] & ~more)) {
        o->truth.implied++;
        fresh[i] = fresh[--*fresh_count];
      } else
        i++;
    fresh[(*fresh_count)++] = step->piece;
    *known |= more;
  } else {
    uint64_t races = races_with(o, step);
    if (races && o->truth.piece < 0) {
      o->truth.piece = o->count;
      o->truth.races = races;
    }
    *fresh_count = 0;
    *known |= (uint64_t)1 << o->count;
    o->at[o->count] = *known;
    o->all[step->stream] |= (uint64_t)1 << o->count;
    o->pieces[o->count++] = step;
  }
}

static truth_t truth_of(const program_t *program, int left_out) {
  order_t o = {.truth = {.piece = -1}};
  for (int i = 0; i < program->count; i++)
    if (i != left_out) order_take(&o, &program->steps[i]);
  return o.truth;
}

/* Makes a program in which everything is ordered, by waits in random order. */
static void program_draw(program_t *program, uint64_t seed) {
  order_t o = {.truth = {.piece = -1}};
  drawn = seed * 7919 + 1;
  program->count = 0;
  while (o.count < PIECES) {
    step_t piece = {.kind = PIECE, .stream = draw(STREAMS), .piece = o.count, .count = 1 + draw(2)};
    int ordinal = piece.stream >= PER_ORDINAL;
    piece.is_peer = piece.count == 2 && draw(4) == 0;
    for (int i = 0; i < piece.count; i++) {
      int begin = draw(40);
      int elsewhere = piece.is_peer && i == 1;
      piece.accesses[i] = (access_t){draw(2) + 2 * (elsewhere ? !ordinal : ordinal), begin,
                                     begin + 8 + draw(16), draw(2)};
    }
    if (piece.is_peer) { /* first the target, then the source */
      piece.accesses[0].is_write = 1;
      piece.accesses[1].is_write = 0;
      piece.accesses[1].end =
          piece.accesses[1].begin + piece.accesses[0].end - piece.accesses[0].begin;
    }
    if (draw(12) == 0) {
      program->steps[program->count] = (step_t){.kind = SYNC, .stream = draw(STREAMS)};
      order_take(&o, &program->steps[program->count++]);
    }
    for (uint64_t races; (races = races_with(&o, &piece));) {
      int j = draw(PIECES);
      if (!(races >> j & 1)) continue;
      program->steps[program->count] = (step_t){.kind = FOLLOW, .stream = piece.stream, .piece = j};
      order_take(&o, &program->steps[program->count++]);
    }
    program->steps[program->count] = piece;
    order_take(&o, &program->steps[program->count++]);
  }
}

static tenon_status_t piece_run(const step_t *step, void *const *memories, void *stream) {
  int ordinal = step->stream >= PER_ORDINAL;
  uint64_t ticket = (uint64_t)step->piece + 1;
  sim_range_t ranges[2];
  for (int i = 0; i < step->count; i++) {
    const access_t *a = &step->accesses[i];
    ranges[i] = (sim_range_t){host_at(memories[a->memory], (uint64_t)a->begin),
                              (uint64_t)(a->end - a->begin), (uint32_t)a->is_write, 0};
  }
  if (step->is_peer)
    return host_copy(&host, ordinal, stream, ticket, TENON_COPY_PEER, ranges[0].memory,
                     ranges[1].memory, ranges[0].bytes);
  if (step->count == 1 && ranges[0].is_write)
    return table->fill(&host.on[ordinal], stream, ticket, ranges[0].memory, ranges[0].bytes, "f",
                       1);
  return tests->enqueue(&host.on[ordinal], stream, ticket, "use", nothing, NULL, 0,
                        (uint32_t)step->count, ranges);
}

/* Runs the program up to its first race, and compares the findings of sim with the truth. */
static void program_run(const program_t *program, int left_out) {
  truth_t truth = truth_of(program, left_out);
  void *streams[STREAMS], *events[PIECES], *memories[4];
  sim_finding_t found[8] = {0};
  if (!open_sim("")) return;
  for (int i = 0; i < STREAMS; i++)
    streams[i] = stream_create(i >= PER_ORDINAL);
  for (int i = 0; i < 4; i++)
    memories[i] = allocate(i / 2, 64);
  int done = 0;
  for (int i = 0; i < program->count && done != truth.piece + 1 + PIECES * (truth.piece < 0); i++) {
    const step_t *step = &program->steps[i];
    int ordinal = step->stream >= PER_ORDINAL;
    if (i == left_out) continue;
    if (step->kind == SYNC) {
      CHECK_STATUS(synchronize(ordinal, streams[step->stream]), TENON_OK);
    } else if (step->kind == FOLLOW) {
      int of = 0;
      for (int k = 0; k < i; k++)
        if (program->steps[k].kind == PIECE && program->steps[k].piece == step->piece)
          of = program->steps[k].stream >= PER_ORDINAL;
      follow(ordinal, streams[step->stream], of, events[step->piece]);
    } else {
      CHECK_STATUS(piece_run(step, memories, streams[step->stream]), TENON_OK);
      if (++done == truth.piece + 1) break;
      events[step->piece] = event_create(ordinal);
      record(ordinal, events[step->piece], streams[step->stream]);
    }
  }
  uint64_t count = tests->races(&host.on[0], found, 8);
  if (truth.piece < 0) {
    finding_none();
    CHECK(tests->implied_waits(&host.on[0], NULL, 0) == truth.implied);
    for (int i = 0; i < 2; i++)
      CHECK_STATUS(table->synchronize(&host.on[i]), TENON_OK);
  } else {
    uint64_t expected = 0;
    for (uint64_t i = 0; i < count && i < 8; i++) {
      CHECK(found[i].second.ticket == (uint64_t)truth.piece + 1);
      CHECK(truth.races >> (found[i].first.ticket - 1) & 1);
      expected++;
    }
    CHECK(expected > 0);
  }
  host_close(&host);
}

TEST("of 200 random programs, and of each without one of its waits, the checker reports the true "
     "order") {
  static program_t program;
  int racing = 0;
  int implied = 0;
  for (uint64_t seed = 0; seed < 200; seed++) {
    program_draw(&program, seed);
    program_run(&program, -1);
    for (int i = 0; i < program.count; i++) {
      if (program.steps[i].kind != FOLLOW || (seed >= 40 && draw(4))) continue;
      program_run(&program, i);
      if (truth_of(&program, i).piece < 0)
        implied++;
      else
        racing++;
    }
  }
  CHECK(racing > 300 && implied > 30);
}
