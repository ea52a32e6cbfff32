/* Runs a model with an exported library in a program that knows nothing of Tenon:
 *
 *   onnxruntime_deploy LIBONNXRUNTIME LIBRARY MODEL [VERSION]
 *
 * The model has an input x and an output y of [2, 2] f32. Two sessions run in two threads each.
 * With a version, the library is told that ONNX Runtime has it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ort_functions.h"
#include "common/ort_interface.h"

typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef void (*any_fn)(void);

static const any_fn *api;

#define CALL(type, name) ((type)api[ORT_AT_##name])
typedef OrtStatus *(*env_fn)(int level, const char *name, OrtEnv **out);
typedef OrtStatus *(*options_fn)(OrtSessionOptions **out);
typedef OrtStatus *(*library_fn)(OrtSessionOptions *options, const char *path);
typedef OrtStatus *(*session_fn)(OrtEnv *env, const char *path, const OrtSessionOptions *options,
                                 OrtSession **out);
typedef OrtStatus *(*memory_fn)(int type, int memory, OrtMemoryInfo **out);
typedef OrtStatus *(*tensor_fn)(const OrtMemoryInfo *info, void *data, size_t size,
                                const int64_t *shape, size_t rank, int element, OrtValue **out);
typedef OrtStatus *(*run_fn)(OrtSession *session, const void *options, const char *const *inputs,
                             const OrtValue *const *values, size_t count,
                             const char *const *outputs, size_t output_count, OrtValue **out);
typedef OrtStatus *(*data_fn)(OrtValue *value, void **out);
typedef const char *(*message_fn)(const OrtStatus *status);
typedef void (*release_fn)(void *object);

static const char *version;
static const char *get_version(void) { return version; }

static void check(OrtStatus *status) {
  if (!status) return;
  fprintf(stderr, "%s\n", CALL(message_fn, GetErrorMessage)(status));
  exit(1);
}

static char lines[8][100];

typedef struct work_t {
  OrtSession *session;
  int first; /* line */
} work_t;

static void *work(void *argument) {
  const work_t *w = argument;
  float data[] = {-1, 1, 2, 3};
  const int64_t shape[] = {2, 2};
  const char *const inputs[] = {"x"};
  const char *const outputs[] = {"y"};
  for (int i = 0; i < 2; i++) {
    OrtMemoryInfo *memory;
    OrtValue *x;
    OrtValue *y = NULL;
    float *made;
    check(CALL(memory_fn, CreateCpuMemoryInfo)(1, 0, &memory));
    check(CALL(tensor_fn, CreateTensorWithDataAsOrtValue)(memory, data, sizeof data, shape, 2, 1,
                                                          &x));
    const OrtValue *const values[] = {x};
    check(CALL(run_fn, Run)(w->session, NULL, inputs, values, 1, outputs, 1, &y));
    check(CALL(data_fn, GetTensorMutableData)(y, (void **)&made));
    snprintf(lines[w->first + i], sizeof lines[0], "%g %g %g %g", (double)made[0], (double)made[1],
             (double)made[2], (double)made[3]);
    CALL(release_fn, ReleaseValue)(x);
    CALL(release_fn, ReleaseValue)(y);
    CALL(release_fn, ReleaseMemoryInfo)(memory);
  }
  return NULL;
}

/* Registers the library as a program can that opens it itself, with another version. */
static void register_directly(const char *path, OrtSessionOptions *options,
                              const OrtApiBase *base) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const OrtApiBase other = {base->GetApi, get_version};
  register_fn function = NULL;
  if (library) *(void **)&function = dlsym(library, "RegisterCustomOps");
  if (!function) exit(2);
  check(function(options, &other));
}

int main(int argc, char **argv) {
  const OrtApiBase *(*get_base)(void) = NULL;
  void *real = argc > 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  OrtEnv *env;
  OrtSessionOptions *options;
  OrtSession *sessions[2];
  pthread_t threads[4];
  work_t works[4];
  if (real) *(void **)&get_base = dlsym(real, "OrtGetApiBase");
  if (!get_base) return 2;
  api = (const void *)get_base()->GetApi(18);
  version = argc > 4 ? argv[4] : NULL;
  check(CALL(env_fn, CreateEnv)(4, "deploy", &env));
  check(CALL(options_fn, CreateSessionOptions)(&options));
  if (version) register_directly(argv[2], options, get_base());
  check(CALL(library_fn, RegisterCustomOpsLibrary_V2)(options, argv[2]));
  for (int i = 0; i < 2; i++)
    check(CALL(session_fn, CreateSession)(env, argv[3], options, &sessions[i]));
  for (int i = 0; i < 4; i++) {
    works[i] = (work_t){sessions[i % 2], 2 * i};
    if (pthread_create(&threads[i], NULL, work, &works[i]) != 0) return 2;
  }
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < 8; i++)
    puts(lines[i]);
  CALL(release_fn, ReleaseSession)(sessions[0]);
  CALL(release_fn, ReleaseSession)(sessions[1]);
  CALL(release_fn, ReleaseSessionOptions)(options);
  CALL(release_fn, ReleaseEnv)(env);
  return 0;
}
