/* Failures of streams: finds the operator whose work failed, and keeps the message that later calls
 * on the stream report. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/stream.h"

static const char *device_text(const tn_ordinal_t *o, char *room, size_t size) {
  snprintf(room, size, "%s:%d", o->plugin->name, (int)o->context.ordinal);
  return room;
}

/* Adds the operators whose work may have failed. */
static void add_blamed(const tenon_stream_t *s, uint64_t ticket, tn_text_t *text) {
  char device[300];
  device_text(s->ordinal, device, sizeof device);
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
  uint64_t to = ticket ? ticket : last;
  tn_text_add(text, "a stream of %s failed, in its work %llu to %llu (", device,
              (unsigned long long)from, (unsigned long long)to);
  for (uint64_t t = last; t > done && last - t < TN_RING && listed < 4 && !ticket; t--, listed++) {
    name = __atomic_load_n(&s->ring[t % TN_RING].name, __ATOMIC_RELAXED);
    if (listed) tn_text_add(text, ", ");
    tn_text_add(text, "%s", name ? name : "an unloaded library");
  }
  const char *rest = last - done > listed ? ", ..." : "";
  if (ticket) rest = "the operator is no longer known";
  tn_text_add(text, "%s): ", rest);
}

/* Finds the stream in which a failure began. A ticket belongs to one stream only, and a stream that
 * waits for a failed one reports that one's failure. */
static const tenon_stream_t *find_origin(const tenon_stream_t *s, uint64_t ticket,
                                         const char *why) {
  /* How often the streams that failed, but have not yet discarded their remaining work, are
   * queried. */
  enum { LOOKS = 1000 };
  const tenon_stream_t *found = s;
  tn_mutex_lock(&tn_streams_order);
  size_t count = ticket ? s->known.count : 0;
  struct tn_known_t *before = count ? tn_allocate(count * sizeof *before) : NULL;
  if (before) memcpy(before, s->known.at, count * sizeof *before);
  tn_mutex_unlock(&tn_streams_order);
  /* Certain: the plug-in reports the same text for both streams, not just a ticket of this
   * number. */
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
                    ticket; /* otherwise this stream waited, too */
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
  const tenon_stream_t *from = find_origin(s, ticket, why);
  tn_mutex_lock(&s->ordinal->lock);
  if (!s->failed) {
    add_blamed(from, ticket, &text);
    tn_text_add(&text, "%s", why ? why : "");
    tn_release_memory(s->failure); /* the failure of the previous native stream; see renew_stream */
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
  /* A truncated copy of the failure, which the query may overwrite. */
  char cut[256];
  char *why = tn_copy_text(tn_error(), strlen(tn_error()));
  snprintf(cut, sizeof cut, "%s", tn_error());
  tenon_status_t now = o->table->stream_query(&o->context, s->native, &fault);
  if (now != TENON_OK && now != TENON_UNAVAILABLE)
    status = tn_stream_fault(s, now, &fault);
  else if (name)
    status = tn_fail(status, "%s: %s", name, why ? why : cut);
  else
    status = tn_fail(status, "%s", why ? why : cut);
  tn_release_memory(why);
  return status;
}

tenon_status_t tn_stream_failure(const tenon_stream_t *s) {
  if (s->is_ended)
    return tn_fail(TENON_PRECONDITION,
                   "a stream of device %s:%d was returned to its owner (tenon_stream_release) but "
                   "is still in use: select another stream for the thread first (tenon_stream_use)",
                   s->ordinal->plugin->name, (int)s->ordinal->context.ordinal);
  return tn_fail(__atomic_load_n(&s->failed, __ATOMIC_ACQUIRE), "%s",
                 s->failure
                     ? s->failure
                     : "a stream of a device failed, and there was no memory for the reason");
}

/* NULL means all names. */
static void forget_name(const char *name) {
  for (tn_plugin_t *p = NULL; (p = tn_plugin_next(p));)
    for (int32_t i = 0; i < p->count; i++)
      for (tenon_stream_t *s = p->ordinals[i].streams; s; s = s->next)
        for (int k = 0; k < TN_RING; k++)
          if (!name || __atomic_load_n(&s->ring[k].name, __ATOMIC_RELAXED) == name)
            __atomic_store_n(&s->ring[k].name, NULL, __ATOMIC_SEQ_CST);
}

void tn_streams_forget_names(void) {
  tn_mutex_lock(tn_plugins_mutex());
  forget_name(NULL);
  tn_mutex_unlock(tn_plugins_mutex());
}

void tn_streams_forget_name(const char *name) {
  tn_mutex_lock(tn_plugins_mutex());
  forget_name(name);
  for (tn_plugin_t *p = NULL;
       /* A thread that has read the name for a message holds one of these locks. */
       (p = tn_plugin_next(p));)
    for (int32_t i = 0; i < p->count; i++) {
      tn_mutex_lock(&p->ordinals[i].lock);
      tn_mutex_unlock(&p->ordinals[i].lock);
    }
  tn_mutex_unlock(tn_plugins_mutex());
}
