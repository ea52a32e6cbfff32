/* Calls of an isolated library that forges the replies of its process (forges.c):
 *   isolation_forgeries FOLDER KIND REPLIES SEED   random replies of one kind
 *   isolation_forgeries FOLDER case NAME           one forgery; the program says what became of it
 * A reply is accepted only if everything that it says can be true: no result may lie outside of the
 * memory that the call was given or that the host made, and nothing else may change. Around each
 * input lie bytes that are compared after each call. isolation_test.py runs this program, which
 * prints the number of replies, of results, and of failures. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum {
  GUARD = 4096, /* bytes before and after each input */
  EXTENT = 3,
  RESEED_EVERY = 5000,
};

typedef struct kind_t {
  const char *name;
  const char *op;
  int is_planned; /* as a graph that is compiled and run */
  int is_slow;    /* a reply costs more, so there are fewer of them */
} kind_t;
static const kind_t kinds[] = {
    {"run", "run", 0, 0},        {"open", "open", 0, 0},      {"infer", "infer", 0, 0},
    {"view", "view", 0, 0},      {"list", "several", 0, 0},   {"string", "texts", 0, 0},
    {"sparse", "sparse", 0, 0},  {"error", "fails", 0, 0},    {"known", "known", 0, 0},
    {"plan-view", "view", 1, 1}, {"plan-open", "open", 1, 1}, {"plan-known", "known", 1, 1},
};

static int failures;

static void fail(const char *what, const char *message) {
  if (failures++ < 20) printf("FAIL %s: %s\n", what, message);
}

/* Inputs, and bytes around them that no call is given. */
typedef struct guarded_t {
  unsigned char before[GUARD];
  float elements[EXTENT + 1];
  unsigned char after[GUARD];
} guarded_t;
static guarded_t guarded;
static tenon_tensor_t *owned[3]; /* the middle one is an input; its neighbours in memory are not */

static void fill_guards(void) {
  memset(guarded.before, 0xa5, sizeof guarded.before);
  memset(guarded.after, 0x5a, sizeof guarded.after);
  for (int i = 0; i <= EXTENT; i++)
    guarded.elements[i] = (float)(i + 1);
  const int64_t shape[1] = {EXTENT};
  for (int k = 0; k < 3; k++) {
    if (!owned[k] && tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &owned[k]) != TENON_OK)
      fail("an input", tenon_error());
    for (int i = 0; i < EXTENT; i++)
      ((float *)owned[k]->data)[i] = (float)(10 * k + i);
  }
}

static void check_guards(const char *kind) {
  int same = 1;
  for (size_t i = 0; i < GUARD; i++)
    same &= guarded.before[i] == 0xa5 && guarded.after[i] == 0x5a;
  for (int i = 0; i <= EXTENT; i++)
    same &= guarded.elements[i] == (float)(i + 1);
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < EXTENT; i++)
      same &= ((const float *)owned[k]->data)[i] == (float)(10 * k + i);
  if (same) return;
  fail(kind, "memory that the call may not write to has changed");
  fill_guards();
}

static const tenon_op_t *find(const char *name) {
  const tenon_op_t *op = NULL;
  char full[100];
  snprintf(full, sizeof full, "forges::%s", name);
  if (tenon_op_find(full, &op) != TENON_OK) fail(full, tenon_error());
  return op;
}

/* Lets the library take over its process, or gives it another task there. */
static void teach(int64_t seed, int64_t form, int64_t word, int is_scribbling) {
  int64_t x[4] = {seed, form, word, is_scribbling};
  int64_t shape[1] = {4};
  int64_t room[1];
  tenon_tensor_t in;
  tenon_tensor_t *input = &in;
  tenon_tensor_view(&in, x, tenon_dtype(TENON_I64), 1, shape, NULL, room);
  for (int tries = 0; tries < 100; tries++) {
    tenon_tensor_t *out = NULL;
    const tenon_status_t status = tenon_op_call(find("learn"), NULL, &input, &out, 0);
    tenon_tensor_release(out);
    if (status == TENON_OK) return;
  }
  fail("learn", tenon_error());
}

/* Every element must be memory of this process: the sum touches all of them. */
static double sum_of(const tenon_tensor_t *t) {
  double sum = 0;
  const int64_t size = t->dtype.bits * t->dtype.lanes / 8;
  if (tenon_dtype_id(t->dtype) == TENON_LIST) {
    for (int64_t i = 0; i < t->shape[0]; i++)
      sum += sum_of(tenon_item(t, i));
    return sum;
  }
  if (tenon_dtype_id(t->dtype) == TENON_STRING) {
    for (int64_t i = 0; i < tenon_count(t); i++) {
      const tenon_string_t *text = &((const tenon_string_t *)t->data)[i];
      for (uint64_t k = 0; k < text->size; k++)
        sum += text->data[k];
    }
    return sum;
  }
  for (int64_t i = 0; i < tenon_count(t) && i < 1 << 16; i++) {
    int64_t at = 0;
    for (int64_t d = t->ndim - 1, rest = i; d >= 0; rest /= t->shape[d--])
      at += rest % t->shape[d] * t->strides[d];
    for (int64_t b = 0; b < size; b++)
      sum += ((const unsigned char *)t->data)[at * size + b];
  }
  return sum;
}

/* A view lies within its input. */
static void check_view(const char *kind, const tenon_tensor_t *in, const tenon_tensor_t *out) {
  int64_t low = 0;
  int64_t high = 0;
  if (tenon_dtype_id(out->dtype) != TENON_F32) fail(kind, "a view of another dtype");
  if (out->data != in->data && !tenon_count(out)) return;
  for (int32_t d = 0; d < out->ndim; d++) {
    const int64_t far = (out->shape[d] - 1) * out->strides[d];
    if (!out->shape[d]) return;
    low += far < 0 ? far : 0;
    high += far > 0 ? far : 0;
  }
  const float *first = (const float *)out->data + low;
  const float *last = (const float *)out->data + high;
  if (first < (const float *)in->data || last >= (const float *)in->data + EXTENT)
    fail(kind, "a view outside of its input");
}

static tenon_status_t compile_call(const tenon_op_t *op, tenon_executable_t **out_executable) {
  tenon_builder_t *builder = NULL;
  tenon_graph_t *graph = NULL;
  const tenon_axis_t axes[1] = {{-1, NULL}};
  const tenon_compile_t options = {.size = sizeof options};
  tenon_edge_t x = -1;
  tenon_edge_t y = -1;
  tenon_status_t status = tenon_builder_create(&builder);
  if (status == TENON_OK)
    status = tenon_builder_input(builder, "x", tenon_dtype(TENON_F32), 1, axes, &x);
  const tenon_operand_t operands[1] = {{1, &x}};
  if (status == TENON_OK) status = tenon_builder_node(builder, "forged", op, NULL, operands, &y, 1);
  if (status == TENON_OK) status = tenon_builder_output(builder, "y", y);
  if (status == TENON_OK) status = tenon_builder_finish(builder, &graph);
  if (status == TENON_OK) status = tenon_executable_create(graph, &options, out_executable);
  tenon_graph_release(graph);
  tenon_builder_release(builder);
  return status;
}

static tenon_status_t make_call(const kind_t *kind, const tenon_op_t *op, tenon_tensor_t *input,
                                tenon_tensor_t **out) {
  tenon_executable_t *executable = NULL;
  *out = NULL;
  if (!kind->is_planned) return tenon_op_call(op, NULL, &input, out, 0);
  tenon_status_t status = compile_call(op, &executable);
  if (status == TENON_OK) status = tenon_executable_run(executable, &input, out, NULL);
  tenon_executable_release(executable);
  return status;
}

/* An input in the middle of memory that is the program's own, owned by Tenon, or borrowed. */
static tenon_tensor_t *input_of(uint64_t number, tenon_tensor_t *room, int64_t *axes) {
  axes[0] = EXTENT;
  if (number % 2) return owned[1];
  tenon_tensor_view(room, guarded.elements, tenon_dtype(TENON_F32), 1, axes, NULL, axes + 1);
  return room;
}

/* Returns 1 if a result was accepted. */
static int call_once(const kind_t *kind, const tenon_op_t *op, uint64_t number) {
  tenon_tensor_t room;
  tenon_tensor_t *out;
  int64_t axes[2];
  tenon_tensor_t *in = input_of(number, &room, axes);
  const tenon_status_t status = make_call(kind, op, in, &out);
  if (status == TENON_OK) {
    volatile double sum = sum_of(out);
    (void)sum;
    if (!strcmp(kind->op, "view") && in == owned[1] && !kind->is_planned)
      check_view(kind->name, in, out);
    tenon_tensor_release(out);
  } else if (out || !*tenon_error()) {
    fail(kind->name, "a failed call with a result, or without a message");
  }
  check_guards(kind->name);
  return status == TENON_OK;
}

static int says(const char *part) { return strstr(tenon_error(), part) != NULL; }

static void run_kind(const kind_t *kind, long replies, int64_t seed) {
  const tenon_op_t *op = find(kind->op);
  long accepted = 0;
  long ends = 0;
  int is_taught = 0;
  for (long i = 0; i < replies && op && failures < 20;) {
    if (!is_taught || i % RESEED_EVERY == 0) teach(seed + i + ends, 0, 0, 1);
    const int is_accepted = call_once(kind, op, (uint64_t)i);
    const int has_ended = !is_accepted && says("; the next call starts it again");
    is_taught = is_accepted || !(has_ended || says("forge yet"));
    if (!is_accepted && says("forge yet")) continue;
    accepted += is_accepted;
    ends += has_ended;
    i++;
  }
  printf("%s: %ld replies, %ld accepted, %ld ended the process\n", kind->name, replies, accepted,
         ends);
}

/* Loads a library whose description changes while it is read. The library is loaded with what the
 * description says, or refused. */
static void load_described(const char *folder, long loads) {
  char path[4096];
  const tenon_isolation_t isolation = {
      .size = sizeof isolation, .deadline_ms = 2000, .call_count = 1, .shared = 64 << 20};
  long loaded = 0;
  snprintf(path, sizeof path, "%s/forges_description.so", folder);
  for (long i = 0; i < loads && failures < 20; i++) {
    tenon_library_t *library = NULL;
    const tenon_status_t status =
        tenon_library_load_isolated(path, TENON_LOAD_UNLOADABLE, &isolation, &library);
    loaded += status == TENON_OK;
    if (status != TENON_OK && !*tenon_error()) fail("description", "an error without a message");
    if (status == TENON_OK && tenon_library_unload(library) != TENON_OK)
      fail("description", tenon_error());
    check_guards("description");
  }
  printf("description: %ld replies, %ld accepted, 0 ended the process\n", loads, loaded);
}

/* The thread that changes the description may come too late, and then the library loads. */
static void load_group(const char *folder) {
  char path[4096];
  const tenon_isolation_t isolation = {
      .size = sizeof isolation, .deadline_ms = 2000, .call_count = 1, .shared = 64 << 20};
  tenon_status_t status = TENON_OK;
  snprintf(path, sizeof path, "%s/forges_group.so", folder);
  for (int i = 0; i < 50 && status == TENON_OK; i++) {
    tenon_library_t *library = NULL;
    status = tenon_library_load_isolated(path, TENON_LOAD_UNLOADABLE, &isolation, &library);
    if (status == TENON_OK) tenon_library_unload(library);
  }
  if (status == TENON_OK || !says("its description has a group")) fail("group", tenon_error());
}

/* single forgeries */

typedef struct case_t {
  const char *name;
  const char *op;
  int form;
  int64_t word; /* its meaning depends on the form */
  int is_planned;
  const char *message; /* a part of it */
} case_t;
enum { NEIGHBOUR = 1000000, SECRET }; /* words that are replaced by addresses */
static const case_t cases[] = {
    {"view_undeclared", "infer", 1, NEIGHBOUR, 0, "made result out a view of input 0"},
    {"view_elsewhere", "view", 1, NEIGHBOUR, 0, "expected a view within it"},
    {"view_elsewhere_planned", "view", 1, NEIGHBOUR, 1, "expected a view within it"},
    {"view_before", "view", 1, -1, 0, "a view of bytes -4 to 8"},
    {"view_far", "view", 1, (int64_t)1 << 40, 0, "expected a view within it"},
    {"view_overflow", "view", 1, INT64_MAX, 0, "further than 64 bits"},
    {"view_undeclared_far", "infer", 1, (int64_t)1 << 40, 0, "a view of input 0"},
    {"view_strided", "infer", 2, 0, 0, "a view of input 0"},
    {"view_long", "view", 3, EXTENT + 1, 0, "a view of bytes 0 to 16"},
    {"view_longest", "view", 3, (int64_t)1 << 60, 0, "expected a view"},
    {"view_long_planned", "view", 3, EXTENT + 1, 1, "a view of bytes 0 to 16"},
    {"view_repeated", "view", 13, (int64_t)1 << 32, 0, "a view that repeats elements of input x"},
    {"view_repeated_planned", "view", 13, (int64_t)1 << 32, 1, "expected at most 67108864 bytes"},
    {"view_uncountable", "view", 13, INT64_MAX, 0, "the memory of its isolated process"},
    {"dtype_of_strings", "infer", 4, 0, 0, "gave result out dtype string: expected f32"},
    {"strings_of_addresses", "open", 5, 8, 0, "dtype differs"},
    {"strings_that_leak", "texts", 5, SECRET, 0, "dtype differs"},
    {"list_of_addresses", "several", 6, 8, 0, "sent"},
    {"items_of_strings", "several", 7, SECRET, 0, "dtype differs"},
    {"sparse", "infer", 8, 0, 0, "is sparse"},
    {"many_elements", "known", 9, 0, 0, "elements"},
    {"many_elements_planned", "known", 9, 0, 1, "elements"},
    {"one_block_twice", "several", 10, 0, 0, "outside the memory that was given"},
    {"reply_that_goes_on", "run", 11, 0, 0, "shorter or longer"},
    {"escapes_of_a_terminal", "run", 12, 0, 0, "?]0;owned? text"},
};

static void run_case(const case_t *c) {
  static char secret[16] = "secret of a host";
  const kind_t kind = {c->name, c->op, c->is_planned, 0};
  int64_t word = c->word;
  tenon_tensor_t *out = NULL;
  if (word == NEIGHBOUR) word = (const float *)owned[2]->data - (const float *)owned[1]->data;
  if (word == SECRET) word = (int64_t)(intptr_t)secret;
  for (uint64_t i = 0; i < 2; i++) {
    tenon_tensor_t room;
    int64_t axes[2];
    teach(1, c->form, word, 0);
    const tenon_status_t status = make_call(&kind, find(c->op), input_of(i, &room, axes), &out);
    if (status == TENON_OK) fail(c->name, "the forgery is accepted");
    if (status != TENON_OK && !says(c->message)) fail(c->name, tenon_error());
    volatile double sum = out ? sum_of(out) : 0;
    (void)sum;
    tenon_tensor_release(out);
    check_guards(c->name);
  }
}

static int run_named(const char *folder, const char *name, long replies, int64_t seed) {
  int found = !strcmp(name, "description");
  if (found) load_described(folder, replies / 100); /* each is the start of two processes */
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (!strcmp(kinds[k].name, name)) {
      run_kind(&kinds[k], kinds[k].is_slow ? replies / 10 : replies, seed);
      found = 1;
    }
  return found;
}

static int run_named_case(const char *folder, const char *name) {
  int found = !strcmp(name, "group");
  if (found) load_group(folder);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (!strcmp(cases[i].name, name)) {
      run_case(&cases[i]);
      found = 1;
    }
  return found;
}

static void list_names(void) {
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    printf("kind %s\n", kinds[k].name);
  puts("kind description\ncase group");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    printf("case %s\n", cases[i].name);
}

int main(int argc, char **argv) {
  char path[4096];
  const tenon_isolation_t isolation = {.size = sizeof isolation,
                                       .deadline_ms = 2000,
                                       .call_count = 1,
                                       .memory = 64 << 20,
                                       .shared = 64 << 20};
  if (argc == 2 && !strcmp(argv[1], "list")) {
    list_names();
    return 0;
  }
  if (argc < 4) {
    fprintf(stderr, "usage: isolation_forgeries FOLDER KIND REPLIES SEED | FOLDER case NAME\n");
    return 2;
  }
  snprintf(path, sizeof path, "%s/forges.so", argv[1]);
  if (tenon_library_load_isolated(path, 0, &isolation, NULL) != TENON_OK) {
    printf("FAIL %s\n", tenon_error());
    return 1;
  }
  fill_guards();
  const int found = argc == 5 ? run_named(argv[1], argv[2], atol(argv[3]), atol(argv[4]))
                              : !strcmp(argv[2], "case") && run_named_case(argv[1], argv[3]);
  if (!found) fail(argv[2], "no such kind or case");
  for (int k = 0; k < 3; k++)
    tenon_tensor_release(owned[k]);
  tenon_shutdown();
  printf("%d failures\n", failures);
  return failures != 0;
}
