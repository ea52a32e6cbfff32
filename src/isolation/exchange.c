/* One call and its reply: slots, waiting, deadlines, and whose fault it was. */
#include "isolation/exchange.h"

#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "isolation/crash.h"
#include "isolation/message.h"

enum {
  GLANCE = 50000000
}; /* nanoseconds after which a sleeper looks whether there is still a keeper */
enum { GLANCE_POLLED = 2000000 }; /* ... and whether its program wants to go on */
enum {
  ASKS_MOST = 1 << 16,
  ASK_SIZE = 256,
}; /* of one call, whose copies stay until its end; bytes of each */
#define GONE_WITHIN                                                                                \
  INT64_C(5000000000) /* a child that was killed; else its keeper is killed, too */

/* slots */

static void sleep_on(uint32_t *word, uint32_t value) {
  tn_patience_t none = tn_patience(0);
  uint32_t ignored;
  tn_bell_wait(word, value, &ignored, &none, tn_now() + GLANCE);
}

static uint32_t take_slot(tn_child_t *child) {
  for (;;) {
    uint32_t mask = __atomic_load_n(&child->free, __ATOMIC_RELAXED);
    if (mask) {
      const uint32_t slot = (uint32_t)__builtin_ctz(mask);
      if (__atomic_compare_exchange_n(&child->free, &mask, mask & (mask - 1), false,
                                      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return slot;
      continue;
    }
    __atomic_fetch_add(&child->waiting, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&child->free, __ATOMIC_SEQ_CST)) sleep_on(&child->free, 0);
    __atomic_fetch_sub(&child->waiting, 1, __ATOMIC_RELAXED);
  }
}

static void give_slot(tn_child_t *child, uint32_t slot) {
  __atomic_fetch_or(&child->free, 1u << slot, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&child->waiting, __ATOMIC_SEQ_CST)) tn_bell_wake(&child->free);
}

void tn_slots_wait_free(tn_child_t *child, uint32_t all) {
  __atomic_fetch_add(&child->waiting, 1, __ATOMIC_SEQ_CST);
  for (uint32_t mask; (mask = __atomic_load_n(&child->free, __ATOMIC_SEQ_CST)) != all;)
    sleep_on(&child->free, mask);
  __atomic_fetch_sub(&child->waiting, 1, __ATOMIC_RELAXED);
}

/* The one with most to spare, the first of such. */
static uint32_t choose(const tn_client_t *client) {
  uint32_t best = 0;
  int most = -1;
  for (uint32_t i = 0; i < client->wanted.child_count; i++) {
    const int spare =
        __builtin_popcount(__atomic_load_n(&client->children[i].free, __ATOMIC_RELAXED));
    if (spare > most) {
      most = spare;
      best = i;
    }
  }
  return best;
}

/* how a child ends */

/* Is it gone?  The keeper alone can say so. */
static bool is_gone(const tn_exchange_t *x) {
  tn_client_t *client = x->client;
  if (__atomic_load_n(&client->control->ends[x->index].dead, __ATOMIC_ACQUIRE) == x->number)
    return true;
  tn_mutex_lock(&client->lock);
  const bool has_keeper = client->epoch == x->epoch && tn_keeper_is_alive(&client->keeper);
  tn_mutex_unlock(&client->lock);
  return !has_keeper;
}

void tn_end_wait_told(tn_client_t *client, uint32_t index, uint32_t number) {
  uint32_t *told = &client->control->ends[index].told;
  uint32_t *dead = &client->control->ends[index].dead;
  uint32_t found;
  while (number && __atomic_load_n(dead, __ATOMIC_ACQUIRE) == number &&
         (found = __atomic_load_n(told, __ATOMIC_ACQUIRE)) != number &&
         tn_keeper_is_alive(&client->keeper))
    sleep_on(told, found);
}

void tn_child_kill(tn_exchange_t *x, tenon_status_t status, const char *why) {
  tn_client_t *client = x->client;
  tn_end_t *kill = &x->child->kill;
  tn_mutex_lock(&x->child->lock);
  if (kill->number != x->number) {
    kill->number = x->number;
    kill->slot = (int32_t)x->slot;
    kill->status = status;
    snprintf(kill->text, sizeof kill->text, "%s", why);
  }
  tn_mutex_unlock(&x->child->lock);
  tn_mutex_lock(&client->lock);
  if (client->epoch == x->epoch)
    tn_keeper_order(&client->keeper, TN_KEEPER_KILL, x->index, x->number);
  tn_mutex_unlock(&client->lock);
  uint32_t *dead = &client->control->ends[x->index].dead;
  for (int64_t until = tn_now() + GONE_WITHIN; !is_gone(x);) {
    sleep_on(dead, __atomic_load_n(dead, __ATOMIC_ACQUIRE));
    if (tn_now() < until) continue;
    tn_mutex_lock(&client->lock);
    if (client->epoch == x->epoch) tn_keeper_stop(&client->keeper);
    tn_mutex_unlock(&client->lock);
  }
}

/* Writes down how the child ended, once.  Under its lock. */
static void find_end(tn_exchange_t *x) {
  tn_child_t *child = x->child;
  const tn_control_t *control = x->client->control;
  tn_end_t *end = &child->end;
  if (end->number == x->number) return;
  *end = (tn_end_t){.number = x->number, .slot = -1, .status = TENON_ABORTED};
  __atomic_store_n(&child->is_alive, 0, __ATOMIC_RELEASE);
  if (child->kill.number == x->number) {
    *end = child->kill;
    return;
  }
  if (__atomic_load_n(&control->ends[x->index].dead, __ATOMIC_ACQUIRE) != x->number) {
    snprintf(end->text, sizeof end->text, "was lost: the process that kept it (isolate) ended");
    end->is_lost = true;
    return;
  }
  if (control->ends[x->index].status == -1) {
    snprintf(end->text, sizeof end->text, "could not be started: %s",
             strerror(control->ends[x->index].problem));
    end->status = TENON_UNAVAILABLE;
    return;
  }
  tn_crash_t crash;
  tn_text_t text = {0};
  memcpy(&crash, &tn_post(x->share->base, x->index)->crash, sizeof crash);
  end->status = tn_crash_describe(&crash, control->ends[x->index].status, control->memory, &text);
  snprintf(end->text, sizeof end->text, "%s", tn_text_get(&text));
  tn_text_clear(&text);
  const uint32_t busy = ~__atomic_load_n(&child->free, __ATOMIC_RELAXED);
  if (crash.kind != TN_CRASH_NONE && crash.slot >= 1 &&
      crash.slot <= x->client->wanted.slot_count && busy >> (crash.slot - 1) & 1)
    end->slot = (int32_t)crash.slot - 1;
}

tenon_status_t tn_exchange_died(tn_exchange_t *x) {
  tn_child_t *child = x->child;
  tn_mutex_lock(&child->lock);
  find_end(x);
  const tn_end_t end = child->end;
  tn_mutex_unlock(&child->lock);
  if (x->slot == UINT32_MAX) return tn_fail(end.status, "its process %s", end.text);
  const uint32_t others =
      ~__atomic_load_n(&child->free, __ATOMIC_RELAXED) & ((1u << x->client->wanted.slot_count) - 1);
  x->is_bystander = end.is_lost; /* its keeper was to blame */
  const bool is_alone = end.slot < 0 && !(others & (others - 1));
  if (end.slot == (int32_t)x->slot || is_alone)
    return tn_fail(end.status, "%s: its isolated process %s; the next call starts it anew", x->name,
                   end.text);
  x->is_bystander |= end.slot >= 0;
  return tn_fail(end.status,
                 "%s: its isolated process ended while several calls were in it: it %s; the next "
                 "call starts it anew",
                 x->name, end.text);
}

/* waiting */

static tenon_status_t ask_program(void) {
  const tenon_poll_t *poll = tn_thread()->poll;
  return poll ? poll->ask(poll->state) : TENON_OK;
}

uint32_t tn_exchange_wait(tn_exchange_t *x, tn_bell_t *bell, uint32_t value,
                          tn_patience_t *patience, const char *what) {
  for (;;) {
    const int64_t glance = tn_thread()->poll ? GLANCE_POLLED : GLANCE;
    uint32_t found = __atomic_load_n(&bell->state, __ATOMIC_ACQUIRE);
    for (int64_t now = tn_now(), soon = now + glance;
         found == value && now < soon && (!x->until || now < x->until); now = tn_now())
      found = tn_bell_wait(&bell->state, value, &bell->host_sleeps, patience,
                           x->until && x->until < soon ? x->until : soon);
    if (found == TN_SLOT_DEAD && !is_gone(x)) /* the child says so itself */
    {
      tn_child_kill(x, TENON_INTERNAL, "wrote to its mailbox what it must not");
      return TN_SLOT_DEAD;
    }
    if (found != value) return found;
    if (is_gone(x)) return TN_SLOT_DEAD;
    if (x->until && tn_now() >= x->until) {
      char why[200];
      const long long limit = (long long)(x->client->deadline / 1000000);
      if (what)
        snprintf(why, sizeof why, "was still %s after %d s, and was ended", what, 30);
      else
        snprintf(why, sizeof why, "was past its deadline of %lld ms, and was ended", limit);
      tn_child_kill(x, TENON_DEADLINE, why);
      return TN_SLOT_DEAD;
    }
    const tenon_status_t wish = ask_program();
    if (wish != TENON_OK) {
      tn_child_kill(x, wish, "was ended, as its program wished");
      return TN_SLOT_DEAD;
    }
  }
}

/* exchanges */

static void open_exchange(tn_exchange_t *x) {
  tn_client_t *client = x->client;
  x->number = x->child->number;
  x->epoch = client->epoch;
  x->share = client->share;
  x->area = tn_post_slot(x->share->base, x->index, x->slot);
  x->call = tn_wire(x->area, TN_MESSAGE_SIZE);
  x->until = client->deadline ? tn_now() + client->deadline : 0;
}

tenon_status_t tn_exchange_begin(tn_client_t *client, const char *name, tn_exchange_t *x) {
  *x = (tn_exchange_t){.client = client, .index = choose(client), .name = name};
  tn_child_t *child = x->child = &client->children[x->index];
  for (;;) {
    if (!__atomic_load_n(&child->is_alive, __ATOMIC_ACQUIRE)) {
      tenon_status_t status = tn_child_need(client, x->index);
      if (status != TENON_OK)
        return tn_prefix(status, "%s: its isolated process does not start: ", name);
    }
    x->slot = take_slot(child);
    if (__atomic_load_n(&child->is_alive, __ATOMIC_ACQUIRE)) break;
    give_slot(child, x->slot);
  }
  open_exchange(x);
  return TENON_OK;
}

bool tn_exchange_begin_on(tn_client_t *client, uint32_t index, uint32_t number, const char *name,
                          tn_exchange_t *x) {
  tn_child_t *child = &client->children[index];
  if (!__atomic_load_n(&child->is_alive, __ATOMIC_ACQUIRE)) return false;
  *x = (tn_exchange_t){
      .client = client, .child = child, .index = index, .name = name, .slot = take_slot(child)};
  if (__atomic_load_n(&child->is_alive, __ATOMIC_ACQUIRE) && child->number == number) {
    open_exchange(x);
    return true;
  }
  give_slot(child, x->slot);
  return false;
}

/* What the child wrote, as a copy that it cannot change any more. */
static tenon_status_t take_message(tn_exchange_t *x, const tn_bell_t *bell, uint64_t most,
                                   tn_wire_t *out) {
  const uint64_t size = __atomic_load_n(&bell->size, __ATOMIC_RELAXED);
  void *copy = size <= most ? tn_scratch((size_t)size + 64) : NULL;
  if (size > most) return TENON_INTERNAL;
  if (!copy) return tn_no_memory("a message", (size_t)size);
  memcpy(copy, x->area, (size_t)size);
  *out = tn_wire(copy, size);
  return TENON_OK;
}

static tenon_status_t nonsense(tn_exchange_t *x) {
  tn_child_kill(x, TENON_INTERNAL, "wrote to its mailbox what it must not");
  return tn_exchange_died(x);
}

static tenon_status_t answer_ask(tn_exchange_t *x, tn_answer_fn answer, void *context,
                                 tn_bell_t *bell) {
  tn_wire_t ask;
  tn_wire_t out = tn_wire(x->area, TN_MESSAGE_SIZE);
  if (take_message(x, bell, ASK_SIZE, &ask) != TENON_OK) return TENON_INTERNAL;
  const uint64_t number = tn_get(&ask);
  tn_put(&out, TENON_OK);
  tn_put_text(&out, NULL);
  tenon_status_t status = answer ? answer(context, x, number, &ask, &out) : TENON_INTERNAL;
  if (ask.failed || out.failed) return TENON_INTERNAL;
  if (status != TENON_OK) {
    out = tn_wire(x->area, TN_MESSAGE_SIZE);
    tn_put(&out, (uint64_t)status);
    tn_put_text(&out, tn_error());
  }
  return tn_bell_ring(&bell->state, TN_SLOT_ASK, TN_SLOT_ANSWER, &bell->child_sleeps)
             ? TENON_OK
             : TENON_INTERNAL;
}

tenon_status_t tn_exchange_call(tn_exchange_t *x, tn_answer_fn answer, void *context) {
  tn_bell_t *bell = &tn_post(x->share->base, x->index)->slots[x->slot];
  if (x->call.failed)
    return tn_fail(
        TENON_RANGE,
        "%s: its arguments do not fit into a message of %d bytes to its isolated process", x->name,
        (int)TN_MESSAGE_SIZE);
  __atomic_store_n(&bell->size, x->call.at, __ATOMIC_RELAXED);
  if (!tn_bell_ring(&bell->state, TN_SLOT_REPLY, TN_SLOT_CALL, &bell->child_sleeps) &&
      !tn_bell_ring(&bell->state, TN_SLOT_IDLE, TN_SLOT_CALL, &bell->child_sleeps)) {
    if (!is_gone(x)) return nonsense(x);
    tenon_status_t status = tn_exchange_died(x);
    x->is_bystander = true; /* it had not begun */
    return status;
  }
  uint32_t state = TN_SLOT_CALL;
  for (int asks = 0; (state = tn_exchange_wait(x, bell, state, &x->child->patience[x->slot],
                                               NULL)) == TN_SLOT_ASK;
       asks++) {
    tenon_status_t status =
        asks < ASKS_MOST ? answer_ask(x, answer, context, bell) : TENON_INTERNAL;
    if (status != TENON_OK) return is_gone(x) ? tn_exchange_died(x) : nonsense(x);
    state = TN_SLOT_ANSWER;
    if (x->until && tn_now() > x->until) { /* asking without end */
      tn_child_kill(x, TENON_DEADLINE, "was past its deadline, and was ended");
      return tn_exchange_died(x);
    }
  }
  if (state == TN_SLOT_DEAD) return tn_exchange_died(x);
  tenon_status_t status = TENON_INTERNAL;
  if (state != TN_SLOT_REPLY ||
      (status = take_message(x, bell, TN_MESSAGE_SIZE, &x->reply)) != TENON_OK)
    return status == TENON_MEMORY ? status : nonsense(x);
  const int64_t code = tn_get_between(&x->reply, TENON_OK, TENON_UNAVAILABLE);
  const char *text = tn_get_text(&x->reply);
  if (x->reply.failed) return nonsense(x);
  if (code == TENON_OK) return TENON_OK;
  return tn_fail((tenon_status_t)code, "%.2000s",
                 text && *text ? text : "its isolated process gives no reason");
}

uint64_t tn_exchange_room(tn_exchange_t *x, uint64_t size) {
  enum { STAGING = TN_SLOT_SIZE - TN_MESSAGE_SIZE };
  const uint64_t rounded = size <= STAGING ? (size + 63) / 64 * 64 : STAGING + 1;
  if (rounded <= STAGING - x->staged) {
    const uint64_t offset =
        (uint64_t)(x->area - (unsigned char *)x->share->base) + TN_MESSAGE_SIZE + x->staged;
    x->staged += rounded;
    return offset;
  }
  return tn_exchange_block(x, size);
}

uint64_t tn_exchange_block(tn_exchange_t *x, uint64_t size) {
  if (!tn_grow((void **)&x->blocks, &x->block_capacity, x->block_count, sizeof *x->blocks))
    return 0;
  const uint64_t offset = tn_room_take(&x->share->room, size);
  if (offset) x->blocks[x->block_count++] = (tn_block_t){offset, size};
  return offset;
}

bool tn_exchange_keep(tn_exchange_t *x, uint64_t offset, uint64_t size, uint64_t *out_size) {
  for (size_t i = 0; i < x->block_count; i++) {
    if (x->blocks[i].offset != offset || x->blocks[i].size < size) continue;
    *out_size = x->blocks[i].size;
    x->blocks[i] = x->blocks[--x->block_count];
    return true;
  }
  return false;
}

void tn_exchange_end(tn_exchange_t *x) {
  for (size_t i = 0; i < x->block_count; i++)
    tn_room_give(&x->share->room, x->blocks[i].offset, x->blocks[i].size);
  if (x->blocks) tn_release_memory(x->blocks);
  if (x->placed) tn_release_memory(x->placed);
  give_slot(x->child, x->slot);
}
