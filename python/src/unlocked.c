/* Calls without the interpreter lock.  Signals are Python's to handle, and its main thread's: a
 * long call of that thread asks now and then whether one has come, and ends if its handler raises,
 * as Ctrl-C's does. */
#include "core.h"

#include <time.h>

enum { EVERY = 100 }; /* milliseconds: asking takes the lock, which others may be using */
static unsigned long main_thread;

static int64_t milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static tenon_status_t ask(void *state) {
  unlocked_t *unlocked = (unlocked_t *)state;
  int64_t now = milliseconds();
  if (!unlocked->next) unlocked->next = now + EVERY;
  if (now < unlocked->next) return TENON_OK;
  PyGILState_STATE lock =
      PyGILState_Ensure(); /* of a call within a kernel in Python it may be this thread's already */
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
    unlocked->poll = (tenon_poll_t){ask, unlocked};
    unlocked->before = tenon_poll_set(&unlocked->poll);
  }
  unlocked->state = PyEval_SaveThread();
}

bool unlocked_end(unlocked_t *unlocked) {
  PyEval_RestoreThread(unlocked->state);
  if (unlocked->is_watched) tenon_poll_set(unlocked->before);
  return !unlocked->is_raised;
}

bool unlocked_start(void) { /* the thread that imports may be any */
  PyObject *threading = PyImport_ImportModule("threading");
  PyObject *thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
  PyObject *ident = thread ? PyObject_GetAttrString(thread, "ident") : NULL;
  main_thread = ident ? PyLong_AsUnsignedLong(ident) : 0;
  Py_XDECREF(threading);
  Py_XDECREF(thread);
  Py_XDECREF(ident);
  return !PyErr_Occurred();
}
