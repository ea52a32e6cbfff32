/* Calls without the interpreter lock. Only Python can handle signals, and only in its main thread.
 * A long call of the main thread therefore checks for signals from time to time, and is cancelled
 * if a handler raises, as the handler of Ctrl-C does. */
#include "unlocked.h"

#include <time.h>

/* The interval in milliseconds. A check takes the interpreter lock, which other threads may be
 * using. */
enum { EVERY = 100 };
static unsigned long main_thread;
static _Thread_local unsigned depth; /* calls of this thread that released the lock */

static int64_t milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static tenon_status_t check_signals(void *state) {
  unlocked_t *unlocked = (unlocked_t *)state;
  int64_t now = milliseconds();
  if (!unlocked->next) unlocked->next = now + EVERY;
  if (now < unlocked->next) return TENON_OK;
  /* A call within a kernel written in Python may hold the lock already. */
  PyGILState_STATE lock = PyGILState_Ensure();
  if (PyErr_CheckSignals() != 0) unlocked->is_raised = true;
  PyGILState_Release(lock);
  unlocked->next = milliseconds() + EVERY;
  return unlocked->is_raised ? TENON_CANCELLED : TENON_OK;
}

void unlocked_begin(unlocked_t *unlocked) {
  unlocked->is_watched = PyThread_get_thread_ident() == main_thread;
  unlocked->is_raised = false;
  if (unlocked->is_watched) {
    unlocked->next = 0;
    unlocked->poll = (tenon_poll_t){check_signals, unlocked};
    unlocked->before = tenon_poll_set(&unlocked->poll);
  }
  depth++;
  unlocked->state = PyEval_SaveThread();
}

bool unlocked_end(unlocked_t *unlocked) {
  PyEval_RestoreThread(unlocked->state);
  depth--;
  if (unlocked->is_watched) tenon_poll_set(unlocked->before);
  return !unlocked->is_raised;
}

bool unlocked_is_open(void) { return depth > 0; }

/* The module may be imported by any thread, so ask Python for its main thread. */
bool unlocked_start(void) {
  PyObject *threading = PyImport_ImportModule("threading");
  PyObject *thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
  PyObject *ident = thread ? PyObject_GetAttrString(thread, "ident") : NULL;
  main_thread = ident ? PyLong_AsUnsignedLong(ident) : 0;
  Py_XDECREF(threading);
  Py_XDECREF(thread);
  Py_XDECREF(ident);
  return !PyErr_Occurred();
}
