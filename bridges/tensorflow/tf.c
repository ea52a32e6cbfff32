/* Finds TensorFlow's functions in the process; see tf.h. */
#include "tf.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

tf_api_t tf;

static const char *const libraries[] = {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2",
                                        "libtensorflow.so.2"};

/* Asks the libraries of the wheel and of the C distribution, and then the whole program, into which
 * TensorFlow may be linked. */
void *tf_find(const char *symbol) {
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    void *found = library ? dlsym(library, symbol) : NULL;
    if (library) dlclose(library); /* The process has its own reference. */
    if (found) return found;
  }
  return dlsym(RTLD_DEFAULT, symbol);
}

static size_t append_name(char *text, size_t capacity, size_t used, const char *name) {
  const size_t left = used < capacity ? capacity - used : 0;
  return used + (size_t)snprintf(text + used, left, "%s%s", used ? ", " : "", name);
}

/* Fills in `tf`. Returns the names of missing functions in `out_missing`, or "". */
static void find_all(char *out_missing, size_t capacity) {
  size_t used = 0;
  *out_missing = 0;
#define FIND(result, name, parameters)                                                             \
  if (!(*(void **)&tf.name = tf_find(#name)) && used < capacity)                                   \
    used = append_name(out_missing, capacity, used, #name);
#define TRY(result, name, parameters) *(void **)&tf.name = tf_find(#name);
  TF_FUNCTIONS(FIND)
  TF_OPTIONAL(TRY)
}

static bool open_locked(char *out_error, size_t capacity) {
  static bool is_open;
  char missing[400];
  if (is_open) return true;
  find_all(missing, sizeof missing);
  if (!tf.TF_NewStatus) {
    snprintf(out_error, capacity,
             "TensorFlow is not loaded in this process: import tensorflow, or link the program to "
             "libtensorflow, first");
    return false;
  }
  if (*missing) {
    snprintf(out_error, capacity,
             "TensorFlow %s lacks functions of the C interface (%s): use TensorFlow 2.15 or newer",
             tf.TF_Version ? tf.TF_Version() : "", missing);
    return false;
  }
  return is_open = true;
}

bool tf_open(char *out_error, size_t capacity) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  const bool is_open = open_locked(out_error, capacity);
  pthread_mutex_unlock(&lock);
  return is_open;
}
