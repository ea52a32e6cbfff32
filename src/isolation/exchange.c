/* One exchange: a call of a worker process and its reply. This file takes and releases channel
 * entries, waits for replies and deadlines, and finds out which call ended a worker process. The
 * protocol of messages is in message.h. */
#include "isolation/exchange.h"

#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "isolation/crash.h"
#include "isolation/message.h"

/* Nanoseconds of sleep after which a waiting thread checks whether the supervisor is still
 * running. */
enum { CHECK_AFTER = 50000000 };
/* The same while the program has a poll callback, which is then asked, too. */
enum { CHECK_AFTER_POLLED = 2000000 };
/* Limits of one call: questions of the worker process, whose copies are kept until the end of the
 * call, and bytes of each question. */
enum {
  ASKS_MOST = 1 << 16,
  ASK_SIZE = 256,
};
/* Time for a killed worker process to end. Afterwards its supervisor is killed, too. */
#define GONE_WITHIN INT64_C(5000000000)

static void sleep_briefly(uint32_t *word, uint32_t value) {
  tn_spin_t none = tn_spin(0);
  uint32_t ignored;
  tn_doorbell_wait(word, value, &ignored, &none, tn_now() + CHECK_AFTER);
}

static uint32_t take_entry(tn_child_t *child) {
  for (;;) {
    uint32_t mask = __atomic_load_n(&child->free, __ATOMIC_RELAXED);
    if (mask) {
      const uint32_t entry = (uint32_t)__builtin_ctz(mask);
      if (__atomic_compare_exchange_n(&child->free, &mask, mask & (mask - 1), false,
                                      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return entry;
      continue;
    }
    __atomic_fetch_add(&child->waiting, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&child->free, __ATOMIC_SEQ_CST)) sleep_briefly(&child->free, 0);
    __atomic_fetch_sub(&child->waiting, 1, __ATOMIC_RELAXED);
  }
}

static void release_entry(tn_child_t *child, uint32_t entry) {
  __atomic_fetch_or(&child->free, 1u << entry, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&child->waiting, __ATOMIC_SEQ_CST)) tn_doorbell_wake(&child->free);
}

void tn_entries_wait_free(tn_child_t *child, uint32_t all) {
  __atomic_fetch_add(&child->waiting, 1, __ATOMIC_SEQ_CST);
  for (uint32_t mask; (mask = __atomic_load_n(&child->free, __ATOMIC_SEQ_CST)) != all;)
    sleep_briefly(&child->free, mask);
  __atomic_fetch_sub(&child->waiting, 1, __ATOMIC_RELAXED);
}

/* Returns: the index of the worker process with most free channel entries, the first of several. */
static uint32_t choose_child(const tn_client_t *client) {
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

/* Has the worker process ended? Only the supervisor can tell. */
static bool is_gone(const tn_exchange_t *x) {
  tn_client_t *client = x->client;
  if (__atomic_load_n(&client->control->ends[x->index].dead, __ATOMIC_ACQUIRE) == x->number)
    return true;
  tn_mutex_lock(&client->lock);
  const bool has_supervisor =
      client->epoch == x->epoch && tn_supervisor_is_alive(&client->supervisor);
  tn_mutex_unlock(&client->lock);
  return !has_supervisor;
}

void tn_end_wait_told(tn_client_t *client, uint32_t index, uint32_t number) {
  uint32_t *told = &client->control->ends[index].told;
  uint32_t *dead = &client->control->ends[index].dead;
  uint32_t found;
  while (number && __atomic_load_n(dead, __ATOMIC_ACQUIRE) == number &&
         (found = __atomic_load_n(told, __ATOMIC_ACQUIRE)) != number &&
         tn_supervisor_is_alive(&client->supervisor))
    sleep_briefly(told, found);
}

void tn_child_kill(tn_exchange_t *x, tenon_status_t status, const char *why) {
  tn_client_t *client = x->client;
  tn_end_t *kill = &x->child->kill;
  tn_mutex_lock(&x->child->lock);
  if (kill->number != x->number) {
    kill->number = x->number;
    kill->entry = (int32_t)x->entry;
    kill->status = status;
    snprintf(kill->text, sizeof kill->text, "%s", why);
  }
  tn_mutex_unlock(&x->child->lock);
  tn_mutex_lock(&client->lock);
  if (client->epoch == x->epoch)
    tn_supervisor_order(&client->supervisor, TN_SUPERVISOR_KILL, x->index, x->number);
  tn_mutex_unlock(&client->lock);
  uint32_t *dead = &client->control->ends[x->index].dead;
  for (int64_t until = tn_now() + GONE_WITHIN; !is_gone(x);) {
    sleep_briefly(dead, __atomic_load_n(dead, __ATOMIC_ACQUIRE));
    if (tn_now() < until) continue;
    tn_mutex_lock(&client->lock);
    if (client->epoch == x->epoch) tn_supervisor_stop(&client->supervisor);
    tn_mutex_unlock(&client->lock);
  }
}

/* Records once how the worker process ended. The caller holds the child's lock. */
static void record_end(tn_exchange_t *x) {
  tn_child_t *child = x->child;
  const tn_control_t *control = x->client->control;
  tn_end_t *end = &child->end;
  if (end->number == x->number) return;
  *end = (tn_end_t){.number = x->number, .entry = -1, .status = TENON_ABORTED};
  __atomic_store_n(&child->is_alive, 0, __ATOMIC_RELEASE);
  if (child->kill.number == x->number) {
    *end = child->kill;
    return;
  }
  if (__atomic_load_n(&control->ends[x->index].dead, __ATOMIC_ACQUIRE) != x->number) {
    snprintf(end->text, sizeof end->text,
             "was lost because its supervisor (the program isolate) ended");
    end->is_lost = true;
    return;
  }
  if (control->ends[x->index].status == -1) {
    snprintf(end->text, sizeof end->text, "could not be started: %s",
             strerror(control->ends[x->index].problem));
    end->status = TENON_UNAVAILABLE;
    return;
  }
  if (control->ends[x->index].problem == TN_END_UNRESTRICTED) {
    snprintf(end->text, sizeof end->text,
             "used files, which isolation does not allow, after it had replaced the filter that "
             "refuses this: do not use this library");
    end->status = TENON_DENIED;
    return;
  }
  tn_crash_t crash;
  tn_text_t text = {0};
  tn_shared_copy(&crash, &tn_channel(x->share->base, x->index)->crash, sizeof crash);
  end->status = tn_crash_describe(&crash, control->ends[x->index].status, control->memory, &text);
  snprintf(end->text, sizeof end->text, "%s", tn_text_get(&text));
  tn_text_clear(&text);
  const uint32_t busy = ~__atomic_load_n(&child->free, __ATOMIC_RELAXED);
  if (crash.kind != TN_CRASH_NONE && crash.entry >= 1 &&
      crash.entry <= x->client->wanted.entry_count && busy >> (crash.entry - 1) & 1)
    end->entry = (int32_t)crash.entry - 1;
}

tenon_status_t tn_exchange_died(tn_exchange_t *x) {
  tn_child_t *child = x->child;
  tn_mutex_lock(&child->lock);
  record_end(x);
  const tn_end_t end = child->end;
  tn_mutex_unlock(&child->lock);
  if (x->entry == UINT32_MAX) return tn_fail(end.status, "its isolated process %s", end.text);
  const uint32_t others = ~__atomic_load_n(&child->free, __ATOMIC_RELAXED) &
                          ((1u << x->client->wanted.entry_count) - 1);
  /* the supervisor ended, so no call is known to have caused the end */
  x->is_bystander = end.is_lost;
  const bool is_alone = end.entry < 0 && !(others & (others - 1));
  if (end.entry == (int32_t)x->entry || is_alone)
    return tn_fail(end.status, "%s: its isolated process %s; the next call starts it again",
                   x->name, end.text);
  x->is_bystander |= end.entry >= 0;
  return tn_fail(end.status,
                 "%s: its isolated process ended while several calls were in it: it %s; the next "
                 "call starts it again",
                 x->name, end.text);
}

static tenon_status_t ask_poll_callback(void) {
  const tenon_poll_t *poll = tn_thread()->poll;
  return poll ? poll->ask(poll->state) : TENON_OK;
}

uint32_t tn_exchange_wait(tn_exchange_t *x, tn_doorbell_t *doorbell, uint32_t value,
                          tn_spin_t *spin, const char *what) {
  for (;;) {
    const int64_t check_after = tn_thread()->poll ? CHECK_AFTER_POLLED : CHECK_AFTER;
    uint32_t found = __atomic_load_n(&doorbell->state, __ATOMIC_ACQUIRE);
    for (int64_t now = tn_now(), check_at = now + check_after;
         found == value && now < check_at && (!x->until || now < x->until); now = tn_now())
      found = tn_doorbell_wait(&doorbell->state, value, &doorbell->host_sleeps, spin,
                               x->until && x->until < check_at ? x->until : check_at);
    if (found == TN_ENTRY_DEAD && !is_gone(x)) /* the worker process itself wrote DEAD */
    {
      tn_child_kill(x, TENON_INTERNAL, "corrupted the messages in its shared memory");
      return TN_ENTRY_DEAD;
    }
    if (found != value) return found;
    if (is_gone(x)) return TN_ENTRY_DEAD;
    if (x->until && tn_now() >= x->until) {
      char why[200];
      const long long limit = (long long)(x->client->deadline / 1000000);
      if (what)
        snprintf(why, sizeof why, "was still %s after %d s and was ended", what, 30);
      else
        snprintf(why, sizeof why, "exceeded its deadline of %lld ms and was ended", limit);
      tn_child_kill(x, TENON_DEADLINE, why);
      return TN_ENTRY_DEAD;
    }
    const tenon_status_t wish = ask_poll_callback();
    if (wish != TENON_OK) {
      tn_child_kill(x, wish, "was ended because the program's poll callback stopped the call");
      return TN_ENTRY_DEAD;
    }
  }
}

static void open_exchange(tn_exchange_t *x) {
  tn_client_t *client = x->client;
  x->number = x->child->number;
  x->epoch = client->epoch;
  x->share = client->share;
  x->area = tn_channel_area(x->share->base, x->index, x->entry);
  x->call = tn_wire(x->area, TN_MESSAGE_SIZE);
  x->until = client->deadline ? tn_now() + client->deadline : 0;
}

tenon_status_t tn_exchange_begin(tn_client_t *client, const char *name, tn_exchange_t *x) {
  *x = (tn_exchange_t){.client = client, .index = choose_child(client), .name = name};
  tn_child_t *child = x->child = &client->children[x->index];
  for (;;) {
    if (!__atomic_load_n(&child->is_alive, __ATOMIC_ACQUIRE)) {
      tenon_status_t status = tn_child_ensure(client, x->index);
      if (status != TENON_OK)
        return tn_prefix(status, "%s: its isolated process does not start: ", name);
    }
    x->entry = take_entry(child);
    if (__atomic_load_n(&child->is_alive, __ATOMIC_ACQUIRE)) break;
    release_entry(child, x->entry);
  }
  open_exchange(x);
  return TENON_OK;
}

bool tn_exchange_begin_on(tn_client_t *client, uint32_t index, uint32_t number, const char *name,
                          tn_exchange_t *x) {
  tn_child_t *child = &client->children[index];
  if (!__atomic_load_n(&child->is_alive, __ATOMIC_ACQUIRE)) return false;
  *x = (tn_exchange_t){
      .client = client, .child = child, .index = index, .name = name, .entry = take_entry(child)};
  if (__atomic_load_n(&child->is_alive, __ATOMIC_ACQUIRE) && child->number == number) {
    open_exchange(x);
    return true;
  }
  release_entry(child, x->entry);
  return false;
}

/* Copies the message of a channel entry, so that the worker process can no longer change it. */
static tenon_status_t take_message(tn_exchange_t *x, const tn_doorbell_t *doorbell, uint64_t most,
                                   tn_wire_t *out) {
  const uint64_t size = __atomic_load_n(&doorbell->size, __ATOMIC_RELAXED);
  void *copy = size <= most ? tn_scratch((size_t)size + 64) : NULL;
  if (size > most) return TENON_INTERNAL;
  if (!copy) return tn_no_memory("a message", (size_t)size);
  tn_shared_copy(copy, x->area, (size_t)size);
  *out = tn_wire(copy, size);
  return TENON_OK;
}

static tenon_status_t kill_malformed_child(tn_exchange_t *x) {
  tn_child_kill(x, TENON_INTERNAL, "corrupted the messages in its shared memory");
  return tn_exchange_died(x);
}

static tenon_status_t answer_ask(tn_exchange_t *x, tn_answer_fn answer, void *context,
                                 tn_doorbell_t *doorbell) {
  tn_wire_t ask;
  tn_wire_t out = tn_wire(x->area, TN_MESSAGE_SIZE);
  if (take_message(x, doorbell, ASK_SIZE, &ask) != TENON_OK) return TENON_INTERNAL;
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
  return tn_doorbell_ring(&doorbell->state, TN_ENTRY_ASK, TN_ENTRY_ANSWER, &doorbell->child_sleeps)
             ? TENON_OK
             : TENON_INTERNAL;
}

tenon_status_t tn_exchange_call(tn_exchange_t *x, tn_answer_fn answer, void *context) {
  tn_doorbell_t *doorbell = &tn_channel(x->share->base, x->index)->entries[x->entry];
  if (x->call.failed)
    return tn_fail(
        TENON_RANGE,
        "%s: its arguments do not fit into a message of %d bytes to its isolated process", x->name,
        (int)TN_MESSAGE_SIZE);
  __atomic_store_n(&doorbell->size, x->call.at, __ATOMIC_RELAXED);
  if (!tn_doorbell_ring(&doorbell->state, TN_ENTRY_REPLY, TN_ENTRY_CALL, &doorbell->child_sleeps) &&
      !tn_doorbell_ring(&doorbell->state, TN_ENTRY_IDLE, TN_ENTRY_CALL, &doorbell->child_sleeps)) {
    if (!is_gone(x)) return kill_malformed_child(x);
    tenon_status_t status = tn_exchange_died(x);
    /* The call had not begun. */
    x->is_bystander = true;
    return status;
  }
  uint32_t state = TN_ENTRY_CALL;
  for (int asks = 0; (state = tn_exchange_wait(x, doorbell, state, &x->child->spin[x->entry],
                                               NULL)) == TN_ENTRY_ASK;
       asks++) {
    tenon_status_t status =
        asks < ASKS_MOST ? answer_ask(x, answer, context, doorbell) : TENON_INTERNAL;
    if (status != TENON_OK) return is_gone(x) ? tn_exchange_died(x) : kill_malformed_child(x);
    state = TN_ENTRY_ANSWER;
    /* A worker process that never stops asking. */
    if (x->until && tn_now() > x->until) {
      tn_child_kill(x, TENON_DEADLINE, "exceeded its deadline and was ended");
      return tn_exchange_died(x);
    }
  }
  if (state == TN_ENTRY_DEAD) return tn_exchange_died(x);
  tenon_status_t status = TENON_INTERNAL;
  if (state != TN_ENTRY_REPLY ||
      (status = take_message(x, doorbell, TN_MESSAGE_SIZE, &x->reply)) != TENON_OK)
    return status == TENON_MEMORY ? status : kill_malformed_child(x);
  const int64_t code = tn_get_between(&x->reply, TENON_OK, TENON_UNAVAILABLE);
  const char *text = tn_get_message(&x->reply);
  if (x->reply.failed) return kill_malformed_child(x);
  if (code == TENON_OK) return TENON_OK;
  return tn_fail((tenon_status_t)code, "%.2000s",
                 text && *text ? text : "its isolated process gave no reason");
}

uint64_t tn_exchange_allocate(tn_exchange_t *x, uint64_t size) {
  enum { STAGING = TN_ENTRY_SIZE - TN_MESSAGE_SIZE };
  const uint64_t rounded = size <= STAGING ? (size + 63) / 64 * 64 : STAGING + 1;
  if (rounded <= STAGING - x->staged) {
    const uint64_t offset =
        (uint64_t)(x->area - (unsigned char *)x->share->base) + TN_MESSAGE_SIZE + x->staged;
    x->staged += rounded;
    return offset;
  }
  return tn_exchange_allocate_block(x, size);
}

uint64_t tn_exchange_allocate_block(tn_exchange_t *x, uint64_t size) {
  if (!tn_grow((void **)&x->blocks, &x->block_capacity, x->block_count, sizeof *x->blocks))
    return 0;
  const uint64_t offset = tn_heap_allocate(&x->share->heap, size);
  if (offset) x->blocks[x->block_count++] = (tn_block_t){offset, size, false};
  return offset;
}

bool tn_exchange_name(tn_exchange_t *x, uint64_t offset, uint64_t size) {
  for (size_t i = 0; i < x->block_count; i++) {
    tn_block_t *block = &x->blocks[i];
    if (block->offset != offset) continue;
    const bool is_free = !block->is_named && size <= block->size;
    block->is_named = true;
    return is_free;
  }
  return false;
}

bool tn_exchange_keep(tn_exchange_t *x, uint64_t offset, uint64_t *out_size) {
  for (size_t i = 0; i < x->block_count; i++) {
    if (x->blocks[i].offset != offset) continue;
    *out_size = x->blocks[i].size;
    x->blocks[i] = x->blocks[--x->block_count];
    return true;
  }
  return false;
}

void tn_exchange_end(tn_exchange_t *x) {
  for (size_t i = 0; i < x->block_count; i++)
    tn_heap_free(&x->share->heap, x->blocks[i].offset, x->blocks[i].size);
  if (x->blocks) tn_release_memory(x->blocks);
  if (x->copied) tn_release_memory(x->copied);
  release_entry(x->child, x->entry);
}
