/* A profiler plugin that stands between NCCL and another plugin: it passes each call on, unchanged, and counts it. So
 * one run says both what NCCL called and what the other plugin made of it, also where the numbers differ from run to
 * run. It knows nothing of the other plugin but the tables that NCCL knows.
 *
 * Environment: RELAY_PLUGIN  the plugin to pass the calls on to (a path, for dlopen)
 *              RELAY_OUT     file name prefix of the counts; the process id is appended
 *
 * The counts are in a shared mapping of the file; they outlive a killed process. The file is 64-bit words in
 * the order of `struct counts`. An offered version is one that the other plugin has, too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { VERSIONS = 7, KINDS = 16, UNKNOWN_TYPE = KINDS, UNKNOWN_HANDLE, ROWS, STATES = 40 };

struct row {
  atomic_uint_fast64_t starts, stops, states[STATES];
};

struct counts {
  uint64_t magic, rows, states;
  atomic_uint_fast64_t version, inits, finalizes, errors, null_handles, null_stops, null_states, other_states;
  struct row row[ROWS];
};
_Static_assert(sizeof(struct counts) == (11 + ROWS * (2 + STATES)) * 8, "words without gaps");

/* All versions have these members in this order; what differs are the arguments of init and the descriptors. */
struct plugin {
  const char *name;
  void (*init)(void);
  int (*start)(void *context, void **handle, void *descriptor);
  int (*stop)(void *handle);
  int (*state)(void *handle, int state, void *arguments);
  int (*finalize)(void *context);
};

static struct counts *counts;
static const struct plugin *behind[VERSIONS + 1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Which kind of event a handle is of. Handles are whatever the plugin behind makes them: nothing is assumed but that two
 * events that live at the same time have different ones. */
struct known {
  void *handle;
  int row;
};
static struct known *table;
static size_t used, size;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "relay: %s: %s\n", what, why ? why : "?");
  abort();
}

static struct known *slot_of(struct known *in, size_t slots, void *handle) {
  uint64_t hash = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u;
  size_t at = (hash >> 32) % slots;
  while (in[at].handle && in[at].handle != handle) at = (at + 1) % slots;
  return &in[at];
}

static void remember(void *handle, int row) {
  pthread_mutex_lock(&lock);
  if (used * 2 >= size) {
    size_t slots = size ? size * 2 : 1 << 16;
    struct known *larger = calloc(slots, sizeof *larger);
    if (!larger) fail("calloc", "no memory");
    for (size_t i = 0; i < size; i++)
      if (table[i].handle) *slot_of(larger, slots, table[i].handle) = table[i];
    free(table);
    table = larger;
    size = slots;
  }
  struct known *slot = slot_of(table, size, handle);
  if (!slot->handle) used++;
  *slot = (struct known){handle, row};
  pthread_mutex_unlock(&lock);
}

static int row_of(void *handle) {
  pthread_mutex_lock(&lock);
  struct known *slot = size ? slot_of(table, size, handle) : NULL;
  int row = slot && slot->handle ? slot->row : UNKNOWN_HANDLE;
  pthread_mutex_unlock(&lock);
  return row;
}

static int row_of_type(uint64_t type) {
  for (int kind = 0; kind < KINDS; kind++)
    if (type == 1ull << kind) return kind;
  return UNKNOWN_TYPE;
}

static void *load(void);

__attribute__((constructor)) static void open_counts(void) {
  const char *prefix = getenv("RELAY_OUT");
  if (!prefix) fail("RELAY_OUT", "not set");
  char path[4096];
  snprintf(path, sizeof path, "%s.%d", prefix, (int)getpid());
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 || ftruncate(file, sizeof *counts)) fail(path, "cannot be written");
  counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (counts == MAP_FAILED) fail(path, "cannot be mapped");
  close(file);
  counts->magic = 0x59414c4552u; /* "RELAY" */
  counts->rows = ROWS;
  counts->states = STATES;
  void *plugin = load();
  for (int version = 1; version <= VERSIONS; version++) {
    char name[32];
    snprintf(name, sizeof name, "ncclProfiler_v%d", version);
    behind[version] = dlsym(plugin, name);
    if (!behind[version]) fail(name, "the plugin behind has none");
  }
}

static void *load(void) {
  const char *path = getenv("RELAY_PLUGIN");
  if (!path) fail("RELAY_PLUGIN", "not set");
  void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!plugin) fail(path, dlerror());
  return plugin;
}

static int result(int code) {
  if (code) atomic_fetch_add(&counts->errors, 1);
  return code;
}

static void begin(int version) {
  atomic_store(&counts->version, version);
  atomic_fetch_add(&counts->inits, 1);
}

static int start(int version, void *context, void **handle, void *descriptor) {
  uint64_t type = version < 5 ? *(uint8_t *)descriptor : *(uint64_t *)descriptor;
  int row = row_of_type(type);
  atomic_fetch_add(&counts->row[row].starts, 1);
  int code = result(behind[version]->start(context, handle, descriptor));
  if (!*handle) atomic_fetch_add(&counts->null_handles, 1);
  else remember(*handle, row);
  return code;
}

static int stop(int version, void *handle) {
  if (!handle) atomic_fetch_add(&counts->null_stops, 1);
  else atomic_fetch_add(&counts->row[row_of(handle)].stops, 1);
  return result(behind[version]->stop(handle));
}

static int state(int version, void *handle, int number, void *arguments) {
  if (!handle) atomic_fetch_add(&counts->null_states, 1);
  else if (number < 0 || number >= STATES) atomic_fetch_add(&counts->other_states, 1);
  else atomic_fetch_add(&counts->row[row_of(handle)].states[number], 1);
  return result(behind[version]->state(handle, number, arguments));
}

static int finalize(int version, void *context) {
  atomic_fetch_add(&counts->finalizes, 1);
  return result(behind[version]->finalize(context));
}

/* init: (context, mask) up to version 3; (context, mask, name, hash, nodes, ranks, rank, log) in version 4;
 * (context, id, mask, name, nodes, ranks, rank, log) since. */
#define INIT_1_TO_3(V)                                                                                                 \
  static int init##V(void **context, int *mask) {                                                                      \
    begin(V);                                                                                                          \
    return result(((int (*)(void **, int *))behind[V]->init)(context, mask));                                          \
  }
#define INIT_5_TO_7(V)                                                                                                 \
  static int init##V(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,         \
                     void *log) {                                                                                      \
    begin(V);                                                                                                          \
    return result(((int (*)(void **, uint64_t, int *, const char *, int, int, int, void *))behind[V]->init)(           \
        context, id, mask, name, nodes, ranks, rank, log));                                                            \
  }
static int init4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank,
                 void *log) {
  begin(4);
  return result(((int (*)(void **, int *, const char *, uint64_t, int, int, int, void *))behind[4]->init)(
      context, mask, name, hash, nodes, ranks, rank, log));
}
INIT_1_TO_3(1)
INIT_1_TO_3(2)
INIT_1_TO_3(3)
INIT_5_TO_7(5)
INIT_5_TO_7(6)
INIT_5_TO_7(7)

/* The tables are longer than NCCL's, zero at the end: trees with more members exist. */
#define TABLE(V)                                                                                                       \
  static int start##V(void *c, void **h, void *d) { return start(V, c, h, d); }                                        \
  static int stop##V(void *h) { return stop(V, h); }                                                                   \
  static int state##V(void *h, int s, void *a) { return state(V, h, s, a); }                                           \
  static int finalize##V(void *c) { return finalize(V, c); }                                                           \
  struct {                                                                                                             \
    struct plugin plugin;                                                                                              \
    void *none[8];                                                                                                     \
  } ncclProfiler_v##V = {{"relay", (void (*)(void))init##V, start##V, stop##V, state##V, finalize##V}, {0}};
TABLE(1)
TABLE(2)
TABLE(3)
TABLE(4)
TABLE(5)
TABLE(6)
TABLE(7)
