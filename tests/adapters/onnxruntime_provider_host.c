/* Runs a model with Tenon as ONNX Runtime's execution provider, beside ONNX Runtime alone, from
 * several threads, registering the provider again and again. scripts/sanitize.sh runs it under the
 * sanitizers.
 *
 *   onnxruntime_provider_host LIBONNXRUNTIME PROVIDER NAME MODEL
 *
 * NAME is tenon, or tenon:sim:0. The model has an input x and an output y of [2, 2] f32. Nodes of
 * Softmax stay with ONNX Runtime. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ort_functions.h"
#include "common/ort_interface.h"

enum {
  THREADS = 4,
  RUNS = 20,
  ROUNDS = 3,
  COUNT = 4,
};

typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtEpDevice OrtEpDevice;
typedef void (*any_fn)(void);

static const any_fn *api;

#define CALL(type, name) ((type)api[ORT_AT_##name])
typedef OrtStatus *(*env_fn)(int level, const char *name, OrtEnv **out);
typedef OrtStatus *(*register_ep_fn)(OrtEnv *env, const char *name, const char *path);
typedef OrtStatus *(*unregister_ep_fn)(OrtEnv *env, const char *name);
typedef OrtStatus *(*devices_fn)(const OrtEnv *env, const OrtEpDevice *const **out, size_t *count);
typedef const char *(*name_fn)(const OrtEpDevice *device);
typedef OrtStatus *(*append_fn)(OrtSessionOptions *options, OrtEnv *env,
                                const OrtEpDevice *const *devices, size_t device_count,
                                const char *const *keys, const char *const *values, size_t count);
typedef OrtStatus *(*options_fn)(OrtSessionOptions **out);
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

static void check(OrtStatus *status) {
  if (!status) return;
  fprintf(stderr, "%s\n", CALL(message_fn, GetErrorMessage)(status));
  exit(1);
}

static void run_session(OrtSession *session, float first, float out[COUNT]) {
  float data[COUNT] = {first, 1, -2, 3};
  const int64_t shape[] = {2, 2};
  const char *const inputs[] = {"x"};
  const char *const outputs[] = {"y"};
  OrtMemoryInfo *memory;
  OrtValue *x;
  OrtValue *y = NULL;
  void *made;
  check(CALL(memory_fn, CreateCpuMemoryInfo)(1, 0, &memory));
  check(
      CALL(tensor_fn, CreateTensorWithDataAsOrtValue)(memory, data, sizeof data, shape, 2, 1, &x));
  const OrtValue *const values[] = {x};
  check(CALL(run_fn, Run)(session, NULL, inputs, values, 1, outputs, 1, &y));
  check(CALL(data_fn, GetTensorMutableData)(y, &made));
  memcpy(out, made, COUNT * sizeof *out);
  CALL(release_fn, ReleaseValue)(x);
  CALL(release_fn, ReleaseValue)(y);
  CALL(release_fn, ReleaseMemoryInfo)(memory);
}

static OrtSession *sessions[2]; /* ONNX Runtime alone, and with Tenon */

static void *compare_often(void *unused) {
  (void)unused;
  for (int i = 0; i < RUNS; i++) {
    float expected[COUNT];
    float found[COUNT];
    run_session(sessions[0], (float)i, expected);
    run_session(sessions[1], (float)i, found);
    for (int k = 0; k < COUNT; k++) {
      if (fabsf(found[k] - expected[k]) <= 1e-5f) continue;
      fprintf(stderr, "expected %g, found %g\n", (double)expected[k], (double)found[k]);
      exit(1);
    }
  }
  return NULL;
}

static void offer_to(OrtEnv *env, const char *name, OrtSessionOptions *options) {
  const char *const keys[] = {"leave"};
  const char *const values[] = {"Softmax"};
  const OrtEpDevice *const *devices;
  size_t count;
  check(CALL(devices_fn, GetEpDevices)(env, &devices, &count));
  size_t own = 0;
  while (own < count && strcmp(CALL(name_fn, EpDevice_EpName)(devices[own]), name) != 0)
    own++;
  if (own == count) exit(2);
  check(CALL(append_fn, SessionOptionsAppendExecutionProvider_V2)(options, env, &devices[own], 1,
                                                                  keys, values, 1));
}

static void run_round(OrtEnv *env, const char *library, const char *name, const char *model) {
  pthread_t threads[THREADS];
  OrtSessionOptions *options[2];
  check(CALL(register_ep_fn, RegisterExecutionProviderLibrary)(env, name, library));
  for (int i = 0; i < 2; i++) {
    check(CALL(options_fn, CreateSessionOptions)(&options[i]));
    if (i) offer_to(env, name, options[i]);
    check(CALL(session_fn, CreateSession)(env, model, options[i], &sessions[i]));
  }
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, compare_often, NULL) != 0) exit(2);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) {
    CALL(release_fn, ReleaseSession)(sessions[i]);
    CALL(release_fn, ReleaseSessionOptions)(options[i]);
  }
  check(CALL(unregister_ep_fn, UnregisterExecutionProviderLibrary)(env, name));
}

int main(int count, char **words) {
  const OrtApiBase *(*get_base)(void) = NULL;
  void *real = count == 5 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  OrtEnv *env;
  if (real) *(void **)&get_base = dlsym(real, "OrtGetApiBase");
  if (!get_base) return 2;
  api = (const void *)get_base()->GetApi(24);
  check(CALL(env_fn, CreateEnv)(4, "host", &env));
  for (int round = 0; round < ROUNDS; round++)
    run_round(env, words[2], words[3], words[4]);
  CALL(release_fn, ReleaseEnv)(env);
  return 0;
}
