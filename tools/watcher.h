/* Waits until one of some files is written, replaced or made.  watcher_posix.c: by inotify. */
#ifndef TOOLS_WATCHER_H
#define TOOLS_WATCHER_H

#include "text.h"

typedef struct watcher_t {
  int descriptor;
  texts_t files; /* with their folders' numbers, which the system gives */
  int *numbers;
} watcher_t;

/* Looks at the folders of these files from here on; what happens between two waits is not lost. */
bool watcher_open(watcher_t *watcher, const texts_t *files, text_t *why);
/* Until one of the files was changed, and then for so long as more changes come (editors write
 * several); its name. */
bool watcher_wait(watcher_t *watcher, text_t *out_name, text_t *why);
void watcher_close(watcher_t *watcher);

#endif
