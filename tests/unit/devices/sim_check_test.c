/* The checker of the device sim: it names each missing wait at the first run, and nothing that is ordered. */
#include "devices/sim.h"

#include <unistd.h>

static tenon_status_t nothing(void *argument, void *const *addresses, char *message) {
  (void)argument, (void)addresses, (void)message;
  return TENON_OK;
}

static tenon_status_t use(int32_t ordinal, void *stream, uint64_t ticket, void *memory, uint64_t offset, uint64_t bytes,
                          uint32_t is_write) {
  sim_range_t range = {host_at(memory, offset), bytes, is_write, 0};
  return tests->enqueue(&host.on[ordinal], stream, ticket, "use", nothing, NULL, 0, 1, &range);
}

static void record(int32_t ordinal, void *event, void *stream) {
  CHECK_STATUS(table->event_record(&host.on[ordinal], event, stream), TENON_OK);
}

static void follow(int32_t ordinal, void *stream, int32_t of, void *event) {
  CHECK_STATUS(table->stream_wait(&host.on[ordinal], stream, &host.on[of], event), TENON_OK);
}

/* One race, of these tickets; its second piece's stream fails with its ticket and the finding's text. */
static void raced(uint64_t first, uint64_t second, int32_t ordinal, void *stream, const char *part) {
  sim_finding_t found[2] = {0};
  tenon_fault_t fault = {.size = sizeof fault};
  CHECK(tests->races(&host.on[0], found, 2) == 1);
  CHECK(found[0].first.ticket == first && found[0].second.ticket == second);
  CHECK_TEXT(found[0].text, part);
  CHECK_STATUS(table->stream_synchronize(&host.on[ordinal], stream, &fault), TENON_PRECONDITION);
  CHECK(fault.ticket == second);
  CHECK_TEXT(host_text, part);
}

enum { NO_WAIT, WAIT };

TEST("two streams: the second must wait, and a wait is enough") {
  for (int way = NO_WAIT; way <= WAIT; way++) {
    if (!open_sim("")) return;
    void *a = stream_create(0), *b = stream_create(0), *event = event_create(0), *memory = allocate(0, 100);
    CHECK_STATUS(use(0, a, 17, memory, 0, 64, 1), TENON_OK);
    record(0, event, a);
    usleep(3000); /* it is done, and yet nothing says that it had to be */
    if (way == WAIT) follow(0, b, 0, event);
    CHECK_STATUS(use(0, b, 18, memory, 63, 1, 0), TENON_OK);
    if (way == WAIT) finding_none();
    else raced(17, 18, 0, b, "stream 2 of ordinal 0 must wait for ticket 17 of stream 1 of ordinal 0");
    host_close(&host);
  }
}

TEST("bytes that do not overlap, and two reads, are no race; a write after a read is one") {
  if (!open_sim("")) return;
  void *a = stream_create(0), *b = stream_create(0), *memory = allocate(0, 100);
  CHECK_STATUS(use(0, a, 1, memory, 0, 64, 0), TENON_OK);
  CHECK_STATUS(use(0, b, 2, memory, 0, 64, 0), TENON_OK);
  CHECK_STATUS(use(0, b, 3, memory, 64, 10, 1), TENON_OK);
  finding_none();
  CHECK_STATUS(use(0, b, 4, memory, 60, 4, 1), TENON_OK);
  raced(1, 4, 0, b, "writes bytes 60 to 63 of memory");
  host_close(&host);
}

TEST("an event that was recorded too early orders too little") {
  if (!open_sim("")) return;
  void *a = stream_create(0), *event = event_create(0), *memory = allocate(0, 100);
  CHECK_STATUS(use(0, NULL, 1, memory, 0, 8, 1), TENON_OK);
  record(0, event, NULL);
  CHECK_STATUS(use(0, NULL, 2, memory, 8, 8, 1), TENON_OK);
  follow(0, a, 0, event);
  CHECK_STATUS(use(0, a, 3, memory, 0, 8, 0), TENON_OK);
  finding_none();
  CHECK_STATUS(use(0, a, 4, memory, 8, 8, 0), TENON_OK);
  raced(2, 4, 0, a, "must wait for ticket 2 of stream 0 of ordinal 0");
  host_close(&host);
}

TEST("three streams: waiting for one that waited is enough, and each of the two waits is needed") {
  for (int left_out = 0; left_out < 3; left_out++) {
    if (!open_sim("")) return;
    void *a = stream_create(0), *b = stream_create(0), *c = stream_create(0), *memory = allocate(0, 100);
    void *first = event_create(0), *second = event_create(0);
    CHECK_STATUS(use(0, a, 1, memory, 0, 8, 1), TENON_OK);
    record(0, first, a);
    if (left_out != 1) follow(0, b, 0, first);
    CHECK_STATUS(use(0, b, 2, memory, 8, 8, 1), TENON_OK);
    record(0, second, b);
    if (left_out != 2) follow(0, c, 0, second);
    CHECK_STATUS(use(0, c, 3, memory, 0, 8, 1), TENON_OK);
    if (left_out) raced(1, 3, 0, c, "stream 3 of ordinal 0 must wait for ticket 1 of stream 1");
    else finding_none();
    host_close(&host);
  }
}

TEST("two ordinals: a copy from a peer must wait for what wrote there, and be waited for before it is written again") {
  for (int left_out = 0; left_out < 3; left_out++) {
    if (!open_sim("")) return;
    void *a = stream_create(0), *b = stream_create(1), *from = allocate(0, 64), *to = allocate(1, 64);
    void *written = event_create(0), *copied = event_create(1);
    CHECK_STATUS(use(0, a, 1, from, 0, 64, 1), TENON_OK);
    record(0, written, a);
    if (left_out != 1) follow(1, b, 0, written);
    CHECK_STATUS(host_copy(&host, 1, b, 2, TENON_COPY_PEER, host_at(to, 0), host_at(from, 0), 64), TENON_OK);
    if (left_out == 1) {
      raced(1, 2, 1, b, "stream 1 of ordinal 1 must wait for ticket 1 of stream 1 of ordinal 0");
    } else {
      record(1, copied, b);
      if (left_out != 2) follow(0, a, 1, copied);
      CHECK_STATUS(use(0, a, 3, from, 0, 8, 1), TENON_OK);
      if (left_out == 2) raced(2, 3, 0, a, "stream 1 of ordinal 0 must wait for ticket 2 of stream 1 of ordinal 1");
      else finding_none();
    }
    host_close(&host);
  }
}

TEST("a host that waited orders what it enqueues then; so do a query that says done, and a callback") {
  if (!open_sim("")) return;
  void *a = stream_create(0), *b = stream_create(0), *event = event_create(0), *memory = allocate(0, 100);
  CHECK_STATUS(use(0, a, 1, memory, 0, 8, 1), TENON_OK);
  CHECK_STATUS(synchronize(0, a), TENON_OK);
  CHECK_STATUS(use(0, b, 2, memory, 0, 8, 1), TENON_OK);
  record(0, event, b);
  while (table->event_query(&host.on[0], event) == TENON_UNAVAILABLE) usleep(100);
  CHECK_STATUS(use(0, a, 3, memory, 0, 8, 1), TENON_OK);
  while (table->stream_query(&host.on[0], a, NULL) == TENON_UNAVAILABLE) usleep(100);
  CHECK_STATUS(use(0, b, 4, memory, 0, 8, 1), TENON_OK);
  CHECK_STATUS(table->synchronize(&host.on[0]), TENON_OK);
  CHECK_STATUS(use(0, a, 5, memory, 0, 8, 1), TENON_OK);
  finding_none();
  host_close(&host);
}

TEST("host memory: reading it before the copy was waited for is a race, and so is copying it elsewhere") {
  if (!open_sim("delay=1000")) return;
  char bytes[32] = {0};
  void *a = stream_create(0), *b = stream_create(0), *memory = allocate(0, 64), *other = allocate(0, 64);
  CHECK_STATUS(table->fill(&host.on[0], a, 6, host_at(memory, 0), 32, "x", 1), TENON_OK);
  CHECK_STATUS(copy_out(0, a, 7, bytes, memory, 0, 32), TENON_OK);
  CHECK_STATUS(tests->host_access(&host.on[0], bytes + 31, 1, 0), TENON_PRECONDITION);
  CHECK_TEXT(host_text, "the host must wait for ticket 7 of stream 1 of ordinal 0");
  CHECK_STATUS(synchronize(0, a), TENON_OK);
  CHECK_STATUS(tests->host_access(&host.on[0], bytes, 32, 0), TENON_OK);
  CHECK(bytes[31] == 'x' && tests->races(&host.on[0], NULL, 0) == 1);
  CHECK_STATUS(copy_in(0, a, 8, memory, 0, bytes, 32), TENON_OK);
  CHECK_STATUS(tests->host_access(&host.on[0], bytes, 32, 0), TENON_OK); /* both read */
  CHECK_STATUS(tests->host_access(&host.on[0], bytes, 1, 1), TENON_PRECONDITION);
  CHECK_STATUS(copy_out(0, b, 9, bytes, other, 0, 32), TENON_OK);
  CHECK(tests->races(&host.on[0], NULL, 0) == 3);
  CHECK_STATUS(synchronize(0, b), TENON_PRECONDITION);
  CHECK_TEXT(host_text, "of host memory, which copy in (ticket 8");
  host_close(&host);
}

TEST("a replay is checked as what it replays") {
  if (!open_sim("")) return;
  void *a = stream_create(0), *b = stream_create(0), *memory = allocate(0, 100), *recording = NULL;
  CHECK_STATUS(table->record_begin(&host.on[0], a), TENON_OK);
  CHECK_STATUS(use(0, a, 1, memory, 0, 8, 1), TENON_OK);
  CHECK_STATUS(table->record_end(&host.on[0], a, &recording), TENON_OK);
  CHECK_STATUS(use(0, b, 2, memory, 0, 8, 0), TENON_OK);
  finding_none();
  CHECK_STATUS(table->replay(&host.on[0], a, recording, 3), TENON_OK);
  raced(2, 3, 0, a, "use (ticket 3, stream 1 of ordinal 0) writes");
  host_close(&host);
}

TEST("check=count counts races and does the work") {
  if (!open_sim("check=count")) return;
  void *a = stream_create(0), *b = stream_create(0), *memory = allocate(0, 100);
  for (uint64_t i = 0; i < 100; i++) CHECK_STATUS(use(0, i & 1 ? a : b, i, memory, 0, 8, 1), TENON_OK);
  CHECK_STATUS(table->synchronize(&host.on[0]), TENON_OK);
  sim_finding_t found[80];
  CHECK(tests->races(&host.on[0], found, 80) >= 99);
  CHECK(found[0].first.ticket == 0 && found[0].second.ticket == 1);
  host_close(&host);
}

/* ---- programs drawn at random ------------------------------------------------------------------------------------------------ */

enum { PIECES = 20, STREAMS = 5, STEPS = 200, PER_ORDINAL = 3 }; /* streams 0 to 2 are ordinal 0's */

typedef struct access_t {
  int memory, begin, end, is_write; /* memories 0 and 1 are ordinal 0's */
} access_t;

typedef struct step_t {
  enum { PIECE, FOLLOW, SYNC } kind;
  int stream, piece; /* FOLLOW: the piece that is waited for */
  int count, is_peer;
  access_t accesses[2];
} step_t;

typedef struct program_t {
  step_t steps[STEPS];
  int count;
} program_t;

/* What must be so, told with sets of pieces and no clocks: the first piece that races, with whom, and the waits that change
 * nothing. */
typedef struct truth_t {
  int piece;      /* -1: no race */
  uint64_t races; /* with it */
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
      const access_t *x = &a->accesses[i], *y = &b->accesses[k];
      if (x->memory == y->memory && x->begin < y->end && y->begin < x->end && (x->is_write || y->is_write)) return 1;
    }
  return 0;
}

typedef struct order_t {                                   /* sets of pieces */
  uint64_t known[STREAMS], at[PIECES], all[STREAMS], sync; /* at: known right after that piece */
  const step_t *pieces[PIECES];
  int count;
  int fresh[STREAMS][STEPS], fresh_count[STREAMS];
  truth_t truth;
} order_t;

static uint64_t races_with(const order_t *o, const step_t *step) {
  uint64_t races = 0;
  for (int j = 0; j < o->count; j++)
    if (!((o->known[step->stream] | o->sync) >> j & 1) && conflict(o->pieces[j], step)) races |= (uint64_t)1 << j;
  return races;
}

static void order_take(order_t *o, const step_t *step) {
  uint64_t *known = &o->known[step->stream];
  int *fresh = o->fresh[step->stream], *fresh_count = &o->fresh_count[step->stream];
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
      if (!(o->at[fresh[i]] & ~more)) o->truth.implied++, fresh[i] = fresh[--*fresh_count];
      else i++;
    fresh[(*fresh_count)++] = step->piece;
    *known |= more;
  } else {
    uint64_t races = races_with(o, step);
    if (races && o->truth.piece < 0) o->truth.piece = o->count, o->truth.races = races;
    *fresh_count = 0;
    *known |= (uint64_t)1 << o->count;
    o->at[o->count] = *known, o->all[step->stream] |= (uint64_t)1 << o->count;
    o->pieces[o->count++] = step;
  }
}

static truth_t truth_of(const program_t *program, int left_out) {
  order_t o = {.truth = {.piece = -1}};
  for (int i = 0; i < program->count; i++)
    if (i != left_out) order_take(&o, &program->steps[i]);
  return o.truth;
}

/* A program in which all is ordered, by waits in no particular order. */
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
      piece.accesses[i] =
          (access_t){draw(2) + 2 * (elsewhere ? !ordinal : ordinal), begin, begin + 8 + draw(16), draw(2)};
    }
    if (piece.is_peer) { /* to, from */
      piece.accesses[0].is_write = 1, piece.accesses[1].is_write = 0;
      piece.accesses[1].end = piece.accesses[1].begin + piece.accesses[0].end - piece.accesses[0].begin;
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
    ranges[i] = (sim_range_t){host_at(memories[a->memory], (uint64_t)a->begin), (uint64_t)(a->end - a->begin),
                              (uint32_t)a->is_write, 0};
  }
  if (step->is_peer)
    return host_copy(&host, ordinal, stream, ticket, TENON_COPY_PEER, ranges[0].memory, ranges[1].memory,
                     ranges[0].bytes);
  if (step->count == 1 && ranges[0].is_write)
    return table->fill(&host.on[ordinal], stream, ticket, ranges[0].memory, ranges[0].bytes, "f", 1);
  return tests->enqueue(&host.on[ordinal], stream, ticket, "use", nothing, NULL, 0, (uint32_t)step->count, ranges);
}

/* Runs it up to its first race, and compares what sim says with the truth. */
static void program_run(const program_t *program, int left_out) {
  truth_t truth = truth_of(program, left_out);
  void *streams[STREAMS], *events[PIECES], *memories[4];
  sim_finding_t found[8] = {0};
  if (!open_sim("")) return;
  for (int i = 0; i < STREAMS; i++) streams[i] = stream_create(i >= PER_ORDINAL);
  for (int i = 0; i < 4; i++) memories[i] = allocate(i / 2, 64);
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
    for (int i = 0; i < 2; i++) CHECK_STATUS(table->synchronize(&host.on[i]), TENON_OK);
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

TEST("200 random programs are ordered; without any one of their waits they are so or not, as sets of pieces tell") {
  static program_t program;
  int racing = 0, implied = 0;
  for (uint64_t seed = 0; seed < 200; seed++) {
    program_draw(&program, seed);
    program_run(&program, -1);
    for (int i = 0; i < program.count; i++) {
      if (program.steps[i].kind != FOLLOW || (seed >= 40 && draw(4))) continue;
      program_run(&program, i);
      if (truth_of(&program, i).piece < 0) implied++;
      else racing++;
    }
  }
  CHECK(racing > 300 && implied > 30);
}

TEST("a wait that changes nothing is listed with who waits and for what") {
  if (!open_sim("")) return;
  void *a = stream_create(0), *b = stream_create(0), *c = stream_create(0), *memory = allocate(0, 100);
  void *first = event_create(0), *second = event_create(0);
  sim_finding_t found[4] = {0};
  CHECK_STATUS(use(0, a, 1, memory, 0, 8, 1), TENON_OK);
  record(0, first, a);
  follow(0, b, 0, first);
  CHECK_STATUS(use(0, b, 2, memory, 0, 8, 1), TENON_OK);
  record(0, second, b);
  CHECK(tests->implied_waits(&host.on[0], found, 4) == 0);
  follow(0, c, 0, first);
  follow(0, c, 0, second);
  CHECK(tests->implied_waits(&host.on[0], found, 4) == 1);
  CHECK_TEXT(found[0].text,
             "stream 3 of ordinal 0 waits for ticket 1 of stream 1 of ordinal 0, and then for ticket 2 of stream 2");
  follow(0, c, 0, first);
  follow(0, b, 0, second);
  CHECK(tests->implied_waits(&host.on[0], found, 4) == 3);
  CHECK_TEXT(found[1].text, "after which its work was done anyway");
  CHECK(found[2].first.ticket == 2 && found[2].second.stream == 2);
  host_close(&host);
}
