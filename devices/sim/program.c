/* Programs: compiled code (see compile.c) that is loaded from memory, its kernels, and launches of
 * these kernels.
 *
 * Invariant: a program stays loaded until it has been unloaded and its last launch, including
 * launches in captured graphs, is gone. */
#include "program.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "group.h"
#include "queue.h"

typedef struct kernel_t {
  sim_object_t object;
  struct kernel_t *next;
  struct program_t *program;
  sim_kernel_fn function;
  char name[];
} kernel_t;

typedef struct program_t {
  sim_object_t object;
  uint32_t references; /* from the host and from launches */
  int file;            /* stays open while the code is loaded: its name is that of the library */
  void *library;
  kernel_t *kernels;
} program_t;

static void release(program_t *program) {
  if (--program->references) return;
  dlclose(program->library);
  close(program->file);
  free(program);
}

static bool write_all(int file, const char *bytes, uint64_t count) {
  for (ssize_t n; count; bytes += n, count -= (uint64_t)n)
    if ((n = write(file, bytes, count)) <= 0) return false;
  return true;
}

tenon_status_t sim_program_load(tenon_on_t on, const void *code, uint64_t bytes,
                                void **out_program) {
  char path[64];
  program_t *program = calloc(1, sizeof *program);
  if (!program) return tenon_fail(on, TENON_MEMORY, "sim: no host memory for a program");
  program->references = 1;
  program->file = memfd_create("tenon-sim", MFD_CLOEXEC);
  snprintf(path, sizeof path, "/proc/self/fd/%d", program->file);
  if (program->file < 0 || !write_all(program->file, code, bytes)) {
    if (program->file >= 0) close(program->file);
    free(program);
    return tenon_fail(on, TENON_MEMORY,
                      "sim: the system has no memory file for %" PRIu64 " bytes of code", bytes);
  }
  if (!(program->library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
    tenon_status_t status = tenon_fail(
        on, TENON_INVALID, "sim: %" PRIu64 " bytes are not code of sim: %s", bytes, dlerror());
    close(program->file);
    free(program);
    return status;
  }
  tenon_status_t status = sim_enter(on);
  if (!status) status = sim_leave(sim_handle_create(on, SIM_PROGRAM, &program->object));
  if (status)
    release(program);
  else
    *out_program = program->object.handle;
  return status;
}

void sim_program_free(sim_object_t *object) {
  program_t *program = (program_t *)object;
  for (kernel_t *kernel; (kernel = program->kernels);) {
    program->kernels = kernel->next;
    sim_handle_drop(&kernel->object);
    free(kernel);
  }
  release(program);
}

void sim_program_unload(tenon_on_t on, void *handle) {
  sim_lock();
  sim_object_t *program = handle ? sim_handle_end(on, SIM_PROGRAM, handle) : NULL;
  if (program) sim_program_free(program);
  sim_unlock();
}

tenon_status_t sim_kernel_find(tenon_on_t on, void *handle, const char *name, void **out_kernel) {
  program_t *program;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_handle_find(on, SIM_PROGRAM, handle, &program);
  if (status) return sim_leave(status);
  for (const kernel_t *kernel = program->kernels; kernel; kernel = kernel->next) {
    if (strcmp(kernel->name, name)) continue;
    *out_kernel = kernel->object.handle;
    return sim_leave(TENON_OK);
  }
  void *symbol = dlsym(program->library, name);
  if (!symbol)
    return sim_leave(tenon_fail(on, TENON_NOT_FOUND, "sim: the program has no kernel `%s`", name));
  kernel_t *kernel = calloc(1, sizeof *kernel + strlen(name) + 1);
  if (!kernel) return sim_leave(tenon_fail(on, TENON_MEMORY, "sim: no host memory for a kernel"));
  memcpy(&kernel->function, &symbol, sizeof symbol);
  strcpy(kernel->name, name);
  if ((status = sim_handle_create(on, SIM_KERNEL, &kernel->object))) {
    free(kernel);
    return sim_leave(status);
  }
  kernel->program = program;
  kernel->next = program->kernels;
  program->kernels = kernel;
  *out_kernel = kernel->object.handle;
  return sim_leave(TENON_OK);
}

/* launches */

typedef struct argument_t { /* for BYTES and LOCAL, `at` is an offset */
  uint32_t kind;
  uint32_t reserved;
  uint64_t at;
} argument_t;

typedef struct launch_t { /* followed by the arguments, and then by their bytes */
  program_t *program;
  sim_kernel_fn function;
  uint64_t groups[3];
  uint64_t local_bytes;
  uint32_t items[3];
  uint32_t count;
  char name[64];
} launch_t;

static void launch_release(void *argument) { release(((launch_t *)argument)->program); }
static void launch_retain(void *argument) { ((launch_t *)argument)->program->references++; }

static tenon_status_t launch_run(void *argument, void *const *addresses, char *message) {
  launch_t *launch = argument;
  const argument_t *arguments = (const argument_t *)(launch + 1);
  void **given = calloc(launch->count + 1, sizeof *given);
  char *local = aligned_alloc(64, (launch->local_bytes + 64) / 64 * 64);
  tenon_status_t status = given && local ? TENON_OK : TENON_MEMORY;
  for (uint32_t i = 0; i < launch->count && !status; i++) {
    uint32_t kind = arguments[i].kind;
    if (kind == TENON_ARG_MEMORY)
      given[i] = addresses[arguments[i].at];
    else if (kind == TENON_ARG_BYTES)
      given[i] = (char *)argument + arguments[i].at;
    else
      given[i] = local + arguments[i].at;
  }
  char why[SIM_TEXT] = "no host memory for its arguments";
  if (!status)
    status = sim_groups_run(launch->function, launch->groups, launch->items, given, local,
                            launch->local_bytes, why);
  if (status) snprintf(message, SIM_TEXT, "kernel `%s`: %.400s", launch->name, why);
  free(local);
  free(given);
  return status;
}

/* Fills `uses`, which has room for all, and copies the bytes of the arguments if there is room for
 * them. */
static tenon_status_t lay_out(tenon_on_t on, const tenon_launch_t *launch, launch_t *out,
                              uint64_t *out_bytes, sim_use_t *uses, uint32_t *out_uses) {
  uint64_t bytes = sizeof(launch_t) + launch->argument_count * sizeof(argument_t);
  uint64_t local = 0;
  argument_t *arguments = out ? (argument_t *)(out + 1) : NULL;
  uint32_t use = 0;
  bytes = (bytes + 15) / 16 * 16;
  for (uint32_t i = 0; i < launch->argument_count; i++) {
    const tenon_kernel_argument_t *argument = &launch->arguments[i];
    uint64_t size = (argument->size + 63) / 64 * 64;
    uint64_t at = 0;
    if (argument->kind == TENON_ARG_MEMORY) {
      bool known =
          (argument->access & (TENON_ACCESS_READ | TENON_ACCESS_WRITE)) != 0 || argument->size;
      at = use;
      if (uses)
        uses[use] = (sim_use_t){{argument->as.memory, known ? argument->size : 0,
                                 !!(argument->access & TENON_ACCESS_WRITE), 0},
                                NULL,
                                false};
      use++;
    } else if (argument->kind == TENON_ARG_BYTES && argument->size <= 1 << 20) {
      at = bytes;
      if (out) memcpy((char *)out + at, argument->as.data, argument->size);
      bytes += size;
    } else if (argument->kind == TENON_ARG_LOCAL && argument->size <= SIM_LOCAL_MOST &&
               local + size <= SIM_LOCAL_MOST) {
      at = local;
      local += size;
    } else {
      return tenon_fail(on, TENON_INVALID,
                        "sim: argument %u of a kernel is of kind %u with %" PRIu64
                        " bytes; kinds are 1 to 3, values at most 1 MiB, and "
                        "groups have %d bytes of local memory",
                        i, argument->kind, argument->size, SIM_LOCAL_MOST);
    }
    if (arguments) arguments[i] = (argument_t){argument->kind, 0, at};
  }
  if (out) {
    out->local_bytes = local;
    out->count = launch->argument_count;
  }
  *out_bytes = bytes;
  *out_uses = use;
  return TENON_OK;
}

static tenon_status_t sizes_check(tenon_on_t on, const tenon_launch_t *launch) {
  uint64_t items = 1;
  for (int i = 0; i < 3; i++) {
    items = items > SIM_GROUP_MOST ? items : items * launch->group[i];
    if (!launch->groups[i] || !launch->group[i])
      return tenon_fail(on, TENON_INVALID,
                        "sim: a launch of %" PRIu64 " groups of %u items along axis %d",
                        launch->groups[i], launch->group[i], i);
  }
  if (items > SIM_GROUP_MOST)
    return tenon_fail(on, TENON_INVALID, "sim: a group of %u x %u x %u items; it can have %d",
                      launch->group[0], launch->group[1], launch->group[2], SIM_GROUP_MOST);
  return TENON_OK;
}

static tenon_status_t submit(tenon_on_t on, void *stream_handle, const tenon_launch_t *launch,
                             launch_t *argument, uint64_t bytes, const sim_use_t *uses,
                             uint32_t use_count) {
  sim_stream_t *stream;
  kernel_t *kernel;
  sim_work_t *work;
  TENON_TRY(sim_inject(on, SIM_CALL_LAUNCH));
  TENON_TRY(sim_stream_enter(on, stream_handle, &stream));
  TENON_TRY(sim_handle_find(on, SIM_KERNEL, launch->kernel, &kernel));
  argument->program = kernel->program;
  argument->function = kernel->function;
  snprintf(argument->name, sizeof argument->name, "%s", kernel->name);
  TENON_TRY(sim_work_create(on, launch->ticket, "launch", launch_run, argument, bytes, use_count,
                            uses, &work));
  work->retain = launch_retain;
  work->release = launch_release;
  launch_retain(work->argument);
  return sim_work_submit(on, stream, work);
}

tenon_status_t sim_launch(tenon_on_t on, void *stream, const tenon_launch_t *launch) {
  uint64_t bytes;
  uint32_t use_count;
  TENON_TRY(sizes_check(on, launch));
  TENON_TRY(lay_out(on, launch, NULL, &bytes, NULL, &use_count));
  launch_t *argument = calloc(1, bytes);
  sim_use_t *uses = calloc(use_count + 1, sizeof *uses);
  tenon_status_t status = argument && uses
                              ? TENON_OK
                              : tenon_fail(on, TENON_MEMORY, "sim: no host memory for a launch");
  if (!status) status = lay_out(on, launch, argument, &bytes, uses, &use_count);
  if (!status) {
    memcpy(argument->groups, launch->groups, sizeof argument->groups);
    memcpy(argument->items, launch->group, sizeof argument->items);
    if (!(status = sim_enter(on)))
      status = sim_leave(submit(on, stream, launch, argument, bytes, uses, use_count));
  }
  free(uses);
  free(argument);
  return status;
}
