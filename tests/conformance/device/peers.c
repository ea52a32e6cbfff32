/* Cases about copies from other ordinals, and about imported memory and streams. */
#include "groups.h"
#include <stdlib.h>
#include <string.h>

static void answers(tenon_on_t on) {
  for (int32_t i = 0; i < rig.count; i++) {
    if (i == on->ordinal) continue;
    must(start(i), "start of ordinal %d", i);
    doing("peers()");
    int32_t first = rig.table->peers(on, &rig.contexts[i]);
    int32_t second = rig.table->peers(on, &rig.contexts[i]);
    EXPECT((first == 0 || first == 1) && first == second,
           "peers(%d, %d): expected 0 or 1, and the same twice; found %d and %d", on->ordinal, i,
           first, second);
  }
}

static void each_pair(tenon_on_t on) {
  for (int32_t i = 0; i < rig.count; i++) {
    if (i == on->ordinal) continue;
    must(start(i), "start of ordinal %d", i);
    tenon_on_t from = &rig.contexts[i];
    if (!rig.table->peers(on, from)) continue;
    void *x = filled(from, 30000, 5 + (uint64_t)i);
    void *y = filled(on, 30000, POISON);
    must_peer(on, NULL, y, 0, from, x, 0, 30000);
    must_pass(on, NULL);
    expect_holds(on, y, 0, 30000, 5 + (uint64_t)i, 0, POISON,
                 "copy(PEER) from ordinal %d to ordinal %d", i, on->ordinal);
    expect_holds(from, x, 0, 30000, 5 + (uint64_t)i, 0, 0, "the source of copy(PEER) on ordinal %d",
                 i);
    must_free(on, y);
    must_free(from, x);
  }
}

static void sizes(tenon_on_t on) {
  tenon_on_t from = other_of(on);
  void *x = filled(from, 400000, 5);
  void *y = must_allocate(on, 400000);
  for (uint64_t bytes = 1; bytes < 390000; bytes += 1 + bytes) {
    uint64_t at = bytes % 11;
    uint64_t to = bytes % 7;
    put(on, y, 0, 400000, 6);
    must_peer(on, NULL, y, to, from, x, at, bytes);
    must_pass(on, NULL);
    expect_holds(on, y, 0, to, 6, 0, 0, "bytes before the target of copy(PEER, %llu bytes)",
                 (unsigned long long)bytes);
    expect_holds(on, y, to, bytes, 5, at, 6,
                 "the target of copy(PEER, %llu bytes, from offset %llu to offset %llu)",
                 (unsigned long long)bytes, (unsigned long long)at, (unsigned long long)to);
    expect_holds(on, y, to + bytes, 100, 6, to + bytes, 0,
                 "bytes after the target of copy(PEER, %llu bytes)", (unsigned long long)bytes);
  }
  must_free(from, x);
  must_free(on, y);
}

static void order(tenon_on_t on) {
  tenon_on_t from = other_of(on);
  for (int round = 0; round < rig.rounds; round++) {
    void *stream = must_stream(on);
    void *x = filled(from, 20000, 5);
    void *y = filled(on, 20000, 6);
    void *z = filled(on, 20000, POISON);
    void *before = filled(on, 20000, POISON);
    delay(on, stream, 0);
    must_within(on, stream, before, 0, y, 0, 20000);
    must_peer(on, stream, y, 0, from, x, 0, 20000);
    must_within(on, stream, z, 0, y, 0, 20000);
    must_pass(on, stream);
    expect_holds(on, before, 0, 20000, 6, 0, 5,
                 "a copy WITHIN before copy(PEER) on the same stream (is the order kept?)");
    expect_holds(on, z, 0, 20000, 5, 0, 6,
                 "a copy WITHIN after copy(PEER) on the same stream (is the order kept?)");
    must_stream_destroy(on, stream);
    must_free(from, x);
    must_free(on, y);
    must_free(on, z);
    must_free(on, before);
  }
}

static void behind_event(tenon_on_t on) {
  tenon_on_t from = other_of(on);
  for (int round = 0; round < rig.rounds; round++) {
    void *a = must_stream(from);
    void *b = must_stream(on);
    void *event = must_event(from);
    void *x = filled(from, 20000, 5);
    void *y = filled(from, 20000, POISON);
    void *z = filled(on, 20000, 6);
    delay(from, a, 0);
    must_within(from, a, y, 0, x, 0, 20000);
    must_record(from, event, a);
    must_wait(on, b, from, event);
    must_peer(on, b, z, 0, from, y, 0, 20000);
    must_pass(on, b);
    expect_holds(on, z, 0, 20000, 5, 0, POISON,
                 "copy(PEER) after stream_wait for an event of the ordinal that it copies from "
                 "(does the stream wait?)");
    must_event_destroy(from, event);
    must_stream_destroy(from, a);
    must_stream_destroy(on, b);
    must_free(from, x);
    must_free(from, y);
    must_free(on, z);
  }
}

static void freed_while_read(tenon_on_t on) {
  tenon_on_t from = other_of(on);
  const uint64_t bytes = 100000;
  for (int round = 0; round < rig.rounds; round++) {
    void *stream = must_stream(on);
    void *x = filled(from, bytes, 5);
    void *y = filled(on, bytes, POISON);
    void *next[4];
    delay(on, stream, 0);
    must_peer(on, stream, y, 0, from, x, 0, bytes);
    must_free(from, x);
    for (int i = 0; i < 4; i++)
      next[i] = filled(from, bytes, 6);
    must_pass(on, stream);
    expect_holds(on, y, 0, bytes, 5, 0, 6,
                 "copy(PEER) from memory that was freed while the copy was enqueued on another "
                 "ordinal: its memory was given away too early");
    for (int i = 0; i < 4; i++)
      must_free(from, next[i]);
    must_free(on, y);
    must_stream_destroy(on, stream);
  }
}

static void unknown_name(tenon_on_t on) {
  doing("native(\"no such object\")");
  EXPECT(rig.table->native(on, "no such object", NULL) == NULL,
         "native of a name that does not exist: expected NULL, found an object");
  EXPECT(rig.table->native(on, "", NULL) == NULL,
         "native of the name \"\": expected NULL, found an object");
}

static void same_native(tenon_on_t on) {
  static const char *const names[] = {"enqueue_failure",  "stream",       "cl_context",
                                      "cl_command_queue", "cl_device_id", "CUcontext",
                                      "CUstream",         "CUdevice"};
  for (int i = 0; i < 8; i++) {
    doing("native(\"%s\")", names[i]);
    EXPECT(rig.table->native(on, names[i], NULL) == rig.table->native(on, names[i], NULL),
           "native(\"%s\"): expected the same object twice", names[i]);
  }
}

static void memory_import(tenon_on_t on) { /* the device's own memory stands for foreign memory */
  void *native = filled(on, 20000, 5);
  void *handle = NULL;
  doing("memory_import()");
  tenon_status_t status = rig.table->memory_import(on, native, 20000, &handle);
  if (status != TENON_OK)
    skip_case("memory_import does not accept a handle of allocate: %s", said());
  EXPECT(handle, "memory_import returned TENON_OK: expected a handle, found NULL");
  expect_holds(on, handle, 0, 20000, 5, 0, 0, "memory that was imported");
  put(on, handle, 100, 5000, 6);
  doing("memory_forget()");
  rig.table->memory_forget(on, handle);
  expect_holds(on, native, 100, 5000, 6, 0, 5, "memory that was written while it was imported");
  expect_holds(on, native, 5100, 14900, 5, 5100, 0, "memory that was imported and released");
  must_free(on, native);
}

static void stream_import(tenon_on_t on) {
  static const char *const names[] = {"stream", "cl_command_queue", "CUstream"};
  void *stream = must_stream(on);
  void *native = NULL;
  void *imported = NULL;
  for (int i = 0; i < 3 && !native; i++)
    native = rig.table->native(on, names[i], stream);
  if (!native)
    skip_case(
        "native returns no object \"stream\", \"cl_command_queue\" or \"CUstream\" for a stream");
  doing("stream_import()");
  must(rig.table->stream_import(on, native, &imported),
       "stream_import of the device's own native stream");
  for (int round = 0; round < rig.rounds; round++) {
    void *x = filled(on, 20000, 5);
    void *y = filled(on, 20000, POISON);
    void *z = filled(on, 20000, 6);
    delay(on, stream, 0);
    must_within(on, stream, y, 0, x, 0, 20000);
    must_within(on, imported, z, 0, y, 0, 20000); /* the same stream under another name */
    must_pass(on, imported);
    expect_holds(on, z, 0, 20000, 5, 0, POISON,
                 "a copy on an imported stream, after work on the same stream under its first name "
                 "(is the order kept?)");
    must_free(on, x);
    must_free(on, y);
    must_free(on, z);
  }
  doing("stream_forget()");
  rig.table->stream_forget(on, imported);
  void *y = filled(on, 20000, POISON);
  void *x = filled(on, 20000, 5);
  must_within(on, stream, y, 0, x, 0, 20000);
  must_pass(on, stream);
  expect_holds(on, y, 0, 20000, 5, 0, POISON, "a copy on a stream that was imported and released");
  must_stream_destroy(on, stream);
  must_free(on, x);
  must_free(on, y);
}

const case_t peer_cases[] = {
    {"peers.answers", "peers returns 0 or 1 for each pair of ordinals, and the same twice.",
     NEEDS_DIRECT, answers},
    {"peers.each_pair", "Copies from each other ordinal that is a peer.", NEEDS_DIRECT, each_pair},
    {"peers.sizes",
     "Copies from another ordinal of 1 byte to 390 kB, at odd offsets, do not change the bytes "
     "around.",
     NEEDS_DIRECT, sizes},
    {"peers.order", "Copies from another ordinal keep their order on their stream.",
     NEEDS_DIRECT | NEEDS_STREAMS, order},
    {"peers.behind_event", "A copy from another ordinal waits for an event of that ordinal.",
     NEEDS_DIRECT | NEEDS_EVENTS, behind_event},
    {"peers.freed_while_read",
     "Memory that is freed while another ordinal still reads it is not reused before.",
     NEEDS_DIRECT | NEEDS_STREAMS, freed_while_read},
    {0}};

const case_t import_cases[] = {
    {"imports.unknown_name", "native returns NULL for names that do not exist.", NEEDS_NATIVE,
     unknown_name},
    {"imports.same_native", "native returns the same object twice.", NEEDS_NATIVE, same_native},
    {"imports.memory", "Imported memory is read and written, and its owner keeps it.",
     NEEDS_MEMORY_IMPORT, memory_import},
    {"imports.stream", "Work on an imported stream is ordered with the owner's work.",
     NEEDS_STREAM_IMPORT | NEEDS_NATIVE | NEEDS_STREAMS, stream_import},
    {0}};
