/* Starting children, and what becomes of them. */
#include "isolation/client.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "isolation/crash.h"
#include "isolation/exchange.h"

static tn_mutex_t lock = TN_MUTEX_INIT; /* of the list */
static tn_client_t *clients;

enum { START_LEAST = 30 }; /* seconds that a library has to load */

/* shared memory */

static tenon_status_t create_share(const tn_control_t *wanted, tn_share_t **out_share) {
  enum { LEAST = 64 << 20 };
  const uint64_t posts = (uint64_t)wanted->child_count * TN_POST_SIZE;
  tn_share_t *share = tn_allocate_zero(1, sizeof *share);
  if (!share) return tn_no_memory("shared memory", sizeof *share);
  *share = (tn_share_t){.references = 1, .size = posts + wanted->mailbox_size, .descriptor = -1};
  tenon_status_t status = tn_shared_create(posts, &share->descriptor);
  while (status == TENON_OK &&
         tn_shared_map(share->descriptor, share->size, &share->base) != TENON_OK)
    if ((share->size = posts + (share->size - posts) / 2) < posts + LEAST) status = TENON_MEMORY;
  if (status == TENON_OK &&
      !tn_room_begin(&share->room, share->descriptor, share->base, posts, share->size))
    status = tn_no_memory("shared memory", sizeof share->room);
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
  tn_room_clear(&share->room);
  tn_shared_unmap(share->base, share->size);
  tn_shared_close(share->descriptor);
  tn_release_memory(share);
}

uint64_t tn_share_offset(const tn_share_t *share, const void *data, uint64_t size) {
  const uint64_t offset = (uint64_t)((uintptr_t)data - (uintptr_t)share->base);
  return offset >= share->room.begin && offset < share->size && size <= share->size - offset
             ? offset
             : 0;
}

/* the keeper */

/* Under the client's lock. */
static tenon_status_t need_keeper(tn_client_t *client) {
  void *memory;
  if (client->keeper.process && tn_keeper_is_alive(&client->keeper)) return TENON_OK;
  tn_keeper_stop(&client->keeper);
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
  return tn_keeper_start(client->control_descriptor, client->share->descriptor, &client->keeper);
}

/* children */

static uint32_t all_slots(const tn_client_t *client) {
  return (1u << client->wanted.slot_count) - 1;
}

/* What was found in slot 0 instead of a description. */
static tenon_status_t refusal(const tn_client_t *client, uint32_t index) {
  unsigned char copy[4096];
  uint64_t size = tn_post(client->share->base, index)->slots[0].size;
  if (size > sizeof copy) size = sizeof copy;
  memcpy(copy, tn_post_slot(client->share->base, index, 0), size);
  tn_wire_t wire = tn_wire(copy, size);
  const int64_t status = tn_get_between(&wire, TENON_OK, TENON_UNAVAILABLE);
  const char *text = tn_get_text(&wire);
  return tn_fail(status && !wire.failed ? (tenon_status_t)status : TENON_UNAVAILABLE, "%s",
                 text ? text : "its process gives no reason");
}

/* The first description is kept; later ones must be the same: handles to operators stay. */
static tenon_status_t read_description(tn_client_t *client, uint32_t index) {
  const uint64_t size = tn_post(client->share->base, index)->description_size;
  if (size > TN_DESCRIPTION_SIZE)
    return tn_fail(TENON_INTERNAL, "its process describes it with too many bytes");
  unsigned char *copy = tn_allocate((size_t)size + 1);
  if (!copy) return tn_no_memory("the description of a library", (size_t)size);
  const unsigned char *description = tn_post_description(client->share->base, index);
  memcpy(copy, description, size);
  const uint64_t at = (uint64_t)(description - (const unsigned char *)client->share->base);
  tn_shared_forget(client->share->descriptor, at, (size + 4095) / 4096 * 4096);
  if (!client->description) {
    client->description = copy;
    client->description_size = size;
    return TENON_OK;
  }
  const bool same = size == client->description_size && !memcmp(copy, client->description, size);
  tn_release_memory(copy);
  return same ? TENON_OK
              : tn_fail(TENON_PRECONDITION,
                        "%s states other operators than when it was loaded: unload it, and load it "
                        "again",
                        client->wanted.path);
}

/* While `starting` is held; nobody is in its slots. */
static tenon_status_t start(tn_client_t *client, uint32_t index) {
  tn_child_t *child = &client->children[index];
  if (!tn_file_is_same(client->wanted.path, &client->file))
    return tn_fail(TENON_PRECONDITION,
                   "%s was changed since it was loaded: unload it, and load it again",
                   client->wanted.path);
  tn_mutex_lock(&client->lock);
  tenon_status_t status = need_keeper(client);
  const uint32_t epoch = client->epoch;
  tn_post_t *post = status == TENON_OK ? tn_post(client->share->base, index) : NULL;
  if (post) {
    tn_end_wait_told(client, index, child->number);
    child->number++;
    memset(post, 0, sizeof *post);
    post->start.state = TN_SLOT_CALL;
    if (!tn_keeper_order(&client->keeper, TN_KEEPER_START, index, child->number))
      status = tn_fail(TENON_UNAVAILABLE, "the program that keeps its process (isolate) ended at "
                                          "once: is it of the same build as libtenon?");
  }
  tn_mutex_unlock(&client->lock);
  if (status != TENON_OK) return status;
  tn_exchange_t x = {
      .client = client, .child = child, .share = client->share, .index = index, .epoch = epoch};
  x.number = child->number;
  x.slot = UINT32_MAX;
  x.name = client->wanted.path;
  const int64_t least = (int64_t)START_LEAST * 1000000000;
  x.until = tn_now() + (client->deadline > least ? client->deadline : least);
  switch (tn_exchange_wait(&x, &post->start, TN_SLOT_CALL, &(tn_patience_t){0, 0, 0}, "loading")) {
  case TN_SLOT_REPLY:
    status = read_description(client, index);
    break;
  case TN_SLOT_ASK:
    status = refusal(client, index);
    break;
  default:
    return tn_exchange_died(&x);
  }
  if (status == TENON_OK)
    __atomic_store_n(&child->is_alive, 1, __ATOMIC_RELEASE);
  else
    tn_child_kill(&x, TENON_ABORTED, "it is not needed");
  return status;
}

tenon_status_t tn_child_need(tn_client_t *client, uint32_t index) {
  tn_child_t *child = &client->children[index];
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&child->starting);
  if (!__atomic_load_n(&child->is_alive, __ATOMIC_ACQUIRE)) {
    tn_slots_wait_free(child, all_slots(client));
    status = start(client, index);
  }
  tn_mutex_unlock(&child->starting);
  return status;
}

/* the client */

tenon_status_t tn_client_create(const tn_control_t *wanted, const tn_file_identity_t *file,
                                int64_t deadline, tn_client_t **out_client) {
  tn_client_t *client = tn_allocate_zero(1, sizeof *client);
  if (!client) return tn_no_memory("an isolated library", sizeof *client);
  client->wanted = *wanted;
  client->file = *file;
  client->deadline = deadline;
  client->control_descriptor = -1;
  for (uint32_t i = 0; i < wanted->child_count; i++) {
    client->children[i].free = all_slots(client);
    for (int s = 0; s < TN_SLOTS; s++)
      client->children[i].patience[s] = tn_patience(wanted->spin);
  }
  tn_mutex_lock(&lock);
  client->next = clients;
  clients = client;
  tn_mutex_unlock(&lock);
  tenon_status_t status = tn_child_need(client, 0);
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
  tn_keeper_stop(&client->keeper);
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
    tn_keeper_forget(&client->keeper);
    tn_shared_unmap(client->control, sizeof *client->control);
    tn_shared_close(client->control_descriptor);
    client->control = NULL;
    client->control_descriptor = -1;
    if (client->share) client->share->room.lock = unlocked;
    tn_share_release(client->share); /* the parent's: tensors in it stay, as memory */
    client->share = NULL;
    for (uint32_t i = 0; i < client->wanted.child_count; i++) {
      tn_child_t *child = &client->children[i];
      child->starting = child->lock = unlocked;
      child->is_alive = 0;
      child->free = all_slots(client);
      child->waiting = 0;
    }
  }
}
