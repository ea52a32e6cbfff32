#include "program.h"

#include <stdlib.h>
#include <string.h>

typedef struct ocl_head_t { /* the header before a binary */
  char magic[8];
  uint64_t target;   /* checksum of the text that identifies the device */
  uint64_t bytes;    /* of the binary */
  uint64_t checksum; /* of the binary */
} ocl_head_t;

static const char magic[8] = {'T', 'N', 'O', 'C', 'L', '0', '0', '1'};

typedef struct ocl_slot_t { /* the last value of an argument */
  uint64_t tag;             /* kind << 56 | number of bytes; 0: must be set */
  uint64_t value;
} ocl_slot_t;

typedef struct ocl_kernel_t {
  cl_kernel kernel;
  pthread_mutex_t lock; /* held from the first argument to the enqueue */
  uint64_t freed;       /* the device's `freed` when the slots were valid */
  cl_uint slot_count;
  struct ocl_kernel_t *next;
  char *name;
  ocl_slot_t slots[];
} ocl_kernel_t;

typedef struct ocl_program_t {
  cl_program program;
  pthread_mutex_t lock;
  ocl_kernel_t *kernels;
} ocl_program_t;

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
  return checksum_of(ocl_device(on)->target, strlen(ocl_device(on)->target));
}

/* compiling */

static tenon_status_t fail_build(tenon_on_t on, cl_program program, cl_int error,
                                 const char *file) {
  size_t size = 0;
  char *log = NULL;
  cl_device_id id = ocl_device(on)->id;
  ocl.GetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
  if (size) log = (char *)calloc(1, size + 1);
  if (log) ocl.GetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, size, log, NULL);
  tenon_status_t status = ocl_error_status(error);
  tenon_fail(on, status, "opencl:%d: %s cannot be compiled for %s: %s (%d)\n%s", on->ordinal, file,
             ocl_device(on)->name, ocl_error_name(error), error,
             log ? log : "the driver says nothing more");
  free(log);
  return status;
}

/* Puts our lines before the source text: they switch contraction off, and make compiler messages
 * name the author's file and lines. */
static char *text_of(const tenon_source_t *source, const char *file) {
  static const char before[] = "#pragma OPENCL FP_CONTRACT OFF\n#line 1 \"";
  uint64_t size = source->text_size;
  if (size > SIZE_MAX / 2) return NULL;
  char *text = (char *)malloc(sizeof before + 2 * strlen(file) + (size_t)size + 4);
  char *at = text;
  if (!text) return NULL;
  memcpy(at, before, sizeof before - 1);
  at += sizeof before - 1;
  for (const char *c = file; *c; c++) {
    if (*c == '"' || *c == '\\') *at++ = '\\';
    *at++ = *c == '\n' ? ' ' : *c;
  }
  *at++ = '"';
  *at++ = '\n';
  memcpy(at, source->text, (size_t)size);
  at[size] = 0;
  return text;
}

static char *options_of(tenon_on_t on, const char *given) {
  const char *ours = ocl_device(on)->rounds_division
                         ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt "
                         : "-cl-std=CL1.2 ";
  char *options = (char *)malloc(strlen(ours) + strlen(given) + 1);
  if (options) {
    strcpy(options, ours);
    strcat(options, given);
  }
  return options;
}

static tenon_status_t binary_into(tenon_on_t on, cl_program program, const char *file,
                                  tenon_sink_t *out_code) {
  size_t size = 0;
  ocl_head_t head = {{0}, target_of(on), 0, 0};
  cl_int error = ocl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
  if (error || !size)
    return ocl_fail(on, error, "the driver has no compiled code of %s (%zu bytes)", file, size);
  char *code = (char *)out_code->reserve(out_code, sizeof head + size);
  if (!code) return TENON_MEMORY; /* the failure has been reported */
  unsigned char *binary = (unsigned char *)code + sizeof head;
  if ((error = ocl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL)))
    return ocl_fail(on, error, "cannot get the compiled code of %s", file);
  memcpy(head.magic, magic, sizeof magic);
  head.bytes = size;
  head.checksum = checksum_of(binary, size);
  memcpy(code, &head, sizeof head);
  return TENON_OK;
}

tenon_status_t ocl_program_compile(tenon_on_t on, const tenon_source_t *source,
                                   tenon_sink_t *out_code) {
  ocl_device_t *device = ocl_device(on);
  const char *file = source->file ? source->file : "source";
  if (source->language != TENON_SOURCE_OPENCL)
    return tenon_fail(on, TENON_UNIMPLEMENTED,
                      "opencl:%d: %s is in language %u; OpenCL C (%d) is compiled here",
                      on->ordinal, file, source->language, TENON_SOURCE_OPENCL);
  char *text = text_of(source, file);
  char *options = options_of(on, source->options ? source->options : "");
  tenon_status_t status = TENON_MEMORY;
  if (text && options) {
    const char *texts[] = {text};
    cl_int error = CL_SUCCESS;
    cl_program program = ocl.CreateProgramWithSource(device->context, 1, texts, NULL, &error);
    if (error) {
      status = ocl_fail(on, error, "cannot compile %s", file);
    } else {
      error = ocl.BuildProgram(program, 1, &device->id, options, NULL, NULL);
      status =
          error ? fail_build(on, program, error, file) : binary_into(on, program, file, out_code);
      ocl.ReleaseProgram(program);
    }
  } else {
    tenon_fail(on, TENON_MEMORY, "opencl:%d: no host memory to compile %s", on->ordinal, file);
  }
  free(text);
  free(options);
  return status;
}

/* loading */

static tenon_status_t check(tenon_on_t on, const void *code, uint64_t bytes, ocl_head_t *head) {
  const char *what = NULL;
  if (bytes < sizeof *head)
    what = "it is shorter than its header";
  else
    memcpy(head, code, sizeof *head);
  if (!what && memcmp(head->magic, magic, sizeof magic) != 0)
    what = "it does not begin as compiled code of this plug-in does";
  if (!what && head->target != target_of(on))
    what = "it is for another device or driver, or its header is damaged";
  if (!what && head->bytes != bytes - sizeof *head)
    what = "its length differs from that in its header";
  if (!what && head->checksum != checksum_of((const char *)code + sizeof *head, head->bytes))
    what = "its checksum is wrong";
  if (!what) return TENON_OK;
  return tenon_fail(on, TENON_INVALID,
                    "opencl:%d: compiled code of %llu bytes is not loaded: %s; compile it anew",
                    on->ordinal, (unsigned long long)bytes, what);
}

tenon_status_t ocl_program_load(tenon_on_t on, const void *code, uint64_t bytes,
                                void **out_program) {
  ocl_device_t *device = ocl_device(on);
  ocl_head_t head;
  TENON_TRY(check(on, code, bytes, &head));
  const unsigned char *binary = (const unsigned char *)code + sizeof head;
  size_t size = (size_t)head.bytes;
  cl_int error = CL_SUCCESS;
  cl_int found = CL_SUCCESS;
  cl_program handle =
      ocl.CreateProgramWithBinary(device->context, 1, &device->id, &size, &binary, &found, &error);
  if (error || found) {
    if (handle) ocl.ReleaseProgram(handle);
    return ocl_fail(on, error ? error : found,
                    "the driver does not take compiled code of %zu bytes", size);
  }
  ocl_program_t *program = (ocl_program_t *)calloc(1, sizeof *program);
  tenon_status_t status =
      program
          ? TENON_OK
          : tenon_fail(on, TENON_MEMORY, "opencl:%d: no host memory for a program", on->ordinal);
  if (program && (error = ocl.BuildProgram(handle, 1, &device->id, "", NULL, NULL)))
    status = fail_build(on, handle, error, "compiled code");
  if (status != TENON_OK) {
    ocl.ReleaseProgram(handle);
    free(program);
    return status;
  }
  program->program = handle;
  pthread_mutex_init(&program->lock, NULL);
  *out_program = program;
  return TENON_OK;
}

void ocl_program_unload(tenon_on_t on, void *handle) {
  (void)on;
  ocl_program_t *program = (ocl_program_t *)handle;
  if (!program) return;
  for (ocl_kernel_t *kernel = program->kernels, *next; kernel; kernel = next) {
    next = kernel->next;
    ocl.ReleaseKernel(kernel->kernel);
    pthread_mutex_destroy(&kernel->lock);
    free(kernel->name);
    free(kernel);
  }
  ocl.ReleaseProgram(program->program);
  pthread_mutex_destroy(&program->lock);
  free(program);
}

/* kernels */

static tenon_status_t kernel_create(tenon_on_t on, ocl_program_t *program, const char *name,
                                    ocl_kernel_t **out) {
  cl_int error = CL_SUCCESS;
  cl_uint count = 0;
  char names[500] = "";
  cl_kernel handle = ocl.CreateKernel(program->program, name, &error);
  if (error == CL_INVALID_KERNEL_NAME) {
    ocl.GetProgramInfo(program->program, CL_PROGRAM_KERNEL_NAMES, sizeof names, names, NULL);
    return tenon_fail(on, TENON_NOT_FOUND, "opencl:%d: the program has no kernel '%s'; it has %s",
                      on->ordinal, name, *names ? names : "others");
  }
  if (!error) error = ocl.GetKernelInfo(handle, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL);
  ocl_kernel_t *kernel =
      error ? NULL : (ocl_kernel_t *)calloc(1, sizeof *kernel + count * sizeof *kernel->slots);
  char *copy = kernel ? strdup(name) : NULL;
  if (!copy) {
    if (handle) ocl.ReleaseKernel(handle);
    free(kernel);
    return ocl_fail(on, error ? error : CL_OUT_OF_HOST_MEMORY, "cannot create the kernel '%s'",
                    name);
  }
  kernel->kernel = handle;
  kernel->slot_count = count;
  kernel->name = copy;
  pthread_mutex_init(&kernel->lock, NULL);
  kernel->next = program->kernels;
  program->kernels = kernel;
  *out = kernel;
  return TENON_OK;
}

tenon_status_t ocl_kernel_find(tenon_on_t on, void *handle, const char *name, void **out_kernel) {
  ocl_program_t *program = (ocl_program_t *)handle;
  tenon_status_t status = TENON_OK;
  pthread_mutex_lock(&program->lock);
  ocl_kernel_t *kernel = program->kernels;
  while (kernel && strcmp(kernel->name, name) != 0)
    kernel = kernel->next;
  if (!kernel) status = kernel_create(on, program, name, &kernel);
  pthread_mutex_unlock(&program->lock);
  if (status == TENON_OK) *out_kernel = kernel;
  return status;
}

static cl_int set(ocl_kernel_t *kernel, ocl_slot_t *slot, uint64_t tag, uint64_t value, size_t size,
                  const void *data) {
  cl_int error = ocl.SetKernelArg(kernel->kernel, (cl_uint)(slot - kernel->slots), size, data);
  slot->tag = error ? 0 : tag;
  slot->value = value;
  return error;
}

/* Sets the arguments that have changed. On an error, `out_at` is the least number of parameters, or
 * the parameter that could not be set. */
static inline cl_int set_arguments(ocl_kernel_t *kernel, const tenon_launch_t *launch,
                                   cl_uint *out_at) {
  const uint64_t memory = (uint64_t)TENON_ARG_MEMORY << 56;
  const uint64_t bytes = (uint64_t)TENON_ARG_BYTES << 56;
  const uint64_t local = (uint64_t)TENON_ARG_LOCAL << 56;
  ocl_slot_t *slot = kernel->slots;
  ocl_slot_t *const end = slot + kernel->slot_count;
  const tenon_kernel_argument_t *argument = launch->arguments;
  const tenon_kernel_argument_t *const last = argument + launch->argument_count;
  cl_int error = CL_SUCCESS;
  for (; argument < last; argument++, slot++) {
    const void *data = argument->as.data;
    uint64_t value, tag, size;
    uint32_t small;
    if (slot + (argument->kind == TENON_ARG_MEMORY) >= end) goto too_many;
    if (argument->kind == TENON_ARG_MEMORY) {
      value = (uint64_t)(uintptr_t)argument->as.memory.handle;
      if (slot->tag != memory || slot->value != value) {
        if ((error = set(kernel, slot, memory, value, sizeof(cl_mem), &argument->as.memory.handle)))
          goto failed;
      }
      slot++;
      data = &argument->as.memory.offset;
      value = argument->as.memory.offset;
      size = 8;
      tag = bytes + 8;
    } else if (argument->kind == TENON_ARG_BYTES) {
      size = argument->size;
      tag = bytes + size;
      if (size == 4) {
        memcpy(&small, data, 4);
        value = small;
      } else if (size == 8)
        memcpy(&value, data, 8);
      else {
        /* this kind is set each time */
        value = 0;
        slot->tag = 0;
      }
    } else if (argument->kind == TENON_ARG_LOCAL) {
      size = value = argument->size;
      tag = local;
      data = NULL;
    } else {
      error = CL_INVALID_VALUE;
      goto failed;
    }
    if (slot->tag != tag || slot->value != value) {
      if ((error = set(kernel, slot, tag, value, (size_t)size, data))) goto failed;
    }
  }
  if (slot == end) return CL_SUCCESS;
  error = CL_INVALID_KERNEL_ARGS;
failed:
  *out_at = (cl_uint)(slot - kernel->slots);
  return error;
too_many:
  *out_at = kernel->slot_count + 1;
  return CL_INVALID_ARG_INDEX;
}

static tenon_status_t fail_launch(tenon_on_t on, const ocl_kernel_t *kernel,
                                  const tenon_launch_t *launch, cl_int error, cl_uint at) {
  if (error == CL_INVALID_KERNEL_ARGS || error == CL_INVALID_ARG_INDEX)
    return tenon_fail(on, TENON_INVALID,
                      "opencl:%d: the kernel '%s' has %u parameters, and a launch with %u "
                      "arguments gives %s%u (memory is two: pointer and offset, a long)",
                      on->ordinal, kernel->name, kernel->slot_count, launch->argument_count,
                      error == CL_INVALID_ARG_INDEX ? "at least " : "", at);
  if (error == CL_INVALID_ARG_SIZE || error == CL_INVALID_ARG_VALUE || error == CL_INVALID_VALUE)
    return ocl_fail(on, error, "cannot set parameter %u of the kernel '%s'", at, kernel->name);
  return ocl_fail(on, error,
                  "cannot launch the kernel '%s' with %llu x %llu x %llu groups of %u x %u x %u "
                  "items (at most %u)",
                  kernel->name, (unsigned long long)launch->groups[0],
                  (unsigned long long)launch->groups[1], (unsigned long long)launch->groups[2],
                  launch->group[0], launch->group[1], launch->group[2], ocl_device(on)->group_most);
}

tenon_status_t ocl_kernel_launch(tenon_on_t on, void *handle, const tenon_launch_t *launch) {
  ocl_stream_t *stream = ocl_stream(on, handle);
  ocl_kernel_t *kernel = (ocl_kernel_t *)launch->kernel;
  size_t items[3], group[3];
  cl_uint at = 0;
  cl_uint axes = 1;
  if ((launch->groups[2] | launch->group[2]) > 1)
    axes = 3;
  else if ((launch->groups[1] | launch->group[1]) > 1)
    axes = 2;
  for (cl_uint i = 0; i < axes; i++) {
    group[i] = launch->group[i];
    if (__builtin_mul_overflow(launch->groups[i], group[i], &items[i]))
      return fail_launch(on, kernel, launch, CL_INVALID_GLOBAL_WORK_SIZE, 0);
  }
  pthread_mutex_lock(&kernel->lock);
  uint64_t freed = atomic_load_explicit(&ocl_device(on)->freed, memory_order_acquire);
  if (kernel->freed != freed) { /* a handle may belong to another object now */
    for (cl_uint i = 0; i < kernel->slot_count; i++)
      kernel->slots[i].tag = 0;
    kernel->freed = freed;
  }
  cl_int error = set_arguments(kernel, launch, &at);
  tenon_status_t began = error ? TENON_OK : ocl_stream_begin(on, stream);
  if (!error && began == TENON_OK) {
    cl_event event = NULL;
    error = ocl.EnqueueNDRangeKernel(stream->queue, kernel->kernel, axes, NULL, items, group, 0,
                                     NULL, &event);
    ocl_stream_end(stream, error, event, launch->ticket);
  }
  pthread_mutex_unlock(&kernel->lock);
  if (__builtin_expect(error, 0)) return fail_launch(on, kernel, launch, error, at);
  return began;
}
