/* Descriptions of isolated libraries, which a worker process writes and the host reads. A file that
 * begins with '=' holds the bytes of a description. Any other file is a descriptor in the form of
 * descriptor_fuzz.c: its lines are written as a worker process would write them, also items that it
 * never sends. Any description is registered as a whole and shown, or refused with a message and
 * without leaving anything behind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "faults.h"
#include "isolation/isolation.h"
#include "isolation/proxy.h"
#include "isolation/wire.h"
#include "registered.h"

enum { SIZE_MOST = 1 << 14, ROOM = 1 << 18 };
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void write_item(tn_wire_t *wire, char *line) {
  char *text = strchr(line, ':');
  char *at = line;
  const uint64_t tag = strtoul(line, &at, 0);
  int64_t number = 0;
  if (*at == '#') number = strtoll(at + 1, &at, 0);
  tn_put(wire, tag);
  tn_put(wire, (uint64_t)number);
  tn_put(wire, *at != '-');
  tn_put_text(wire, text ? text + 1 : NULL);
}

/* Writes the lines as a description. */
static void write_lines(tn_wire_t *wire, char *lines) {
  char *next = strchr(lines, '\n');
  if (next) *next++ = 0;
  char *version = strchr(lines, ' ');
  if (version) *version++ = 0;
  tn_put_text(wire, lines);
  tn_put_text(wire, version);
  for (char *line = next; line && *line; line = next) {
    if ((next = strchr(line, '\n'))) *next++ = 0;
    write_item(wire, line);
  }
  tn_put(wire, TENON_TAG_END);
}

/* The description that the file stands for, in memory of exactly its size. */
static unsigned char *make_description(const unsigned char *data, size_t size, uint64_t *out_size) {
  static unsigned char room[ROOM];
  tn_wire_t wire = tn_wire(room, sizeof room);
  const unsigned char *from = room;
  if (size && data[0] == '=') {
    from = data + 1;
    wire.at = size - 1;
  } else {
    char *lines = malloc(size + 1);
    if (!lines) abort();
    memcpy(lines, data, size);
    lines[size] = 0;
    write_lines(&wire, lines);
    free(lines);
  }
  *out_size = wire.at;
  unsigned char *description = malloc(wire.at ? wire.at : 1);
  if (!description) abort();
  memcpy(description, from, wire.at);
  return description;
}

static void check(tenon_status_t status, const char *what) {
  if (status != TENON_OK && !*tenon_error()) wrong(what);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static int32_t before;
  tn_client_t client = {0};
  tn_proxy_t proxy = {.client = &client};
  tenon_library_t *library = NULL;
  if (!before && (tenon_start() != TENON_OK || (before = count_ops()) == 0)) abort();
  if (size > SIZE_MOST) return 0;
  client.description = make_description(data, size, &client.description_size);
  fault_limit((int64_t)256 << 20);
  tenon_status_t status = tn_proxy_describe(&proxy);
  check(status, "a refused description without a message");
  if (status == TENON_OK) {
    status = tenon_library_add(&proxy.descriptor, &proxy, NULL, &library);
    if (status == TENON_INTERNAL) wrong("an internal error");
    check(status, "a refused library without a message");
  }
  fault_limit(0);
  if ((status == TENON_OK) != (library != NULL)) wrong("a status that does not fit the result");
  if (library) look(library);
  tenon_library_release(library);
  /* A linked-in library stays until shutdown. */
  if (library) tenon_shutdown();
  tn_map_clear(&proxy.names);
  tn_arena_clear(&proxy.arena);
  free(client.description);
  if (count_ops() != before) wrong("operators came or went");
  return 0;
}
