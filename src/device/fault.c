/* Failures of streams: whose work it was, and what is said of it from then on. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/stream.h"

static const char *text_of(const tn_ordinal_t *o, char *room, size_t size) {
  snprintf(room, size, "%s:%d", o->plugin->name, (int)o->context.ordinal);
  return room;
}

/* Operators whose work it may have been. */
static void blame(const tenon_stream_t *s, uint64_t ticket, tn_text_t *text) {
  char device[300];
  text_of(s->ordinal, device, sizeof device);
  const struct tn_entry_t *entry = &s->ring[ticket % TN_RING];
  const char *name = __atomic_load_n(&entry->name, __ATOMIC_RELAXED);
  if (ticket && __atomic_load_n(&entry->ticket, __ATOMIC_RELAXED) == ticket && name) {
    tn_text_add(text, "%s failed on %s (work %llu of its stream): ", name, device,
                (unsigned long long)ticket);
    return;
  }
  uint64_t last = __atomic_load_n(&s->ticket, __ATOMIC_RELAXED);
  uint64_t done = __atomic_load_n(&s->done, __ATOMIC_RELAXED);
  uint64_t from = ticket ? ticket : done + 1;
  uint64_t listed = 0;
  tn_text_add(text, "a stream of %s failed, in work %llu to %llu of it (", device,
              (unsigned long long)from, (unsigned long long)(ticket ? ticket : last));
  for (uint64_t t = last; t > done && last - t < TN_RING && listed < 4 && !ticket; t--, listed++) {
    name = __atomic_load_n(&s->ring[t % TN_RING].name, __ATOMIC_RELAXED);
    tn_text_add(text, "%s%s", listed ? ", " : "", name ? name : "a library that is gone");
  }
  tn_text_add(text, "%s): ",
              ticket                 ? "its operator is not known any more"
              : last - done > listed ? ", ..."
                                     : "");
}

/* Where a failure began: a ticket is of some stream, and one that waits for another fails with that
 * one's. */
static const tenon_stream_t *origin(const tenon_stream_t *s, uint64_t ticket, const char *why) {
  enum { LOOKS = 1000 }; /* at streams that failed, but still have to leave the rest undone */
  const tenon_stream_t *found = s;
  tn_mutex_lock(&tn_streams_order);
  size_t count = ticket ? s->known.count : 0;
  struct tn_known_t *before = count ? tn_allocate(count * sizeof *before) : NULL;
  if (before) memcpy(before, s->known.at, count * sizeof *before);
  tn_mutex_unlock(&tn_streams_order);
  /* sure: the plug-in says the same of both, not just a ticket of this number */
  bool is_busy = before != NULL;
  bool is_sure = false;
  for (int look = 0; is_busy && !is_sure && look < LOOKS; look++) {
    is_busy = false;
    if (look) tn_thread_yield();
    for (size_t i = 0; i < count && !is_sure; i++) {
      tenon_stream_t *of = (tenon_stream_t *)(uintptr_t)before[i].stream;
      const tn_ordinal_t *o = of->ordinal;
      tenon_fault_t fault = {.size = sizeof fault};
      if (before[i].ticket < ticket || (!of->native && of != o->first) || !tn_stream_hold(of))
        continue;
      tenon_status_t status = o->table->stream_query(&o->context, of->native, &fault);
      tn_stream_let_go(of);
      is_busy |= status == TENON_UNAVAILABLE;
      bool is_own = __atomic_load_n(&of->ring[ticket % TN_RING].ticket, __ATOMIC_RELAXED) ==
                    ticket; /* or it waited, too */
      if (status == TENON_OK || status == TENON_UNAVAILABLE || fault.ticket != ticket || !is_own)
        continue;
      found = of;
      is_sure = why && strcmp(why, tn_error()) == 0;
    }
  }
  tn_release_memory(before);
  return found;
}

tenon_status_t tn_stream_fault(tenon_stream_t *s, tenon_status_t status,
                               const tenon_fault_t *fault) {
  tn_text_t text = {0};
  uint64_t ticket = fault ? fault->ticket : 0;
  char *why = tn_copy_text(tn_error(), strlen(tn_error()));
  const tenon_stream_t *from = origin(s, ticket, why);
  tn_mutex_lock(&s->ordinal->lock);
  if (!s->failed) {
    blame(from, ticket, &text);
    tn_text_add(&text, "%s", why ? why : "");
    tn_release_memory(s->failure); /* of the native one before: see renew */
    s->failure = tn_text_take(&text);
    __atomic_store_n(&s->failed, status, __ATOMIC_RELEASE);
  }
  tn_mutex_unlock(&s->ordinal->lock);
  tn_release_memory(why);
  return tn_stream_failure(s);
}

tenon_status_t tn_stream_refused(tenon_stream_t *s, tenon_status_t status, const char *name) {
  const tn_ordinal_t *o = s->ordinal;
  tenon_fault_t fault = {.size = sizeof fault};
  if (!o->has_streams) return name ? tn_prefix(status, "%s: ", name) : status;
  /* of the failure, which the query may replace */
  char cut[256];
  char *why = tn_copy_text(tn_error(), strlen(tn_error()));
  snprintf(cut, sizeof cut, "%s", tn_error());
  tenon_status_t now = o->table->stream_query(&o->context, s->native, &fault);
  if (now != TENON_OK && now != TENON_UNAVAILABLE)
    status = tn_stream_fault(s, now, &fault);
  else
    status = tn_fail(status, "%s%s%s", name ? name : "", name ? ": " : "", why ? why : cut);
  tn_release_memory(why);
  return status;
}

tenon_status_t tn_stream_failure(const tenon_stream_t *s) {
  if (s->is_ended)
    return tn_fail(TENON_PRECONDITION,
                   "a stream of device %s:%d was given back to its owner (tenon_stream_release), "
                   "and is used: let the thread use another before (tenon_stream_use)",
                   s->ordinal->plugin->name, (int)s->ordinal->context.ordinal);
  return tn_fail(__atomic_load_n(&s->failed, __ATOMIC_ACQUIRE), "%s",
                 s->failure ? s->failure
                            : "a stream of a device failed, and there was no memory to say why");
}

/* NULL: all names. */
static void forget(const char *name) {
  for (tn_plugin_t *p = NULL; (p = tn_plugin_next(p));)
    for (int32_t i = 0; i < p->count; i++)
      for (tenon_stream_t *s = p->ordinals[i].streams; s; s = s->next)
        for (int k = 0; k < TN_RING; k++)
          if (!name || __atomic_load_n(&s->ring[k].name, __ATOMIC_RELAXED) == name)
            __atomic_store_n(&s->ring[k].name, NULL, __ATOMIC_SEQ_CST);
}

void tn_streams_forget_names(void) {
  tn_mutex_lock(tn_plugins_mutex());
  forget(NULL);
  tn_mutex_unlock(tn_plugins_mutex());
}

void tn_streams_forget_name(const char *name) {
  tn_mutex_lock(tn_plugins_mutex());
  forget(name);
  for (tn_plugin_t *p = NULL;
       (p = tn_plugin_next(p));) /* who read it before, to blame it, has such a lock */
    for (int32_t i = 0; i < p->count; i++) {
      tn_mutex_lock(&p->ordinals[i].lock);
      tn_mutex_unlock(&p->ordinals[i].lock);
    }
  tn_mutex_unlock(tn_plugins_mutex());
}
