#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deferred.h"
#include "error.h"

enum {
  PARAMETERS_MOST = 64,
  LOCAL_ALIGNMENT = 16,
  LOG = 4000,
};

static const char magic[8] = {'T', 'N', 'C', 'U', 'D', 'A', '0', '1'};

typedef struct cu_kernel_t {
  cu_function_t function;
  struct cu_kernel_t *next;
  uint32_t group_most;
  uint32_t local_static;
  _Atomic uint32_t
      /* Bytes of group memory of a launch that the driver allows. */
      local_allowed;
  int32_t parameter_count; /* -1: the driver does not say */
  char *name;
  uint32_t sizes[PARAMETERS_MOST]; /* of the parameters */
} cu_kernel_t;

typedef struct cu_program_t {
  cu_module_t module;
  pthread_mutex_t lock;
  cu_kernel_t *kernels;
} cu_program_t;

/* code */

/* Every step is invertible, so data that differ in one word have different checksums. */
static uint64_t checksum_of(const void *data, uint64_t bytes) {
  uint64_t sum = 0x9E3779B97F4A7C15u ^ bytes;
  uint64_t word;
  for (const char *at = (const char *)data; bytes; at += 8) {
    uint64_t size = bytes < 8 ? bytes : 8;
    word = 0;
    memcpy(&word, at, (size_t)size);
    sum = (sum ^ word) * 0xD6E8FEB86659FD93u;
    sum ^= sum >> 32;
    bytes -= size;
  }
  return sum;
}

static uint64_t target_of(tenon_on_t on) {
  return checksum_of(cu_device(on)->target, strlen(cu_device(on)->target));
}

cu_head_t cu_head_of(tenon_on_t on, const void *code, uint64_t bytes) {
  cu_head_t head = {{0}, target_of(on), bytes, checksum_of(code, bytes)};
  memcpy(head.magic, magic, sizeof magic);
  return head;
}

static tenon_status_t check(tenon_on_t on, const void *code, uint64_t bytes, cu_head_t *head) {
  const char *what = NULL;
  if (bytes < sizeof *head)
    what = "it is shorter than its header";
  else
    memcpy(head, code, sizeof *head);
  if (!what && memcmp(head->magic, magic, sizeof magic) != 0)
    what = "it does not begin as compiled code of this plug-in does";
  if (!what && head->target != target_of(on))
    what = "it is for another GPU or driver, or its header is damaged";
  if (!what && head->bytes != bytes - sizeof *head)
    what = "its length differs from that in its header";
  if (!what && head->checksum != checksum_of((const char *)code + sizeof *head, head->bytes))
    what = "its checksum is wrong";
  if (!what) return TENON_OK;
  return tenon_fail(on, TENON_INVALID,
                    "cuda:%d: compiled code of %llu bytes is not loaded: %s; compile it anew",
                    on->ordinal, (unsigned long long)bytes, what);
}

/* programs */

tenon_status_t cu_program_load(tenon_on_t on, const void *code, uint64_t bytes,
                               void **out_program) {
  cu_head_t head;
  char log[LOG] = "";
  cu_enum_t options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
  cu_result_t error;
  TENON_TRY(check(on, code, bytes, &head));
  cu_program_t *program = (cu_program_t *)calloc(1, sizeof *program);
  /* PTX ends with 0, and code must be aligned */
  char *copy = (char *)malloc((size_t)head.bytes + 1);
  if (!program || !copy) {
    free(program);
    free(copy);
    return tenon_fail(on, TENON_MEMORY, "cuda:%d: no host memory for a program", on->ordinal);
  }
  memcpy(copy, (const char *)code + sizeof head, (size_t)head.bytes);
  copy[head.bytes] = 0;
  CU_IN(cu_device(on), error, cu.ModuleLoadDataEx(&program->module, copy, 2, options, values));
  free(copy);
  if (error) {
    free(program);
    return cu_fail(on, error, "the driver does not take compiled code of %llu bytes%s%s",
                   (unsigned long long)head.bytes, *log ? ": " : "", log);
  }
  pthread_mutex_init(&program->lock, NULL);
  *out_program = program;
  return TENON_OK;
}

static void end_module(void *thing) { cu.ModuleUnload((cu_module_t)thing); }

void cu_program_unload(tenon_on_t on, void *handle) {
  cu_program_t *program = (cu_program_t *)handle;
  if (!program) return;
  for (cu_kernel_t *kernel = program->kernels, *next; kernel; kernel = next) {
    next = kernel->next;
    free(kernel->name);
    free(kernel);
  }
  cu_defer_free(cu_device(on), end_module, program->module);
  pthread_mutex_destroy(&program->lock);
  free(program);
}

/* kernels */

/* Call this in the context. */
static cu_result_t query_kernel_limits(cu_kernel_t *kernel) {
  int group_most = 0;
  int local = 0;
  size_t at, size;
  cu_result_t error =
      cu.FuncGetAttribute(&group_most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel->function);
  if (!error)
    error = cu.FuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel->function);
  kernel->group_most = (uint32_t)group_most;
  kernel->local_static = (uint32_t)local;
  kernel->parameter_count = cu.FuncGetParamInfo ? 0 : -1;
  while (!error && cu.FuncGetParamInfo && kernel->parameter_count < PARAMETERS_MOST &&
         !cu.FuncGetParamInfo(kernel->function, (size_t)kernel->parameter_count, &at, &size))
    kernel->sizes[kernel->parameter_count++] = (uint32_t)size;
  return error;
}

static tenon_status_t kernel_create(tenon_on_t on, cu_program_t *program, const char *name,
                                    cu_kernel_t **out) {
  cu_result_t error;
  bool pushed;
  cu_kernel_t *kernel = (cu_kernel_t *)calloc(1, sizeof *kernel);
  char *copy = kernel ? strdup(name) : NULL;
  if (!copy) {
    free(kernel);
    return tenon_fail(on, TENON_MEMORY, "cuda:%d: no host memory for the kernel '%s'", on->ordinal,
                      name);
  }
  if (!(error = cu_enter(cu_device(on), &pushed))) {
    error = cu.ModuleGetFunction(&kernel->function, program->module, name);
    if (!error) error = query_kernel_limits(kernel);
    cu_leave(pushed);
  }
  if (error) {
    free(copy);
    free(kernel);
    if (error == CUDA_ERROR_NOT_FOUND)
      return tenon_fail(
          on, TENON_NOT_FOUND,
          "cuda:%d: the program has no kernel '%s' (one is declared as extern \"C\" __global__)",
          on->ordinal, name);
    return cu_fail(on, error, "cannot create the kernel '%s'", name);
  }
  kernel->name = copy;
  kernel->local_allowed = cu_device(on)->local_plain - kernel->local_static;
  kernel->next = program->kernels;
  program->kernels = kernel;
  *out = kernel;
  return TENON_OK;
}

tenon_status_t cu_kernel_find(tenon_on_t on, void *handle, const char *name, void **out_kernel) {
  cu_program_t *program = (cu_program_t *)handle;
  tenon_status_t status = TENON_OK;
  pthread_mutex_lock(&program->lock);
  cu_kernel_t *kernel = program->kernels;
  while (kernel && strcmp(kernel->name, name) != 0)
    kernel = kernel->next;
  if (!kernel) status = kernel_create(on, program, name, &kernel);
  pthread_mutex_unlock(&program->lock);
  if (status == TENON_OK) *out_kernel = kernel;
  return status;
}

/* launches */

typedef struct arguments_t {
  void *at[PARAMETERS_MOST];
  union {
    cu_address_t address;
    uint32_t offset;
  } own[PARAMETERS_MOST];
  uint32_t count;
  uint32_t local; /* bytes of group memory */
} arguments_t;

/* The sizes are those of the kernel's parameters: the driver reads that many bytes of each
 * argument. */
static inline tenon_status_t set(tenon_on_t on, const cu_kernel_t *kernel,
                                 const tenon_launch_t *launch, arguments_t *out) {
  uint64_t local = 0;
  uint32_t count = launch->argument_count;
  bool known = kernel->parameter_count >= 0;
  if (known ? count != (uint32_t)kernel->parameter_count : count > PARAMETERS_MOST)
    return tenon_fail(on, TENON_INVALID,
                      "cuda:%d: the kernel '%s' has %d parameters, and a launch has %u arguments",
                      on->ordinal, kernel->name, kernel->parameter_count, count);
  for (uint32_t i = 0; i < count; i++) {
    const tenon_kernel_argument_t *argument = &launch->arguments[i];
    uint64_t size = argument->size;
    switch (argument->kind) {
    case TENON_ARG_MEMORY:
      out->own[i].address =
          (cu_address_t)(uintptr_t)argument->as.memory.handle + argument->as.memory.offset;
      out->at[i] = &out->own[i];
      size = sizeof(cu_address_t);
      break;
    case TENON_ARG_BYTES:
      out->at[i] = (void *)(uintptr_t)argument->as.data;
      break;
    case TENON_ARG_LOCAL: /* the offset in the one block that CUDA provides */
      out->own[i].offset = (uint32_t)local;
      local += (size + LOCAL_ALIGNMENT - 1) & ~(uint64_t)(LOCAL_ALIGNMENT - 1);
      out->at[i] = &out->own[i];
      size = sizeof(uint32_t);
      if (local <= cu_device(on)->local_most && argument->size <= cu_device(on)->local_most) break;
      return tenon_fail(
          on, TENON_INVALID,
          "cuda:%d: the kernel '%s' needs more group memory than the GPU has, %u bytes",
          on->ordinal, kernel->name, cu_device(on)->local_most);
    default:
      return tenon_fail(on, TENON_INVALID,
                        "cuda:%d: argument %u of the kernel '%s' has the unknown kind %u",
                        on->ordinal, i, kernel->name, argument->kind);
    }
    if (known && size != kernel->sizes[i])
      return tenon_fail(
          on, TENON_INVALID,
          "cuda:%d: parameter %u of the kernel '%s' has %u bytes, and its argument %llu",
          on->ordinal, i, kernel->name, kernel->sizes[i], (unsigned long long)size);
  }
  out->count = count;
  out->local = (uint32_t)local;
  return TENON_OK;
}

static tenon_status_t fail_launch(tenon_on_t on, const cu_kernel_t *kernel,
                                  const tenon_launch_t *launch, cu_result_t error) {
  return cu_fail(on, error,
                 "cannot launch the kernel '%s' with %llu x %llu x %llu groups of %u x %u x %u "
                 "items (at most %u of it; "
                 "2147483647 x 65535 x 65535 groups)",
                 kernel->name, (unsigned long long)launch->groups[0],
                 (unsigned long long)launch->groups[1], (unsigned long long)launch->groups[2],
                 launch->group[0], launch->group[1], launch->group[2], kernel->group_most);
}

tenon_status_t cu_kernel_launch(tenon_on_t on, void *handle, const tenon_launch_t *launch) {
  cu_stream_t *stream = cu_stream(on, handle);
  cu_kernel_t *kernel = (cu_kernel_t *)launch->kernel;
  const uint64_t *groups = launch->groups;
  const uint32_t *group = launch->group;
  arguments_t arguments;
  cu_result_t error;
  bool pushed;
  TENON_TRY(cu_stream_check(on, stream));
  TENON_TRY(set(on, kernel, launch, &arguments));
  if (groups[0] > INT32_MAX || groups[1] > UINT16_MAX || groups[2] > UINT16_MAX)
    return fail_launch(on, kernel, launch, CUDA_ERROR_INVALID_VALUE);
  if ((error = cu_enter(stream->device, &pushed))) return fail_launch(on, kernel, launch, error);
  uint32_t allowed = atomic_load_explicit(&kernel->local_allowed, memory_order_relaxed);
  if (__builtin_expect(arguments.local > allowed,
                       0)) { /* once, of all that there is: other threads launch it too */
    allowed = stream->device->local_most - kernel->local_static;
    error = cu.FuncSetAttribute(kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                (int)allowed);
    if (!error) atomic_store(&kernel->local_allowed, allowed);
  }
  if (!error)
    error = cu.LaunchKernel(kernel->function, (unsigned)groups[0], (unsigned)groups[1],
                            (unsigned)groups[2], group[0], group[1], group[2], arguments.local,
                            stream->native, arguments.at, NULL);
  cu_leave(pushed);
  return __builtin_expect(error, 0) ? fail_launch(on, kernel, launch, error) : TENON_OK;
}
