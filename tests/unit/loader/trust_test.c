/* The rule `private`: owners and permissions of files, folders and needed libraries, as root and as
 * another user; and set-uid programs. */
#include <stdarg.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/status.h"
#include "base/trust.h"
#include "rules.h"

enum { NOBODY = 65534 };

/* owners and permissions, as this user and as nobody */

static void check_modes(void) {
  char ops[300];
  begin();
  snprintf(ops, sizeof ops, "%s/ops", folder);
  set(TENON_POLICY_PRIVATE, NULL, NULL);
  LOADS(file, 0);
  CHECK(chmod(file, 0664) == 0);
  REFUSED(file, 0, "rule private (tenon_policy_set): file ");
  CHECK_TEXT(tn_error(), "is writable by its group (mode 0664): run chmod go-w on it");
  CHECK(chmod(file, 0646) == 0);
  REFUSED(file, 0, "is writable by others (mode 0646)");
  CHECK(chmod(file, 0644) == 0 && chmod(ops, 0777) == 0);
  REFUSED(file, 0, "/ops is writable by everybody (mode 0777): run chmod go-w on it");
  /* Other users may write to the folder, but cannot remove the file. */
  CHECK(chmod(ops, 01777) == 0);
  LOADS(file, 0);
  CHECK(chmod(ops, 0755) == 0 && chmod(folder, 0775) == 0); /* two levels above the file */
  REFUSED(file, 0, "is writable by its group (mode 0775)");
  CHECK(chmod(file, 0666) == 0);
  REFUSED(file, 0, ": 2 problems:\n  - rule private");
  CHECK_STATUS(tenon_policy_set(NULL), TENON_OK);
  LOADS(file, 0);
  REFUSED(file, TENON_LOAD_STRICT, "rule private (TENON_LOAD_STRICT): folder ");
  CHECK(chmod(file, 0644) == 0 && chmod(folder, 0755) == 0);
  LOADS(file, TENON_LOAD_STRICT);
  end();
}

static void
/* For the user nobody, libraries of root are allowed, and those of a third user are not. */
check_owners(void) {
  set(TENON_POLICY_PRIVATE, NULL, NULL);
  LOADS(file, 0);
  REFUSED(beside("ops/third.so"), 0,
          "third.so belongs to user 12345, expected this user, 65534, or root: change its owner "
          "with chown");
  REFUSED(beside("third/good.so"), 0, "/third belongs to user 12345");
  set(0, NULL, hash_of(file));
  REFUSED(beside("ops/hidden.so"), 0, "hidden.so: Permission denied");
}

/* Runs the checks in a child process as the user nobody; they count as this test's checks. */
static void as_nobody(void (*run)(void)) {
  fflush(NULL);
  (void)good_library();
  pid_t child = fork();
  int state = 1;
  if (child == 0) {
    check_failures = 0;
    if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) _exit(99);
    run();
    _exit(check_failures != 0);
  }
  CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

TEST("the rule `private` refuses a file that others could change") { check_modes(); }

TEST("the rule `private` is the same for an unprivileged user") {
  if (geteuid() != 0) SKIP("this user is unprivileged already: the test above is this one");
  as_nobody(check_modes);
}

TEST("another user may use files of root, but not those of a third user") {
  if (geteuid() != 0) SKIP("only root can make files of other users");
  begin();
  copy(file, beside("ops/third.so"), 0644);
  CHECK(chown(text, 12345, 12345) == 0);
  copy(file, beside("ops/hidden.so"), 0600);
  CHECK(mkdir(beside("third"), 0755) == 0 && chmod(text, 0755) == 0);
  copy(file, beside("third/good.so"), 0644);
  CHECK(chown(beside("third"), 12345, 12345) == 0);
  as_nobody(check_owners);
  set(TENON_POLICY_PRIVATE, NULL, NULL);
  REFUSED(beside("ops/third.so"), 0,
          "third.so belongs to user 12345, expected root: change its owner with chown");
  end();
}

TEST("a file that is exchanged while it is checked is found out") {
  tn_file_t data;
  tn_file_identity_t identity, changed;
  begin();
  CHECK_STATUS(tn_file_map_real(file, &data, &identity), TENON_OK);
  CHECK(tn_file_is_same(file, &identity));
  changed = identity;
  copy(TEST_LIBRARIES "/libgood.so", beside("new.so"), 0644);
  CHECK(rename(beside("new.so"), file) == 0);
  /* The file has the same bytes, and is another file. */
  CHECK(!tn_file_is_same(file, &identity));
  tn_file_unmap(&data);
  CHECK_STATUS(tn_file_map_real(file, &data, &identity), TENON_OK);
  CHECK(identity.number != changed.number || identity.changed != changed.changed);
  FILE *out = fopen(file, "r+b");
  CHECK(out && fseek(out, 1000, SEEK_SET) == 0 && fputc('x', out) == 'x' && fclose(out) == 0);
  CHECK(!tn_file_is_same(file, &identity));
  tn_file_unmap(&data);
  snprintf(text, sizeof text, "%s/link", folder);
  CHECK(symlink("ops", text) == 0);
  strcat(text, "/good.so");
  CHECK_STATUS(tn_file_map_real(text, &data, &identity),
               TENON_ABORTED); /* The path has a link in it, so it is not the real path. */
  CHECK_TEXT(tn_error(), "changed while it was checked: try again");
  tn_text_t lines = {0};
  CHECK(remove(file) == 0);
  CHECK_STATUS(tn_file_map_real(file, &data, &identity), TENON_NOT_FOUND);
  CHECK(!tn_file_is_same(file, &identity));
  tn_file_changeable(file, &lines);
  CHECK_TEXT(tn_text_get(&lines),
             /* files that do not exist are not reported as in order */
             "ops/good.so: No such file or directory");
  tn_text_clear(&lines);
  end();
}

/* needed libraries */

static void make(const char *format, ...) {
  char command[3000];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command, sizeof command, format, arguments);
  va_end(arguments);
  CHECK(system(command) == 0);
}

TEST("libraries that it needs must be as private as it is, and are never searched below the "
     "current folder") {
  char ops[300];
  begin();
  snprintf(ops, sizeof ops, "%s/ops", folder);
  make("mkdir %s/dep && echo 'int needed(void) { return 1; }' | cc -shared -fPIC -x c - -o "
       "%s/dep/libdep.so && chmod 755 %s/dep %s/dep/libdep.so",
       folder, folder, folder, folder);
  make("printf '%%s' '#include <tenon/op.h>\nint needed(void);\nstatic tenon_status_t f(const "
       "tenon_loop_t *l) { return (void)l, needed() == 1 ? TENON_OK : TENON_INTERNAL; "
       "}\nTENON_LIBRARY(user, \"1\", TENON_OP(\"op(Tensor x) -> Tensor\", TENON_TYPES(\"x: i8; "
       "out = x\"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP(\"i8 -> i8\", f)))' "
       ">%s/user.c",
       folder);
  for (int i = 0; i < 3; i++) {
    static const char *const paths[] = {"'$ORIGIN/../dep'", "'$ORIGIN/../dep:lib'",
                                        "'$ORIGIN/../dep:'"};
    make("cc -shared -fPIC -fvisibility=hidden -I " TEST_INCLUDE
         " %s/user.c -o %s/user%d.so -L %s/dep -ldep -Wl,-rpath,%s && chmod 755 %s/user%d.so",
         folder, ops, i, folder, paths[i], ops, i);
  }
  set(TENON_POLICY_PRIVATE, NULL, NULL);
  LOADS(beside("ops/user0.so"), 0);
  REFUSED(beside("ops/user1.so"), 0,
          "it looks for libraries in 'lib', below the current folder: link it with a run path");
  REFUSED(beside("ops/user2.so"), 0, "it looks for libraries in '', below the current folder");
  CHECK(chmod(beside("dep/libdep.so"), 0777) == 0);
  REFUSED(beside("ops/user0.so"), 0, "rule private (tenon_policy_set): it needs libdep.so: file /");
  CHECK(chmod(beside("dep/libdep.so"), 0755) == 0 && chmod(beside("dep"), 0775) == 0);
  REFUSED(beside("ops/user0.so"), 0, "it needs libdep.so: folder /");
  CHECK_STATUS(tenon_policy_set(NULL), TENON_OK);
  LOADS(beside("ops/user0.so"), 0);
  end();
}

/* set-uid programs */

/* Writes an executable script. */
static void plant(const char *name, const char *words) {
  FILE *out = fopen(beside(name), "w");
  CHECK(out && fputs(words, out) >= 0 && fclose(out) == 0 && chmod(beside(name), 0755) == 0);
}

static void run_secure(void) {
  char cc[300], path[300], program[300];
  snprintf(cc, sizeof cc, "%s/cc", folder);
  snprintf(path, sizeof path, "%s", folder);
  snprintf(program, sizeof program, "%s/secure", folder);
  setenv("TENON_LIBRARY_PATH", TEST_LIBRARIES, 1);
  setenv("TENON_BRIDGE_PATH", path, 1);
  setenv("TENON_CACHE", path, 1);
  setenv("TENON_POLICY", rules_file("folder /nowhere\n", 0644), 1);
  setenv("CC", cc, 1);
  setenv("PATH", path, 1);
  setenv("GCC_EXEC_PREFIX", path, 1);
  setenv("COMPILER_PATH", path, 1);
  setenv("CPATH", path, 1);
  setenv("TENON_INCLUDE", path, 1);
  execl(program, program, beside("source.c"), (char *)NULL);
  _exit(98);
}

TEST("in a set-uid program no environment variable counts") {
  struct statvfs mount;
  char output[4000] = "";
  char planted[300];
  int ends[2];
  int state = 0;
  size_t size = 0;
  if (geteuid() != 0) SKIP("only root can make a set-uid program of another user's");
  begin();
  if (statvfs(folder, &mount) == 0 && mount.f_flag & ST_NOSUID) {
    end();
    SKIP("/tmp is mounted nosuid");
  }
  copy(TEST_LIBRARIES "/libgood.so", beside("bridge.so"), 0644);
  copy(TEST_SECURE, beside("secure"), 0755);
  CHECK(chmod(beside("secure"), 04755) == 0 && chmod(folder, 01777) == 0);
  snprintf(planted, sizeof planted, "#!/bin/sh\ntouch %s/ran\nexit 1\n", folder);
  plant("cc", planted);
  plant("as", planted);
  plant("ld", planted);
  plant("cc1", planted);
  plant("source.c",
        "#include <tenon/op.h>\nstatic tenon_status_t f(const tenon_loop_t *l) { return (void)l, "
        "TENON_OK; }\n"
        "TENON_LIBRARY(made, \"1\", TENON_OP(\"op(Tensor x) -> Tensor\", TENON_TYPES(\"x: i8; out "
        "= x\"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP(\"i8 -> i8\", f)))\n");
  CHECK(pipe(ends) == 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) _exit(99);
    run_secure();
  }
  close(ends[1]);
  for (ssize_t part; (part = read(ends[0], output + size, sizeof output - 1 - size)) > 0;)
    size += (size_t)part;
  close(ends[0]);
  CHECK(waitpid(child, &state, 0) == child);
  if (!CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0)) fprintf(stderr, "%s\n", output);
  CHECK_TEXT(output, "secure: 1, user 65534 as 0\n");
  CHECK_TEXT(output, "name: cannot load good: a name without '/' is looked for in "
                     "TENON_LIBRARY_PATH, which is not set");
  CHECK_TEXT(output, "policy           none\n");
  CHECK_TEXT(output, "source: 1 operators\n");
  CHECK(strstr(output, "bridge.so") == NULL);
  /* None of the planted programs ran. */
  CHECK(!tn_file_exists(beside("ran")));
  CHECK(strstr(output, "cache: ") == NULL);
  end();
}
