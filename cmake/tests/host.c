/* Loads the installed plugin as NCCL does and drives it as the newest NCCL would, in plain C.
 *
 *   host            as if NCCL_PROFILER_PLUGIN were not set: libnccl-profiler.so
 *   host otf2       as NCCL_PROFILER_PLUGIN=otf2: libnccl-profiler-otf2.so on the library path
 *   host /a/b.so    as NCCL_PROFILER_PLUGIN=/a/b.so
 *
 * The declarations are this file's own, written from the published layout: it checks the plugin's idea of them.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EVENT_COLL 0x2
#define EVENT_COLL_API 0x200

enum { SUCCESS = 0 };

typedef void (*logger_t)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

/* The first member of every version is the name; the rest of the table is 40 bytes of functions. */
typedef struct {
  const char *name;
  void *functions[5];
} table_t;

/* A reader of a fork's larger table must find zeros there, not code of somebody else. */
enum { TABLE_BYTES = 128 };

typedef struct {
  uint64_t type;
  void *parent;
  int rank;
  union {
    struct {
      const char *func;
      size_t count;
      const char *datatype;
      int root;
      void *stream;
      bool graph_captured;
      uint64_t user_tag;
    } coll_api;
    struct {
      uint64_t sequence;
      const char *func;
      const void *send;
      void *receive;
      size_t count;
      int root;
      const char *datatype;
      uint8_t channels, warps;
      const char *algorithm, *protocol;
      void *parent_group;
      const char *kernel_variant;
      bool is_symmetric;
      uint64_t user_tag;
    } coll;
  } u;
} descriptor_v7_t;

_Static_assert(offsetof(descriptor_v7_t, u) == 24, "the union starts at 24");
_Static_assert(offsetof(descriptor_v7_t, u.coll.user_tag) == 128, "userTag is the last member of coll");
_Static_assert(sizeof(descriptor_v7_t) == 136, "136 bytes");

typedef union {
  uint64_t first;
} state_v7_t;

typedef struct {
  const char *name;
  int (*init)(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nodes, int ranks, int rank,
              logger_t logger);
  int (*start)(void *context, void **handle, descriptor_v7_t *descriptor);
  int (*stop)(void *handle);
  int (*record)(void *handle, int state, state_v7_t *args);
  int (*finalize)(void *context);
} table_v7_t;

static int failures;

#define CHECK(condition, ...)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "host.c:%d: %s: ", __LINE__, #condition);                                                        \
      fprintf(stderr, __VA_ARGS__);                                                                                    \
      fputc('\n', stderr);                                                                                             \
      failures++;                                                                                                      \
    }                                                                                                                  \
  } while (0)

static void say(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
  va_list arguments;
  (void)file;
  (void)line;
  fprintf(stderr, "[level %d, subsystems %lx] ", level, flags);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
}

/* NCCL's rule: the value as it is, then as the middle of the name. */
static void *load(const char *value) {
  char name[512];
  void *library = dlopen(value ? value : "libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
  if (!library && value && !strchr(value, '/')) {
    snprintf(name, sizeof name, "libnccl-profiler-%s.so", value);
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  return library;
}

static void check_tables(void *library) {
  for (int version = 1; version <= 7; version++) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
    const table_t *table = dlsym(library, symbol);
    CHECK(table, "%s is not exported", symbol);
    if (!table)
      continue;
    CHECK(table->name && table->name[0], "%s has no name", symbol);
    for (size_t i = 0; i < sizeof table->functions / sizeof table->functions[0]; i++)
      CHECK(table->functions[i], "%s: function %zu is missing", symbol, i);
    const unsigned char *bytes = (const unsigned char *)table;
    for (size_t at = sizeof *table; at < TABLE_BYTES; at++)
      CHECK(bytes[at] == 0, "%s: byte %zu after the table is %#x", symbol, at, bytes[at]);
  }
}

/* One all-reduce on a communicator of one rank, as the newest release reports it. */
static void drive(const table_v7_t *plugin) {
  void *context = NULL, *call = NULL, *operation = NULL;
  int mask = -1;
  int result = plugin->init(&context, 0x0123456789abcdefULL, &mask, "host.c", 1, 1, 0, say);
  CHECK(result == SUCCESS, "init returned %d", result);
  CHECK(context, "init gave no context");
  CHECK(mask & EVENT_COLL, "the event mask %#x has no collectives: is recording off?", (unsigned)mask);

  descriptor_v7_t api = {.type = EVENT_COLL_API, .rank = 0};
  api.u.coll_api.func = "AllReduce";
  api.u.coll_api.count = 1000;
  api.u.coll_api.datatype = "ncclFloat32";
  CHECK(plugin->start(context, &call, &api) == SUCCESS, "start of a call");
  CHECK(call, "the call has no handle: its operations would not be reported");

  descriptor_v7_t coll = {.type = EVENT_COLL, .parent = call, .rank = 0};
  coll.u.coll.func = "AllReduce";
  coll.u.coll.count = 1000;
  coll.u.coll.datatype = "ncclFloat32";
  coll.u.coll.channels = 1;
  coll.u.coll.algorithm = "RING";
  coll.u.coll.protocol = "LL";
  coll.u.coll.kernel_variant = "";
  CHECK(plugin->start(context, &operation, &coll) == SUCCESS, "start of an operation");
  CHECK(operation && operation != call, "two events with one handle");

  CHECK(plugin->stop(operation) == SUCCESS, "stop of an operation");
  CHECK(plugin->stop(call) == SUCCESS, "stop of a call");
  /* What NCCL does, too. */
  CHECK(plugin->record(call, 23, NULL) == SUCCESS, "a state after the stop, without arguments");
  CHECK(plugin->stop(NULL) == SUCCESS, "stop of nothing");
  CHECK(plugin->finalize(context) == SUCCESS, "finalize");
}

int main(int count, char **words) {
  void *library = load(count > 1 ? words[1] : NULL);
  if (!library) {
    fprintf(stderr, "host.c: %s\n", dlerror());
    return 2;
  }
  check_tables(library);
  const table_v7_t *plugin = dlsym(library, "ncclProfiler_v7");
  /* NCCL unloads the plugin with the last communicator and loads it again for the next. */
  for (int round = 0; plugin && round < 2; round++) {
    drive(plugin);
    CHECK(dlclose(library) == 0, "dlclose: %s", dlerror());
    library = load(count > 1 ? words[1] : NULL);
    CHECK(library, "second load: %s", dlerror());
    plugin = library ? dlsym(library, "ncclProfiler_v7") : NULL;
  }
  printf("%s: %d failures\n", count > 1 ? words[1] : "libnccl-profiler.so", failures);
  return failures != 0;
}
