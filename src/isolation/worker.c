/* A child's life: loading, saying what the library states, and one thread for each slot that serves
 * calls.  A call goes through a real Tenon here, so kernels find all services as ever. */
#include "isolation/worker.h"

#include <errno.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/status.h"
#include "base/thread.h"
#include "isolation/crash.h"
#include "isolation/isolation.h"
#include "isolation/lockdown.h"
#include "isolation/message.h"
#include "isolation/serve.h"

static tn_worker_t worker;
static tn_seat_t seats[TN_SLOTS];

/* what the library states */

static bool is_text(uint32_t tag) {
  switch (tag) {
  case TENON_TAG_GROUP:
  case TENON_TAG_DEVICE:
  case TENON_TAG_BRIDGE:
  case TENON_TAG_PASS:
  case TENON_TAG_PARTITIONER:
    return false;
  default:
    return true;
  }
}

static void describe_items(const tenon_item_t *item, tn_wire_t *wire, uint64_t *count) {
  for (; item->tag != TENON_TAG_END; item++) {
    const uint32_t tag = item->tag & ~TENON_MUST;
    if (tag == TENON_TAG_GROUP) {
      describe_items(item->text, wire, count);
      continue;
    }
    tn_put(wire, item->tag);
    tn_put(wire, (uint64_t)item->number);
    tn_put(wire, item->function != NULL);
    tn_put_text(wire, is_text(tag) ? item->text : NULL);
    if (tag == TENON_TAG_OP || tag == TENON_TAG_EXTEND) ++*count;
  }
}

/* Operators by the number that the host calls them by: in the order of what states them. */
static tenon_status_t find_operators(const tenon_item_t *item, const char *library) {
  for (; item->tag != TENON_TAG_END; item++) {
    const uint32_t tag = item->tag & ~TENON_MUST;
    if (tag == TENON_TAG_GROUP) TN_TRY(find_operators(item->text, library));
    if (tag != TENON_TAG_OP && tag != TENON_TAG_EXTEND) continue;
    char name[TN_NAME_SIZE];
    tn_operator_name(item->text, library, name);
    const tenon_op_t *op = NULL;
    if (tag == TENON_TAG_OP)
      TN_TRY(tenon_op_find(name, &op));
    else if (tenon_op_find(name, &op) != TENON_OK)
      op = NULL; /* it is not here: the kernels are never called */
    worker.ops[worker.op_count++] = op;
  }
  return TENON_OK;
}

static tenon_status_t describe(const tn_library_t *library) {
  tn_wire_t wire = tn_wire(tn_post_description(worker.mailbox, worker.child), TN_DESCRIPTION_SIZE);
  uint64_t count = 0;
  tn_put_text(&wire, library->name);
  tn_put_text(&wire, library->version);
  describe_items(library->descriptor->items, &wire, &count);
  tn_put(&wire, TENON_TAG_END);
  if (wire.failed)
    return tn_fail(TENON_RANGE, "it states more than %d bytes of text", (int)TN_DESCRIPTION_SIZE);
  worker.post->description_size = wire.at;
  if (!(worker.ops = tn_allocate_zero((size_t)count + 1, sizeof *worker.ops)))
    return tn_no_memory("operators", count);
  return find_operators(library->descriptor->items, library->name);
}

/* serving */

static void serve(void *argument) {
  tn_seat_t *seat = argument;
  tn_bell_t *bell = seat->bell;
  tn_crash_seat(seat->number);
  tn_parallel_set((int32_t)worker.control->thread_count);
  for (uint32_t state;;) {
    state = __atomic_load_n(&bell->state, __ATOMIC_ACQUIRE);
    while (state != TN_SLOT_CALL)
      state = tn_bell_wait(&bell->state, state, &bell->child_sleeps, &seat->patience, 0);
    tn_seat_serve(seat);
  }
}

static tenon_status_t take_seats(void) {
  for (uint32_t i = 0; i < worker.control->slot_count; i++) {
    tn_spawned_t thread;
    seats[i] = (tn_seat_t){.worker = &worker,
                           .number = (int)i,
                           .bell = &worker.post->slots[i],
                           .area = tn_post_slot(worker.mailbox, worker.child, i),
                           .patience = tn_patience(worker.control->spin)};
    if (!tn_spawn(&thread, serve, &seats[i]))
      return tn_fail(TENON_UNAVAILABLE, "its threads cannot be started");
  }
  return TENON_OK;
}

static tenon_status_t load(void) {
  tenon_library_t *library;
  if (!tn_lockdown_begin(worker.control))
    return tn_fail(TENON_UNAVAILABLE, "the system refuses to restrict its process%s: %s",
                   worker.control->has_folders ? " (folders need Landlock, Linux 5.13)" : "",
                   strerror(errno));
  TN_TRY(tn_isolation_load(worker.control->path, worker.control->flags, &library));
  TN_TRY(describe((const tn_library_t *)library));
  TN_TRY(take_seats());
  if (!tn_lockdown_finish(worker.control))
    return tn_fail(TENON_UNAVAILABLE, "the system refuses to restrict its process: %s",
                   strerror(errno));
  return TENON_OK;
}

/* Why it does not load; the host says that it does not. */
static const char *reason(void) {
  const char *text = tn_error();
  const char *path = strstr(text, worker.control->path);
  const size_t size = strlen(worker.control->path);
  return !strncmp(text, "cannot load ", 12) && path == text + 12 && !strncmp(path + size, ": ", 2)
             ? path + size + 2
             : text;
}

void tn_worker_run(void *mailbox, uint32_t child, const tn_control_t *control) {
  worker = (tn_worker_t){
      .mailbox = mailbox, .child = child, .control = control, .post = tn_post(mailbox, child)};
  tn_bell_t *start = &worker.post->start;
  tn_crash_watch(&worker.post->crash);
  tn_crash_seat(-1);
  const tenon_status_t status = load();
  if (status != TENON_OK) {
    tn_wire_t wire = tn_wire(tn_post_slot(mailbox, child, 0), TN_MESSAGE_SIZE);
    tn_put(&wire, (uint64_t)status);
    tn_put_text(&wire, reason());
    worker.post->slots[0].size = wire.at;
  }
  tn_bell_ring(&start->state, TN_SLOT_CALL, status == TENON_OK ? TN_SLOT_REPLY : TN_SLOT_ASK,
               &start->host_sleeps);
  tn_patience_t patience = tn_patience(0);
  uint32_t never = 0;
  uint32_t sleeps = 0;
  for (;;)
    tn_bell_wait(&never, 0, &sleeps, &patience, 0);
}
