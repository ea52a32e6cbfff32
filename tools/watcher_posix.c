/* Waits for changes of files by inotify; see watcher.h. Folders are watched instead of files,
 * because editors replace a file by a new one. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "watcher.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

enum { SETTLED_MS = 30 }; /* time without changes */

bool watcher_open(watcher_t *watcher, const texts_t *files, text_t *why) {
  *watcher = (watcher_t){.descriptor = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
  if (watcher->descriptor < 0) {
    text_add(why, "cannot watch files: %s", strerror(errno));
    return false;
  }
  watcher->numbers = calloc((size_t)files->count + 1, sizeof *watcher->numbers);
  bool fine = watcher->numbers != NULL;
  for (int32_t i = 0; fine && i < files->count; i++) {
    text_t folder = {NULL, 0, 0, false};
    text_bytes(&folder, files->items[i],
               (size_t)(text_file_name(files->items[i]) - files->items[i]));
    fine = texts_add(&watcher->files, files->items[i]);
    watcher->numbers[i] =
        inotify_add_watch(watcher->descriptor, folder.size ? text_get(&folder) : ".",
                          IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ONLYDIR);
    if (watcher->numbers[i] < 0) {
      text_add(why, "cannot watch the folder %s: %s", folder.size ? text_get(&folder) : ".",
               strerror(errno));
      fine = false;
    }
    text_free(&folder);
  }
  if (!fine && !why->size) text_add(why, "out of memory");
  return fine;
}

/* Reads pending events. Returns whether one of the files has changed. */
static bool take_events(watcher_t *watcher, text_t *out_name) {
  char buffer[8192] __attribute__((aligned(8)));
  bool found = false;
  for (ssize_t size; (size = read(watcher->descriptor, buffer, sizeof buffer)) > 0;)
    for (const char *at = buffer; at < buffer + size;) {
      const struct inotify_event *event = (const struct inotify_event *)(const void *)at;
      at += sizeof *event + event->len;
      for (int32_t i = 0; i < watcher->files.count && event->len; i++) {
        if (watcher->numbers[i] != event->wd ||
            strcmp(text_file_name(watcher->files.items[i]), event->name) != 0)
          continue;
        if (!found) {
          text_clear(out_name);
          text_add(out_name, "%s", watcher->files.items[i]);
        }
        found = true;
      }
      /* events were lost, so any file may have changed */
      if (event->mask & IN_Q_OVERFLOW) found = true;
    }
  return found;
}

bool watcher_wait(watcher_t *watcher, text_t *out_name, text_t *why) {
  bool found = false;
  for (;;) {
    struct pollfd item = {watcher->descriptor, POLLIN, 0};
    const int count = poll(&item, 1, found ? SETTLED_MS : -1);
    if (count < 0 && errno != EINTR) {
      text_add(why, "cannot wait for files: %s", strerror(errno));
      return false;
    }
    if (count == 0 && found) return true;
    if (count > 0) found = take_events(watcher, out_name) || found;
  }
}

void watcher_close(watcher_t *watcher) {
  if (watcher->descriptor >= 0) close(watcher->descriptor);
  free(watcher->numbers);
  texts_free(&watcher->files);
  *watcher = (watcher_t){.descriptor = -1};
}
