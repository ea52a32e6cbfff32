/* Calls without the interpreter lock. Only Python can handle signals, and only in its main thread.
 * A long call of the main thread therefore checks for signals from time to time, and is cancelled
 * if a handler raises, as the handler of Ctrl-C does. A call of any thread also asks the
 * cancellations that the thread has entered. */
#include "unlocked.h"

#include "cancellation.h"

/* The interval in milliseconds. A check takes the interpreter lock, which other threads may be
 * using. */
enum { EVERY = 100 };
static unsigned long main_thread;
static _Thread_local unsigned depth; /* calls of this thread that released the lock */

static tenon_status_t check_signals(unlocked_t *unlocked, int64_t now) {
  if (!unlocked->next) unlocked->next = now + EVERY;
  if (now < unlocked->next) return TENON_OK;
  /* A call within a kernel written in Python may hold the lock already. */
  PyGILState_STATE lock = PyGILState_Ensure();
  if (PyErr_CheckSignals() != 0) unlocked->is_raised = true;
  PyGILState_Release(lock);
  unlocked->next = clock_milliseconds() + EVERY;
  return unlocked->is_raised ? TENON_CANCELLED : TENON_OK;
}

/* Called by the thread that made the call and, if that has entered a cancellation, by the threads
 * that help with its loops. */
static tenon_status_t ask_whether_to_end(void *state) {
  unlocked_t *unlocked = (unlocked_t *)state;
  const int64_t now = clock_milliseconds();
  const tenon_status_t status = cancellation_ask(unlocked->cancellation, now);
  if (status != TENON_OK || !unlocked->is_main) return status;
  return PyThread_get_thread_ident() == main_thread ? check_signals(unlocked, now) : TENON_OK;
}

void unlocked_begin(unlocked_t *unlocked) {
  unlocked->is_main = PyThread_get_thread_ident() == main_thread;
  unlocked->cancellation = cancellation_entered();
  unlocked->is_watched = unlocked->is_main || unlocked->cancellation;
  unlocked->is_raised = false;
  if (unlocked->is_watched) {
    unlocked->next = 0;
    unlocked->poll = (tenon_poll_t){ask_whether_to_end, unlocked};
    unlocked->before = unlocked->cancellation ? tenon_poll_set_shared(&unlocked->poll)
                                              : tenon_poll_set(&unlocked->poll);
  }
  depth++;
  unlocked->state = PyEval_SaveThread();
}

bool unlocked_end(unlocked_t *unlocked) {
  PyEval_RestoreThread(unlocked->state);
  depth--;
  /* a call within a call: the outer one may have shared its callback, and can share it safely */
  if (unlocked->is_watched && depth && cancellation_entered())
    tenon_poll_set_shared(unlocked->before);
  else if (unlocked->is_watched)
    tenon_poll_set(unlocked->before);
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
