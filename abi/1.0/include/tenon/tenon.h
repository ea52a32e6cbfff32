/* tenon/tenon.h: the face for applications, bindings and tools: libraries, operators, tensors, calls, graphs, executables.
 *
 * Rules of this file.  Every fallible function returns a status; the text of the last failure in this thread is
 * tenon_error().  `create`, `load` and `retain` give a reference that the caller releases; `get` and plain accessors lend.
 * release(NULL) is fine.  Unless a function says otherwise it may be called from any thread, and nothing is started by
 * hand: the first call starts the runtime.  A child of fork may call everything (docs/dispatch.md).  Structures that the caller fills start with their size; zero means default. */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <tenon/graph.h>
#include <tenon/op.h>

#if defined(_WIN32)
#define TENON_API __declspec(dllimport)
#else
#define TENON_API __attribute__((visibility("default")))
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* ---- the process ------------------------------------------------------------------------------------------------ */

/* Text of the last failure in this thread, "" if there was none; valid until the next failure in this thread. */
TENON_API const char *tenon_error(void);
/* Makes `text` (copied) that of this thread's last failure and gives `status`: for what adds to this interface, as bridges do. */
TENON_API tenon_status_t tenon_error_set(tenon_status_t status, const char *text);
/* "not found", "invalid", ...: a constant text. */
TENON_API const char *tenon_status_name(tenon_status_t status);
/* "1.0.0": a constant text. */
TENON_API const char *tenon_version(void);
/* Starts the runtime: registers the built-in operators.  Idempotent; every other function does it. */
TENON_API tenon_status_t tenon_start(void);
/* Frees everything that no handle of the caller holds, and unloads libraries.  No other thread may be in a call; handles
 * that are still held keep working for release only.  The runtime may be started again. */
TENON_API void tenon_shutdown(void);
/* Threads that calls and runs begun by this thread use; 0: the default (TENON_THREADS, else the processors). */
TENON_API void tenon_threads_set(int32_t count);
TENON_API int32_t tenon_threads_get(void);
/* Asks whether calls and runs begun by this thread go on: between nodes, and between pieces of a parallel-for, which is cut
 * into more of them.  Another status than OK (CANCELLED, DEADLINE) ends the call as a failure does; the next one works. */
typedef struct tenon_poll_t {
  tenon_status_t (*ask)(void *state); /* called on this thread, often: it should answer at once, and make no calls */
  void *state;
} tenon_poll_t;
/* `poll` must stay as long as it is set; NULL: none.  Gives the one that was set before.  Of this thread alone. */
TENON_API const tenon_poll_t *tenon_poll_set(const tenon_poll_t *poll);
/* Frees a text that a function of this file gave. */
TENON_API void tenon_text_release(char *text);
/* Report on machine, build and settings, for `tenon doctor`; the caller frees it. */
TENON_API tenon_status_t tenon_doctor(char **out_text);

/* ---- libraries -------------------------------------------------------------------------------------------------- */

typedef struct tenon_library_t tenon_library_t;

/* flags of loading */
enum {
  /* TENON_POLICY_PRIVATE and TENON_POLICY_INERT, for this file */
  TENON_LOAD_STRICT = 1,
  /* tenon_library_release unloads the code with the last handle, operator use included */
  TENON_LOAD_UNLOADABLE = 2,
  /* it runs in a process of its own, see tenon_library_load_isolated; settings are the defaults */
  TENON_LOAD_ISOLATED = 4
};

/* Loads a library: reads the file without running it, then queries, verifies, opens.  `path` with a separator is a path;
 * else a name that is looked for in the folders of TENON_LIBRARY_PATH (with `lib` and the platform's suffix added where they
 * lack), and nowhere else.  Loading a file twice gives the same library.  On failure nothing is registered, and one message
 * lists every offence.  out_library may be NULL: the library then stays until shutdown. */
TENON_API tenon_status_t tenon_library_load(const char *path, uint32_t flags, tenon_library_t **out_library);

/* What an isolated library may do: nothing of this, unless it is said. */
enum {
  TENON_ALLOW_READ = 1,      /* open files for reading, at any time; without it only while it is loaded */
  TENON_ALLOW_WRITE = 2,     /* write, make and remove files */
  TENON_ALLOW_NETWORK = 4,   /* sockets */
  TENON_ALLOW_PROCESSES = 8, /* start processes, run programs */
  TENON_ALLOW_EXTEND = 16    /* add kernels to operators of other libraries (TENON_EXTEND) */
};
#define TENON_ISOLATION_NONE UINT32_MAX /* of deadline_ms and spin_us: no limit; no spinning */
typedef struct tenon_isolation_t {
  uint32_t size, allow;  /* TENON_ALLOW_... */
  uint32_t deadline_ms;  /* of a call; 0: 10 s.  Loading may take 30 s at least */
  uint32_t spin_us;      /* how long both sides look for a message before they sleep; 0: 50 */
  uint32_t child_count;  /* processes that calls are spread over, at most 8; 0: one */
  uint32_t call_count;   /* at once in each of them, at most 8; 0: 8.  More wait for their turn */
  uint32_t thread_count; /* of a parallel-for in it; 0: as in this process */
  /* With READ or WRITE: absolute folders, with all that is in them, outside of which files cannot be opened; none: anywhere. */
  uint32_t readable_count, writable_count;
  const char *const *readable, *const *writable;
  uint64_t memory; /* bytes that a process may have beyond what Tenon needs in it; 0: 4 GiB */
  uint64_t shared; /* bytes of addresses for tensors that are shared with it; 0: 16 GiB */
} tenon_isolation_t;
/* Loads a library so that its code runs in processes of its own (docs/isolation.md): calls are forwarded, and a crash, an exit, a
 * loop without end, too much memory or a system call that it must not make there is an error of that call, which says what
 * happened; the next call starts the process anew.  isolation NULL: defaults.  Errors, beside those of tenon_library_load:
 * UNIMPLEMENTED, for what cannot be isolated (devices, bridges, passes, bodies that are graphs, kernels of layers), all of it
 * listed; PRECONDITION, if the file is loaded already otherwise; UNAVAILABLE, if the system refuses. */
TENON_API tenon_status_t tenon_library_load_isolated(const char *path, uint32_t flags,
                                                     const tenon_isolation_t *isolation, tenon_library_t **out_library);
/* A dense tensor in the memory that an isolated library shares: its operators read and write it where it is.  What lies there
 * may change under its reader's hands, if the library means harm.  Where that memory is full, or for strings, an ordinary
 * tensor.  It may outlive the library. */
TENON_API tenon_status_t tenon_library_tensor_create(tenon_library_t *library, tenon_dtype_t dtype, int32_t ndim,
                                                     const int64_t *shape, tenon_tensor_t **out_tensor);
/* What the program `isolate` does, which isolated libraries run in; of no other use.  Gives its exit status. */
TENON_API int tenon_isolate_main(void);

/* Registers a library that is linked into the program: tenon_library_add(tenon_library_demo(), ...).  `context` is what
 * its functions find in call->context (NULL for libraries built from files); destroy(context) is called when it is gone. */
TENON_API tenon_status_t tenon_library_add(const tenon_descriptor_t *descriptor, void *context, tenon_free_fn destroy,
                                           tenon_library_t **out_library);
/* Reads a library file without running any of it; the report says kind, machine, entry, needed libraries, initialisers,
 * and what is wrong.  OK also for files that could not be loaded, as long as they can be read; out_loadable (may be NULL):
 * 1: nothing is wrong with it as far as its file tells, else 0.  The caller frees the text. */
TENON_API tenon_status_t tenon_library_inspect(const char *path, char **out_text, uint32_t *out_loadable);
/* Unloads a library that was loaded with TENON_LOAD_UNLOADABLE and takes the handle over, or leaves everything as it is and
 * says what holds it: other handles, bound calls, graphs, executables, libraries that use its operators, a call that is in
 * it on another thread.  Handles of its operators (tenon_op_t) are not valid any more. */
TENON_API tenon_status_t tenon_library_unload(tenon_library_t *library);
/* Reads the library's file anew (path NULL), or another one, and puts it in the place of what is loaded, at once and as a whole; a
 * file that is unchanged is left alone.  Operators of the same schema (TYPES, SHAPES, WHERE, TRAITS and VERSION too) keep their
 * handles: calls by old ones go to the new kernels, infer results anew, and get a state anew; each executable is prepared anew at
 * its next run, while runs that are under way end as they began.  Of others the handles fail from then on, saying so.
 * PRECONDITION, and everything stays as it was: an operator of another schema, or one that is there no more, is held by a graph,
 * an executable, a bound call or another library, and the message says what changed and who holds it.  Other errors: as of
 * tenon_library_load.  What was loaded before stays mapped, and its TENON_OPEN is ended, when the library goes.  Any thread;
 * others may be calling. */
TENON_API tenon_status_t tenon_library_reload(tenon_library_t *library, const char *path);
/* The run-time libraries, ':' between, that a file built with -fsanitize needs loaded before the program ("" : none, or they are
 * here): what to put into LD_PRELOAD.  NOT_FOUND: they are not installed.  The caller frees the text. */
TENON_API tenon_status_t tenon_library_sanitizer(const char *path, char **out_runtime);
TENON_API void tenon_library_retain(tenon_library_t *library);
TENON_API void tenon_library_release(tenon_library_t *library);
TENON_API const char *tenon_library_name(const tenon_library_t *library);
TENON_API const char *tenon_library_version(const tenon_library_t *library);
TENON_API const char *tenon_library_path(const tenon_library_t *library); /* "" when linked in */
TENON_API int32_t tenon_library_op_count(const tenon_library_t *library);
TENON_API const tenon_op_t *tenon_library_op(const tenon_library_t *library, int32_t index);
/* Operators of other libraries that it adds kernels to; out_waiting (may be NULL): those that are not there yet. */
TENON_API int32_t tenon_library_extended_count(const tenon_library_t *library, int32_t *out_waiting);

/* Which files this process loads: libraries, bridges, plug-ins of devices, and what bridges read (docs/policy.md).  Each rule
 * that is set must hold; with none any file is loaded that the user names and may read. */
typedef struct tenon_policy_t {
  uint32_t size, flags;              /* flags: TENON_POLICY_... */
  uint32_t folder_count, hash_count; /* 0: none of these rules */
  const char *const *folders;        /* the file, links resolved, lies in one of these or below; absolute paths */
  const char *const *hashes;         /* SHA-256 of files that are accepted: 64 hexadecimal digits each */
} tenon_policy_t;
enum {
  /* the file, and each folder from the root to it, belong to this user or to root, and nobody else may write there */
  TENON_POLICY_PRIVATE = 1,
  /* opening it runs no code of its own (initialisers); what must happen first is done by TENON_OPEN */
  TENON_POLICY_INERT = 2
};
/* Sets the rules for what is loaded from now on until tenon_shutdown, in place of those that were set, of the file TENON_POLICY and of
 * /etc/tenon/policy; `policy` is copied.  NULL: no rules.  Any thread.  Errors: INVALID, with all that is wrong, for unknown
 * flags, a hash that is none, a folder that is not absolute; then nothing changes. */
TENON_API tenon_status_t tenon_policy_set(const tenon_policy_t *policy);

/* ---- libraries from source ---------------------------------------------------------------------------------------- */

typedef struct tenon_build_t {
  uint32_t size, flags;
  uint32_t source_count, option_count;
  const char *const *sources; /* .c .cc .cpp .cxx .s .S .cu, and objects: .o .a */
  /* for every compiler, one word each: "-DN=4", "-Iinclude", "-O1", "-lz"; -O3 where none says another level */
  const char *const *options;
  /* May be NULL.  `text` is a command before it is run, all that the compilers have said (warnings; after a failure it is
   * not in the message too), or the file that was made before and is taken again. */
  void (*say)(void *context, uint32_t what, const char *text);
  void *context;
} tenon_build_t;
enum { TENON_BUILD_FRESH = 1 };                                                  /* flags: the cache is not used */
enum { TENON_BUILD_COMMAND = 0, TENON_BUILD_WORDS = 1, TENON_BUILD_REUSED = 2 }; /* what is said */
/* Compiles and links sources to a library of operators, `path`, with the compilers of CC, CXX and NVCC, else cc, c++ and
 * nvcc.  What was made from the same sources, headers, options and compilers is taken from the cache (TENON_CACHE). Errors:
 * UNAVAILABLE without a compiler, INVALID with the compiler's words; what was at `path` is then still there. */
TENON_API tenon_status_t tenon_library_build(const tenon_build_t *build, const char *path);
/* Builds and loads it, without a file of its own; flags as of tenon_library_load. */
TENON_API tenon_status_t tenon_library_load_build(const tenon_build_t *build, uint32_t flags,
                                                  tenon_library_t **out_library);
/* The same of one source, without options: tenon_library_load_source("gelu.c", 0, &library). */
TENON_API tenon_status_t tenon_library_load_source(const char *path, uint32_t flags, tenon_library_t **out_library);

/* ---- operators -------------------------------------------------------------------------------------------------- */

/* Looks an operator up by "ns::name" or "ns::name.overload".  The handle stays valid while its library is loaded.  Not
 * found: the message says which libraries are loaded and the nearest names. */
TENON_API tenon_status_t tenon_op_find(const char *name, const tenon_op_t **out_op);
/* All operators, sorted by name; the caller frees the array by tenon_ops_release. */
TENON_API tenon_status_t tenon_ops_list(const tenon_op_t *const **out_ops, int32_t *out_count);
TENON_API void tenon_ops_release(const tenon_op_t *const *ops);

typedef struct tenon_op_info_t { /* texts live as long as the operator; NULL: not stated */
  uint32_t size, traits;
  const char *name, *schema, *doc, *types, *shapes, *where, *gradient, *batching, *sharding, *reuse;
  const char *library, *library_version, *library_path;
  int64_t version;
  int32_t input_count, attr_count, output_count, kernel_count;
  uint32_t is_stateful;   /* it has a state (TENON_STATE): tenon_bound_t is for it */
  uint32_t has_reference; /* see tenon/check.h */
  const char *samples;
} tenon_op_info_t;
/* `info->size` is the caller's. */
TENON_API void tenon_op_info(const tenon_op_t *op, tenon_op_info_t *info);
enum { TENON_ARGUMENT_INPUT = 0, TENON_ARGUMENT_ATTR = 1, TENON_ARGUMENT_OUTPUT = 2 };
typedef struct tenon_argument_t {
  uint32_t size;
  uint32_t role, kind; /* kind: TENON_KIND_...; of inputs and results TENSOR or TENSORS */
  uint32_t is_optional, is_keyword, is_host, is_written, has_default;
  int32_t index; /* among the inputs, the attributes or the results */
  uint32_t choice_count;
  const char *const *choices;
  const char *name;
  tenon_value_t value; /* default */
  uint32_t place;      /* among all arguments in the schema's order, or among the results */
  uint32_t mark;       /* the letter of its alias mark: arguments and results of one letter share memory; 0: none */
  uint32_t is_scalar;  /* an attribute that takes bool, int or float; its kind is FLOAT */
  int32_t count;       /* of lists: how many the schema states; -1: any */
  int32_t count_attr;  /* of lists of tensors: the int attribute that states how many; -1: none */
  uint32_t is_open;    /* texts "name=value" of arguments that the schema does not name */
} tenon_argument_t;
/* The i-th argument of a role; INVALID past the last. */
TENON_API tenon_status_t tenon_op_argument(const tenon_op_t *op, uint32_t role, int32_t index,
                                           tenon_argument_t *argument);
/* The i-th kernel as text: "cpu avx512 loop f32 -> f32", with `(chosen)` where it is the one in use; NULL past the last.
 * The caller frees it. */
TENON_API char *tenon_op_kernel(const tenon_op_t *op, int32_t index);
/* Calls to try, which tests, measurements and fuzzers take: of the operator's SAMPLES (tenon/check.h), or, where it states none,
 * one that its schema, TYPES and SHAPES alone allow. */
typedef struct tenon_sample_t {
  uint32_t size, index; /* index: of the call in SAMPLES */
  tenon_dtype_t dtype;  /* of the first type variable; no bits: f32 where it is allowed, else another */
  int64_t extent;       /* of every extent that nothing states; 0: small ones, each another */
  uint64_t seed;        /* of the elements: equal ones for equal seeds */
  uint32_t name_count, reserved;
  const char *const *names; /* extents of the texts by name, and what they are */
  const int64_t *extents;
} tenon_sample_t;
/* At least 1. */
TENON_API int32_t tenon_op_sample_count(const tenon_op_t *op);
/* Makes the arguments: out_values has room for all inputs and then all attributes, as tenon_op_call_values takes them.  Tensors
 * are dense, in host memory, and the caller's until tenon_op_sample_release; attributes' texts and lists are the operator's.
 * Errors: RANGE past the last; INVALID for a dtype that TYPES do not allow, and where infer refuses what the schema alone gave;
 * UNIMPLEMENTED for an attribute that nothing is known of: the message then says to add TENON_SAMPLES.  Any thread. */
TENON_API tenon_status_t tenon_op_sample(const tenon_op_t *op, const tenon_sample_t *options,
                                         tenon_value_t *out_values);
TENON_API void tenon_op_sample_release(const tenon_op_t *op, tenon_value_t *values);
/* What its stub goes over: "pointwise", or as REDUCES says "x over axes"; NULL: it has no stub.  See tenon/iterator.h. */
TENON_API const char *tenon_op_stub(const tenon_op_t *op);
typedef struct tenon_stub_slot_t { /* texts live as long as the library that filled it */
  uint32_t size;
  uint32_t is_usable;               /* the processor has the instruction set */
  const char *backend, *capability; /* "npu"; the instruction set of a slot of the CPU, "" for the baseline */
  const char *kernel, *library;
  uint64_t number; /* of the registration */
} tenon_stub_slot_t;
/* The i-th function that fills a slot of the stub, the newest first: a stub or a loop; INVALID past the last. */
TENON_API tenon_status_t tenon_op_stub_slot(const tenon_op_t *op, int32_t index, tenon_stub_slot_t *slot);

/* ---- attributes ------------------------------------------------------------------------------------------------- */

/* The attributes of one operator, by name, with defaults; checked as they are set.  Not for several threads at once until
 * it is complete. */
TENON_API tenon_status_t tenon_attrs_create(const tenon_op_t *op, tenon_attrs_t **out_attrs);
TENON_API void tenon_attrs_release(tenon_attrs_t *attrs);
/* From here on names and values are those of an older version of the operator, as a model of that time has them: its
 * UPGRADE texts say what they are called now; what they drop is taken and ignored, what they set is set.  Called before
 * anything is set.  A version newer than the operator's is taken as that. */
TENON_API tenon_status_t tenon_attrs_upgrade(tenon_attrs_t *attrs, int64_t version);
/* Texts and lists are copied, tensors and graphs retained.  INT is taken for FLOAT, STR for CHOICE, INTS for DIMS.  A name that
 * the schema has not is kept as a text "name=value" where the schema has `**`, an error elsewhere. */
TENON_API tenon_status_t tenon_attrs_set(tenon_attrs_t *attrs, const char *name, const tenon_value_t *value);
TENON_API tenon_status_t tenon_attrs_int(tenon_attrs_t *attrs, const char *name, int64_t value);
TENON_API tenon_status_t tenon_attrs_float(tenon_attrs_t *attrs, const char *name, double value);
TENON_API tenon_status_t tenon_attrs_text(tenon_attrs_t *attrs, const char *name, const char *value);
TENON_API tenon_status_t tenon_attrs_ints(tenon_attrs_t *attrs, const char *name, const int64_t *values,
                                          uint32_t count);
/* The same from a text in the schema's language: "0.5", "[1, 2]", "f32", "tanh". */
TENON_API tenon_status_t tenon_attrs_parse(tenon_attrs_t *attrs, const char *name, const char *text);
/* The array that calls take, in the schema's order.  Fails when a required attribute is missing (all are listed), or when
 * the operator's validate refuses.  It lives as long as `attrs` is not changed. */
TENON_API tenon_status_t tenon_attrs_values(tenon_attrs_t *attrs, const tenon_value_t **out_values);

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

TENON_API const char *tenon_dtype_name(tenon_dtype_t dtype);
TENON_API tenon_status_t tenon_dtype_parse(const char *name, tenon_dtype_t *out_dtype);
/* A dense tensor in host memory, 64-byte aligned; contents undefined, strings empty.  Fails on a negative extent, on
 * overflow, and without memory. */
TENON_API tenon_status_t tenon_tensor_create(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                             tenon_tensor_t **out_tensor);
/* A tensor over memory of the caller, until release(context) is called (any thread; NULL: never).  strides NULL: dense. */
TENON_API tenon_status_t tenon_tensor_borrow(void *data, tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                             const int64_t *strides, tenon_free_fn release, void *context,
                                             tenon_tensor_t **out_tensor);
/* Fills in a view that the caller keeps on its stack; it is never retained or released.  shape and strides (NULL: dense,
 * and then `room_strides` has ndim places to write them) are the caller's and must outlive the view. */
TENON_API tenon_status_t tenon_tensor_view(tenon_tensor_t *view, void *data, tenon_dtype_t dtype, int32_t ndim,
                                           int64_t *shape, int64_t *strides, int64_t *room_strides);
/* What the stored numbers of a quantised tensor stand for (op.h), a view's on the stack too: kernels that say "quantised" look
 * at it, other operators refuse the tensor.  NULL: they stand for themselves.  `detail` and its tensors are the caller's and
 * outlive the tensor's use.  Errors: a kind other than TENON_DETAIL_QUANTISED; a sparse tensor; no scale, or not one for each index of the axis; an axis or a block
 * that the tensor has not. */
TENON_API tenon_status_t tenon_tensor_detail_set(tenon_tensor_t *tensor, const tenon_detail_t *detail);
/* A sparse tensor (docs/sparse.md) of the dtype of its values over dense parts in host memory, which it retains and which are
 * not resized; `detail` is copied, and of it kind, values, indices and indptr (ROW_SPARSE: NULL) are read.  The new tensor's own
 * detail lends the parts.  Parts may be written to while nobody reads them, as memory of other tensors may, as long as indices
 * and indptr stay valid.  Only kernels that say "sparse" take such tensors; core::to_dense and core::to_sparse go between.
 * Errors: a kind that is not sparse; ndim other than 2 (CSR) or below 1; parts that are views on a stack, not dense, of other
 * dtypes or extents than op.h says; a whole of more than 2^62 bytes; and, unless the caller vouches for them by
 * TENON_SPARSE_UNCHECKED, indices that are out of range or not ascending, and an indptr that is not from 0 to n, ascending. */
enum { TENON_SPARSE_UNCHECKED = 1 };
TENON_API tenon_status_t tenon_tensor_create_sparse(const tenon_detail_t *detail, int32_t ndim, const int64_t *shape,
                                                    uint32_t flags, tenon_tensor_t **out_tensor);
/* "csr", "row_sparse", "quantised", "dense" (no detail): a constant text. */
TENON_API const char *tenon_tensor_layout(const tenon_tensor_t *tensor);
/* A list of tensors, as `Tensor[]` arguments take; retains its items. */
TENON_API tenon_status_t tenon_tensor_list(tenon_tensor_t *const *items, int32_t count, tenon_tensor_t **out_tensor);
TENON_API void tenon_tensor_retain(tenon_tensor_t *tensor);
TENON_API void tenon_tensor_release(tenon_tensor_t *tensor);
/* A dense copy; of a sparse tensor one with parts of its own. */
TENON_API tenon_status_t tenon_tensor_copy(const tenon_tensor_t *tensor, tenon_tensor_t **out_tensor);
/* Copies text into element `index` (row-major) of a string tensor that tenon_tensor_create made. */
TENON_API tenon_status_t tenon_tensor_set_string(tenon_tensor_t *tensor, int64_t index, const char *data,
                                                 uint64_t size);
/* Reads .npy (NumPy format 1 to 3), .pb (ONNX TensorProto) and .pgm (a grey picture of 8 bits, P5, as [height, width] u8)
 * files, told by their first bytes; writes .npy.  Types that NumPy lacks (bf16, f8, ...) are written as unsigned integers of
 * their size, strings as NumPy unicode. */
TENON_API tenon_status_t tenon_tensor_load(const char *path, tenon_tensor_t **out_tensor);
TENON_API tenon_status_t tenon_tensor_save(const tenon_tensor_t *tensor, const char *path);
/* DLPack 1.x and the legacy form, both ways, without a copy.  Import takes the struct over: its deleter runs when the last
 * reference is gone.  Export gives a struct whose deleter the consumer calls.  String tensors cannot leave.  Tensors on
 * devices: as tenon_tensor_from_dlpack_on and tenon_tensor_to_dlpack_on without options. */
struct DLManagedTensorVersioned;
struct DLManagedTensor;
TENON_API tenon_status_t tenon_tensor_from_dlpack(struct DLManagedTensorVersioned *managed,
                                                  tenon_tensor_t **out_tensor);
TENON_API tenon_status_t tenon_tensor_to_dlpack(tenon_tensor_t *tensor, struct DLManagedTensorVersioned **out_managed);
TENON_API tenon_status_t tenon_tensor_from_dlpack_legacy(struct DLManagedTensor *managed, tenon_tensor_t **out_tensor);
TENON_API tenon_status_t tenon_tensor_to_dlpack_legacy(tenon_tensor_t *tensor, struct DLManagedTensor **out_managed);

/* ---- calls ------------------------------------------------------------------------------------------------------ */

/* Three entries, one meaning.  `inputs` has an entry for each tensor argument of the schema (NULL: absent), `outputs` one
 * for each result.  attrs NULL: defaults; else from tenon_attrs_values.
 * run: outputs are given and known to fit (an earlier call_into said so): no check, no lock, no allocation.
 * call_into: outputs are given; types and shapes are inferred and checked.  An output NULL is not wanted, if optional.
 * call: outputs that are NULL are inferred and made, unless `wanted` (bit i: results[i]; 0: all) leaves them out; the caller
 * releases them. */
TENON_API tenon_status_t tenon_op_run(const tenon_op_t *op, const tenon_value_t *attrs, tenon_tensor_t *const *inputs,
                                      tenon_tensor_t *const *outputs);
TENON_API tenon_status_t tenon_op_call_into(const tenon_op_t *op, const tenon_value_t *attrs,
                                            tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
TENON_API tenon_status_t tenon_op_call(const tenon_op_t *op, const tenon_value_t *attrs, tenon_tensor_t *const *inputs,
                                       tenon_tensor_t **outputs, uint64_t wanted);
/* As call_into, but results with a bit in `add` (i: results[i]) are added to what outputs[i] holds; others write over it.  An output
 * NULL is not wanted: an optional result is not asked for, another one is made and dropped.  What is added to is dense or of any
 * strides, of a dtype that core::add has, and no view, input, list, sparse or quantised tensor.  Inputs may overlap it: they are
 * read as they were.  A kernel that says "accumulates" adds as it goes, and may round otherwise; else all results are made
 * first, and then added by calls of core::add, on any device.  To layers, modes and gradients it always is those calls.
 * Errors: as of call_into; INVALID for such an output, or a bit without one.  After an error what was to be added to is as it
 * was, unless core::add itself fails, or a kernel that accumulates fails while it adds.  Any thread. */
TENON_API tenon_status_t tenon_op_call_add(const tenon_op_t *op, const tenon_value_t *attrs,
                                           tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs, uint64_t add);
/* As tenon_op_call, with one array: a value for each tensor argument (TENON_KIND_TENSOR, or TENON_KIND_TENSORS for a list),
 * then one for each attribute, in the order of the schema.  Of kind NONE, or past `count`: absent, or the default. */
TENON_API tenon_status_t tenon_op_call_values(const tenon_op_t *op, const tenon_value_t *values, uint32_t count,
                                              tenon_tensor_t **outputs, uint64_t wanted);
/* An operator with attributes and a state of its own: the hot form of operators that have state, or no tensor arguments, in
 * eager use.  attrs (from tenon_attrs_values; NULL: defaults) are copied.  Calls without it look the state of their
 * attributes up, and share it.  Several threads may call at once, as far as the operator's state allows ("serial" kernels
 * take turns).  It holds the operator's library, or what a program defined. */
typedef struct tenon_bound_t tenon_bound_t;
TENON_API tenon_status_t tenon_bound_create(const tenon_op_t *op, const tenon_value_t *attrs,
                                            tenon_bound_t **out_bound);
/* The same for calls on one device: where no tensor says where a call runs, it is there, whatever the thread's default
 * device, and a device attribute of the operator is that one; tensors elsewhere are an error. */
TENON_API tenon_status_t tenon_bound_create_on(tenon_device_t device, const tenon_op_t *op, const tenon_value_t *attrs,
                                               tenon_bound_t **out_bound);
TENON_API void tenon_bound_release(tenon_bound_t *bound);
/* As tenon_op_run, tenon_op_call_into, tenon_op_call_add and tenon_op_call. */
TENON_API tenon_status_t tenon_bound_run(tenon_bound_t *bound, tenon_tensor_t *const *inputs,
                                         tenon_tensor_t *const *outputs);
TENON_API tenon_status_t tenon_bound_call_into(tenon_bound_t *bound, tenon_tensor_t *const *inputs,
                                               tenon_tensor_t *const *outputs);
TENON_API tenon_status_t tenon_bound_call_add(tenon_bound_t *bound, tenon_tensor_t *const *inputs,
                                              tenon_tensor_t *const *outputs, uint64_t add);
TENON_API tenon_status_t tenon_bound_call(tenon_bound_t *bound, tenon_tensor_t *const *inputs, tenon_tensor_t **outputs,
                                          uint64_t wanted);

/* ---- devices ---------------------------------------------------------------------------------------------------- */

/* Devices that a plug-in serves (tenon/device.h): those of the tree by their name ("sim", "opencl", ...), others when their
 * library is loaded.  tenon_device_find opens them.  What a call enqueues on a device goes to the stream that its thread uses
 * there, in order; where another stream has used the same tensors, the host lets it wait.  What the host reads (copies to
 * the CPU, known values, item by item) is waited for. */

/* A report on all plug-ins: what they found, properties and memory of each ordinal, and why others do not work.  The caller
 * frees it. */
TENON_API tenon_status_t tenon_devices(char **out_text);
/* How many ordinals the backend has; its plug-in looks for them now. */
TENON_API tenon_status_t tenon_device_count(const char *backend, int32_t *out_count);
/* Waits until all streams are done.  Gives the first failure of any, with the operator's name. */
TENON_API tenon_status_t tenon_device_synchronize(tenon_device_t device);

/* A stream of a device: a reference.  What is enqueued is still done when the last is given back. */
typedef struct tenon_stream_t tenon_stream_t;
TENON_API tenon_status_t tenon_stream_create(tenon_device_t device, tenon_stream_t **out_stream);
/* A stream of somebody else's, by its native handle (a cl_command_queue, a CUstream): it must live until the last reference
 * is given back, which waits for what is in it.  After that the handle may be another stream's, which is imported anew and is
 * not taken for this one; memory that was in order with it stays usable.  Calls on a stream that was given back fail. */
TENON_API tenon_status_t tenon_stream_import(tenon_device_t device, void *native, tenon_stream_t **out_stream);
TENON_API void tenon_stream_retain(tenon_stream_t *stream);
TENON_API void tenon_stream_release(tenon_stream_t *stream);
/* Calls of this thread on the device use that stream from here on (NULL: the device's first), which must outlive that;
 * out_before (may be NULL) gets what they used. */
TENON_API tenon_status_t tenon_stream_use(tenon_device_t device, tenon_stream_t *stream, tenon_stream_t **out_before);
/* Lends the stream that calls of this thread use. */
TENON_API tenon_status_t tenon_stream_of(tenon_device_t device, tenon_stream_t **out_stream);
/* Waits for what is enqueued; a failure of it names the operator, and stays. */
TENON_API tenon_status_t tenon_stream_synchronize(tenon_stream_t *stream);
/* OK: all is done; UNAVAILABLE: not yet; else its failure. */
TENON_API tenon_status_t tenon_stream_query(tenon_stream_t *stream);
/* What is enqueued in `stream` from here on comes after what is in `of` now; any two streams. */
TENON_API tenon_status_t tenon_stream_wait(tenon_stream_t *stream, tenon_stream_t *of);

/* Memory of a device, which the host caches: what tensors let go serves the next ones. */
typedef struct tenon_memory_stats_t {
  uint32_t size, segments;   /* size is the caller's; segments: allocations of the device that are held */
  uint64_t live, live_bytes; /* tensors' memory, in bytes asked for */
  uint64_t live_bytes_peak;
  uint64_t reserved, reserved_peak; /* bytes held of the device */
  uint64_t allocations, frees;      /* by tensors */
  uint64_t device_allocations,
      flushes; /* of the device; times that all that is cached was given back for want of memory */
  uint64_t failures;
  uint64_t pinned, pinned_allocations; /* bytes held of host memory for copies; times that it was asked for */
} tenon_memory_stats_t;
TENON_API tenon_status_t tenon_memory_stats(tenon_device_t device, tenon_memory_stats_t *stats);
/* Gives what is cached and not in use back to the device. */
TENON_API tenon_status_t tenon_memory_trim(tenon_device_t device);
/* The device is asked for no more than that, in all; 0: no limit. */
TENON_API tenon_status_t tenon_memory_limit_set(tenon_device_t device, uint64_t bytes);

/* Host memory that copies of the device go to and from directly (ordinary memory where the device has none such), as a dense
 * tensor of the host, contents undefined.  It is cached as the device's own memory is, and serves again when the host has seen
 * that all copies are done. */
TENON_API tenon_status_t tenon_tensor_create_pinned(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                                                    const int64_t *shape, tenon_tensor_t **out_tensor);
/* Copies the elements into a tensor of the same dtype and shape, on the stream that this thread uses of `to`'s device (of
 * `from`'s, if `to` is the host's), and does not wait; between two of the host's it is done at once.  Until the stream has passed it (tenon_stream_synchronize, or a query
 * that says so) the host does not write to `from`, nor read or write `to`, where they are its own.  Their memory need not be
 * held so long: what a tensor owns, or has a release function for, is kept, and given up when the stream is next seen to have
 * passed; a view on the stack, and memory without a release function, is the caller's to keep.  Copies of different streams
 * to and from one pinned tensor are ordered as work on devices is; to and from other host memory they are not.  Failures
 * that come later are the stream's.  What is not dense on both sides, and devices without a plug-in, may be waited for; so
 * are all parts of 4 MiB but the last where two plug-ins copy by way of the host.
 * Errors: another dtype or shape; `to` is read-only; out of memory. */
TENON_API tenon_status_t tenon_tensor_copy_async(const tenon_tensor_t *from, tenon_tensor_t *to);

/* Memory of somebody else's, a framework's say, as a tensor, without a copy. */
enum { TENON_EXTERNAL_READ_ONLY = 1 }; /* calls that would write to it fail, but for run with results that are given */
typedef struct tenon_external_t {
  uint32_t size, flags; /* TENON_EXTERNAL_... */
  tenon_device_t device;
  void *data;           /* an address; where memory has none, the native object (a cl_mem) */
  uint64_t byte_offset; /* from there to the first element */
  tenon_dtype_t dtype;
  int32_t ndim;
  const int64_t *shape, *strides; /* in elements; strides NULL: dense.  Copied */
  tenon_stream_t *stream;         /* the owner's (tenon_stream_import); NULL: see below */
  tenon_free_fn release;          /* release(context), once, on any thread, with nothing held; NULL: never */
  void *context;
} tenon_external_t;
/* Work of the tensor on other streams comes after what is in `stream` now: the owner's writing, too.  What the owner enqueues
 * there later is not known; tenon_stream_wait says it.  NULL: the memory is ready, or is when the stream that this thread uses
 * comes here.  release is called after the last reference is gone: with `stream`, when that has been made to come after all
 * work on the memory, so that what the owner enqueues there next may use it anew, and at once if it is freed in the stream's
 * order (where the stream cannot follow, since it ended, failed, or its device has no events, the host waits first); without,
 * when the host has seen that all work on it is done: at the next allocation, synchronisation or tenon_memory_trim of the
 * device.  When the device stops, it waits.  Errors, and then the memory is the caller's: the device has no plug-in that takes
 * it; a stream of another device; memory that the plug-in says is none of its own, of another context, or too small; a first
 * element that is not aligned to its numbers; strides that reach before the memory, or too far; a dtype that the device does
 * not store. */
TENON_API tenon_status_t tenon_tensor_import(const tenon_external_t *external, tenon_tensor_t **out_tensor);

/* The context of memory that tenon_tensor_import was given with that release function, of a view in it too; NULL: the tensor's
 * memory is another's.  Lent, as long as the tensor is. */
TENON_API void *tenon_tensor_context(const tenon_tensor_t *tensor, tenon_free_fn release);

/* Another's allocator for tensors that calls make on devices with a plug-in: results, temporaries, copies. */
typedef struct tenon_allocator_t {
  /* Gives a dense tensor of that device (tenon_tensor_import), or leaves *out_tensor NULL: the host makes it.  Not asked for
   * tensors without elements.  A failure says why in *out_why, which lasts until the thread's next call.  Called on any thread
   * that works for the one that set it, with nothing held. */
  tenon_status_t (*create)(void *state, tenon_device_t device, tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                           tenon_tensor_t **out_tensor, const char **out_why);
  void *state;
} tenon_allocator_t;
/* Calls of this thread use it from here on; it must stay as long.  NULL: the host's own.  Gives what they used.  Calls fail
 * when what it gives does not fit, is read-only, or is not aligned to 64 bytes. */
TENON_API const tenon_allocator_t *tenon_allocator_use(const tenon_allocator_t *allocator);

/* DLPack for devices.  `stream` is the consumer's, as `__dlpack__(stream=...)` of the array API standard has it: for CUDA
 * tenon_stream_import of the number (None is 1), for others of the native stream. */
enum {
  TENON_DLPACK_UNORDERED = 1, /* export: no order at all is made (stream=-1) */
  TENON_DLPACK_COPY = 2       /* export: of a copy (copy=True) */
};
typedef struct tenon_dlpack_t { /* options */
  uint32_t size, flags;         /* TENON_DLPACK_... */
  tenon_device_t
      device; /* import: where it must be; type 0: as the tensor says.  Type 12 of others must be said here */
  tenon_stream_t *stream; /* or NULL */
} tenon_dlpack_t;
/* Import: the producer made `stream` come after its work; the deleter is called as release of tenon_tensor_import is.
 * Read-only tensors stay so.  The device must have been opened (tenon_device_find).  options NULL: defaults. */
TENON_API tenon_status_t tenon_tensor_from_dlpack_on(struct DLManagedTensorVersioned *managed,
                                                     const tenon_dlpack_t *options, tenon_tensor_t **out_tensor);
TENON_API tenon_status_t tenon_tensor_from_dlpack_legacy_on(struct DLManagedTensor *managed,
                                                            const tenon_dlpack_t *options, tenon_tensor_t **out_tensor);
/* Export: the consumer's `stream` comes after all work on the memory so far, without the host waiting, and is held until the
 * deleter is called: memory is used anew after what the consumer has in it then.  Without a stream the host waits for the work,
 * and the consumer's must be done when it calls the deleter.  device.type and id are DLPack's (2 CUDA, 4 OpenCL, 12 and a
 * number of this process for others); data is an address and byte_offset 0, or a native object and the offset in it.  A
 * read-only tensor says so, and does not leave by the legacy form, which cannot.  Errors: the stream is of another device; a
 * list, text, or quantised tensor, or a view on the stack. */
TENON_API tenon_status_t tenon_tensor_to_dlpack_on(tenon_tensor_t *tensor, const tenon_dlpack_t *options,
                                                   struct DLManagedTensorVersioned **out_managed);
TENON_API tenon_status_t tenon_tensor_to_dlpack_legacy_on(tenon_tensor_t *tensor, const tenon_dlpack_t *options,
                                                          struct DLManagedTensor **out_managed);

/* ---- random numbers --------------------------------------------------------------------------------------------- */

/* Random operators (those with the trait TENON_RANDOM) draw from a generator: a seed and a position in its stream, whose
 * number i is tenon_random(seed, i).  A call takes as many numbers as its infer says, from the position on, and which element
 * uses which depends on its place alone: the same seed and position give the same numbers on every device, with every number
 * of threads.  Each device has a generator, at first of seed 0; calls draw from their device's unless the thread has another.
 * Any thread may draw from any generator, without a lock; of two at once each gets numbers of its own, in whatever order. */
typedef struct tenon_generator_t tenon_generator_t;

/* This thread's calls draw from a generator of its own from here on, with that seed, from position 0. */
TENON_API void tenon_random_seed(uint64_t seed);
/* This thread's calls draw from that one, which must outlive its use; NULL: from their device's.  Gives what they drew from
 * before (NULL: their device's). */
TENON_API tenon_generator_t *tenon_generator_use(tenon_generator_t *generator);
/* Lends the generator of a device. */
TENON_API tenon_status_t tenon_generator_of(tenon_device_t device, tenon_generator_t **out_generator);
/* One of the program's own, which it releases. */
TENON_API tenon_status_t tenon_generator_create(uint64_t seed, tenon_generator_t **out_generator);
TENON_API void tenon_generator_release(tenon_generator_t *generator);
/* The position becomes 0.  Calls of other threads meanwhile draw by the old seed or the new one. */
TENON_API void tenon_generator_seed_set(tenon_generator_t *generator, uint64_t seed);
TENON_API uint64_t tenon_generator_seed_get(const tenon_generator_t *generator);
/* A seed of the system's making, which out_seed gets (NULL: not wanted). */
TENON_API tenon_status_t tenon_generator_seed_system(tenon_generator_t *generator, uint64_t *out_seed);
TENON_API void tenon_generator_offset_set(tenon_generator_t *generator, uint64_t offset);
TENON_API uint64_t tenon_generator_offset_get(const tenon_generator_t *generator);
/* Takes `count` numbers for the program itself and gives the position of the first. */
TENON_API uint64_t tenon_generator_take(tenon_generator_t *generator, uint64_t count);
/* Seed and position as bytes, the same on every machine, and back.  `size` is TENON_GENERATOR_STATE.  Errors of restore, and
 * then the generator is as it was: no such state, one of a newer version, one cut off, one that was changed. */
enum { TENON_GENERATOR_STATE = 40 };
TENON_API tenon_status_t tenon_generator_save(const tenon_generator_t *generator, void *out_state, uint64_t size);
TENON_API tenon_status_t tenon_generator_restore(tenon_generator_t *generator, const void *state, uint64_t size);

/* ---- dispatch --------------------------------------------------------------------------------------------------- */

/* A call is led to a kernel by keys: the backends of its tensors, and layers above them, the highest first
 * (docs/dispatch.md).  Keys are named: "cpu", "meta", the name of any backend; the layers "layout", "view", "autograd",
 * "autocast", "functional"; and places for layers of your own below and above some of them. */

/* Passes a call on to what is below: the next layer or mode, in the end the kernel.  Only for functions that were called as
 * a layer, a mode, a kernel or a fallback, with the call that they were given.  What they changed in the call (inputs,
 * outputs, attrs: arrays of their own) is what the next sees, and must be put back before they return. */
TENON_API tenon_status_t tenon_call_next(tenon_call_t *call);
/* "ns::name" of the operator that is called. */
TENON_API const char *tenon_call_name(const tenon_call_t *call);

/* A layer of yours: it sees the calls of all operators in threads that switched it on, answers them or passes them on.
 * `anchor` is "below view", "below autograd", "above autograd", "above autocast" or "above functional"; layers of one anchor
 * stand in the order of their names, the first one above the others, whatever the order in which they are made.  At most 64
 * at a time.  run finds `context` in call->context. */
typedef struct tenon_layer_t tenon_layer_t;
TENON_API tenon_status_t tenon_layer_create(const char *name, const char *anchor, tenon_run_fn run, void *context,
                                            tenon_layer_t **out_layer);
/* It must be on in no thread any more. */
TENON_API void tenon_layer_release(tenon_layer_t *layer);
/* For calls of this thread, and of threads that work for it. */
TENON_API void tenon_layer_enable(const tenon_layer_t *layer, int32_t is_on);
TENON_API int32_t tenon_layer_is_enabled(const tenon_layer_t *layer);

/* A mode sees each call of this thread, above all layers; calls that it makes itself are seen by the modes below it only.
 * Pop in reverse order of push. */
TENON_API tenon_status_t tenon_mode_push(tenon_run_fn run, void *context);
TENON_API void tenon_mode_pop(void);

/* Operators and kernels that a program adds, without a library: functions with a context, under a handle that undoes it.
 * The functions find `context` in call->context.  destroy(context) is called once: at shutdown, or, if a bound call, a
 * graph or an executable still holds an operator then, with the last of those; before that calls may be on their way to
 * it.  When adding fails it is not called.  Several threads may add and undo at once, while others call. */
typedef struct tenon_registration_t tenon_registration_t;
/* Items of op.h up to one with tag 0 (TENON_TAG_END): operators, with "ns::name" in the schema, and all that may follow one;
 * kernels for others (TENON_EXTEND).  Everything is checked as a library's is, and added or not added as a whole.  Items
 * and texts are copied, groups (TENON_GROUP) must stay.  flags are about kernels for others, as below.
 *   static const tenon_item_t items[] = {TENON_OP("demo::twice(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"),
 *                                                 TENON_SHAPES("out = x"), TENON_KERNEL("cpu", twice)), {0}};
 * Undone, the name is free again, and kernels that others added wait for an operator of that name; handles to the operator
 * (tenon_op_t) serve until shutdown, with its own kernels. */
TENON_API tenon_status_t tenon_op_add(const tenon_item_t *items, void *context, tenon_free_fn destroy, uint32_t flags,
                                      tenon_registration_t **out_registration);
/* Kernels that a program adds.  `where` is as in TENON_KERNEL: "npu f32", "autograd", "npu fallthrough" (run is NULL then).
 * The operator may come later: until then the kernel waits, see tenon_dangling.  An error unless flags say so: a kernel of
 * the same backend, dtypes and instruction set is there already. */
enum {
  TENON_OVERRIDE = 1, /* take the place of such a kernel, which must be there */
  TENON_PREFERRED = 2 /* of fallbacks: before decomposing */
};
TENON_API tenon_status_t tenon_kernel_add(const char *op, const char *where, tenon_run_fn run, void *context,
                                          tenon_free_fn destroy, uint32_t flags,
                                          tenon_registration_t **out_registration);
/* The same for the stub of a pointwise operator or a reduction (tenon/iterator.h): `where` is as in TENON_STUB.  The host's
 * parent kernel is registered, which calls it with an iterator. */
TENON_API tenon_status_t tenon_stub_add(const char *op, const char *where, tenon_stub_fn stub, void *context,
                                        tenon_free_fn destroy, uint32_t flags, tenon_registration_t **out_registration);
/* What runs where an operator has nothing for a backend, for one of the layers view, autograd, autocast, functional, or for
 * the gradients of one backend ("autograd npu").  There is one at a time. */
TENON_API tenon_status_t tenon_fallback_add(const char *key, tenon_run_fn run, void *context, tenon_free_fn destroy,
                                            uint32_t flags, tenon_registration_t **out_registration);
/* The fallback to the CPU, for tenon_fallback_add or, of one operator, tenon_kernel_add: copies the arguments, runs there,
 * copies what was written back.  Each use is counted by operator. */
TENON_API tenon_status_t tenon_fallback_cpu(tenon_call_t *call);
/* Makes each fallback to the CPU an error (1), or not (0); so does the environment variable TENON_STRICT=1. */
TENON_API void tenon_strict_set(int32_t is_on);
/* A line for each operator that fell back: calls, bytes copied; and one that counts the slow look-ups of backends whose
 * names came after 39 others, if there were any.  The caller frees it. */
TENON_API tenon_status_t tenon_fallback_report(char **out_text);
/* Host tensors beside those of a device, among the arguments of one call: ones without axes come along, to the kernel as they
 * are if it says `scalars`, else copied; others are an error (the default), or each call copies them there, and back what
 * it wrote.  Tensors on two devices are an error; what is @host is read in host memory and does not count.  What one call
 * says goes before what its operator says, and that before the thread.  Each copy is counted by operator. */
enum { TENON_MIXED_ERROR = 1, TENON_MIXED_MOVE = 2 };
/* For calls of this thread, and of threads that work for it; 0: as at the start. */
TENON_API tenon_status_t tenon_mixed_set(int32_t policy);
/* For calls of this operator by all threads; 0: as the thread says. */
TENON_API tenon_status_t tenon_op_mixed_set(const tenon_op_t *op, int32_t policy);
/* tenon_op_call with a policy of its own, for it and what it calls. */
TENON_API tenon_status_t tenon_op_call_mixed(const tenon_op_t *op, const tenon_value_t *attrs,
                                             tenon_tensor_t *const *inputs, tenon_tensor_t **outputs, uint64_t wanted,
                                             int32_t policy);
/* A line for each operator whose arguments were moved: copies, bytes; the caller frees it. */
TENON_API tenon_status_t tenon_move_report(char **out_text);
/* Undoes it: what was there before is there again.  Other threads may be calling, and context stays (see above).  A second
 * time does nothing.  Not after shutdown. */
TENON_API void tenon_registration_release(tenon_registration_t *registration);
/* What stands in the table of an operator for a key: "npu", "meta", "autograd npu", "view", ... */
typedef struct tenon_slot_info_t { /* texts live as long as the operator and the kernel's library; NULL: no kernel */
  uint32_t size, is_missing;
  const char *rule; /* "kernel", "composite explicit", "composite", "autograd", "gradient", "fallback", "fallthrough",
                       "view", "infer", "layer", "missing" */
  const char *kernel, *library; /* the first of several by dtype */
  uint64_t number;              /* of its registration, counted over the process; 0: none */
  const char *library_path;     /* "" when linked in */
  tenon_any_fn function;        /* of the kernel or the fallback, see tenon_function_source; NULL: none of its own */
} tenon_slot_info_t;
TENON_API tenon_status_t tenon_op_slot(const tenon_op_t *op, const char *key, tenon_slot_info_t *info);
/* The whole table: a line for each backend that was named and for each layer that does something, with the rule, and for
 * each kernel its library, the number of its registration, the dtypes that it is the first choice for, and where it was
 * written; the caller frees it. */
TENON_API tenon_status_t tenon_op_table(const tenon_op_t *op, char **out_text);
/* "/path/of/file.c:12": where a function was written, of any library of the process that has debug information (-g1).
 * NOT_FOUND: nothing tells, or libdw.so.1 (elfutils) is not installed.  The caller frees it. */
TENON_API tenon_status_t tenon_function_source(tenon_any_fn function, char **out_text);
/* All that is registered for an operator: its library, its kernels, the newest first, whether or not the table took them,
 * the keys that it is not interested in.  The caller frees it. */
TENON_API tenon_status_t tenon_op_dump(const tenon_op_t *op, char **out_text);
/* A line for each kernel that is registered for just this key (a backend, a layer, "autograd npu", an alias), of all
 * operators; the caller frees it. */
TENON_API tenon_status_t tenon_registrations(const char *key, char **out_text);
/* Is a kernel registered for just this key, an alias too, that this processor can run?  NULL: for any key. */
TENON_API int32_t tenon_op_has_kernel(const tenon_op_t *op, const char *key);
/* Would a call with this key find something to run, by whatever rule? */
TENON_API int32_t tenon_op_has_computed_kernel(const tenon_op_t *op, const char *key);
/* Is the key passed by? */
TENON_API int32_t tenon_op_is_fallthrough(const tenon_op_t *op, const char *key);
/* Computes the table of an operator anew.  INTERNAL: it was not what the registrations say; the message lists what was
 * wrong, which is right afterwards. */
TENON_API tenon_status_t tenon_op_check(const tenon_op_t *op);
/* Names of keys from the lowest to the highest precedence, positions 0 to 63; NULL: there is none at this position. */
TENON_API const char *tenon_key_name(int32_t position);
/* The position of a key by name (of "autograd npu" that of autograd; -1: an alias).  NOT_FOUND: no such key. */
TENON_API tenon_status_t tenon_key_parse(const char *name, int32_t *out_position);
/* The backend of a device; NULL: none. */
TENON_API const char *tenon_key_for_device(tenon_device_t device);
/* Does the name stand for several keys: "composite" (backends and their gradients), "composite_explicit" (backends),
 * "autograd" (gradients of every backend)? */
TENON_API int32_t tenon_key_is_alias(const char *name);
/* Is a key one of those that an alias stands for?  A name that is no alias stands for itself. */
TENON_API int32_t tenon_key_in_alias(const char *name, const char *alias);
/* Names of backends in the order in which they were first named: "cpu", "meta", ...; NULL past the last. */
TENON_API const char *tenon_backend_name(int32_t index);
/* The device of a backend, which is named hereby; ordinal 0 to 255. */
TENON_API tenon_status_t tenon_device_find(const char *backend, int32_t ordinal, tenon_device_t *out_device);
/* Does it have what a device must bring (kernels of core::allocate and core::copy)?  The message lists what it lacks. */
TENON_API tenon_status_t tenon_backend_check(const char *backend);
/* Where calls of this thread without tensor arguments run, unless a device attribute says so; at first the CPU. */
TENON_API tenon_status_t tenon_device_default_set(tenon_device_t device);
/* A dense tensor in memory of a device, contents undefined; by the backend's kernel of core::allocate. */
TENON_API tenon_status_t tenon_tensor_create_on(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                                                const int64_t *shape, tenon_tensor_t **out_tensor);
/* A dense copy on a device (or the CPU) of a tensor that is anywhere; by the backends' kernels of core::copy. */
TENON_API tenon_status_t tenon_tensor_copy_to(const tenon_tensor_t *tensor, tenon_device_t device,
                                              tenon_tensor_t **out_tensor);
/* A tensor over memory of a device: as tenon_tensor_borrow, and where the device has a plug-in as tenon_tensor_import
 * without a stream. */
TENON_API tenon_status_t tenon_tensor_borrow_on(tenon_device_t device, void *data, tenon_dtype_t dtype, int32_t ndim,
                                                const int64_t *shape, const int64_t *strides, tenon_free_fn release,
                                                void *context, tenon_tensor_t **out_tensor);
/* "{npu, layout}": the keys of a tensor, or of this thread (NULL); the caller frees it. */
TENON_API tenon_status_t tenon_keys_of(const tenon_tensor_t *tensor, char **out_text);
/* The sets that this thread includes in and excludes from those of its calls' arguments; either may be NULL; the caller
 * frees them. */
TENON_API tenon_status_t tenon_thread_keys(char **out_included, char **out_excluded);
/* Keys that calls of this thread have, or have not, whatever their arguments; exclusion beats inclusion. */
TENON_API tenon_status_t tenon_key_include(const char *key, int32_t is_on);
TENON_API tenon_status_t tenon_key_exclude(const char *key, int32_t is_on);
/* Calls of this thread on a backend choose their precision (docs/dispatch.md).  Operators with "autocast lower" in the text of
 * a kernel run in `dtype`, f16 or bf16; those with "autocast f32" in that; of others, inputs that must have one dtype get the
 * widest of theirs.  f64, integers and calls whose results are given are left alone.  No bits: off. */
TENON_API tenon_status_t tenon_autocast_set(const char *backend, tenon_dtype_t dtype);
TENON_API tenon_dtype_t tenon_autocast_get(const char *backend); /* no bits: off */
/* A line for each operator that kernels wait for, and why; the caller frees it. */
TENON_API tenon_status_t tenon_dangling(char **out_text);
/* Prints calls on stderr, nested: the operator, its keys, the kernel and why it, each step further down, and where the key
 * of an operator without tensor arguments is from.  "dispatch", "args" and "time" with commas between; NULL: off, and then it
 * costs nothing.  Running threads show their next call.  "file=PATH" as the last word writes slices to that file instead, as
 * Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open it: a track for each thread; the file is valid JSON after
 * each event, also when the process ends without a word; what a child of fork does is not in it.  DENIED when the file
 * cannot be made; when it cannot be written later that is said on stderr and the trace ends.  At the start the environment
 * variable TENON_TRACE says it. */
TENON_API tenon_status_t tenon_trace_set(const char *what);
/* Says on stderr for each step of a call which kernel, or what else, was taken and why each other candidate was not: once
 * for each operator and reason, or each time; 0: off, and then it costs nothing.  At the start TENON_EXPLAIN=1, or =all. */
enum { TENON_EXPLAIN_ONCE = 1, TENON_EXPLAIN_ALL = 2 };
TENON_API tenon_status_t tenon_explain_set(int32_t how);
/* The same as a text, for calls with a key ("npu", "autograd npu") whose deciding argument has that dtype; bits 0: for all
 * dtypes.  The caller frees it. */
TENON_API tenon_status_t tenon_op_explain(const tenon_op_t *op, const char *key, tenon_dtype_t dtype, char **out_text);

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

/* What the results of a call would be, without data: for tracers and compilers of others, whose tensors have none.  Extents
 * are numbers or symbols of a table, which one thread uses at a time. */
typedef struct tenon_shapes_t tenon_shapes_t;
TENON_API tenon_status_t tenon_shapes_create(tenon_shapes_t **out_shapes);
TENON_API void tenon_shapes_release(tenon_shapes_t *shapes);
/* A fresh symbol: an extent that is at least 0. */
TENON_API tenon_status_t tenon_shapes_symbol(tenon_shapes_t *shapes, tenon_dim_t *out_dim);
/* inputs: one for each tensor argument (NULL: absent), with size, dtype, ndim, dims, of lists count and items, of values that
 * are known `value`.  attrs and wanted as for calls; DIM attributes may be symbols.  out_results[o] (NULL: an optional result that
 * nobody wants) lies in the table; of lists with its items.  Where a dtype is not known (no bits) one that the schema allows is
 * taken, and of the results only shapes count.  What calls of one table state of their symbols is known in the
 * next: tenon_shapes_part gives what a symbol is known to be. */
TENON_API tenon_status_t tenon_shapes_infer(tenon_shapes_t *shapes, const tenon_op_t *op, const tenon_value_t *attrs,
                                            tenon_meta_t *const *inputs, uint64_t wanted,
                                            const tenon_meta_t *const **out_results);
/* The dtypes of the results alone, for frameworks that infer them apart from shapes.  Of inputs dtype, count and items are read; a
 * dtype that is not known (no bits) is filled in where the others or the schema tell it.  out_dtypes has one for each result, of
 * lists that of their items; no bits: it follows from what is not known yet, or from shapes. */
TENON_API tenon_status_t tenon_types_infer(const tenon_op_t *op, const tenon_value_t *attrs,
                                           tenon_meta_t *const *inputs, tenon_dtype_t *out_dtypes);
/* How an extent is made, one step: a number; a symbol of tenon_shapes_symbol; an operation on two others; or FOUND, what only
 * run knows: at most a (-1: no bound), at least b. */
enum { TENON_PART_NUMBER = 1, TENON_PART_SYMBOL = 2, TENON_PART_OPERATION = 3, TENON_PART_FOUND = 4 };
typedef struct tenon_part_t {
  uint32_t size, kind, operation, reserved; /* operation: TENON_DIM_... */
  tenon_dim_t a, b;                         /* NUMBER, SYMBOL: a is it, as it is known now */
} tenon_part_t;
TENON_API tenon_status_t tenon_shapes_part(tenon_shapes_t *shapes, tenon_dim_t dim, tenon_part_t *part);

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* Calls whose inputs require a gradient, or were made of such, are recorded; backward goes back through what was recorded
 * (docs/autograd.md).  Calls without such inputs pay nothing.  A recorded history belongs to its tensors: it goes with the
 * last of them.  Different histories may be gone back through by several threads at once; one history by one at a time,
 * unless all keep it.  The gradient of a tensor has its dtype and shape. */

/* The tensor (one of the host's, of a float dtype, not a list) becomes a leaf: gradients accumulate at it.  is_on 0: it is
 * one no more.  Errors: made in inference mode, or made of other tensors that require one (detach it first). */
TENON_API tenon_status_t tenon_tensor_require_grad(tenon_tensor_t *tensor, int32_t is_on);
/* Is it a leaf, or made of leaves by calls that were recorded? */
TENON_API int32_t tenon_tensor_requires_grad(const tenon_tensor_t *tensor);
TENON_API int32_t tenon_tensor_is_leaf(const tenon_tensor_t *tensor); /* nothing recorded made it */
/* Lends what backward accumulated, until it is set anew or backward adds to it; NULL: nothing. */
TENON_API tenon_tensor_t *tenon_tensor_grad(const tenon_tensor_t *tensor);
/* Retains `grad` (same dtype and shape) in its place; NULL: none, as before the first backward. */
TENON_API tenon_status_t tenon_tensor_grad_set(tenon_tensor_t *tensor, tenon_tensor_t *grad);
/* Backward keeps the gradient of this tensor too, which is no leaf, for tenon_tensor_grad. */
TENON_API tenon_status_t tenon_tensor_retain_grad(tenon_tensor_t *tensor);
/* The same memory without history. */
TENON_API tenon_status_t tenon_tensor_detach(tenon_tensor_t *tensor, tenon_tensor_t **out_tensor);
/* How often calls wrote to its memory.  Operators that state it, and results that are given to call_into, are counted; run
 * into memory that is given, and the program's own writing, are not. */
TENON_API uint64_t tenon_tensor_version(const tenon_tensor_t *tensor);

/* Called with the gradient of a tensor when backward has all of it, before it goes on; *out_grad (NULL before): another
 * one in its place, a reference that is given over.  Hooks of a tensor are called in the order in which they were added. */
typedef tenon_status_t (*tenon_hook_fn)(void *context, tenon_tensor_t *grad, tenon_tensor_t **out_grad);
typedef struct tenon_hook_t tenon_hook_t;
/* The hook lives with the tensor's history; out_hook NULL: it is never taken off.  destroy(context): when it is gone. */
TENON_API tenon_status_t tenon_tensor_hook(tenon_tensor_t *tensor, tenon_hook_fn function, void *context,
                                           tenon_free_fn destroy, tenon_hook_t **out_hook);
/* The same for a leaf, after its gradient has been added to what was there: `grad` is the sum, and *out_grad takes its
 * place.  The hook may call tenon_tensor_grad_set: an update of the weight may happen here. */
TENON_API tenon_status_t tenon_tensor_hook_sum(tenon_tensor_t *tensor, tenon_hook_fn function, void *context,
                                               tenon_free_fn destroy, tenon_hook_t **out_hook);
TENON_API void tenon_hook_remove(tenon_hook_t *hook); /* takes it off, and ends the handle */

/* flags of going back */
enum {
  TENON_GRAD_KEEP = 1,   /* what was saved stays, so that it can be done again */
  TENON_GRAD_CREATE = 2, /* going back is recorded too, so that gradients have gradients; implies KEEP */
  TENON_GRAD_UNUSED = 4  /* of tenon_gradients: an input that outputs do not depend on is no error, it gets NULL */
};
/* From the gradients of `count` outputs (grads NULL, or grads[i] NULL: one, for an output of one element) to those of all
 * leaves that they were made of, where they are added to what is there.  After an error leaves may have got a part, and
 * what was gone through is let go. */
TENON_API tenon_status_t tenon_backward(tenon_tensor_t *const *outputs, tenon_tensor_t *const *grads, int32_t count,
                                        uint32_t flags);
/* The same for just these inputs (leaves or not); nothing accumulates.  out_grads[i] is the caller's. */
TENON_API tenon_status_t tenon_gradients(tenon_tensor_t *const *outputs, tenon_tensor_t *const *grads, int32_t count,
                                         tenon_tensor_t *const *inputs, int32_t input_count, uint32_t flags,
                                         tenon_tensor_t **out_grads);

/* Are calls of this thread recorded?  It gives what it was; on at the start. */
TENON_API int32_t tenon_grad_mode_set(int32_t is_on);
TENON_API int32_t tenon_grad_mode_get(void);
/* Nothing is recorded either, and memory that is made meanwhile can never be used where calls are recorded: that is an
 * error.  It gives what it was. */
TENON_API int32_t tenon_inference_mode_set(int32_t is_on);
TENON_API int32_t tenon_inference_mode_get(void);
/* What a call of an operator without a gradient means: backward that comes to it fails (the default); it says so once on
 * stderr and gives nothing; or such calls are not recorded. */
enum { TENON_GRAD_MISSING_ERROR = 1, TENON_GRAD_MISSING_WARN = 2, TENON_GRAD_MISSING_PASS = 3 };
/* For this thread (policy 0: as the process), or for the process. */
TENON_API tenon_status_t tenon_grad_missing_set(int32_t policy, int32_t is_process);
TENON_API int32_t tenon_grad_missing_get(void);
/* The same where others are not asked: for tenon_fallback_add("autograd", ...), of one backend ("autograd npu"), or of one
 * operator, tenon_kernel_add(op, "autograd", ...). */
TENON_API tenon_status_t tenon_grad_missing_error(tenon_call_t *call);
TENON_API tenon_status_t tenon_grad_missing_warn(tenon_call_t *call);
TENON_API tenon_status_t tenon_grad_missing_pass(tenon_call_t *call);

/* Functions of a program with a backward of their own. */
typedef struct tenon_function_call_t {
  uint32_t size;
  int32_t input_count, output_count;
  void *context;
  tenon_tensor_t *const *inputs; /* forward; what it calls is not recorded */
  tenon_tensor_t **outputs;      /* forward: set, references that are given over */
  tenon_tensor_t *const *grads;  /* backward: of each output, NULL: none came */
  tenon_tensor_t **out_grads;    /* backward: set for inputs, references that are given over; NULL: none */
  uint64_t needs;                /* bit i: input i wants one (inputs from 64 on: always set with bit 63) */
  void *host;
} tenon_function_call_t;
typedef tenon_status_t (*tenon_function_fn)(tenon_function_call_t *call);
typedef struct tenon_function_t {
  uint32_t size;
  const char *name; /* for messages; copied */
  tenon_function_fn forward, backward;
  void *context;
  tenon_free_fn
      destroy; /* destroy(context) once for each call, also one that fails: when backward cannot come any more */
} tenon_function_t;
/* Calls forward and records it; outputs[i] are the caller's. */
TENON_API tenon_status_t tenon_function_call(const tenon_function_t *function, tenon_tensor_t *const *inputs,
                                             int32_t input_count, tenon_tensor_t **outputs, int32_t output_count);
/* forward: keeps a tensor (an input, an output, any other; NULL too) for backward, which gets the i-th that was saved as
 * a new reference, or an error if its memory was written to since. */
TENON_API tenon_status_t tenon_function_save(tenon_function_call_t *call, tenon_tensor_t *tensor);
TENON_API tenon_status_t tenon_function_saved(tenon_function_call_t *call, int32_t index, tenon_tensor_t **out_tensor);

/* Compares gradients with differences, for tests.  `function` makes `output_count` outputs of the inputs, which are f64
 * where they require a gradient, and must give the same each time.  The message names input, element and both numbers. */
typedef tenon_status_t (*tenon_gradient_fn)(void *context, tenon_tensor_t *const *inputs, tenon_tensor_t **outputs);
typedef struct tenon_gradient_check_t {
  uint32_t size, flags; /* flags: 0 */
  double step;          /* of the differences (five points), 0: 1e-3 */
  double tolerance;     /* relative to 1 + the difference, 0: 1e-7 */
} tenon_gradient_check_t;
TENON_API tenon_status_t tenon_gradient_check(tenon_gradient_fn function, void *context, tenon_tensor_t *const *inputs,
                                              int32_t input_count, int32_t output_count,
                                              const tenon_gradient_check_t *options);

/* ---- debugging -------------------------------------------------------------------------------------------------- */

/* docs/debugging.md.  A call in a folder, call.json and a file for each tensor: what TENON_RECORD saves, `tenon replay` repeats
 * and `tenon check --samples` tries. */
typedef struct tenon_recording_t tenon_recording_t;
typedef struct tenon_recording_info_t { /* what it points to lives as long as the recording; NULL, 0: not stated */
  uint32_t size;
  tenon_status_t status;                                       /* what the call gave */
  const char *error;                                           /* its words */
  const char *op;                                              /* "ns::name" */
  const char *node;                                            /* of the graph that it was in */
  const char *kernel;                                          /* that ran: "cpu f32" */
  const char *device;                                          /* of its tensors: "sim:0" */
  const char *library, *library_path, *library_hash, *version; /* the last: of Tenon */
  int32_t input_count, attr_count, output_count, threads;
  tenon_tensor_t *const *inputs;  /* one for each of the schema, as they were before the call; NULL: absent */
  tenon_tensor_t *const *written; /* inputs after the call, of those that it writes to; NULL: not stored */
  tenon_tensor_t *const *outputs; /* what it gave, one for each of the schema; NULL: not stored */
  const char *const *attr_names;
  const char *const
      *attr_texts; /* in the schema's language; NULL: a tensor, a graph, a device: tenon_recording_attrs */
  uint64_t is_random, seed, offset; /* where its random numbers began */
  uint64_t state;                   /* calls with one state have one number; 0: the operator has none */
} tenon_recording_info_t;
/* Reads it; its operator need not be there.  The error names the file and the place in it. */
TENON_API tenon_status_t tenon_recording_load(const char *folder, tenon_recording_t **out_recording);
TENON_API void tenon_recording_release(tenon_recording_t *recording);
/* `info->size` is the caller's. */
TENON_API void tenon_recording_info(const tenon_recording_t *recording, tenon_recording_info_t *info);
/* Its attributes, for that operator; the caller releases them. */
TENON_API tenon_status_t tenon_recording_attrs(const tenon_recording_t *recording, const tenon_op_t *op,
                                               tenon_attrs_t **out_attrs);
/* Writes a call of `op` to a folder that is not there yet.  attrs NULL: defaults.  Of `call` are read: status, error, node,
 * kernel, inputs, written, outputs (NULL: none is stored), is_random, seed, offset, state; the rest is the operator's. */
TENON_API tenon_status_t tenon_recording_save(const char *folder, const tenon_op_t *op, const tenon_value_t *attrs,
                                              const tenon_recording_info_t *call);

/* Saves calls of the process from here on: those that fail, to folders in `folder`, and says so on stderr. */
typedef struct tenon_record_t {
  uint32_t size, flags; /* TENON_RECORD_... */
  const char *folder;   /* made if it lacks; what lies there stays */
  const char *ops;      /* "demo::*, core::add": these even when they work; NULL */
  int32_t most;         /* so many calls, 0: 1000 */
} tenon_record_t;
enum { TENON_RECORD_ALL = 1 }; /* all calls */
/* NULL: no more, and then calls pay nothing.  At the start the environment variables TENON_RECORD (the folder),
 * TENON_RECORD_ALL=1, TENON_RECORD_OP, TENON_RECORD_MOST say it. */
TENON_API tenon_status_t tenon_record_set(const tenon_record_t *what);
/* Says on stderr, when a function of an operator crashes the process (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT), in which call,
 * with which arguments and what stack, and records the call where TENON_RECORD is on.  Then the handlers that were there before
 * run, or the process ends as it would have; faults elsewhere are theirs alone.  Calls pay nothing.  0: off again.  Of programs
 * it is off unless the environment says TENON_CRASH=1; of the command `tenon` it is on. */
TENON_API tenon_status_t tenon_crash_report(int32_t is_on);
/* Looks for NaN and infinities in what each call gives: "stop": the first call that gives a NaN, or an infinity though its
 * inputs have none, fails with ABORTED and words that name node, operator, place, and what the inputs had; "report": those where
 * they begin are said on stderr; "stop,nan", "report,nan": infinities are fine.  NULL: off, and then calls pay nothing.  Work on
 * devices is waited for.  At the start the environment variable TENON_NAN says it. */
TENON_API tenon_status_t tenon_nan_set(const char *what);

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

/* A graph is immutable.  It comes from a file or from a builder. */
typedef struct tenon_import_t { /* options of reading a model */
  uint32_t size, flags;
  const char *folder; /* of external weights; NULL: the file's own */
} tenon_import_t;

/* Reads a model file (ONNX).  Weights stay in the mapped file.  Operators of custom domains are looked up as
 * "domain::name", so their libraries are loaded before.  options NULL: defaults. */
TENON_API tenon_status_t tenon_graph_load(const char *path, const tenon_import_t *options, tenon_graph_t **out_graph);
/* The same from memory, which must stay until the graph is released. */
TENON_API tenon_status_t tenon_graph_read(const void *data, uint64_t size, const tenon_import_t *options,
                                          tenon_graph_t **out_graph);
/* Writes it as an ONNX file, which tenon_graph_load reads back to the same graph: a node of domain "ns" and type "name" for each
 * operator, attributes by name, constants as initialisers; one without a name is "graph" there.  A number that is no 32-bit float
 * is an attribute of type tensor.  What such a file cannot say (element types that ONNX lacks, quantised tensors, more than 2 GiB)
 * is an error that names the node or constant; what was at `path` is then still there, and changes in one step otherwise. */
TENON_API tenon_status_t tenon_graph_save(const tenon_graph_t *graph, const char *path);
TENON_API void tenon_graph_retain(const tenon_graph_t *graph);
TENON_API void tenon_graph_release(const tenon_graph_t *graph);
TENON_API const char *tenon_graph_name(const tenon_graph_t *graph); /* as a file or a builder said, "" : none */
TENON_API int32_t tenon_graph_input_count(const tenon_graph_t *graph);
TENON_API int32_t tenon_graph_output_count(const tenon_graph_t *graph);
TENON_API tenon_status_t tenon_graph_input(const tenon_graph_t *graph, int32_t index, tenon_port_t *out_port);
TENON_API tenon_status_t tenon_graph_output(const tenon_graph_t *graph, int32_t index, tenon_port_t *out_port);
/* The graph as text; the caller frees it. */
TENON_API tenon_status_t tenon_graph_dump(const tenon_graph_t *graph, char **out_text);

/* Nodes stand in an order in which they may run.  RANGE past the last. */
TENON_API int32_t tenon_graph_node_count(const tenon_graph_t *graph);
TENON_API tenon_status_t tenon_graph_node(const tenon_graph_t *graph, int32_t index, tenon_graph_part_t *out_node);
/* Values are numbered from 0; RANGE past the last.  out_type, unless NULL, gets "f32[batch, 128]", "?" for what is not known;
 * the caller frees it. */
TENON_API tenon_status_t tenon_graph_edge(const tenon_graph_t *graph, tenon_edge_t edge, tenon_graph_edge_t *out_edge,
                                          char **out_type);

/* What is known of any value: its dtype, and extents as inference found them; the graph lends it. */
TENON_API tenon_status_t tenon_graph_value(const tenon_graph_t *graph, tenon_edge_t edge, tenon_port_t *out_port);

/* A builder belongs to one thread at a time.  Names are for messages, dumps and ports; NULL: made up. */
TENON_API tenon_status_t tenon_builder_create(tenon_builder_t **out_builder);
TENON_API void tenon_builder_release(tenon_builder_t *builder);
TENON_API tenon_status_t tenon_builder_name(tenon_builder_t *builder, const char *name); /* of the graph; copied */
TENON_API tenon_status_t tenon_builder_input(tenon_builder_t *builder, const char *name, tenon_dtype_t dtype,
                                             int32_t ndim, const tenon_axis_t *axes, tenon_edge_t *out_edge);
/* That input is sparse: TENON_DETAIL_CSR or _ROW_SPARSE; said before a node uses it.  Runs want such a tensor there, and dense
 * ones elsewhere; what nodes make is sparse if their infer says so. */
TENON_API tenon_status_t tenon_builder_sparse(tenon_builder_t *builder, tenon_edge_t edge, uint32_t layout);
/* Retains the tensor, which lies in host memory and nobody may write to any more. */
TENON_API tenon_status_t tenon_builder_constant(tenon_builder_t *builder, const char *name, tenon_tensor_t *tensor,
                                                tenon_edge_t *out_edge);
/* A node: `operands` has one entry for each tensor argument of the schema; `attrs` is copied (NULL: defaults); `out_edges`
 * gets `output_count` values: the results in order, the items of a list result one by one. */
TENON_API tenon_status_t tenon_builder_node(tenon_builder_t *builder, const char *name, const tenon_op_t *op,
                                            const tenon_value_t *attrs, const tenon_operand_t *operands,
                                            tenon_edge_t *out_edges, int32_t output_count);
TENON_API tenon_status_t tenon_builder_output(tenon_builder_t *builder, const char *name, tenon_edge_t edge);
/* Copies of another graph's inputs, of one of its nodes, of its outputs.  `edges` has a place for each value of `graph`: where it
 * is in the builder, -1: nowhere yet.  Inputs and results are entered; constants come when a node or output first names one.
 * INVALID: a value that is nowhere and no constant; NULL as `edges` is none. */
TENON_API tenon_status_t tenon_builder_copy_inputs(tenon_builder_t *builder, const tenon_graph_t *graph,
                                                   tenon_edge_t *edges);
TENON_API tenon_status_t tenon_builder_copy_node(tenon_builder_t *builder, const tenon_graph_t *graph, int32_t node,
                                                 tenon_edge_t *edges);
TENON_API tenon_status_t tenon_builder_copy_outputs(tenon_builder_t *builder, const tenon_graph_t *graph,
                                                    tenon_edge_t *edges);
/* On: from here on each node is inferred when it is added, and what inference refuses is not added; off, as at the start:
 * tenon_builder_finish finds it. */
TENON_API void tenon_builder_check(tenon_builder_t *builder, int32_t is_on);
/* What is known of a value so far, for each result of nodes that were inferred; the builder lends it, until it is asked again. */
TENON_API tenon_status_t tenon_builder_value(tenon_builder_t *builder, tenon_edge_t edge, tenon_port_t *out_port);
/* Verifies and gives the graph; the builder is empty afterwards, or as it was if this fails. */
TENON_API tenon_status_t tenon_builder_finish(tenon_builder_t *builder, tenon_graph_t **out_graph);

/* What libraries bring to change graphs with: passes and partitioners (tenon/graph.h), by the name "library::name". */
typedef struct tenon_pass_info_t { /* texts live as long as the library; NULL: not stated */
  uint32_t size;
  int32_t strategy_count; /* of a partitioner; -1: it is a pass */
  const char *name;       /* "library::name" */
  const char *doc, *library, *library_path;
  const char *const *strategies; /* "name: ns::operator" of each */
} tenon_pass_info_t;
/* The i-th of all libraries that are loaded; RANGE past the last. */
TENON_API tenon_status_t tenon_pass_info(int32_t index, tenon_pass_info_t *info);
/* Applies one: `options` are what its library makes of them.  A partitioner puts nodes of its library in place of parts of the
 * graph.  The graph stays as it is, also when this fails; the result may be the same graph, with one more reference.
 * Errors: NOT_FOUND, with those that there are; what the library says; a result that is no graph. */
TENON_API tenon_status_t tenon_graph_apply(const tenon_graph_t *graph, const char *name, const tenon_option_t *options,
                                           int32_t option_count, tenon_graph_t **out_graph);

/* ---- executables ------------------------------------------------------------------------------------------------ */

typedef struct tenon_executable_t tenon_executable_t;
typedef struct tenon_profile_t tenon_profile_t;

typedef struct tenon_pin_t { /* nodes that run on a device, whatever it costs */
  const char *node;          /* the name of a node or of an operator; '*' stands for any characters */
  tenon_device_t device;
} tenon_pin_t;

typedef struct tenon_compile_t { /* options */
  uint32_t size;
  uint32_t flags; /* TENON_COMPILE_... */
  tenon_device_t
      device; /* type 0 or 1: the CPU; else constants are copied there, each node is a call through dispatch, and
                            inputs and outputs are copied as needed */
  /* More devices, after `device` if that is set, the preferred first: the graph is spread over them by estimates from
   * measured rates, and values are copied where they cross, once.  A node that none of them has a kernel for goes to the
   * first, and falls back to the CPU; the CPU itself takes part if it is among them.  Of several pins for a node the last
   * counts. */
  const tenon_device_t *devices;
  uint32_t device_count, pin_count;
  const tenon_pin_t *pins;
  /* What devices may claim of the graph, to run as one: each is asked, in this order, and nodes are claimed once.  NULL or "":
   * what they want; "off": nothing; else settings for them, "key=value,...": INVALID if one does not know them. */
  const char *claims;
} tenon_compile_t;
enum {
  TENON_COMPILE_PLAIN = 1, /* no rewriting of the graph: every node as it was imported, nothing claimed */
  /* On a device that records work: a run of shapes that are new is recorded, and later ones of these shapes enqueue that
   * as one.  Recordings keep memory of their own, 8 at most.  What cannot be recorded (a node that falls back, or that
   * reads a value on the host) runs as ever; the dump "placement" says why. */
  TENON_COMPILE_RECORD = 2,
  /* Runs with inputs that require gradients make a history (docs/autograd.md): the outputs have gradients where their
   * operators have.  On the CPU alone; each node is a call through dispatch, and none is fused with others.  Outputs with a
   * history may be inputs, or views of them; outputs that are given have none.  The executable outlives the histories. */
  TENON_COMPILE_GRADIENTS = 4
};

/* Verifies, infers, folds, chooses kernels.  An executable is reentrant: several threads may run it at once. */
TENON_API tenon_status_t tenon_executable_create(const tenon_graph_t *graph, const tenon_compile_t *options,
                                                 tenon_executable_t **out_executable);
TENON_API void tenon_executable_retain(tenon_executable_t *executable);
TENON_API void tenon_executable_release(tenon_executable_t *executable);
TENON_API const tenon_graph_t *tenon_executable_graph(const tenon_executable_t *executable); /* ports as imported */
/* Runs with one tensor for each input, in order.  outputs[i] NULL: made, the caller releases it; else written to, its
 * shape must fit.  After a failure the executable works as before, and outputs that were made are gone. */
TENON_API tenon_status_t tenon_executable_run(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                                              tenon_tensor_t **outputs, tenon_profile_t *profile);
/* "graph" (after rewriting), "shapes" (of every value, symbolic), "claims" (groups that devices claimed, those that were handed
 * back, and why), "placement" (which node runs where, and why), "plan" (memory of the last run). The caller frees it. */
TENON_API tenon_status_t tenon_executable_dump(tenon_executable_t *executable, const char *what, char **out_text);

/* Time by node and by the spans that kernels open.  A profile belongs to one run at a time. */
TENON_API tenon_status_t tenon_profile_create(tenon_profile_t **out_profile);
TENON_API void tenon_profile_release(tenon_profile_t *profile);
/* A Chrome trace (chrome://tracing, Perfetto). */
TENON_API tenon_status_t tenon_profile_write(const tenon_profile_t *profile, const char *path);
typedef struct tenon_span_t {
  uint32_t size;
  int32_t depth;           /* 0: a node; deeper: spans of its kernel */
  const char *name, *kind; /* node and operator; of deeper spans the text that the kernel gave, and "" */
  int64_t begin, end;      /* nanoseconds */
} tenon_span_t;
TENON_API int32_t tenon_profile_count(const tenon_profile_t *profile);
TENON_API tenon_status_t tenon_profile_span(const tenon_profile_t *profile, int32_t index, tenon_span_t *span);
typedef struct tenon_level_t { /* memory in use, after a node: of a device all tensors, of the CPU the run's values */
  uint32_t size, reserved;
  const char *device; /* "cpu", "opencl:0" */
  int64_t time;       /* nanoseconds, as of spans */
  uint64_t bytes;     /* from then on */
} tenon_level_t;
TENON_API int32_t tenon_profile_level_count(const tenon_profile_t *profile);
TENON_API tenon_status_t tenon_profile_level(const tenon_profile_t *profile, int32_t index, tenon_level_t *level);

#ifdef __cplusplus
}
#endif
#endif
