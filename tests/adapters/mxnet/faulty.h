/* Faulty operators, each with one fault; compiled into plain.c with -DOPERATORS='"faulty.h"'. FAULT
 * selects an operator that cannot even be registered. */
#ifdef THROWS
int throw_text(void), throw_number(void); /* thrower.cc */
#endif

static int shapes_silent(attrs_t a, unsigned **in, int *ndims, int n, unsigned **out,
                         int *out_ndims, int m) {
  (void)a;
  (void)in;
  (void)ndims;
  (void)n;
  (void)out;
  (void)out_ndims;
  (void)m;
  return 0;
}
static int shapes_say(attrs_t a, unsigned **in, int *ndims, int n, unsigned **out, int *out_ndims,
                      int m) {
  (void)a;
  (void)in;
  (void)ndims;
  (void)n;
  (void)out;
  (void)out_ndims;
  (void)m;
  return fail("this shape I do not like");
}
static int shapes_negative(attrs_t a, unsigned **in, int *ndims, int n, unsigned **out,
                           int *out_ndims, int m) {
  same_shape(a, in, ndims, n, out, out_ndims, m);
  out_ndims[0] = -3;
  return 1;
}
static int shapes_many(attrs_t a, unsigned **in, int *ndims, int n, unsigned **out, int *out_ndims,
                       int m) {
  same_shape(a, in, ndims, n, out, out_ndims, m);
  out_ndims[0] = 1000;
  return 1;
}
static int shapes_huge(attrs_t a, unsigned **in, int *ndims, int n, unsigned **out, int *out_ndims,
                       int m) {
  static const unsigned huge[] = {4000000000u, 4000000000u, 4000000000u};
  (void)a;
  (void)in;
  (void)ndims;
  (void)n;
  (void)m;
  out[0] = copy(huge, out_ndims[0] = 3);
  return 1;
}
static int dtypes_wrong(attrs_t a, int *in, int n, int *out, int m) {
  (void)a;
  (void)in;
  (void)n;
  (void)m;
  return out[0] = 7;
}
static int dtypes_say(attrs_t a, int *in, int n, int *out, int m) {
  (void)a;
  (void)in;
  (void)n;
  (void)out;
  (void)m;
  return fail("this dtype I do not like");
}
static int storages_wrong(attrs_t a, int *in, int n, int *out, int m) {
  (void)a;
  (void)in;
  (void)n;
  (void)m;
  return out[0] = 9;
}
static int storages_csr(attrs_t a, int *in, int n, int *out, int m) {
  (void)a;
  (void)in;
  (void)n;
  (void)m;
  return out[0] = 2;
}
static int run_silent(call_t *c) {
  (void)c;
  return 0;
}
static int run_say(call_t *c) {
  (void)c;
  return fail("today I do not run");
}
static int csr_wrong(call_t *c) { /* a column out of range */
  void *data;
  int64_t *indices, *indptr;
  c->sparse(c->sparse_handle, 0, 1, (int)c->in.shapes[0][0] + 1, &data, &indices, &indptr);
  if (!data) return 0;
  for (int64_t r = 1; r <= c->in.shapes[0][0]; r++)
    indptr[r] = 1;
  *(float *)data = 1;
  indices[0] = 1000;
  return 1;
}
static int csr_none(call_t *c) {
  (void)c;
  return 1;
} /* It never creates its result. */
static int csr_of_dense(call_t *c) {
  void *data;
  int64_t *indices, *indptr;
  c->sparse(c->sparse_handle, 0, 1, 3, &data, &indices, &indptr);
  return 1;
}
static int csr_of_other(call_t *c) {
  void *data;
  int64_t *indices, *indptr;
  c->sparse(c->sparse_handle, 5, 1, 3, &data, &indices, &indptr);
  return 1;
}
static int writes_other(attrs_t a, int **which, int *count) {
  if (!*get(a, "which", "")) {
    *which = NULL;
    *count = 0;
    return 1;
  }
  *which = malloc(sizeof **which);
  (*which)[0] = atoi(get(a, "which", ""));
  return *count = 1;
}
static int writes_silent(attrs_t a, int **which, int *count) {
  (void)which;
  (void)count;
  return !*get(a, "bad", "");
}
static int parse_negative(attrs_t a, int *in, int *out) {
  *in = *get(a, "bad", "") ? -4 : 1;
  return *out = 1;
}
static int parse_more(attrs_t a, int *in, int *out) {
  *in = *get(a, "more", "") ? 3 : 1;
  return *out = 1;
}
static int create_nothing(attrs_t a, object_t **out) {
  (void)a;
  *out = NULL;
  return 1;
}
static int create_silent(attrs_t a, object_t **out) {
  (void)a;
  (void)out;
  return 0;
}
static int huge_memory(call_t *c) {
  return c->allocate(c->allocate_handle, -5) ? 1 : fail("no memory of -5 bytes");
}
#ifdef THROWS
static int run_throws(call_t *c) {
  (void)c;
  return throw_text();
}
static int run_throws_number(call_t *c) {
  (void)c;
  return throw_number();
}
static int shapes_throw(attrs_t a, unsigned **in, int *ndims, int n, unsigned **out, int *out_ndims,
                        int m) {
  (void)a;
  (void)in;
  (void)ndims;
  (void)n;
  (void)out;
  (void)out_ndims;
  (void)m;
  return throw_text();
}
static int parse_throws(attrs_t a, int *in, int *out) {
  return *get(a, "bad", "") ? throw_text() : one_one(a, in, out);
}
#endif

static const op_t ops[] = {
#if defined FAULT
    FAULT
#else
    {"shapes_silent", one_one, floats, NULL, shapes_silent, NULL, scale, NULL, NULL},
    {"shapes_say", one_one, floats, NULL, shapes_say, NULL, scale, NULL, NULL},
    {"shapes_negative", one_one, floats, NULL, shapes_negative, NULL, scale, NULL, NULL},
    {"shapes_many", one_one, floats, NULL, shapes_many, NULL, scale, NULL, NULL},
    {"shapes_huge", one_one, floats, NULL, shapes_huge, NULL, scale, NULL, NULL},
    {"dtypes_wrong", one_one, dtypes_wrong, NULL, same_shape, NULL, scale, NULL, NULL},
    {"dtypes_say", one_one, dtypes_say, NULL, same_shape, NULL, scale, NULL, NULL},
    {"storages_wrong", one_one, floats, storages_wrong, same_shape, NULL, scale, NULL, NULL},
    {"run_silent", one_one, floats, NULL, same_shape, NULL, run_silent, NULL, NULL},
    {"run_say", one_one, floats, NULL, same_shape, NULL, run_say, NULL, NULL},
    {"back_say", one_one, floats, NULL, same_shape, NULL, scale, run_say, NULL},
    {"csr_wrong", one_one, floats, storages_csr, same_shape, NULL, csr_wrong, NULL, NULL},
    {"csr_none", one_one, floats, storages_csr, same_shape, NULL, csr_none, NULL, NULL},
    {"csr_of_dense", one_one, floats, NULL, same_shape, NULL, csr_of_dense, NULL, NULL},
    {"csr_of_other", one_one, floats, NULL, same_shape, NULL, csr_of_other, NULL, NULL},
    {"writes_other", one_one, floats, NULL, same_shape, writes_other, scale, NULL, NULL},
    {"writes_silent", one_one, floats, NULL, same_shape, writes_silent, scale, NULL, NULL},
    {"parse_negative", parse_negative, floats, NULL, same_shape, NULL, scale, NULL, NULL},
    {"parse_more", parse_more, floats, NULL, same_shape, NULL, scale, NULL, NULL},
    {"create_nothing", one_one, floats, NULL, same_shape, NULL, NULL, NULL, create_nothing},
    {"create_silent", one_one, floats, NULL, same_shape, NULL, NULL, NULL, create_silent},
    {"huge_memory", one_one, floats, NULL, same_shape, NULL, huge_memory, NULL, NULL},
#ifdef THROWS
    {"run_throws", one_one, floats, NULL, same_shape, NULL, run_throws, NULL, NULL},
    {"run_throws_number", one_one, floats, NULL, same_shape, NULL, run_throws_number, NULL, NULL},
    {"shapes_throw", one_one, floats, NULL, shapes_throw, NULL, scale, NULL, NULL},
    {"parse_throws", parse_throws, floats, NULL, same_shape, NULL, scale, NULL, NULL},
#endif
    {"good", scale_parse, floats, NULL, same_shape, NULL, scale, scale, NULL},
#endif
};
