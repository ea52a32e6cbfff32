/* Answers its host itself. The kernel of `learn` never returns: it serves its channel entry in
 * place of Tenon's own code, and forges every reply. What it forges follows from the operator that
 * the host calls, and from the input of `learn`: {seed, form, word, whether a second thread writes
 * to the shared memory at random times}. With form 0, replies are right but for random words; the
 * other forms are one forgery each. */
#include <pthread.h>

#include "forges.h"

enum { LEARN, RUN, OPEN, INFERRED, VIEWED, SEVERAL, STRINGS, SPARSE, FAILS, KNOWN };
enum { VERB_RUN = 1, VERB_INFER };
enum { ASK_DIM = 1, ASK_LIST, ASK_MEMORY };
/* Forms, as tests/acceptance/isolation_forgeries.c numbers them. */
enum {
  ANYTHING,
  VIEW_ELSEWHERE,   /* an alias of input 0 with the offset `word` */
  VIEW_STRIDED,     /* an alias of input 0 that is strided without strides */
  VIEW_LONG,        /* an alias of input 0 with `word` elements */
  DTYPE_OF_STRINGS, /* INFER changes the dtype to STRING */
  DENSE_STRINGS,    /* a dense result of STRING whose elements are {address `word`, 16} */
  DENSE_LIST,       /* a dense result of LIST whose elements are addresses */
  LIST_OF_STRINGS,  /* items of STRING in a list */
  SPARSE_LAYOUT,    /* INFER makes the result sparse */
  MANY_ELEMENTS,    /* INFER states 64 elements of a scalar */
  SAME_BLOCK,       /* two items in one block */
  LONGER,           /* a reply that goes on after its end */
  ESCAPES,          /* the text of an error with control characters */
  VIEW_REPEATED,    /* an alias of input 0 that repeats one element `word` times */
};

static unsigned char *area; /* of the entry that is served */
static uint64_t form, word;
static int is_scribbling;
static uint64_t *words; /* the message that is written */
static uint64_t at;

static uint32_t *bell_state(void) { return (uint32_t *)(void *)(area - HEAD + BELL); }
static unsigned char *mailbox(void) { return area - HEAD; }

static void put(uint64_t number) { words[at++] = number; }

static void ring(uint32_t state, uint64_t size) {
  uint32_t *bell = bell_state();
  __atomic_store_n((uint64_t *)(void *)(bell + 4), size, __ATOMIC_RELAXED);
  __atomic_store_n(bell, state, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(bell + 1, __ATOMIC_SEQ_CST)) wake(bell);
}

static void wait_until_not(uint32_t value) {
  uint32_t *bell = bell_state();
  for (int i = 0; i < 2000; i++)
    if (__atomic_load_n(bell, __ATOMIC_ACQUIRE) != value) return;
  while (__atomic_load_n(bell, __ATOMIC_SEQ_CST) == value) {
    const struct timespec limit = {0, 1000000};
    __atomic_store_n(bell + 2, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, bell, FUTEX_WAIT, value, &limit, 0, 0);
  }
  __atomic_store_n(bell + 2, 0, __ATOMIC_RELAXED);
}

/* Asks the host and returns the first number of its answer. The reply begins anew afterwards. */
static uint64_t ask(uint64_t number, uint64_t a, uint64_t b, uint64_t c) {
  at = 0;
  put(number);
  put(a);
  put(b);
  put(c);
  ring(ASK, at * 8);
  wait_until_not(ASK);
  at = 0;
  return words[0] == 0 && words[1] == 0 ? words[2] : 0;
}

static void ask_anything(uint64_t verb) {
  for (uint64_t i = next() % 3; i > 0; i--) {
    const int is_infer = (verb == VERB_INFER) ^ one_in(50);
    const uint64_t size = one_in(3) ? boundary() : next() % 100;
    const uint64_t large = one_in(9) ? (uint64_t)INT64_MAX - next() % 3 : next() % 99;
    if (!is_infer)
      ask(ASK_MEMORY, size, 0, 0);
    else if (one_in(20))
      ask(ASK_LIST, next() % 2, next() % 20, 0);
    else
      ask(ASK_DIM, next() % 11, one_in(50) ? any_word() : next() % 99, large);
  }
}

static void put_dense(uint64_t dtype, uint64_t extent, uint64_t offset) {
  put(DENSE);
  put(dtype);
  put(1);
  put(extent);
  put(offset);
}

static void put_texts(void) {
  static const char *const text = "a text of the library";
  put(TEXTS);
  put(1);
  put(3);
  for (int i = 0; i < 3; i++) {
    const uint64_t size = next() % 20;
    put(size);
    memcpy(&words[at], text, size);
    at += (size + 7) / 8;
  }
}

/* Replaces some words after the first `from`, and sometimes states another size. */
static uint64_t spoil(uint64_t from) {
  if (one_in(3)) return at * 8;
  for (uint64_t i = next() % 3; i > 0 && at > from; i--)
    words[from + next() % (at - from)] = any_word();
  if (one_in(12)) put(any_word());
  if (one_in(12) && at > from) at--;
  return one_in(1000) ? any_word() : at * 8;
}

/* Asks for a block of 64 bytes and fills it: as floats they are any numbers, as strings or as a
 * list they are addresses. */
static uint64_t ask_block(void) {
  const uint64_t offset = one_in(10) ? any_word() : ask(ASK_MEMORY, 64, 0, 0);
  const int is_block = offset >= CHANNEL && offset < CHANNEL + (1 << 20);
  for (int i = 0; i < 8 && is_block; i++)
    ((uint64_t *)(void *)(mailbox() + offset))[i] = i % 2 ? next() % 64 : any_word();
  return offset;
}

static uint64_t near_dtype(uint64_t dtype) { return one_in(6) ? dtype_word() : dtype; }

static uint64_t forge_run(uint64_t op) {
  uint64_t offsets[3] = {0, 0, 0};
  const int is_dense = op == OPEN || (op != SEVERAL && one_in(3));
  if (one_in(6)) ask_anything(VERB_RUN);
  for (uint64_t i = 0; i < (op == SEVERAL ? 3 : is_dense); i++)
    offsets[i] = ask_block();
  at = 0;
  put(0);
  put(0);
  if (is_dense) {
    uint64_t count = one_in(4) ? next() % 5 : 3;
    put_dense(near_dtype(op == STRINGS ? TENON_STRING : TENON_F32), count, offsets[0]);
  } else if (op == SEVERAL) {
    put(LIST);
    put(3);
    const uint64_t dtype = near_dtype(TENON_F32);
    for (int i = 0; i < 3; i++)
      put_dense(dtype, 3, offsets[i]);
  } else if (op == STRINGS) {
    put_texts();
  } else {
    put(SAME);
  }
  return spoil(2);
}

static uint64_t forge_meta(uint64_t op) {
  if (one_in(6)) ask_anything(VERB_INFER);
  at = 0;
  put(0);
  put(0);
  put(UINT64_MAX); /* draws */
  const uint64_t is_list = one_in(20) ? 2 : 1;
  put(is_list);
  put(0);
  put(op == KNOWN ? TENON_I64 : TENON_F32);
  const uint64_t ndim = op == OPEN ? UINT64_MAX : next() % 3;
  put(ndim);
  put(op == VIEWED || one_in(6) ? 1 : 0); /* alias */
  put(one_in(3) ? any_word() : next() % 3);
  put(op == SPARSE ? 1 + next() % 4 : 0); /* layout */
  const uint64_t strided = next() % 4;
  const uint64_t rank = ndim == UINT64_MAX ? 0 : ndim;
  put(strided);
  for (uint64_t i = 0; i < rank; i++)
    put(next() % 4);
  for (uint64_t i = 0; i < rank && strided & 2; i++)
    put(one_in(3) ? any_word() : next() % 4);
  const uint64_t count = op == KNOWN || one_in(6) ? next() % 5 : 0;
  put(count);
  for (uint64_t i = 0; i < count; i++)
    put(next() % 9);
  return spoil(2);
}

static uint64_t forge_error(void) {
  static const uint64_t codes[] = {1, 2, 3, 5, 8, 13};
  at = 0;
  put(one_in(300) ? any_word() : codes[next() % 6]);
  const uint64_t size = one_in(20) ? next() % 200000 : next() % 300;
  unsigned char *text = (unsigned char *)&words[2];
  for (uint64_t i = 0; i < size; i++)
    text[i] = (unsigned char)(1 + next() % 255);
  if (size && !one_in(300)) text[size - 1] = 0;
  put(one_in(300) ? any_word() : size);
  return one_in(300) ? any_word() : 16 + (size + 7) / 8 * 8;
}

/* Metas of one result; its extents and strides follow. */
static void put_meta(uint64_t dtype, uint64_t ndim, uint64_t alias, uint64_t offset,
                     uint64_t layout, uint64_t strided) {
  at = 0;
  put(0);
  put(0);
  put(UINT64_MAX);
  put(1);
  put(0);
  put(dtype);
  put(ndim);
  put(alias);
  put(offset);
  put(layout);
  put(strided);
}

static uint64_t forge_form_of_infer(void) {
  switch (form) {
  case VIEW_ELSEWHERE:
    put_meta(TENON_F32, 1, 1, word, 0, 0);
    put(3);
    break;
  case VIEW_STRIDED:
    put_meta(TENON_F32, 1, 1, 0, 0, 1);
    put(3);
    break;
  case VIEW_LONG:
    put_meta(TENON_F32, 1, 1, 0, 0, 0);
    put(word);
    break;
  case VIEW_REPEATED:
    put_meta(TENON_F32, 1, 1, 0, 0, 3);
    put(word);
    put(0);
    break;
  case DTYPE_OF_STRINGS:
    put_meta(TENON_STRING, 1, 0, 0, 0, 0);
    put(3);
    break;
  case SPARSE_LAYOUT:
    put_meta(TENON_F32, 2, 0, 0, TENON_DETAIL_CSR, 0);
    put(3);
    put(3);
    break;
  case MANY_ELEMENTS:
    put_meta(TENON_I64, 0, 0, 0, 0, 0);
    put(64);
    for (int i = 0; i < 64; i++)
      put(i);
    return at * 8;
  default:
    put_meta(TENON_F32, 1, 0, 0, 0, 0);
    put(3);
  }
  put(0);
  return at * 8;
}

static uint64_t forge_form_of_run(void) {
  const uint64_t offset = ask(ASK_MEMORY, 64, 0, 0);
  const uint64_t other = ask(ASK_MEMORY, 64, 0, 0);
  uint64_t *elements = (uint64_t *)(void *)(mailbox() + offset);
  for (int i = 0; i < 6 && offset; i++)
    elements[i] = form == DENSE_LIST || i % 2 == 0 ? word : 16;
  at = 0;
  put(form == ESCAPES ? 3 : 0);
  put(0);
  if (form == DENSE_STRINGS) put_dense(TENON_STRING, 3, offset);
  if (form == DENSE_LIST) put_dense(TENON_LIST, 3, offset);
  if (form == LIST_OF_STRINGS || form == SAME_BLOCK) {
    put(LIST);
    put(3);
    const uint64_t dtype = form == SAME_BLOCK ? TENON_F32 : TENON_STRING;
    put_dense(dtype, 3, offset);
    put_dense(dtype, 3, other);
    put_dense(dtype, 3, other);
  }
  /* What the host copies to the result: it gave the second place in the entry for it. */
  for (int i = 0; i < 3 && form == VIEW_ELSEWHERE; i++)
    ((float *)(void *)(area + MESSAGE + 64))[i] = 666;
  if (form == LONGER || form == VIEW_ELSEWHERE) put(SAME);
  if (form == LONGER) put(0);
  if (form == ESCAPES) {
    words[1] = 16;
    memcpy(&words[2], "\033]0;owned\007 text", 16);
    at = 4;
  }
  return at * 8;
}

/* Writes random words over everything that is shared: the message above all, at times the results,
 * the description and the doorbells. */
static void *scribble(void *unused) {
  uint64_t seed = 0x9e3779b97f4a7c15u;
  const struct timespec pause = {0, 20000};
  for (;;) {
    if (is_scribbling && area) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const uint64_t pick = seed >> 40;
      uint64_t *message = (uint64_t *)(void *)area;
      const uint64_t value = seed % 3 ? boundary() : seed;
      if (pick % 4096 == 1)
        ((uint64_t *)(void *)mailbox())[pick % 176] = value;
      else if (pick % 8 == 2)
        ((uint64_t *)(void *)(mailbox() + CHANNEL))[pick % 4096] = value;
      else if (pick % 64 == 3)
        ((uint64_t *)(void *)(mailbox() + DESCRIPTION))[pick % 512] = value;
      else
        message[(pick % 256 ? 2 : 0) + pick % 40] = value;
    }
    nanosleep(&pause, 0);
  }
  return unused;
}

/* Reads the input of `learn` from the call: verb, operator, no state, default attributes, no random
 * numbers, then the tensor: DENSE, dtype, rank, extent, offset. */
static void learn_from(const int64_t *x) {
  random_state = (uint64_t)x[0] * 2654435761u + 88172645463325252u;
  form = (uint64_t)x[1];
  word = (uint64_t)x[2];
  is_scribbling = x[3] != 0;
}

static uint64_t answer_call(void) {
  const uint64_t verb = words[0];
  const uint64_t op = words[1];
  if (op == LEARN) {
    const uint64_t offset = words[9];
    if (offset < CHANNEL) learn_from((const int64_t *)(const void *)(mailbox() + offset));
    at = 0;
    put(0);
    put(0);
    put(SAME);
    return at * 8;
  }
  if (form) return verb == VERB_INFER ? forge_form_of_infer() : forge_form_of_run();
  if (op == FAILS && !one_in(8)) return forge_error();
  return verb == VERB_INFER ? forge_meta(op) : forge_run(op);
}

static tenon_status_t learn(tenon_call_t *call) {
  static pthread_t thread;
  const int64_t *x = (const int64_t *)call->inputs[0]->data;
  learn_from(x);
  area = (unsigned char *)call->inputs[0]->data - MESSAGE;
  words = (uint64_t *)(void *)area;
  if (is_scribbling) pthread_create(&thread, 0, scribble, 0);
  at = 0;
  put(0);
  put(0);
  put(SAME);
  ring(REPLY, at * 8);
  for (;;) {
    wait_until_not(REPLY);
    const uint64_t size = answer_call();
    ring(REPLY, size);
  }
}

static tenon_status_t honest(tenon_call_t *call) {
  return tenon_fail(call, TENON_UNAVAILABLE, "forges does not forge yet");
}

static tenon_status_t honest_infer(tenon_infer_t *infer) {
  return tenon_fail(infer, TENON_UNAVAILABLE, "forges does not forge yet");
}

/* clang-format off */
TENON_LIBRARY(forges, "1.0.0",
  TENON_OP("learn(Tensor x) -> Tensor",
    TENON_TYPES("x: i64; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", learn)),
  TENON_OP("run(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", honest)),
  TENON_OP("open(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_INFER(honest_infer), TENON_KERNEL("cpu", honest)),
  TENON_OP("infer(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_INFER(honest_infer), TENON_KERNEL("cpu", honest)),
  TENON_OP("view(Tensor(a) x) -> Tensor(a)",
    TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE), TENON_WHERE("x: strided"),
    TENON_INFER(honest_infer)),
  TENON_OP("several(Tensor x) -> Tensor[3]",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", honest)),
  TENON_OP("texts(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = string"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", honest)),
  TENON_OP("sparse(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_INFER(honest_infer), TENON_KERNEL("cpu", honest)),
  TENON_OP("fails(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", honest)),
  TENON_OP("known(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = i64"), TENON_TRAITS(TENON_PURE), TENON_INFER(honest_infer),
    TENON_KERNEL("cpu", honest)))
/* clang-format on */
