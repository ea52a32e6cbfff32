/* Cases about code that is compiled on the device, in the first language below that it supports. A
 * memory argument is a pointer; in OpenCL C, where memory has no addresses, it is a pointer and an
 * offset in bytes. */
#include "groups.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* scale: out[i] = in[i] * factor + ADD + i for i < count. turn: reverses the items of a group
 * through group memory. cube: computes a number from all three indices. */
static const char opencl[] =
    "#ifndef ADD\n#define ADD 0\n#endif\n"
    "kernel void scale(global int *out, long to, global const int *in, long from, int factor, int "
    "count) {\n"
    "  int i = (int)get_global_id(0);\n"
    "  if (i < count) out[to / 4 + i] = in[from / 4 + i] * factor + ADD + i;\n"
    "}\n"
    "kernel void turn(global int *out, long to, local int *own) {\n"
    "  int k = (int)get_local_id(0), n = (int)get_local_size(0);\n"
    "  own[k] = k + 1000 * (int)get_group_id(0);\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  out[to / 4 + get_global_id(0)] = own[n - 1 - k];\n"
    "}\n"
    "kernel void cube(global int *out, long to) {\n"
    "  int x = (int)get_global_id(0), y = (int)get_global_id(1), z = (int)get_global_id(2);\n"
    "  out[to / 4 + (z * (int)get_global_size(1) + y) * (int)get_global_size(0) + x] = x + 100 * y "
    "+ 10000 * z;\n"
    "}\n";
static const char cuda[] =
    "#ifndef ADD\n#define ADD 0\n#endif\n"
    "extern \"C\" __global__ void scale(int *out, const int *in, int factor, int count) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < count) out[i] = in[i] * factor + ADD + i;\n"
    "}\n"
    "extern \"C\" __global__ void turn(int *out, unsigned at) {\n"
    "  extern __shared__ char shared_memory[];\n"
    "  int *own = (int *)(shared_memory + at), k = threadIdx.x, n = blockDim.x;\n"
    "  own[k] = k + 1000 * (int)blockIdx.x;\n"
    "  __syncthreads();\n"
    "  out[blockIdx.x * n + k] = own[n - 1 - k];\n"
    "}\n"
    "extern \"C\" __global__ void cube(int *out) {\n"
    "  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z "
    "= blockIdx.z * blockDim.z + threadIdx.z;\n"
    "  out[(z * (int)(gridDim.y * blockDim.y) + y) * (int)(gridDim.x * blockDim.x) + x] = x + 100 "
    "* y + 10000 * z;\n"
    "}\n";
static const char c11[] =
    "#ifndef ADD\n#define ADD 0\n#endif\n"
    "#include <stdint.h>\n"
    "struct item { uint64_t group[3], groups[3]; uint32_t item[3], items[3]; void (*barrier)(const "
    "struct item *); };\n"
    "static int at(const struct item *t, int axis) { return (int)(t->group[axis] * t->items[axis] "
    "+ t->item[axis]); }\n"
    "void scale(const struct item *t, void *const *a) {\n"
    "  int i = at(t, 0), *out = a[0];\n"
    "  if (i < *(int *)a[3]) out[i] = ((const int *)a[1])[i] * *(int *)a[2] + ADD + i;\n"
    "}\n"
    "void turn(const struct item *t, void *const *a) {\n"
    "  int k = (int)t->item[0], *own = a[1], *out = a[0];\n"
    "  own[k] = k + 1000 * (int)t->group[0];\n"
    "  t->barrier(t);\n"
    "  out[at(t, 0)] = own[(int)t->items[0] - 1 - k];\n"
    "}\n"
    "void cube(const struct item *t, void *const *a) {\n"
    "  int x = at(t, 0), y = at(t, 1), z = at(t, 2);\n"
    "  ((int *)a[0])[(z * (int)(t->groups[1] * t->items[1]) + y) * (int)(t->groups[0] * "
    "t->items[0]) + x] = x + 100 * y + 10000 * z;\n"
    "}\n";

static uint32_t language(void) {
  for (uint32_t l = TENON_SOURCE_OPENCL; l <= TENON_SOURCE_C; l++)
    if (rig.properties.languages >> l & 1) return l;
  skip_case("the device supports no language that the suite knows (properties.languages is 0x%x)",
            rig.properties.languages);
}

typedef struct code_t { /* a sink that keeps the bytes */
  tenon_sink_t sink;
  void *data;
  uint64_t bytes;
} code_t;

static void *reserve(tenon_sink_t *sink, uint64_t bytes) {
  code_t *code = (code_t *)(void *)sink;
  EXPECT(!code->data, "compile called reserve of the sink twice");
  code->bytes = bytes;
  return code->data = host_new(bytes);
}
static void *reserve_nothing(tenon_sink_t *sink, uint64_t bytes) {
  (void)sink;
  (void)bytes;
  return NULL;
}

static tenon_status_t compile_text(tenon_on_t on, const char *text, const char *options,
                                   tenon_sink_t *sink) {
  tenon_source_t source = {.size = sizeof source,
                           .language = language(),
                           .text = text,
                           .text_size = strlen(text),
                           .file = "the_author.src",
                           .options = options};
  doing("compile()");
  return rig.table->compile(on, &source, sink);
}

static void *load(tenon_on_t on, const char *options) {
  const char *texts[] = {NULL, opencl, cuda, c11};
  code_t code = {.sink = {.size = sizeof code.sink, .reserve = reserve}};
  void *program = NULL;
  must(compile_text(on, texts[language()], options, &code.sink), "compile of a valid source");
  EXPECT(code.data && code.bytes,
         "compile returned TENON_OK without code: expected one call of the sink's reserve");
  doing("program_load()");
  must(rig.table->program_load(on, code.data, code.bytes, &program),
       "program_load of the code from compile");
  EXPECT(program, "program_load returned TENON_OK: expected a program, found NULL");
  free(code.data); /* the host owns the code */
  return program;
}

static void *find(tenon_on_t on, void *program, const char *name) {
  void *kernel = NULL;
  doing("kernel_find(\"%s\")", name);
  must(rig.table->kernel_find(on, program, name, &kernel), "kernel_find of \"%s\"", name);
  EXPECT(kernel, "kernel_find of \"%s\" returned TENON_OK: expected a kernel, found NULL", name);
  return kernel;
}

static void unload(tenon_on_t on, void *program) {
  doing("program_unload()");
  rig.table->program_unload(on, program);
}

static tenon_kernel_argument_t memory_of(void *handle, uint64_t offset) {
  return (tenon_kernel_argument_t){.kind = TENON_ARG_MEMORY, .as.memory = {handle, offset}};
}
static tenon_kernel_argument_t bytes_of(const int32_t *data) {
  return (tenon_kernel_argument_t){.kind = TENON_ARG_BYTES, .size = 4, .as.data = data};
}

static void launch(tenon_on_t on, void *stream, void *kernel,
                   const tenon_kernel_argument_t *arguments, uint32_t count,
                   const uint64_t groups[3], const uint32_t group[3]) {
  tenon_launch_t l = {.size = sizeof l,
                      .argument_count = count,
                      .ticket = ++rig.ticket,
                      .kernel = kernel,
                      .arguments = arguments};
  memcpy(l.groups, groups, sizeof l.groups);
  memcpy(l.group, group, sizeof l.group);
  doing("launch(%llu groups of %u)", (unsigned long long)groups[0], group[0]);
  must(rig.table->launch(on, stream, &l), "launch of %llu x %llu x %llu groups of %u x %u x %u",
       (unsigned long long)groups[0], (unsigned long long)groups[1], (unsigned long long)groups[2],
       group[0], group[1], group[2]);
}

/* out = in * factor + i for `count` numbers; `in` holds 0, 3, 6, ... from put_numbers. */
static void scale(tenon_on_t on, void *stream, void *kernel, void *out, uint64_t to, void *in,
                  uint64_t from, int32_t factor, int32_t count, uint32_t group) {
  tenon_kernel_argument_t arguments[] = {memory_of(out, to), memory_of(in, from), bytes_of(&factor),
                                         bytes_of(&count)};
  launch(on, stream, kernel, arguments, 4,
         (uint64_t[]){((uint64_t)count + group - 1) / group, 1, 1}, (uint32_t[]){group, 1, 1});
  factor = count = -1; /* arguments are copied before launch returns */
  memset(arguments, 0xFF, sizeof arguments);
}

static void put_numbers(tenon_on_t on, void *memory, int count) {
  int32_t *x = host_new((uint64_t)count * 4);
  for (int i = 0; i < count; i++)
    x[i] = 3 * i;
  must_in(on, NULL, memory, 0, x, (uint64_t)count * 4);
  must_pass(on, NULL);
  free(x);
}

static void expect_numbers(tenon_on_t on, void *memory, uint64_t offset, int count, int32_t each,
                           int32_t add, const char *what) {
  int32_t *x = host_new((uint64_t)count * 4);
  must_out(on, NULL, x, memory, offset, (uint64_t)count * 4);
  must_pass(on, NULL);
  for (int i = 0; i < count; i++)
    EXPECT_DATA(x[i] == each * i + add, "%s: number %d: expected %d, found %d", what, i,
                each * i + add, x[i]);
  free(x);
}

static void runs(tenon_on_t on) {
  static const uint32_t sizes[] = {1, 3, 64, 256};
  void *program = load(on, "");
  void *kernel = find(on, program, "scale");
  void *in = must_allocate(on, 4000);
  void *out = must_allocate(on, 8000);
  put_numbers(on, in, 1000);
  for (int i = 0; i < 4; i++) {
    char what[100];
    if (sizes[i] > rig.properties.group_most) continue;
    put(on, out, 0, 8000, 7);
    scale(on, NULL, kernel, out, 0, in, 0, 5, 1000, sizes[i]);
    must_pass(on, NULL);
    snprintf(what, sizeof what, "a kernel in groups of %u", sizes[i]);
    expect_numbers(on, out, 0, 1000, 16, 0, what);
    expect_holds(on, out, 4000, 4000, 7, 4000, 0,
                 "memory after the range that a kernel in groups of %u writes", sizes[i]);
  }
  unload(on, program);
  must_free(on, in);
  must_free(on, out);
}

static void offsets(tenon_on_t on) {
  void *program = load(on, "");
  void *kernel = find(on, program, "scale");
  void *memory = must_allocate(on, 20000);
  uint64_t a = rig.properties.alignment;
  put_numbers(on, memory, 5000);
  must_within(on, NULL, memory, 8 * a, memory, 0, 2000);
  scale(on, NULL, kernel, memory, 4 * a + 8000, memory, 8 * a, 2, 500, 1);
  must_pass(on, NULL);
  expect_numbers(on, memory, 4 * a + 8000, 500, 7, 0,
                 "a kernel whose arguments are parts of one allocation, at offsets");
  unload(on, program);
  must_free(on, memory);
}

/* After other work, with arguments that change after launch has returned. */
static void in_order(tenon_on_t on) {
  void *program = load(on, "");
  void *kernel = find(on, program, "scale");
  void *x = must_allocate(on, 4000);
  put_numbers(on, x, 1000);
  for (int round = 0; round < rig.rounds; round++) {
    void *stream = must_stream(on);
    void *y = filled(on, 4000, POISON);
    void *z = filled(on, 4000, POISON);
    void *out = filled(on, 4000, POISON);
    delay(on, stream, 0);
    must_within(on, stream, y, 0, x, 0, 4000);
    scale(on, stream, kernel, z, 0, y, 0, 2, 1000, 1);
    must_within(on, stream, out, 0, z, 0, 4000);
    must_pass(on, stream);
    expect_numbers(on, out, 0, 1000, 7, 0,
                   "a copy after a kernel after a copy, on one stream (is the order kept, and are "
                   "arguments copied?)");
    must_stream_destroy(on, stream);
    must_free(on, y);
    must_free(on, z);
    must_free(on, out);
  }
  unload(on, program);
  must_free(on, x);
}

static void unloaded_busy(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    void *program = load(on, "");
    void *kernel = find(on, program, "scale");
    void *x = must_allocate(on, 4000);
    void *y = filled(on, 4000, POISON);
    void *stream = must_stream(on);
    put_numbers(on, x, 1000);
    delay(on, stream, 0);
    scale(on, stream, kernel, y, 0, x, 0, 2, 1000, 1);
    unload(on, program);
    must_pass(on, stream);
    expect_numbers(on, y, 0, 1000, 7, 0,
                   "a kernel whose program was unloaded after it was enqueued");
    must_stream_destroy(on, stream);
    must_free(on, x);
    must_free(on, y);
  }
}

static void two_programs(tenon_on_t on) {
  void *first = load(on, "-DADD=1000");
  void *second = load(on, "-DADD=2000");
  void *a = find(on, first, "scale");
  void *b = find(on, second, "scale");
  void *x = must_allocate(on, 400);
  void *y = must_allocate(on, 400);
  void *z = must_allocate(on, 400);
  put_numbers(on, x, 100);
  scale(on, NULL, a, y, 0, x, 0, 1, 100, 1);
  scale(on, NULL, b, z, 0, x, 0, 1, 100, 1);
  unload(on, first);
  must_pass(on, NULL);
  expect_numbers(on, y, 0, 100, 4, 1000,
                 "a kernel of a program compiled with -DADD=1000, beside one of the same name");
  expect_numbers(on, z, 0, 100, 4, 2000,
                 "a kernel of a program compiled with -DADD=2000, beside one of the same name");
  unload(on, second);
  must_free(on, x);
  must_free(on, y);
  must_free(on, z);
}

static void own_memory(tenon_on_t on) {
  void *program = load(on, "");
  void *kernel = find(on, program, "turn");
  void *out = must_allocate(on, 256 * 8 * 4);
  static const uint32_t sizes[] = {1, 3, 64, 256};
  for (int s = 0; s < 4; s++) {
    uint32_t n = sizes[s];
    if (n > rig.properties.group_most) continue;
    int32_t is[256 * 8];
    tenon_kernel_argument_t arguments[] = {memory_of(out, 0),
                                           {.kind = TENON_ARG_LOCAL, .size = n * 4}};
    launch(on, NULL, kernel, arguments, 2, (uint64_t[]){8, 1, 1}, (uint32_t[]){n, 1, 1});
    must_out(on, NULL, is, out, 0, n * 8 * 4);
    must_pass(on, NULL);
    for (uint32_t i = 0; i < 8 * n; i++)
      EXPECT_DATA(is[i] == (int32_t)(n - 1 - i % n + 1000 * (i / n)),
                  "a kernel with group memory, in groups of %u: number %u: expected %u, found %d",
                  n, i, n - 1 - i % n + 1000 * (i / n), is[i]);
  }
  unload(on, program);
  must_free(on, out);
}

static void three_axes(tenon_on_t on) {
  void *program = load(on, "");
  void *kernel = find(on, program, "cube");
  void *out = must_allocate(on, 12 * 10 * 4 * 4);
  uint32_t wide = rig.properties.group_most >= 30 ? 1 : 0;
  uint32_t group[3] = {wide ? 3 : 1, wide ? 5 : 1, wide ? 2 : 1};
  int32_t is[480];
  tenon_kernel_argument_t argument = memory_of(out, 0);
  launch(on, NULL, kernel, &argument, 1, (uint64_t[]){12 / group[0], 10 / group[1], 4 / group[2]},
         group);
  must_out(on, NULL, is, out, 0, sizeof is);
  must_pass(on, NULL);
  for (int i = 0; i < 480; i++) {
    int right = i % 12 + 100 * (i / 12 % 10) + 10000 * (i / 120);
    EXPECT_DATA(is[i] == right,
                "a kernel over 12 x 10 x 4 items in groups of %u x %u x %u: number %d: expected "
                "%d, found %d",
                group[0], group[1], group[2], i, right, is[i]);
  }
  unload(on, program);
  must_free(on, out);
}

static void error_line(tenon_on_t on) {
  code_t code = {.sink = {.size = sizeof code.sink, .reserve = reserve}};
  tenon_status_t status = compile_text(
      on, "/* line 1 */\n\n\n/* line 4 */\n\n\nthis is no_such_type x;\n", "", &code.sink);
  EXPECT_DATA(status != TENON_OK,
              "compile of a source with a syntax error in line 7 returned TENON_OK");
  EXPECT_DATA(strstr(said(), "the_author.src"),
              "compile of a source with a syntax error: expected its file, the_author.src, in the "
              "message, found: %.600s",
              said());
  EXPECT_DATA(strstr(said(), ":7") || strstr(said(), "(7)") || strstr(said(), "line 7"),
              "compile of a source with a syntax error in line 7: expected that line in the "
              "message, found: %.600s",
              said());
  unload(on, load(on, "")); /* the next one works */
}

static void not_found(tenon_on_t on) {
  void *program = load(on, "");
  void *kernel = NULL;
  doing("kernel_find(\"no_such_kernel\")");
  tenon_status_t status = rig.table->kernel_find(on, program, "no_such_kernel", &kernel);
  EXPECT_DATA(status == TENON_NOT_FOUND,
              "kernel_find of a name that the program does not define: expected TENON_NOT_FOUND, "
              "found %s: %s",
              status_name(status), said());
  EXPECT_DATA(strstr(said(), "no_such_kernel"),
              "kernel_find of a name that the program does not define: expected the name in the "
              "message, found: %.300s",
              said());
  find(on, program, "scale");
  unload(on, program);
}

static void no_code(tenon_on_t on) {
  static const char junk[200] = "this is no code of any device";
  void *program = NULL;
  doing("program_load() of 200 bytes that are no code");
  tenon_status_t status = rig.table->program_load(on, junk, sizeof junk, &program);
  EXPECT_DATA(status != TENON_OK, "program_load of bytes that are no code returned TENON_OK");
  EXPECT_DATA(strcmp(said(), "(no message by tenon_fail)") != 0,
              "program_load of bytes that are no code fails without a message by tenon_fail");
  unload(on, load(on, ""));
}

static void sink_full(tenon_on_t on) {
  const char *texts[] = {NULL, opencl, cuda, c11};
  tenon_sink_t sink = {.size = sizeof sink, .reserve = reserve_nothing};
  EXPECT_DATA(compile_text(on, texts[language()], "", &sink) != TENON_OK,
              "compile returned TENON_OK, although the sink had no memory for the code");
  unload(on, load(on, ""));
}

static void compile_and_run(void *argument, int index) {
  tenon_on_t on = argument;
  char options[40], what[100];
  snprintf(options, sizeof options, "-DADD=%d", index * 1000);
  snprintf(what, sizeof what, "a kernel of one of four threads that compile at once, with %s",
           options);
  void *program = load(on, options);
  void *kernel = find(on, program, "scale");
  void *x = must_allocate(on, 4000);
  void *y = must_allocate(on, 4000);
  put_numbers(on, x, 1000);
  for (int i = 0; i < 20; i++) {
    scale(on, NULL, kernel, y, 0, x, 0, i, 1000, 1);
    must_pass(on, NULL);
    expect_numbers(on, y, 0, 1000, 3 * i + 1, index * 1000, what);
  }
  unload(on, program);
  must_free(on, x);
  must_free(on, y);
}
static void threads(tenon_on_t on) { in_threads(4, compile_and_run, (void *)(uintptr_t)on); }

const case_t source_cases[] = {
    {"sources.runs",
     "A source is compiled, loaded, found and launched, in groups of 1, 3, 64 and 256.",
     NEEDS_SOURCE, runs},
    {"sources.offsets", "Memory arguments may lie at offsets of one allocation.", NEEDS_SOURCE,
     offsets},
    {"sources.in_order",
     "Launches are ordered with copies; arguments are copied before launch returns.",
     NEEDS_SOURCE | NEEDS_STREAMS, in_order},
    {"sources.unloaded_busy", "A program may be unloaded while its kernels are enqueued.",
     NEEDS_SOURCE | NEEDS_STREAMS, unloaded_busy},
    {"sources.two_programs",
     "Two programs define kernels of the same name, compiled with different options.", NEEDS_SOURCE,
     two_programs},
    {"sources.own_memory", "Groups have memory of their own, and barriers.", NEEDS_SOURCE,
     own_memory},
    {"sources.three_axes", "Groups and items have three axes.", NEEDS_SOURCE, three_axes},
    {"sources.error_line", "A syntax error is reported with the file and the line of the source.",
     NEEDS_SOURCE, error_line},
    {"sources.not_found",
     "A kernel that the program does not define returns TENON_NOT_FOUND and its name.",
     NEEDS_SOURCE, not_found},
    {"sources.no_code", "Bytes that are no code are refused.", NEEDS_SOURCE, no_code},
    {"sources.sink_full", "compile fails if the host has no memory for the code.", NEEDS_SOURCE,
     sink_full},
    {"sources.threads", "Four threads compile, load and launch at once.", NEEDS_SOURCE, threads},
    {0}};
