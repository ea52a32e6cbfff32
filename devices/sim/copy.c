/* Copies and fills. Host memory is read and written only when the stream reaches the copy, whether
 * the memory is pinned or not. A host that reads the destination too early therefore sees the old
 * bytes, and a copy fails if the host changed its source after the copy was enqueued. */
#include "copy.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "queue.h"

typedef struct bytes_t {
  uint64_t count;
  uint64_t sum; /* checksum of the host bytes when the copy was enqueued; 0: unknown */
} bytes_t;

static uint64_t checksum_of_bytes(const char *bytes, uint64_t count) {
  uint64_t sum = 0x9E3779B97F4A7C15u;
  uint64_t word = 0;
  for (; count >= sizeof word; count -= sizeof word, bytes += sizeof word) {
    memcpy(&word, bytes, sizeof word);
    sum = (sum ^ word) * 0xD6E8FEB86659FD93u;
    sum ^= sum >> 32;
  }
  for (word = 0; count--;)
    word = word << 8 | (unsigned char)*bytes++;
  return ((sum ^ word) * 0xD6E8FEB86659FD93u) | 1;
}

static tenon_status_t copy_bytes(void *argument, void *const *addresses, char *message) {
  const bytes_t *bytes = argument;
  if (bytes->sum && checksum_of_bytes(addresses[1], bytes->count) != bytes->sum) {
    snprintf(message, SIM_TEXT,
             "the host's %" PRIu64
             " bytes at %p were changed before the stream came to their copy; wait for it first",
             bytes->count, addresses[1]);
    return TENON_PRECONDITION;
  }
  memmove(addresses[0], addresses[1], bytes->count);
  return TENON_OK;
}

/* Tells whether enqueued work will still write these bytes, or the stream captures work. In
 * both cases a checksum taken now would be wrong. */
static bool will_change(tenon_on_t on, void *stream_handle, const void *data, uint64_t bytes) {
  sim_stream_t *stream;
  sim_lock();
  bool will = sim_stream_find(on, stream_handle, &stream) || stream->captured ||
              sim_check_writes(data, bytes);
  sim_unlock();
  return will;
}

tenon_status_t sim_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  static const char *const kinds[] = {"", "copy in", "copy out", "copy within", "copy from a peer"};
  uint32_t way = copy->direction;
  if (way < TENON_COPY_IN || way > TENON_COPY_PEER)
    return tenon_fail(on, TENON_INVALID,
                      "sim: %" PRIu32 " is not a direction of a copy; valid directions are 1 to 4",
                      way);
  if (!copy->bytes) return tenon_fail(on, TENON_INVALID, "sim: a copy of 0 bytes");
  if (way == TENON_COPY_PEER && (!copy->peer || sim_peers(on, copy->peer) != 1))
    return tenon_fail(on, TENON_INVALID,
                      "sim: ordinal %d cannot copy from %s directly; ask peers() first",
                      on->ordinal, copy->peer ? "that ordinal" : "a peer that is NULL");
  sim_use_t uses[2] = {{{copy->to, copy->bytes, 1, 0}, NULL, way == TENON_COPY_OUT},
                       {{copy->from, copy->bytes, 0, 0},
                        way == TENON_COPY_PEER ? copy->peer : NULL,
                        way == TENON_COPY_IN}};
  if ((uses[0].is_host && !copy->to.handle) || (uses[1].is_host && !copy->from.handle))
    return tenon_fail(on, TENON_INVALID, "sim: the host's side of a copy is NULL");
  bytes_t bytes = {copy->bytes, 0};
  if (uses[1].is_host) {
    const char *from = (const char *)copy->from.handle + copy->from.offset;
    if (!will_change(on, stream, from, copy->bytes))
      bytes.sum = checksum_of_bytes(from, copy->bytes);
  }
  return sim_work_enqueue(on, stream, copy->ticket, kinds[way], copy_bytes, &bytes, sizeof bytes, 2,
                          uses, SIM_CALL_COPY);
}

typedef struct pattern_t {
  uint64_t bytes;
  uint32_t size;
  char text[8];
} pattern_t;

static tenon_status_t fill_bytes(void *argument, void *const *addresses, char *message) {
  const pattern_t *pattern = argument;
  char *to = addresses[0];
  (void)message;
  for (uint64_t i = 0; i < pattern->bytes; i += pattern->size)
    memcpy(to + i, pattern->text, pattern->size);
  return TENON_OK;
}

tenon_status_t sim_fill(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to,
                        uint64_t bytes, const void *text, uint32_t size) {
  pattern_t pattern = {bytes, size, {0}};
  if ((size != 1 && size != 2 && size != 4 && size != 8) || !bytes || bytes % size)
    return tenon_fail(on, TENON_INVALID,
                      "sim: a fill of %" PRIu64 " bytes with %" PRIu32
                      "; it takes whole patterns of 1, 2, 4 or 8 bytes",
                      bytes, size);
  memcpy(pattern.text, text, size);
  sim_use_t use = {{to, bytes, 1, 0}, NULL, false};
  return sim_work_enqueue(on, stream, ticket, "fill", fill_bytes, &pattern, sizeof pattern, 1, &use,
                          SIM_CALL_FILL);
}

int32_t sim_peers(tenon_on_t on, tenon_on_t from) {
  sim_lock();
  int32_t direct = sim.settings.peers && from->plugin == on->plugin;
  sim_unlock();
  return direct;
}

tenon_status_t sim_host_allocate(tenon_on_t on, uint64_t bytes, void **out_data) {
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_inject(on, SIM_CALL_HOST_ALLOCATE);
  void *data = NULL;
  if (!status && (bytes > PTRDIFF_MAX || posix_memalign(&data, 64, bytes ? bytes : 1)))
    status = tenon_fail(on, TENON_MEMORY, "sim: no %" PRIu64 " bytes of host memory", bytes);
  if (!status) *out_data = data;
  return sim_leave(status);
}

/* Memory that a copy may still use is never freed. */
void sim_host_free(tenon_on_t on, void *data) {
  char text[SIM_TEXT];
  sim_lock();
  bool used = data && sim_check_host(on, "host_free", data, malloc_usable_size(data), 1, text);
  sim_unlock();
  if (!used) free(data);
}
