/* The life of a worker process: it restricts itself, loads the library, reports what the library
 * declares, and starts one thread for each channel entry. Calls go through a complete Tenon in this
 * process, so kernels find every host service. */
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
static tn_channel_entry_t entries[TN_CHANNEL_ENTRIES];

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

/* Finds the operators in the order of their declarations. The host uses this order to number
 * them. */
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
      /* The operator does not exist here, so its kernels are never called. */
      op = NULL;
    worker.ops[worker.op_count++] = op;
  }
  return TENON_OK;
}

static tenon_status_t describe_library(const tn_library_t *library) {
  tn_wire_t wire =
      tn_wire(tn_channel_description(worker.mailbox, worker.child), TN_DESCRIPTION_SIZE);
  uint64_t count = 0;
  tn_put_text(&wire, library->name);
  tn_put_text(&wire, library->version);
  describe_items(library->descriptor->items, &wire, &count);
  tn_put(&wire, TENON_TAG_END);
  if (wire.failed)
    return tn_fail(TENON_RANGE, "its declarations have more than %d bytes of text",
                   (int)TN_DESCRIPTION_SIZE);
  worker.channel->description_size = wire.at;
  if (!(worker.ops = tn_allocate_zero((size_t)count + 1, sizeof *worker.ops)))
    return tn_no_memory("operators", count);
  return find_operators(library->descriptor->items, library->name);
}

static void serve_entry(void *argument) {
  tn_channel_entry_t *entry = argument;
  tn_doorbell_t *doorbell = entry->doorbell;
  tn_crash_thread(entry->number);
  tn_parallel_set((int32_t)worker.control->thread_count);
  for (uint32_t state;;) {
    state = __atomic_load_n(&doorbell->state, __ATOMIC_ACQUIRE);
    while (state != TN_ENTRY_CALL)
      state = tn_doorbell_wait(&doorbell->state, state, &doorbell->child_sleeps, &entry->spin, 0);
    tn_entry_serve(entry);
  }
}

static tenon_status_t start_entry_threads(void) {
  for (uint32_t i = 0; i < worker.control->entry_count; i++) {
    tn_spawned_t thread;
    entries[i] = (tn_channel_entry_t){.worker = &worker,
                                      .number = (int)i,
                                      .doorbell = &worker.channel->entries[i],
                                      .area = tn_channel_area(worker.mailbox, worker.child, i),
                                      .spin = tn_spin(worker.control->spin)};
    if (!tn_spawn(&thread, serve_entry, &entries[i]))
      return tn_fail(TENON_UNAVAILABLE, "its threads cannot be started");
  }
  return TENON_OK;
}

static tenon_status_t load_library(int gate) {
  tenon_library_t *library;
  if (!tn_lockdown_begin(worker.control, gate))
    return tn_fail(TENON_UNAVAILABLE, "the system refuses to restrict its process%s: %s",
                   worker.control->has_folders ? " (folders need Landlock, Linux 5.13)" : "",
                   strerror(errno));
  TN_TRY(tn_isolation_load(worker.control->path, worker.control->flags, &library));
  TN_TRY(describe_library((const tn_library_t *)library));
  TN_TRY(start_entry_threads());
  switch (tn_lockdown_finish(worker.control)) {
  case TN_LOCKDOWN_DONE:
    return TENON_OK;
  case TN_LOCKDOWN_EVADED:
    return tn_fail(TENON_DENIED, "the library has replaced the filter that restricts its process "
                                 "after loading: do not use this library");
  default:
    return tn_fail(TENON_UNAVAILABLE, "the system refuses to restrict its process: %s",
                   strerror(errno));
  }
}

/* The reason why the library was not loaded, without "cannot load PATH: ", which the host adds. */
static const char *reason_of_failure(void) {
  const char *text = tn_error();
  const char *path = strstr(text, worker.control->path);
  const size_t size = strlen(worker.control->path);
  return !strncmp(text, "cannot load ", 12) && path == text + 12 && !strncmp(path + size, ": ", 2)
             ? path + size + 2
             : text;
}

void tn_worker_run(void *mailbox, uint32_t child, const tn_control_t *control, int gate) {
  worker = (tn_worker_t){.mailbox = mailbox,
                         .child = child,
                         .control = control,
                         .channel = tn_channel(mailbox, child)};
  tn_doorbell_t *start = &worker.channel->start;
  tn_crash_watch(&worker.channel->crash);
  tn_crash_thread(-1);
  const tenon_status_t status = load_library(gate);
  if (status != TENON_OK) {
    tn_wire_t wire = tn_wire(tn_channel_area(mailbox, child, 0), TN_MESSAGE_SIZE);
    tn_put(&wire, (uint64_t)status);
    tn_put_text(&wire, reason_of_failure());
    worker.channel->entries[0].size = wire.at;
  }
  tn_doorbell_ring(&start->state, TN_ENTRY_CALL, status == TENON_OK ? TN_ENTRY_REPLY : TN_ENTRY_ASK,
                   &start->host_sleeps);
  tn_spin_t spin = tn_spin(0);
  uint32_t never = 0;
  uint32_t sleeps = 0;
  for (;;)
    tn_doorbell_wait(&never, 0, &sleeps, &spin, 0);
}
