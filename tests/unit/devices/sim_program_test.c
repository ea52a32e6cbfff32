/* Programs and operators of the device sim: kernels in C with groups of any size, barriers, local
 * memory, messages of the compiler; and add, mul, relu and matmul. */
#include "devices/sim.h"

#include <tenon/iterator.h>
#include <unistd.h>

typedef struct text_t {
  tenon_sink_t sink;
  char *bytes;
  uint64_t size;
} text_t;

static void *reserve(tenon_sink_t *sink, uint64_t bytes) {
  text_t *text = (text_t *)sink;
  text->bytes = malloc(bytes);
  text->size = bytes;
  return text->bytes;
}

static tenon_status_t compile(const char *source, const char *options, text_t *out) {
  tenon_source_t s = {.size = sizeof s,
                      .language = TENON_SOURCE_C,
                      .text = source,
                      .text_size = strlen(source),
                      .file = "kernels/author's \"own\".c",
                      .options = options};
  *out = (text_t){.sink = {.size = sizeof out->sink, .reserve = reserve}};
  return table->compile(&host.on[0], &s, &out->sink);
}

static void *load(const char *source, const char *options) {
  text_t code;
  void *program = NULL;
  if (!CHECK_STATUS(compile(source, options, &code), TENON_OK)) return NULL;
  CHECK_STATUS(table->program_load(&host.on[0], code.bytes, code.size, &program), TENON_OK);
  free(code.bytes);
  return program;
}

static void *find(void *program, const char *name) {
  void *kernel = NULL;
  CHECK_STATUS(table->kernel_find(&host.on[0], program, name, &kernel), TENON_OK);
  return kernel;
}

#define ITEM                                                                                       \
  "#include <stdint.h>\n"                                                                          \
  "typedef struct item_t { uint64_t group[3], groups[3]; uint32_t item[3], items[3];\n"            \
  "  void (*barrier)(const struct item_t *); } item_t;\n"

static const char *const source = ITEM
    "void scale(const item_t *at, void *const *a) {\n" /* x, y, n, factor */
    "  const float *x = a[0]; float *y = a[1]; int64_t n = *(int64_t *)a[2];\n"
    "  int64_t i = (int64_t)(at->group[0] * at->items[0] + at->item[0]);\n"
    "  if (i < n) y[i] = x[i] * *(float *)a[3];\n"
    "}\n"
    /* sums a row of n in each group, by halving in local memory */
    "void total(const item_t *at, void *const *a) {\n"
    "  const float *x = a[0]; float *y = a[1], *part = a[3]; int64_t n = *(int64_t *)a[2];\n"
    "  uint32_t me = at->item[0], all = at->items[0];\n"
    "  part[me] = 0;\n"
    "  for (int64_t i = me; i < n; i += all) part[me] += x[(int64_t)at->group[0] * n + i];\n"
    "  for (uint32_t left = all; left > 1; left = (left + 1) / 2) {\n"
    "    at->barrier(at);\n"
    "    if (me < left / 2) part[me] += part[left - 1 - me];\n"
    "  }\n"
    "  at->barrier(at);\n"
    "  if (!me) y[at->group[0]] = part[0];\n"
    "}\n"
    "void two(const item_t *at, void *const *a) {\n" /* pieces of local memory */
    "  int *one = a[1], *two = a[2], me = (int)at->item[0];\n"
    "  one[me] = 1 + me, two[me] = 10 * me;\n"
    "  at->barrier(at);\n"
    "  ((int *)a[0])[me] = one[me] + two[at->items[0] - 1 - at->item[0]];\n"
    "}\n"
    /* counts the items of a group in their order */
    "void count(const item_t *at, void *const *a) {\n"
    "  ((int *)a[0])[at->group[0] * at->items[0] + at->item[0]] = ++*(int *)a[1];\n"
    "}\n"
    "void uneven(const item_t *at, void *const *a) { (void)a; if (at->item[0]) at->barrier(at); }\n"
    /* stores the position of each item in a launch with three axes */
    "void place(const item_t *at, void *const *a) {\n"
    "  uint64_t x = at->group[0] * at->items[0] + at->item[0], y = at->group[1] * at->items[1] + "
    "at->item[1];\n"
    "  uint64_t z = at->group[2] * at->items[2] + at->item[2];\n"
    "  ((uint32_t *)a[0])[(z * at->groups[1] * at->items[1] + y) * at->groups[0] * at->items[0] + "
    "x] += 1 + FIRST;\n"
    "}\n";

static tenon_kernel_argument_t memory_of(void *handle, uint64_t offset, uint64_t bytes,
                                         uint32_t does) {
  return (tenon_kernel_argument_t){
      TENON_ARG_MEMORY, does, bytes, {.memory = host_at(handle, offset)}};
}
static tenon_kernel_argument_t value_of(const void *data, uint64_t bytes) {
  return (tenon_kernel_argument_t){TENON_ARG_BYTES, 0, bytes, {.data = data}};
}

static tenon_kernel_argument_t local_of(uint64_t bytes) {
  return (tenon_kernel_argument_t){.kind = TENON_ARG_LOCAL, .size = bytes};
}

static tenon_status_t launch(void *stream, uint64_t ticket, void *kernel, uint64_t groups,
                             uint32_t items, uint32_t count,
                             const tenon_kernel_argument_t *arguments) {
  tenon_launch_t l = {.size = sizeof l,
                      .argument_count = count,
                      .ticket = ticket,
                      .kernel = kernel,
                      .arguments = arguments,
                      .groups = {groups, 1, 1},
                      .group = {items, 1, 1}};
  return table->launch(&host.on[0], stream, &l);
}

TEST("a kernel gives equal results in groups of 1, 3, 64 and 256, with and without barriers, in "
     "both kinds of handles") {
  static const uint32_t sizes[] = {1, 3, 64, 256};
  enum {
    N = 1000,
    ROWS = 5,
  };
  for (int handles = 0; handles < 2; handles++) {
    if (!open_sim(handles ? "handles=1" : "")) return;
    void *program = load(source, "-DFIRST=0 -Wall -Werror");
    void *scale = find(program, "scale");
    void *total = find(program, "total");
    CHECK(find(program, "scale") == scale);
    float *in = calloc(N, sizeof *in);
    float out[N], sums[ROWS];
    int64_t n = N;
    int64_t width = N / ROWS;
    float factor = 3;
    void *x = allocate(0, 64 + N * 4);
    void *y = allocate(0, 64 + N * 4);
    for (int i = 0; i < N; i++)
      in[i] = (float)(i % 17);
    CHECK_STATUS(copy_in(0, NULL, 1, x, 64, in, N * 4), TENON_OK);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
      uint32_t items = sizes[k];
      tenon_kernel_argument_t first[] = {memory_of(x, 64, N * 4, TENON_ACCESS_READ),
                                         memory_of(y, 64, N * 4, TENON_ACCESS_WRITE),
                                         value_of(&n, 8), value_of(&factor, 4)};
      tenon_kernel_argument_t second[] = {memory_of(x, 64, N * 4, TENON_ACCESS_READ),
                                          memory_of(y, 0, ROWS * 4, TENON_ACCESS_WRITE),
                                          value_of(&width, 8), local_of(items * 4)};
      CHECK_STATUS(table->fill(&host.on[0], NULL, 2, host_at(y, 0), 64 + N * 4, "\0", 1), TENON_OK);
      CHECK_STATUS(launch(NULL, 2, scale, (N + items - 1) / items, items, 4, first), TENON_OK);
      CHECK_STATUS(launch(NULL, 3, total, ROWS, items, 4, second), TENON_OK);
      /* the arguments were copied */
      memset(first, 0xff, sizeof first);
      memset(second, 0xff, sizeof second);
      CHECK_STATUS(copy_out(0, NULL, 4, out, y, 64, N * 4), TENON_OK);
      CHECK_STATUS(copy_out(0, NULL, 5, sums, y, 0, ROWS * 4), TENON_OK);
      CHECK_STATUS(synchronize(0, NULL), TENON_OK);
      for (int i = 0; i < N; i++)
        CHECK(out[i] == (float)(i % 17 * 3));
      for (int row = 0; row < ROWS; row++) {
        int sum = 0;
        for (int i = 0; i < N / ROWS; i++)
          sum += (row * (N / ROWS) + i) % 17;
        CHECK(sums[row] == (float)sum);
      }
    }
    finding_none();
    free(in);
    host_close(&host);
  }
}

TEST("each item of a launch with three axes runs once, also after its program was unloaded, and in "
     "a captured graph") {
  enum {
    X = 6,
    Y = 4,
    Z = 6,
    N = X * Y * Z,
  };
  uint32_t out[N];
  void *recording = NULL;
  if (!open_sim("delay=2000")) return;
  void *program = load(source, "-DFIRST=0");
  void *other = load(source, "-DFIRST=10");
  void *place = find(program, "place");
  void *y = allocate(0, N * 4);
  void *kernels[2] = {place, find(other, "place")};
  CHECK_STATUS(table->fill(&host.on[0], NULL, 1, host_at(y, 0), N * 4, "\0", 1), TENON_OK);
  CHECK_STATUS(table->record_begin(&host.on[0], NULL), TENON_OK);
  for (int i = 0; i < 2; i++) {
    tenon_kernel_argument_t argument = memory_of(y, 0, N * 4, TENON_ACCESS_WRITE);
    tenon_launch_t l = {.size = sizeof l,
                        .argument_count = 1,
                        .ticket = 2,
                        .kernel = kernels[i],
                        .arguments = &argument,
                        .groups = {X / 2, Y / 2, Z / 3},
                        .group = {2, 2, 3}};
    CHECK_STATUS(table->launch(&host.on[0], NULL, &l), TENON_OK);
  }
  CHECK_STATUS(table->record_end(&host.on[0], NULL, &recording), TENON_OK);
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(table->replay(&host.on[0], NULL, recording, 3), TENON_OK);
  table->program_unload(&host.on[0], program);
  table->program_unload(&host.on[0], other);
  table->recording_free(&host.on[0], recording);
  CHECK_STATUS(copy_out(0, NULL, 4, out, y, 0, N * 4), TENON_OK);
  CHECK_STATUS(synchronize(0, NULL), TENON_OK);
  for (int i = 0; i < N; i++)
    CHECK(out[i] == 3 * (1 + 11));
  CHECK_STATUS(launch(NULL, 5, place, 1, 1, 0, NULL), TENON_INVALID);
  CHECK_TEXT(host_text, "kernel");
  CHECK_TEXT(host_text, "does not exist any more");
  host_close(&host);
}

TEST("a barrier that not all items reach fails the launch, and an impossible launch is refused") {
  if (!open_sim("")) return;
  void *program = load(source, "-DFIRST=0");
  void *uneven = find(program, "uneven");
  void *stream = stream_create(0);
  void *kernel = NULL;
  tenon_fault_t fault = {.size = sizeof fault};
  CHECK_STATUS(table->kernel_find(&host.on[0], program, "scaled", &kernel), TENON_NOT_FOUND);
  CHECK_TEXT(host_text, "no kernel `scaled`");
  CHECK_STATUS(launch(stream, 1, uneven, 4, 1, 0, NULL), TENON_OK);
  CHECK_STATUS(table->stream_synchronize(&host.on[0], stream, &fault), TENON_OK);
  CHECK_STATUS(launch(stream, 2, uneven, 4, 1025, 0, NULL), TENON_INVALID);
  CHECK_TEXT(host_text, "1025 x 1 x 1 items; it can have 1024");
  CHECK_STATUS(launch(stream, 2, uneven, 0, 1, 0, NULL), TENON_INVALID);
  tenon_kernel_argument_t local[2] = {local_of(60000), local_of(60000)};
  CHECK_STATUS(launch(stream, 2, uneven, 1, 1, 2, local), TENON_INVALID);
  CHECK_TEXT(host_text, "argument 1 of a kernel");
  CHECK_STATUS(launch(stream, 3, uneven, 4, 4, 0, NULL), TENON_OK);
  CHECK_STATUS(table->stream_synchronize(&host.on[0], stream, &fault), TENON_INVALID);
  CHECK_TEXT(
      host_text,
      "kernel `uneven`: 1 of the 4 items of a group ended where the others came to a barrier");
  CHECK(fault.ticket == 3);
  host_close(&host);
}

TEST("pieces of local memory do not overlap") {
  enum { N = 20 };
  int out[N];
  if (!open_sim("")) return;
  void *program = load(source, "-DFIRST=0");
  void *y = allocate(0, N * 4);
  tenon_kernel_argument_t arguments[] = {memory_of(y, 0, N * 4, TENON_ACCESS_WRITE),
                                         local_of(N * 4), local_of(N * 4)};
  CHECK_STATUS(launch(NULL, 1, find(program, "two"), 1, N, 3, arguments), TENON_OK);
  CHECK_STATUS(copy_out(0, NULL, 2, out, y, 0, sizeof out), TENON_OK);
  CHECK_STATUS(synchronize(0, NULL), TENON_OK);
  for (int i = 0; i < N; i++)
    CHECK(out[i] == 1 + i + 10 * (N - 1 - i));
  host_close(&host);
}

TEST("local memory is -1 at first in each group, and the items of odd groups run last to first") {
  int out[8];
  if (!open_sim("")) return;
  void *program = load(source, "-DFIRST=0");
  void *y = allocate(0, sizeof out);
  tenon_kernel_argument_t arguments[] = {memory_of(y, 0, sizeof out, TENON_ACCESS_WRITE),
                                         local_of(sizeof(int))};
  CHECK_STATUS(launch(NULL, 1, find(program, "count"), 2, 4, 2, arguments), TENON_OK);
  CHECK_STATUS(copy_out(0, NULL, 2, out, y, 0, sizeof out), TENON_OK);
  CHECK_STATUS(synchronize(0, NULL), TENON_OK);
  for (int i = 0; i < 8; i++)
    CHECK(out[i] == (i < 4 ? i : 7 - i));
  host_close(&host);
}

TEST("compiling leaves no file behind, and unloaded programs leave none open") {
  char folder[] = "/tmp/tenon-test-XXXXXX";
  text_t code;
  if (!open_sim("") || !CHECK(mkdtemp(folder) != NULL)) return;
  setenv("TMPDIR", folder, 1);
  int before = files();
  for (int i = 0; i < 3; i++)
    table->program_unload(&host.on[0], load(source, "-DFIRST=0"));
  CHECK_STATUS(compile("wrong", "", &code), TENON_INVALID);
  CHECK(files() == before);
  CHECK(!rmdir(folder)); /* The folder is empty. */
  CHECK_STATUS(compile("int a;", "", &code), TENON_UNAVAILABLE);
  CHECK_TEXT(host_text, folder);
  unsetenv("TMPDIR");
  host_close(&host);
}

TEST("a launch that reads what another stream writes is a race") {
  if (!open_sim("")) return;
  void *program = load(source, "-DFIRST=0");
  void *scale = find(program, "scale");
  void *a = stream_create(0);
  void *b = stream_create(0);
  void *x = allocate(0, 64);
  void *y = allocate(0, 64);
  int64_t n = 16;
  float factor = 1;
  tenon_kernel_argument_t arguments[] = {memory_of(x, 0, 64, 0),
                                         memory_of(y, 0, 64, TENON_ACCESS_WRITE), value_of(&n, 8),
                                         value_of(&factor, 4)};
  CHECK_STATUS(table->fill(&host.on[0], a, 1, host_at(x, 60), 4, "a", 1), TENON_OK);
  CHECK_STATUS(launch(b, 2, scale, 16, 1, 4, arguments), TENON_OK);
  CHECK_STATUS(synchronize(0, b), TENON_PRECONDITION);
  CHECK_TEXT(host_text, "launch (ticket 2, stream 2 of ordinal 0) reads bytes 60 to 63");
  host_close(&host);
}

TEST("an error in a source is reported with the author's file and line, and code that is invalid "
     "is refused") {
  text_t code;
  void *program = NULL;
  char junk[100] = "\177ELF";
  if (!open_sim("")) return;
  CHECK_STATUS(compile("int a;\nint b;\nvoid f(void) { c = 1; }\n", "", &code), TENON_INVALID);
  CHECK_TEXT(host_text, "author's \"own\".c:3:16: error: ");
  CHECK_TEXT(host_text, "does not compile");
  CHECK(!code.bytes);
  CHECK_STATUS(compile("#ifdef WRONG\n#error wrong\n#endif\n", " -DRIGHT  -DWRONG ", &code),
               TENON_INVALID);
  CHECK_TEXT(host_text, ":2:2: error: #error wrong");
  CHECK_STATUS(table->program_load(&host.on[0], junk, sizeof junk, &program), TENON_INVALID);
  CHECK_TEXT(host_text, "are not code of sim");
  CHECK_STATUS(tests->set(&host.on[0], "fail=compile:1"), TENON_OK);
  CHECK_STATUS(compile("int a;", "", &code), TENON_UNAVAILABLE);
  tenon_source_t cuda = {
      .size = sizeof cuda, .language = TENON_SOURCE_CUDA, .text = "", .file = "a.cu"};
  CHECK_STATUS(table->compile(&host.on[0], &cuda, &code.sink), TENON_UNIMPLEMENTED);
  setenv("PATH", "/nowhere", 1);
  CHECK_STATUS(compile("int a;", "", &code), TENON_UNAVAILABLE);
  CHECK_TEXT(host_text, "the C compiler `cc` cannot be run");
  host_close(&host);
}

/* operators */

static tenon_any_fn function_of(const char *operator) {
  const tenon_item_t *items = tenon_library_sim()->items;
  for (; items->tag != TENON_TAG_END; items++)
    if (items->tag == TENON_TAG_GROUP)
      for (const tenon_item_t *item = items->text; item->tag != TENON_TAG_END; item++)
        if (item->tag == TENON_TAG_EXTEND && !strcmp(item->text, operator)) return item[1].function;
  CHECK_NEVER(operator);
  return NULL;
}

typedef struct array_t {
  tenon_tensor_t tensor;
  int64_t shape[4];
  int64_t strides[4];
} array_t;

/* Makes a dense tensor on ordinal 0, at byte 64 of an allocation, with these elements if there are
 * any. */
static void array_create(array_t *out, int addresses, int32_t ndim, const int64_t *shape,
                         const float *elements) {
  int64_t count = 1;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    out->shape[i] = shape[i];
    out->strides[i] = count;
    count *= shape[i];
  }
  char *memory = allocate(0, 64 + (uint64_t)count * 4);
  out->tensor = (tenon_tensor_t){.data = memory + (addresses ? 64 : 0),
                                 .device = {12, 0},
                                 .ndim = ndim,
                                 .dtype = tenon_dtype(TENON_F32),
                                 .shape = out->shape,
                                 .strides = out->strides,
                                 .byte_offset = addresses ? 0 : 64};
  if (elements)
    CHECK_STATUS(copy_in(0, NULL, 1, memory, 64, elements, (uint64_t)count * 4), TENON_OK);
}

static void array_read(const array_t *array, float *out) {
  CHECK_STATUS(copy_out(0, NULL, 3, out, array->tensor.data, array->tensor.byte_offset,
                        (uint64_t)tenon_count(&array->tensor) * 4),
               TENON_OK);
  CHECK_STATUS(synchronize(0, NULL), TENON_OK);
}

static tenon_status_t pointwise(const char *operator, tenon_call_t * call, uint32_t count,
                                const array_t *const *arrays, int64_t begin, int64_t end) {
  const array_t *out = arrays[count - 1];
  int64_t offsets[3], strides[3][4];
  const int64_t *all[3] = {strides[0], strides[1], strides[2]};
  const tenon_tensor_t *tensors[3];
  for (uint32_t k = 0; k < count; k++) {
    int32_t skip = out->tensor.ndim - arrays[k]->tensor.ndim;
    tensors[k] = &arrays[k]->tensor;
    offsets[k] = (int64_t)tensors[k]->byte_offset;
    for (int32_t i = 0; i < out->tensor.ndim; i++)
      strides[k][i] =
          i < skip || arrays[k]->shape[i - skip] == 1 ? 0 : arrays[k]->strides[i - skip] * 4;
  }
  tenon_iterator_t it = {.size = sizeof it,
                         .host = &host_services,
                         .call = call,
                         .begin = begin,
                         .end = end,
                         .inner = 1,
                         .ndim = out->tensor.ndim,
                         .shape = out->shape,
                         .count = count,
                         .tensors = tensors,
                         .offsets = offsets,
                         .strides = all};
  return ((tenon_stub_fn)function_of(operator))(&it);
}

TEST("add, mul and relu are right with broadcast operands, in parts, and with both kinds of "
     "handles") {
  static const float a_data[] = {1, -2, 3, -4, 5, -6};
  static const float b_data[] = {10, 20, 30};
  static const float sums[] = {11, 18, 33, 6, 25, 24};
  static const float products[] = {10, -40, 90, -40, 100, -180};
  static const float positive[] = {1, 0, 3, 0, 5, 0};
  for (int addresses = 0; addresses < 2; addresses++) {
    array_t a, b, c, d, e;
    float out[6];
    if (!open_sim(addresses ? "handles=0" : "handles=1")) return;
    tenon_call_t call = {
        .size = sizeof call, .host = &host_services, .ticket = 2, .device = &host.on[0]};
    array_create(&a, addresses, 2, (int64_t[]){2, 3}, a_data);
    array_create(&b, addresses, 1, (int64_t[]){3}, b_data);
    array_create(&c, addresses, 2, (int64_t[]){2, 3}, NULL);
    array_create(&d, addresses, 2, (int64_t[]){2, 3}, NULL);
    array_create(&e, addresses, 2, (int64_t[]){2, 3}, NULL);
    const array_t *add[] = {&a, &b, &c};
    const array_t *mul[] = {&a, &b, &d};
    const array_t *relu[] = {&a, &e};
    CHECK_STATUS(pointwise("core::add", &call, 3, add, 0, 4), TENON_OK);
    CHECK_STATUS(pointwise("core::add", &call, 3, add, 4, 6), TENON_OK);
    CHECK_STATUS(pointwise("core::mul", &call, 3, mul, 0, 6), TENON_OK);
    CHECK_STATUS(pointwise("core::relu", &call, 2, relu, 0, 6), TENON_OK);
    array_read(&c, out), CHECK(!memcmp(out, sums, sizeof out));
    array_read(&d, out), CHECK(!memcmp(out, products, sizeof out));
    array_read(&e, out);
    for (int i = 0; i < 6; i++)
      CHECK(out[i] == positive[i]);
    finding_none();
    host_close(&host);
  }
}

TEST("matmul is right with broadcast batches, transposes, a bias and activations") {
  /* a[2,2,3] = 0..11, b[3,2] as its transpose [2,3] = 1..6, bias[2] = -27, 1; NumPy: maximum(a @
   * b.T + bias, 0) */
  static const float a_data[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  static const float b_data[] = {1, 2, 3, 4, 5, 6};
  static const float bias_data[] = {-27, 1};
  static const float expected[] = {0, 18, 0, 63, 17, 108, 35, 153};
  for (int addresses = 0; addresses < 2; addresses++) {
    array_t a, b, bias, c;
    float out[8];
    if (!open_sim(addresses ? "" : "handles=1")) return;
    array_create(&a, addresses, 3, (int64_t[]){2, 2, 3}, a_data);
    array_create(&b, addresses, 2, (int64_t[]){2, 3}, b_data);
    array_create(&bias, addresses, 1, (int64_t[]){2}, bias_data);
    array_create(&c, addresses, 3, (int64_t[]){2, 2, 2}, NULL);
    tenon_value_t attrs[5] = {{.kind = TENON_KIND_BOOL},
                              {.kind = TENON_KIND_BOOL, .as.i = 1},
                              {.kind = TENON_KIND_CHOICE, .as.i = 1}};
    tenon_tensor_t *inputs[] = {&a.tensor, &b.tensor, &bias.tensor};
    tenon_tensor_t *outputs[] = {&c.tensor};
    tenon_call_t call = {.size = sizeof call,
                         .host = &host_services,
                         .attrs = attrs,
                         .inputs = inputs,
                         .outputs = outputs,
                         .ticket = 2,
                         .device = &host.on[0]};
    CHECK_STATUS(((tenon_run_fn)function_of("core::matmul"))(&call), TENON_OK);
    array_read(&c, out);
    for (int i = 0; i < 8; i++)
      CHECK(out[i] == expected[i]);
    /* clip: numpy.clip(a @ b.T + bias, 1, 20) */
    attrs[2].as.i = 2;
    attrs[3].as.f = 1;
    attrs[4].as.f = 20;
    static const float clipped[] = {1, 18, 1, 20, 17, 20, 20, 20};
    CHECK_STATUS(((tenon_run_fn)function_of("core::matmul"))(&call), TENON_OK);
    array_read(&c, out);
    for (int i = 0; i < 8; i++)
      CHECK(out[i] == clipped[i]);
    finding_none();
    host_close(&host);
  }
}
