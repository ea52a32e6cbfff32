/* Another framework on sim beside Tenon: it has memory and streams of its own, which it makes and
 * uses through the device table. Include after there.h. */
#ifndef TENON_TESTS_OWNER_H
#define TENON_TESTS_OWNER_H

enum { OWNER_BYTES = 4096 };

typedef struct owner_t {
  tenon_device_t device;
  tn_ordinal_t *o;
  void *memory;
  void *native; /* a memory handle and a stream of the table */
  tenon_stream_t *stream;
  int told;
} owner_t;

static inline void owner_told(void *context) { ((owner_t *)context)->told++; }

static inline void *owner_native(const owner_t *w) {
  void *native = NULL;
  CHECK_STATUS(w->o->table->stream_create(&w->o->context, &native), TENON_OK);
  return native;
}

static inline owner_t owner_of(tenon_device_t device) {
  owner_t w = {.device = device, .o = ordinal_of(device)};
  CHECK_STATUS(w.o->table->allocate(&w.o->context, OWNER_BYTES, &w.memory), TENON_OK);
  w.native = owner_native(&w);
  CHECK_STATUS(tenon_stream_import(device, w.native, &w.stream), TENON_OK);
  return w;
}

static inline void
/* Waits for all work on the device, even if a test left waits out. */
owner_end(owner_t *w) {
  (void)w->o->table->synchronize(&w->o->context);
  tenon_stream_release(w->stream);
  w->o->table->stream_destroy(&w->o->context, w->native);
  w->o->table->free(&w->o->context, w->memory);
}

/* Work of the framework itself: sets numbers in its memory, from a position on, to `value`. */
static inline void owner_fill(const owner_t *w, void *native, uint64_t offset, uint64_t count,
                              float value) {
  tenon_memory_t to = {w->memory, offset};
  CHECK_STATUS(
      w->o->table->fill(&w->o->context, native, 0, to, count * sizeof value, &value, sizeof value),
      TENON_OK);
}

/* Reads `count` numbers of its memory, from a position on. */
static inline tenon_external_t owner_numbers(owner_t *w, uint64_t offset, const int64_t *count,
                                             tenon_stream_t *stream) {
  return (tenon_external_t){.size = sizeof(tenon_external_t),
                            .device = w->device,
                            .data = w->memory,
                            .byte_offset = offset,
                            .dtype = tenon_dtype(TENON_F32),
                            .ndim = 1,
                            .shape = count,
                            .stream = stream,
                            .release = owner_told,
                            .context = w};
}

static inline uint64_t races_on(const owner_t *w) { return sim->races(&w->o->context, NULL, 0); }

static inline void no_race(const owner_t *w, uint64_t before) {
  sim_finding_t found[64];
  uint64_t count = sim->races(&w->o->context, found, 64);
  check_report(count == before, __FILE__, __LINE__, "no race",
               count > before ? found[count - 1].text : NULL);
}

static inline uint64_t copies_of(const owner_t *w) {
  uint64_t count = 0;
  for (int d = TENON_COPY_IN; d <= TENON_COPY_PEER; d++)
    count += w->o->copies[d].count;
  return count;
}

#endif
