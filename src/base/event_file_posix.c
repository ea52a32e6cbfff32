/* The trace file over POSIX. Invariant: the file always ends with "\n]\n". Each event overwrites
 * that ending with the event followed by a new ending, in one write. */
#include "base/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

struct tn_event_file_t {
  int descriptor;
  pid_t owner;
  off_t end; /* offset at which the next event is written */
  bool is_empty;
  char path[];
};

static const char tail[] = "\n]\n";

static tenon_status_t fail_trace_file(const tn_event_file_t *file, int reason) {
  return tn_fail(tn_file_status(reason), "trace file %s: %s", file->path, strerror(reason));
}

static tenon_status_t write_at(const tn_event_file_t *file, const char *data, size_t size,
                               off_t at) {
  while (size) {
    ssize_t written = pwrite(file->descriptor, data, size, at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail_trace_file(file, written ? errno : ENOSPC);
    data += written;
    size -= (size_t)written;
    at += written;
  }
  return TENON_OK;
}

tenon_status_t tn_event_file_create(const char *path, tn_event_file_t **out_file) {
  struct stat info;
  size_t size = strlen(path) + 1;
  tn_event_file_t *file = tn_allocate(sizeof *file + size);
  if (!file) return tn_no_memory("a trace file", sizeof *file + size);
  *file = (tn_event_file_t){.owner = getpid(), .end = 1, .is_empty = true};
  memcpy(file->path, path, size);
  file->descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  tenon_status_t status = TENON_OK;
  if (file->descriptor < 0)
    status = fail_trace_file(file, errno);
  else if (fstat(file->descriptor, &info) != 0)
    status = fail_trace_file(file, errno);
  else if (!S_ISREG(info.st_mode))
    status = tn_fail(TENON_INVALID, "trace file %s: expected a regular file", path);
  else if (ftruncate(file->descriptor, 0) != 0)
    status = fail_trace_file(file, errno);
  if (status == TENON_OK) status = write_at(file, "[\n]\n", 4, 0);
  if (status == TENON_OK)
    *out_file = file;
  else
    tn_event_file_close(file);
  return status;
}

tenon_status_t tn_event_file_add(tn_event_file_t *file, const char *event, size_t size) {
  if (getpid() != file->owner) return TENON_OK;
  tn_text_t piece = {0};
  tn_text_add(&piece, "%s\n", file->is_empty ? "" : ",");
  tn_text_bytes(&piece, event, size);
  size_t added = piece.size;
  tn_text_bytes(&piece, tail, sizeof tail - 1);
  tenon_status_t status = piece.failed ? tn_no_memory("a trace", size)
                                       : write_at(file, tn_text_get(&piece), piece.size, file->end);
  if (status == TENON_OK) {
    file->end += (off_t)added;
    file->is_empty = false;
  } else if (!piece.failed && ftruncate(file->descriptor, file->end) == 0) {
    /* restore the ending; the space for it is already allocated */
    (void)write_at(file, tail, sizeof tail - 1, file->end);
  }
  tn_text_clear(&piece);
  return status;
}

void tn_event_file_close(tn_event_file_t *file) {
  if (!file) return;
  if (file->descriptor >= 0) close(file->descriptor);
  tn_release_memory(file);
}
