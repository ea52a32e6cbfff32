/* Starts and restarts the worker processes of an isolated library and owns their shared memory. The
 * proxies reach this file through tn_exchange_begin, which calls tn_child_ensure. A worker process
 * is started only while none of its channel entries is in use. */
#include "isolation/client.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "isolation/crash.h"
#include "isolation/exchange.h"

/* Protects the list `clients`. */
static tn_mutex_t lock = TN_MUTEX_INIT;
static tn_client_t *clients;

enum { START_LEAST = 30 }; /* seconds that a library always has to load */

static tenon_status_t create_share(const tn_control_t *wanted, tn_share_t **out_share) {
  enum { LEAST = 64 << 20 };
  const uint64_t channels = (uint64_t)wanted->child_count * TN_CHANNEL_SIZE;
  tn_share_t *share = tn_allocate_zero(1, sizeof *share);
  if (!share) return tn_no_memory("the shared memory of an isolated library", sizeof *share);
  *share = (tn_share_t){.references = 1, .size = channels + wanted->mailbox_size, .descriptor = -1};
  tenon_status_t status = tn_shared_create(channels, &share->descriptor);
  while (status == TENON_OK &&
         tn_shared_map(share->descriptor, share->size, &share->base) != TENON_OK)
    if ((share->size = channels + (share->size - channels) / 2) < channels + LEAST)
      status = TENON_MEMORY;
  if (status == TENON_OK &&
      !tn_heap_create(&share->heap, share->descriptor, share->base, channels, share->size))
    status = tn_no_memory("the shared memory of an isolated library", sizeof share->heap);
  if (status == TENON_OK)
    *out_share = share;
  else
    tn_share_release(share);
  return status;
}

void tn_share_retain(tn_share_t *share) {
  __atomic_fetch_add(&share->references, 1, __ATOMIC_RELAXED);
}

void tn_share_release(tn_share_t *share) {
  if (!share || __atomic_sub_fetch(&share->references, 1, __ATOMIC_ACQ_REL)) return;
  tn_heap_clear(&share->heap);
  tn_shared_unmap(share->base, share->size);
  tn_shared_close(share->descriptor);
  tn_release_memory(share);
}

uint64_t tn_share_offset(const tn_share_t *share, const void *data, uint64_t size) {
  const uint64_t offset = (uint64_t)((uintptr_t)data - (uintptr_t)share->base);
  return offset >= share->heap.begin && offset < share->size && size <= share->size - offset
             ? offset
             : 0;
}

/* Starts the supervisor unless it is running. The caller holds the client's lock. */
static tenon_status_t ensure_supervisor(tn_client_t *client) {
  void *memory;
  if (client->supervisor.process && tn_supervisor_is_alive(&client->supervisor)) return TENON_OK;
  tn_supervisor_stop(&client->supervisor);
  client->epoch++;
  if (!client->share) TN_TRY(create_share(&client->wanted, &client->share));
  if (!client->control) {
    TN_TRY(tn_shared_create(sizeof *client->control, &client->control_descriptor));
    TN_TRY(tn_shared_map(client->control_descriptor, sizeof *client->control, &memory));
    client->control = memory;
  }
  *client->control = client->wanted;
  client->control->size = sizeof *client->control;
  client->control->mailbox_size = client->share->size;
  client->control->host = tn_process_id();
  strncpy(client->control->version, tenon_version(), sizeof client->control->version - 1);
  return tn_supervisor_start(client->control_descriptor, client->share->descriptor,
                             &client->supervisor);
}

static uint32_t all_entries(const tn_client_t *client) {
  return (1u << client->wanted.entry_count) - 1;
}

/* Reads why the worker process could not load the library. The worker process wrote the reason to
 * channel entry 0. */
static tenon_status_t refusal_of_child(const tn_client_t *client, uint32_t index) {
  unsigned char copy[4096];
  uint64_t *shared_size = &tn_channel(client->share->base, index)->entries[0].size;
  uint64_t size = __atomic_load_n(shared_size, __ATOMIC_RELAXED);
  if (size > sizeof copy) size = sizeof copy;
  tn_shared_copy(copy, tn_channel_area(client->share->base, index, 0), size);
  tn_wire_t wire = tn_wire(copy, size);
  const int64_t status = tn_get_between(&wire, TENON_OK, TENON_UNAVAILABLE);
  const char *text = tn_get_message(&wire);
  const bool has_status = status && !wire.failed;
  if (!text) text = "its isolated process gave no reason";
  return tn_fail(has_status ? (tenon_status_t)status : TENON_UNAVAILABLE, "%s", text);
}

/* Reads what the library declares. The first description is kept, and a restarted worker process
 * must give the same one, because handles to operators stay valid. */
static tenon_status_t read_description(tn_client_t *client, uint32_t index) {
  uint64_t *shared_size = &tn_channel(client->share->base, index)->description_size;
  const uint64_t size = __atomic_load_n(shared_size, __ATOMIC_RELAXED);
  if (size > TN_DESCRIPTION_SIZE)
    return tn_fail(TENON_INTERNAL,
                   "the description from its isolated process is larger than the channel allows");
  unsigned char *copy = tn_allocate((size_t)size + 1);
  if (!copy) return tn_no_memory("the description of an isolated library", (size_t)size);
  const unsigned char *description = tn_channel_description(client->share->base, index);
  tn_shared_copy(copy, description, size);
  const uint64_t at = (uint64_t)(description - (const unsigned char *)client->share->base);
  tn_shared_discard(client->share->descriptor, at, (size + 4095) / 4096 * 4096);
  if (!client->description) {
    client->description = copy;
    client->description_size = size;
    return TENON_OK;
  }
  const bool same = size == client->description_size && !memcmp(copy, client->description, size);
  tn_release_memory(copy);
  return same ? TENON_OK
              : tn_fail(TENON_PRECONDITION,
                        "%s declares other operators than when it was loaded: unload it and load "
                        "it again",
                        client->wanted.path);
}

static tenon_status_t check_file(const tn_client_t *client) {
  if (tn_file_is_same(client->wanted.path, &client->file)) return TENON_OK;
  return tn_fail(TENON_PRECONDITION,
                 "%s was changed since it was loaded: unload it and load it again",
                 client->wanted.path);
}

/* Takes the right to open files from a worker process that reports to have loaded the library, and
 * compares the file again: the process opened it by its name, which another file may have had
 * meanwhile. */
static tenon_status_t finish_loading(tn_client_t *client, const tn_exchange_t *x) {
  tn_mutex_lock(&client->lock);
  const bool is_ordered =
      client->epoch != x->epoch ||
      tn_supervisor_order(&client->supervisor, TN_SUPERVISOR_LOADED, x->index, x->number);
  tn_mutex_unlock(&client->lock);
  if (!is_ordered)
    return tn_fail(TENON_UNAVAILABLE, "its supervisor, the program isolate, has ended");
  return check_file(client);
}

/* Starts a worker process and waits until it has loaded the library. The caller holds `starting`,
 * and no channel entry is in use. */
static tenon_status_t start_child(tn_client_t *client, uint32_t index) {
  tn_child_t *child = &client->children[index];
  TN_TRY(check_file(client));
  tn_mutex_lock(&client->lock);
  tenon_status_t status = ensure_supervisor(client);
  const uint32_t epoch = client->epoch;
  tn_channel_t *channel = status == TENON_OK ? tn_channel(client->share->base, index) : NULL;
  if (channel) {
    tn_end_wait_told(client, index, child->number);
    child->number++;
    memset(channel, 0, sizeof *channel);
    channel->start.state = TN_ENTRY_CALL;
    if (!tn_supervisor_order(&client->supervisor, TN_SUPERVISOR_START, index, child->number))
      status = tn_fail(TENON_UNAVAILABLE, "its supervisor, the program isolate, ended at once: "
                                          "check that isolate and libtenon are of the same build");
  }
  tn_mutex_unlock(&client->lock);
  if (status != TENON_OK) return status;
  tn_exchange_t x = {
      .client = client, .child = child, .share = client->share, .index = index, .epoch = epoch};
  x.number = child->number;
  x.entry = UINT32_MAX;
  x.name = client->wanted.path;
  const int64_t least = (int64_t)START_LEAST * 1000000000;
  x.until = tn_now() + (client->deadline > least ? client->deadline : least);
  const uint32_t state =
      tn_exchange_wait(&x, &channel->start, TN_ENTRY_CALL, &(tn_spin_t){0, 0, 0}, "loading");
  switch (state) {
  case TN_ENTRY_REPLY:
    status = finish_loading(client, &x);
    if (status == TENON_OK) status = read_description(client, index);
    break;
  case TN_ENTRY_ASK:
    status = refusal_of_child(client, index);
    break;
  default: /* DEAD, or a state that only a hostile process writes */
    if (state != TN_ENTRY_DEAD)
      tn_child_kill(&x, TENON_INTERNAL, "corrupted the messages in its shared memory");
    return tn_exchange_died(&x);
  }
  if (status == TENON_OK)
    __atomic_store_n(&child->is_alive, 1, __ATOMIC_RELEASE);
  else
    tn_child_kill(&x, TENON_ABORTED, "it is not needed");
  return status;
}

tenon_status_t tn_child_ensure(tn_client_t *client, uint32_t index) {
  tn_child_t *child = &client->children[index];
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&child->starting);
  if (!__atomic_load_n(&child->is_alive, __ATOMIC_ACQUIRE)) {
    tn_entries_wait_free(child, all_entries(client));
    status = start_child(client, index);
  }
  tn_mutex_unlock(&child->starting);
  return status;
}

tenon_status_t tn_client_create(const tn_control_t *wanted, const tn_file_identity_t *file,
                                int64_t deadline, tn_client_t **out_client) {
  tn_client_t *client = tn_allocate_zero(1, sizeof *client);
  if (!client) return tn_no_memory("an isolated library", sizeof *client);
  client->wanted = *wanted;
  client->file = *file;
  client->deadline = deadline;
  client->control_descriptor = -1;
  for (uint32_t i = 0; i < wanted->child_count; i++) {
    client->children[i].free = all_entries(client);
    for (int s = 0; s < TN_CHANNEL_ENTRIES; s++)
      client->children[i].spin[s] = tn_spin(wanted->spin);
  }
  tn_mutex_lock(&lock);
  client->next = clients;
  clients = client;
  tn_mutex_unlock(&lock);
  tenon_status_t status = tn_child_ensure(client, 0);
  if (status != TENON_OK) {
    tn_client_release(client);
    return status;
  }
  *out_client = client;
  return TENON_OK;
}

void tn_client_release(tn_client_t *client) {
  if (!client) return;
  tn_mutex_lock(&lock);
  tn_client_t **at = &clients;
  while (*at && *at != client)
    at = &(*at)->next;
  if (*at) *at = client->next;
  tn_mutex_unlock(&lock);
  tn_supervisor_stop(&client->supervisor);
  tn_share_release(client->share);
  tn_shared_unmap(client->control, sizeof *client->control);
  tn_shared_close(client->control_descriptor);
  tn_release_memory(client->description);
  tn_release_memory(client);
}

void tn_clients_in_child(void) {
  const tn_mutex_t unlocked = TN_MUTEX_INIT;
  lock = unlocked;
  for (tn_client_t *client = clients; client; client = client->next) {
    client->lock = unlocked;
    tn_supervisor_forget(&client->supervisor);
    tn_shared_unmap(client->control, sizeof *client->control);
    tn_shared_close(client->control_descriptor);
    client->control = NULL;
    client->control_descriptor = -1;
    if (client->share) client->share->heap.lock = unlocked;
    /* The share belongs to the parent process. Tensors in it keep a reference and stay readable
     * here. */
    tn_share_release(client->share);
    client->share = NULL;
    for (uint32_t i = 0; i < client->wanted.child_count; i++) {
      tn_child_t *child = &client->children[i];
      child->starting = child->lock = unlocked;
      child->is_alive = 0;
      child->free = all_entries(client);
      child->waiting = 0;
    }
  }
}
