/* Finds PyTorch's functions in the process; see shim.h. */
#include "shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tenon/torch.h>

#include "threads.h"

#define VERSION(major, minor) ((uint64_t)(major) << 56 | (uint64_t)(minor) << 48)
enum { DTYPES = 32 };

torch_api_t torch;
int32_t torch_cpu;
uint64_t torch_build_version;
static struct {
  int32_t code;
  tenon_dtype_t dtype;
} dtypes[DTYPES];
static int dtype_count;

static void add_dtype(void *library, const char *name, uint32_t dtype) {
  int32_t (*code)(void) = NULL;
  *(void **)&code = dlsym(library, name);
  if (code) {
    dtypes[dtype_count].code = code();
    dtypes[dtype_count++].dtype = tenon_dtype(dtype);
  }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
void torch_lock(void) { pthread_mutex_lock(&mutex); }
void torch_unlock(void) { pthread_mutex_unlock(&mutex); }

static size_t append_name(char *text, size_t capacity, size_t used, const char *name) {
  const size_t left = used < capacity ? capacity - used : 0;
  return used + (size_t)snprintf(text + used, left, "%s%s", used ? ", " : "", name);
}

bool torch_open(char *out_error, size_t capacity) {
  static bool is_open;
  if (is_open) return true;
  void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  /* PyTorch is linked into the program, or its library has another name. */
  if (!library) library = dlopen(NULL, RTLD_LAZY);
  size_t used = 0;
#define FIND(result, name, parameters)                                                             \
  if (!(*(void **)&torch.name = library ? dlsym(library, #name) : NULL))                           \
    used = append_name(out_error, capacity, used, #name);
#define TRY(result, name, parameters)                                                              \
  *(void **)&torch.name = library ? dlsym(library, #name) : NULL;
  *out_error = 0;
  TORCH_FUNCTIONS(FIND)
  TORCH_OPTIONAL(TRY)
#define CXX(result, name, parameters, symbol)                                                      \
  if (!(*(void **)&torch.name = dlsym(RTLD_DEFAULT, symbol)) && library)                           \
    /* This also searches the libraries that it depends on (libc10). */                            \
    *(void **)&torch.name = dlsym(library, symbol);
  TORCH_CXX(CXX)
  if (!torch.aoti_torch_abi_version) {
    snprintf(out_error, capacity,
             "PyTorch is not loaded in this process: import torch, or link the program to "
             "libtorch, first");
    return false;
  }
  const uint64_t version = torch.aoti_torch_abi_version();
  if (used) {
    char missing[600];
    snprintf(missing, sizeof missing, "%s", out_error);
    snprintf(out_error, capacity,
             "PyTorch %d.%d lacks functions of the C interface (%s): use PyTorch 2.11 or newer",
             (int)(version >> 56), (int)(version >> 48 & 255), missing);
    return false;
  }
#define DTYPE(name, dtype) add_dtype(library, "aoti_torch_dtype_" #name, dtype);
  TORCH_DTYPES(DTYPE)
  torch_cpu = torch.aoti_torch_device_type_cpu();
  torch_build_version = version < VERSION(2, 13) ? VERSION(2, 11) : VERSION(2, 13);
  threads_watch_forks();
  return is_open = true;
}

void *torch_find(const char *library, const char *name) {
  void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  void *found = dlsym(handle ? handle : RTLD_DEFAULT, name);
  if (handle) dlclose(handle);
  return found;
}

bool torch_dtype_from(int32_t code, tenon_dtype_t *out_dtype) {
  for (int i = 0; i < dtype_count; i++)
    if (dtypes[i].code == code) {
      *out_dtype = dtypes[i].dtype;
      return true;
    }
  return false;
}

bool torch_dtype_stored(int32_t code, tenon_dtype_t *out_dtype) {
  /* Values of c10::ScalarType. They are stored in files, so they do not change. */
  enum {
    QINT8 = 12,
    QUINT8 = 13,
    QINT32 = 14,
  };
  if (code < QINT8 || code > QINT32) return false;
  *out_dtype = tenon_dtype(code == QUINT8 ? TENON_U8 : TENON_I32);
  if (code == QINT8) *out_dtype = tenon_dtype(TENON_I8);
  return true;
}

bool torch_dtype_to(tenon_dtype_t dtype, int32_t *out_code) {
  for (int i = 0; i < dtype_count; i++)
    if (tenon_dtype_id(dtypes[i].dtype) == tenon_dtype_id(dtype)) {
      *out_code = dtypes[i].code;
      return true;
    }
  return false;
}

static _Thread_local char explanation[1000]; /* why Python is about to raise; "": not known */

void tenon_torch_explain(const char *why) {
  *explanation = 0;
  if (*why) snprintf(explanation, sizeof explanation, "%s", why);
}

const char *torch_what(void) {
  static _Thread_local char said[sizeof explanation];
  const char *what = torch.torch_exception_get_what_without_backtrace
                         ? torch.torch_exception_get_what_without_backtrace()
                         : NULL;
  memcpy(said, explanation, sizeof said);
  *explanation = 0;
  if (what && *what) return what;
  return *said ? said : "PyTorch printed the reason";
}

/* Tests the functions on a tensor that needs no gradient, and again when it needs one. */
bool torch_sees_gradients(void) {
  const int64_t one = 1;
  int32_t f32;
  torch_tensor_t tensor = NULL;
  bool is_defined = true;
  bool sees = false;
  if (!torch.requires_grad || !torch.forward_grad || !torch.is_excluded || !torch.exclude)
    return false;
  if (!torch_dtype_to(tenon_dtype(TENON_F32), &f32)) return false;
  if (torch.aoti_torch_empty_strided(1, &one, &one, f32, torch_cpu, -1, &tensor)) return false;
  if (!torch.requires_grad(*(void **)tensor) && !torch.torch_set_requires_grad(tensor, true))
    sees = torch.requires_grad(*(void **)tensor) &&
           !torch.aoti_torch_is_defined(torch.forward_grad(*(void **)tensor, 0, tensor),
                                        &is_defined) &&
           !is_defined;
  (void)torch.aoti_torch_delete_tensor_object(tensor);
  return sees;
}
