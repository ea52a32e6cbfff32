/* The device null: the handles that it invents are distinct, and it counts the calls that it
 * gets. */
#include "devices/host.h"

#include <null/null.h>

extern const tenon_descriptor_t *tenon_library_null(void);

TEST("handles are distinct and aligned, and are not addresses") {
  host_t host;
  tenon_device_properties_t properties = {.size = sizeof properties};
  void *handles[64];
  if (!CHECK_STATUS(host_open(tenon_library_null(), "", &host), TENON_OK)) return;
  CHECK(host.count == 2);
  CHECK_STATUS(host.table->properties(&host.on[0], &properties), TENON_OK);
  CHECK(!(properties.features & TENON_DEVICE_ADDRESSES) && properties.alignment == 64 &&
        properties.memory > 0);
  for (uint32_t i = 0; i < 64; i++) {
    CHECK_STATUS(host.table->allocate(&host.on[i & 1], i + 1, &handles[i]), TENON_OK);
    CHECK((uintptr_t)handles[i] % 64 == 0 && handles[i]);
    for (uint32_t k = 0; k < i; k++)
      CHECK(handles[i] != handles[k]);
  }
  CHECK_STATUS(host.table->allocate(&host.on[0], properties.memory + 1, &handles[0]), TENON_MEMORY);
  CHECK_STATUS(host.table->allocate(&host.on[0], 0, &handles[0]), TENON_INVALID);
  host_close(&host);
}

TEST("copies, fills, launches and replays are counted, each on its ordinal, with the last ticket") {
  host_t host;
  void *memory, *stream, *event, *recording, *kernel;
  char bytes[16] = "unchanged";
  tenon_fault_t fault = {.size = sizeof fault};
  if (!CHECK_STATUS(host_open(tenon_library_null(), "", &host), TENON_OK)) return;
  const tenon_device_table_t *table = host.table;
  tenon_on_t on = &host.on[1];
  const null_counts_t *counts = table->native(on, "null", NULL);
  const null_counts_t *other = table->native(&host.on[0], "null", NULL);
  if (!CHECK(counts && other && counts != other) || !CHECK(!table->native(on, "cuda", NULL)))
    return;
  uint64_t copies = counts->copies;
  uint64_t fills = counts->fills;
  uint64_t launches = counts->launches;
  uint64_t frees = counts->frees;
  uint64_t other_copies = other->copies;
  CHECK_STATUS(table->allocate(on, 100, &memory), TENON_OK);
  CHECK_STATUS(table->stream_create(on, &stream), TENON_OK);
  CHECK_STATUS(table->event_create(on, &event), TENON_OK);
  CHECK_STATUS(
      host_copy(&host, 1, stream, 5, TENON_COPY_OUT, host_at(bytes, 0), host_at(memory, 0), 16),
      TENON_OK);
  CHECK_STATUS(
      host_copy(&host, 1, stream, 6, TENON_COPY_IN, host_at(memory, 0), host_at(bytes, 0), 16),
      TENON_OK);
  CHECK_STATUS(table->fill(on, stream, 7, host_at(memory, 0), 16, "a", 1), TENON_OK);
  CHECK(counts->copies == copies + 2 && counts->fills == fills + 1 && counts->ticket == 7 &&
        other->copies == other_copies);
  CHECK(!strcmp(bytes, "unchanged"));
  CHECK_STATUS(table->event_record(on, event, stream), TENON_OK);
  CHECK_STATUS(table->stream_wait(on, stream, on, event), TENON_OK);
  CHECK_STATUS(table->event_query(on, event), TENON_OK);
  CHECK_STATUS(table->stream_query(on, stream, &fault), TENON_OK);
  CHECK_STATUS(table->kernel_find(on, stream, "any", &kernel), TENON_OK);
  tenon_launch_t launch = {.size = sizeof launch,
                           .ticket = 9,
                           .kernel = kernel,
                           .groups = {1, 1, 1},
                           .group = {1, 1, 1}};
  CHECK_STATUS(table->launch(on, stream, &launch), TENON_OK);
  CHECK(counts->launches == launches + 1 && counts->ticket == 9);
  CHECK_STATUS(table->record_begin(on, stream), TENON_OK);
  CHECK_STATUS(table->record_end(on, stream, &recording), TENON_OK);
  CHECK_STATUS(table->replay(on, stream, recording, 11), TENON_OK);
  CHECK(counts->replays >= 1 && counts->ticket == 11);
  table->free(on, memory);
  CHECK(counts->frees == frees + 1);
  host_close(&host);
}

static void *reserve(tenon_sink_t *sink, uint64_t bytes) {
  static char room[64];
  (void)sink;
  return bytes <= sizeof room ? room : NULL;
}
static void tell(void *argument, tenon_status_t status) { *(int *)argument = status == TENON_OK; }

TEST("sources compile to themselves, callbacks run at once, and host memory is real") {
  host_t host;
  tenon_sink_t sink = {.size = sizeof sink, .reserve = reserve};
  tenon_source_t source = {
      .size = sizeof source, .language = TENON_SOURCE_C, .text = "int x;", .text_size = 6};
  int told = 0;
  void *data;
  if (!CHECK_STATUS(host_open(tenon_library_null(), "", &host), TENON_OK)) return;
  CHECK_STATUS(host.table->compile(&host.on[0], &source, &sink), TENON_OK);
  CHECK(!memcmp(reserve(&sink, 6), "int x;", 6));
  CHECK_STATUS(host.table->callback(&host.on[0], NULL, tell, &told), TENON_OK);
  CHECK(told);
  CHECK_STATUS(host.table->host_allocate(&host.on[0], 1000, &data), TENON_OK);
  memset(data, 1, 1000);
  host.table->host_free(&host.on[0], data);
  CHECK_STATUS(host.table->host_allocate(&host.on[0], UINT64_MAX, &data), TENON_MEMORY);
  host_close(&host);
}
