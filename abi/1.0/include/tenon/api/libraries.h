/* tenon/api/libraries.h: loading, isolating, reloading and unloading operator libraries; the policy
 * of what may be loaded; libraries from source.  Part of tenon/tenon.h. */
#ifndef TENON_API_LIBRARIES_H
#define TENON_API_LIBRARIES_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_library_t tenon_library_t; /* A reference to a loaded library. */

/* ---- loading --------------------------------------------------------------------------------- */

/* Flags of loading. */
enum {
  /* Applies TENON_POLICY_PRIVATE and TENON_POLICY_INERT to this file. */
  TENON_LOAD_STRICT = 1,
  /* The last tenon_library_release unloads the code, once nothing uses its operators. */
  TENON_LOAD_UNLOADABLE = 2,
  /* Runs the library in worker processes with default settings; see tenon_library_load_isolated. */
  TENON_LOAD_ISOLATED = 4
};

/* Loads an operator library and registers its operators.
 *
 * The host reads the file without executing it, then queries, verifies and opens the library.
 * Loading a file twice gives the same library.
 *
 * Arguments: `path` is a path if it contains a separator.  Otherwise it is a name, which is
 * searched only in the folders of TENON_LIBRARY_PATH, with `lib` and the platform's suffix added if
 * they are missing.  `flags`: TENON_LOAD_...
 * Errors: nothing is registered, and one message lists all problems.
 * Ownership: the caller releases *out_library.  `out_library` may be NULL; the library then stays
 * loaded until shutdown. */
TENON_API tenon_status_t tenon_library_load(const char *path, uint32_t flags,
                                            tenon_library_t **out_library);

/* Registers a library that is linked into the program: tenon_library_add(tenon_library_demo(),
 * ...).
 *
 * Arguments: `context` is call->context of the library's functions; it is NULL for libraries built
 * from files.
 * Ownership: the host calls destroy(context) when the library is gone. */
TENON_API tenon_status_t tenon_library_add(const tenon_descriptor_t *descriptor, void *context,
                                           tenon_free_fn destroy, tenon_library_t **out_library);

/* Inspects a library file without executing any of its code.
 *
 * Arguments: `out_loadable` may be NULL; it receives 1 if the file shows no obstacle to loading,
 * otherwise 0.
 * Returns: TENON_OK for every file that can be read.  The report states kind, machine, entry point,
 * needed libraries, initialisers, and all problems.
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_library_inspect(const char *path, char **out_text,
                                               uint32_t *out_loadable);

/* Lists the sanitizer run-time libraries that must be loaded before the program, for a file that
 * was built with -fsanitize.
 *
 * Returns: a value for LD_PRELOAD, with ':' as separator; "" if the file needs none, or if they are
 * loaded already.
 * Errors: TENON_NOT_FOUND if they are not installed.
 * Ownership: the caller frees *out_runtime. */
TENON_API tenon_status_t tenon_library_sanitizer(const char *path, char **out_runtime);

/* ---- isolation ------------------------------------------------------------------------------- */

/* Permissions of an isolated library.  By default it has none of them. */
enum {
  TENON_ALLOW_READ = 1,      /* Open files for reading at any time, not only while it is loaded. */
  TENON_ALLOW_WRITE = 2,     /* Write, create and remove files. */
  TENON_ALLOW_NETWORK = 4,   /* Use sockets. */
  TENON_ALLOW_PROCESSES = 8, /* Start processes and run programs. */
  TENON_ALLOW_EXTEND = 16    /* Add kernels to operators of other libraries (TENON_EXTEND). */
};
/* Value of deadline_ms: no limit.  Value of spin_us: no spinning. */
#define TENON_ISOLATION_NONE UINT32_MAX

/* Options of isolation.  0 selects the default. */
typedef struct tenon_isolation_t {
  uint32_t size;
  uint32_t allow;       /* TENON_ALLOW_... */
  uint32_t deadline_ms; /* Time limit of a call; default 10 s.  That of loading is at least 30 s. */
  uint32_t spin_us;     /* How long both sides poll for a message before they sleep; default 50. */
  uint32_t child_count; /* Worker processes that share the calls, at most 8; default 1. */
  /* Simultaneous calls in each worker process, at most 8; default 8.  Further calls wait. */
  uint32_t call_count;
  uint32_t thread_count; /* Threads of a parallel loop in a worker; default: as in this process. */
  /* Absolute paths of folders.  If either list has folders, the library can read only in the
   * folders of both lists, its own folder, those of the system's libraries, and a few files about
   * the machine, also while it is loaded; with TENON_ALLOW_WRITE it can write only in `writable`.
   * Subfolders are included.  Neither list has folders: anywhere. */
  uint32_t readable_count;
  uint32_t writable_count;
  const char *const *readable;
  const char *const *writable;
  uint64_t memory; /* Bytes that a worker may use beyond what Tenon needs in it; default 4 GiB. */
  uint64_t shared; /* Bytes of address space for shared tensors; default 16 GiB. */
} tenon_isolation_t;

/* Loads a library so that its code runs in worker processes (docs/isolation.md).
 *
 * Calls are forwarded.  If the worker crashes, exits, does not finish in time, uses too much memory
 * or makes a forbidden system call, the call fails and the message says what happened.  The next
 * call starts a new worker.
 *
 * Arguments: `isolation`: NULL for defaults.
 * Errors: those of tenon_library_load; TENON_UNIMPLEMENTED for features that cannot be isolated
 * (devices, bridges, passes, operator bodies that are graphs, kernels of layers), with a list of
 * all of them; TENON_PRECONDITION if the file is already loaded in another way; TENON_UNAVAILABLE
 * if the system refuses. */
TENON_API tenon_status_t tenon_library_load_isolated(const char *path, uint32_t flags,
                                                     const tenon_isolation_t *isolation,
                                                     tenon_library_t **out_library);

/* Creates a dense tensor in the memory shared with an isolated library, so that its operators
 * access it without a copy.
 *
 * A malicious library can modify this memory while it is being read.  If the shared memory is full,
 * or for strings, the tensor is an ordinary one.
 *
 * Ownership: the caller releases the tensor, which may outlive the library. */
TENON_API tenon_status_t tenon_library_tensor_create(tenon_library_t *library, tenon_dtype_t dtype,
                                                     int32_t ndim, const int64_t *shape,
                                                     tenon_tensor_t **out_tensor);

/* The main function of the program `isolate`, in which isolated libraries run.  Other programs do
 * not call it.
 *
 * Returns: the exit status of the program. */
TENON_API int tenon_isolate_main(void);

/* ---- life of a library ----------------------------------------------------------------------- */

TENON_API void tenon_library_retain(tenon_library_t *library);
TENON_API void tenon_library_release(tenon_library_t *library);

/* Unloads a library that was loaded with TENON_LOAD_UNLOADABLE.
 *
 * Errors: if the library is in use, nothing changes, and the message lists the users: other
 * handles, bound calls, graphs, executables, libraries that use its operators, and calls on other
 * threads.
 * Ownership: consumes the handle.  Handles of its operators (tenon_op_t) become invalid. */
TENON_API tenon_status_t tenon_library_unload(tenon_library_t *library);

/* Replaces a loaded library with a new version of its file, or with another file, atomically.
 *
 * An unchanged file is left alone.  Operators whose declarations (schema, TYPES, SHAPES, WHERE,
 * TRAITS, VERSION) are unchanged keep their handles: calls through old handles use the new kernels,
 * infer results again and create a new state.  Every executable is prepared again at its next run;
 * runs in progress finish with the old kernels.  Handles of all other operators fail from then on,
 * with a message that says so.  The old code stays mapped, and its close function runs when the
 * library is unloaded.
 *
 * Arguments: `path`: NULL to read the library's own file again.
 * Errors: TENON_PRECONDITION if an operator with changed declarations, or one that was removed, is
 * held by a graph, an executable, a bound call or another library; the message says what changed
 * and who holds the operator.  Otherwise the errors of tenon_library_load.  After an error nothing
 * changes.
 * Threads: any thread, while other threads make calls. */
TENON_API tenon_status_t tenon_library_reload(tenon_library_t *library, const char *path);

/* ---- queries --------------------------------------------------------------------------------- */

TENON_API const char *tenon_library_name(const tenon_library_t *library);
TENON_API const char *tenon_library_version(const tenon_library_t *library);
/* Returns the path of the file, or "" for a library that is linked into the program. */
TENON_API const char *tenon_library_path(const tenon_library_t *library);
TENON_API int32_t tenon_library_op_count(const tenon_library_t *library);
TENON_API const tenon_op_t *tenon_library_op(const tenon_library_t *library, int32_t index);
/* Returns the number of operators of other libraries that it adds kernels to.
 *
 * Arguments: `out_waiting` may be NULL; it receives how many of these operators do not exist
 * yet. */
TENON_API int32_t tenon_library_extended_count(const tenon_library_t *library,
                                               int32_t *out_waiting);

/* ---- policy ---------------------------------------------------------------------------------- */

/* The rules for files that this process loads: libraries, bridges, device plug-ins, and files that
 * bridges read (docs/policy.md).  A file must satisfy every rule that is set.  Without rules, the
 * process loads any file that the user names and may read. */
typedef struct tenon_policy_t {
  uint32_t size;
  uint32_t flags;        /* TENON_POLICY_... */
  uint32_t folder_count; /* 0: no rule on folders. */
  uint32_t hash_count;   /* 0: no rule on hashes. */
  /* Absolute paths.  After resolving links, the file must be in one of these folders or their
   * subfolders. */
  const char *const *folders;
  const char *const *hashes; /* SHA-256 of the accepted files: 64 hexadecimal digits each. */
} tenon_policy_t;

/* Flags of a policy. */
enum {
  /* The file, and each folder from the root to it, belong to this user or to root, and nobody else
   * may write to them. */
  TENON_POLICY_PRIVATE = 1,
  /* Opening the file runs no code of the file (initialisers).  A library does its set-up in
   * TENON_OPEN instead. */
  TENON_POLICY_INERT = 2
};

/* Sets the policy until tenon_shutdown.  It replaces an earlier policy, and those of the file named
 * by TENON_POLICY and of /etc/tenon/policy.
 *
 * Arguments: NULL: no rules.
 * Errors: TENON_INVALID for unknown flags, malformed hashes and relative folders; the message lists
 * all of them, and nothing changes.
 * Ownership: `policy` is copied.
 * Threads: any thread. */
TENON_API tenon_status_t tenon_policy_set(const tenon_policy_t *policy);

/* Checks a shared object against the rules of this process, for a program that opens it by its path
 * itself, for example with dlopen.
 *
 * Arguments: `path`: as for tenon_library_load.
 * Errors: TENON_DENIED if the file violates a rule, or if others could change it after its hash was
 * accepted; TENON_INVALID if it is no shared object for this machine.  The message lists all
 * problems.
 * Threads: any thread. */
TENON_API tenon_status_t tenon_policy_check(const char *path);

/* ---- libraries from source ------------------------------------------------------------------- */

typedef struct tenon_build_t {
  uint32_t size;
  uint32_t flags; /* TENON_BUILD_FRESH */
  uint32_t source_count;
  uint32_t option_count;
  const char *const *sources; /* .c .cc .cpp .cxx .s .S .cu, and objects: .o .a */
  /* Options for every compiler, one word each: "-DN=4", "-Iinclude", "-O1", "-lz".  The default is
   * -O3 if none of them selects another level. */
  const char *const *options;
  /* Receives progress messages; may be NULL.
   * Arguments: `what`: TENON_BUILD_COMMAND, TENON_BUILD_WORDS or TENON_BUILD_REUSED. */
  void (*say)(void *context, uint32_t what, const char *text);
  void *context;
} tenon_build_t;

/* Flags of a build. */
enum {
  TENON_BUILD_FRESH = 1 /* Ignores the cache. */
};

/* Kinds of progress messages. */
enum {
  TENON_BUILD_COMMAND = 0, /* A command, before it runs. */
  /* The output of the compilers, such as warnings.  After a failure, the error message does not
   * repeat it. */
  TENON_BUILD_WORDS = 1,
  TENON_BUILD_REUSED = 2 /* The file from an earlier build that is used again. */
};

/* Compiles and links sources to an operator library at `path`.
 *
 * The compilers are those of CC, CXX and NVCC, by default cc, c++ and nvcc.  The result of an
 * earlier build from the same sources, headers, options and compilers comes from the cache
 * (TENON_CACHE).
 *
 * Errors: TENON_UNAVAILABLE without a compiler; TENON_INVALID with the compiler's messages.  A file
 * that was at `path` before is then still there. */
TENON_API tenon_status_t tenon_library_build(const tenon_build_t *build, const char *path);

/* Builds a library and loads it, without a file at a path of the caller's choice.
 *
 * Arguments: `flags`: as for tenon_library_load. */
TENON_API tenon_status_t tenon_library_load_build(const tenon_build_t *build, uint32_t flags,
                                                  tenon_library_t **out_library);

/* Builds and loads a library from one source file without options:
 * tenon_library_load_source("gelu.c", 0, &library). */
TENON_API tenon_status_t tenon_library_load_source(const char *path, uint32_t flags,
                                                   tenon_library_t **out_library);

#ifdef __cplusplus
}
#endif
#endif
