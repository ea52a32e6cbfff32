/* Parallel-for on threads of our own. They are started when first needed, woken by a condition
 * variable, and used by one loop at a time; a second concurrent loop runs on its caller's thread
 * alone. Used in builds without OpenMP and under the thread sanitizer. */
#include <dlfcn.h>
#include <pthread.h>

#include "base/parallel_run.h"
#include "base/thread.h"

enum { MOST = 64 };
/* held by the loop that uses the workers */
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static pthread_t workers[MOST];
static int32_t started, left;
static uint64_t generation, seen_by[MOST];
static tn_job_t *current;
static int stopping;

static void *run_worker(void *pointer) {
  int32_t me = (int32_t)(intptr_t)pointer;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!stopping && seen_by[me] == generation)
      pthread_cond_wait(&wake, &lock);
    if (stopping) break;
    seen_by[me] = generation;
    tn_job_t *job = current;
    if (!job || me + 1 >= job->parts) continue;
    pthread_mutex_unlock(&lock);
    tn_parallel_part(job, me + 1);
    pthread_mutex_lock(&lock);
    if (--left == 0) pthread_cond_signal(&done);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

void tn_parallel_run(tn_job_t *job) {
  if (pthread_mutex_trylock(&busy) != 0) {
    for (int32_t i = 0; i < job->parts; i++)
      tn_parallel_part(job, i);
    return;
  }
  pthread_mutex_lock(&lock);
  int32_t want = job->parts - 1 < MOST ? job->parts - 1 : MOST;
  while (started < want) {
    seen_by[started] = generation;
    if (pthread_create(&workers[started], NULL, run_worker, (void *)(intptr_t)started) != 0) break;
    started++;
  }
  int32_t helpers = started < want ? started : want;
  current = job;
  left = helpers;
  generation++;
  pthread_cond_broadcast(&wake);
  pthread_mutex_unlock(&lock);
  tn_parallel_part(job, 0);
  /* the parts of threads that the system refused to create */
  for (int32_t i = helpers + 1; i < job->parts; i++)
    tn_parallel_part(job, i);
  pthread_mutex_lock(&lock);
  while (left)
    pthread_cond_wait(&done, &lock);
  current = NULL;
  pthread_mutex_unlock(&lock);
  pthread_mutex_unlock(&busy);
}

void tn_parallel_apply(int32_t threads) { (void)threads; }

void tn_parallel_shutdown(void) {
  pthread_mutex_lock(&busy);
  pthread_mutex_lock(&lock);
  stopping = 1;
  pthread_cond_broadcast(&wake);
  pthread_mutex_unlock(&lock);
  for (int32_t i = 0; i < started; i++)
    pthread_join(workers[i], NULL);
  started = 0;
  stopping = 0;
  pthread_mutex_unlock(&busy);
}

/* A loaded library may use OpenMP, as oneDNN does. A forked child would wait for the threads of its
 * pool, which do not exist in the child. */
void tn_parallel_before_fork(void) {
  enum { SOFT = 1 };
  int (*pause)(int);
  *(void **)&pause = dlsym(RTLD_DEFAULT, "omp_pause_resource_all");
  if (pause) pause(SOFT);
}

/* The workers do not exist in the child and may have held any of these locks. */
void tn_parallel_in_child(void) {
  pthread_mutex_init(&busy, NULL);
  pthread_mutex_init(&lock, NULL);
  pthread_cond_init(&wake, NULL);
  pthread_cond_init(&done, NULL);
  started = 0;
  left = 0;
  current = NULL;
  stopping = 0;
}

const char *tn_parallel_name(void) { return "posix"; }
