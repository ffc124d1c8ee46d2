/* Loads the plugin as NCCL does and calls every function of every table with what a careful reader of NCCL's
 * source has seen it pass: NULL everywhere, handles of others, unknown types and states.
 *
 *   abi_calls PLUGIN
 *
 * Exits 0 when all was survived and answered with success. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wrapper.h"

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                               \
    }                                                                        \
  } while (0)
#define OK(call) CHECK((call) == ncclSuccess)

/* As in libnccl: one mask for all. */
static int mask;

static void logger(ncclDebugLogLevel level, unsigned long flags, const char *file, int line, const char *fmt, ...) {
  CHECK(level == NCCL_LOG_INFO);
  CHECK(flags & NCCL_INIT);
  CHECK(file != NULL);
  CHECK(line >= 0);
  CHECK(strcmp(fmt, "%s") == 0);
}

/* Calls that look the same in every version; init and the types differ. */
#define DEFINE(N, INIT_NULL, INIT)                                                                         \
  static void init_v##N(ncclProfiler_v##N##_t *table, void **context, int *events) {                       \
    OK(table->init INIT);                                                                                  \
  }                                                                                                        \
  static void *work_v##N(void *argument) {                                                                 \
    ncclProfiler_v##N##_t *table = argument;                                                               \
    ncclProfilerEventDescr_v##N##_t event;                                                                 \
    ncclProfilerEventStateArgs_v##N##_t args;                                                              \
    void *context = NULL, *handle;                                                                         \
    init_v##N(table, &context, &mask);                                                                     \
    CHECK(context != NULL);                                                                                \
    for (int round = 0; round < 8; round++) {                                                              \
      for (int bit = 0; bit < 64; bit++) {                                                                 \
        memset(&event, 0, sizeof event);                                                                   \
        memset(&args, 0, sizeof args);                                                                     \
        uint64_t type = (uint64_t)1 << bit;                                                                \
        memcpy(&event.type, &type, sizeof event.type);                                                     \
        event.parentObj = (void *)(uintptr_t)0xdeadbeef;                                                   \
        handle = (void *)(uintptr_t)0xdeadbeef;                                                            \
        OK(table->startEvent(round % 2 ? context : (void *)(uintptr_t)0xbad, &handle, &event));            \
        CHECK(handle != (void *)(uintptr_t)0xdeadbeef);                                                    \
        for (unsigned state = 0; state < 40; state++) {                                                    \
          OK(table->recordEventState(handle, (ncclProfilerEventState_t)state, state % 2 ? &args : NULL));  \
        }                                                                                                  \
        OK(table->stopEvent(handle));                                                                      \
        OK(table->stopEvent(handle));                                                                      \
        OK(table->recordEventState(handle, ncclProfilerKernelChStop, NULL));                               \
      }                                                                                                    \
    }                                                                                                      \
    OK(table->finalize(context));                                                                          \
    handle = (void *)(uintptr_t)0xdeadbeef;                                                                \
    OK(table->startEvent(context, &handle, &event));                                                       \
    CHECK(handle != (void *)(uintptr_t)0xdeadbeef);                                                        \
    OK(table->stopEvent(handle));                                                                          \
    return NULL;                                                                                           \
  }                                                                                                        \
  static void try_v##N(void *library) {                                                                    \
    ncclProfiler_v##N##_t *table = dlsym(library, "ncclProfiler_v" #N);                                    \
    CHECK(table != NULL);                                                                                  \
    CHECK(strcmp(table->name, "OTF2") == 0);                                                               \
    const char *tail = (const char *)(table + 1);                                                          \
    for (size_t byte = 0; byte < 128 - sizeof *table; byte++) CHECK(tail[byte] == 0);                      \
    void *handle = NULL, *one = NULL, *two = NULL;                                                         \
    int events = -1;                                                                                       \
    OK(table->init INIT_NULL);                                                                             \
    init_v##N(table, &one, NULL);                                                                          \
    init_v##N(table, &two, &events);                                                                       \
    CHECK(one != NULL && two != NULL && one != two);                                                       \
    CHECK(events != -1);                                                                                   \
    OK(table->startEvent(NULL, NULL, NULL));                                                               \
    OK(table->startEvent(one, &handle, NULL));                                                             \
    CHECK(handle == NULL);                                                                                 \
    OK(table->stopEvent(NULL));                                                                            \
    OK(table->stopEvent((void *)(uintptr_t)0xdeadbeef));                                                   \
    OK(table->recordEventState(NULL, (ncclProfilerEventState_t)99, NULL));                                 \
    OK(table->finalize(one));                                                                              \
    OK(table->finalize(two));                                                                              \
    OK(table->finalize(two));                                                                              \
    OK(table->finalize(NULL));                                                                             \
    OK(table->finalize((void *)(uintptr_t)0xbad));                                                         \
    pthread_t threads[4];                                                                                  \
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, work_v##N, table) == 0);           \
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);                                \
  }

DEFINE(1, (NULL, NULL), (context, events))
DEFINE(2, (NULL, NULL), (context, events))
DEFINE(3, (NULL, NULL), (context, events))
DEFINE(4, (NULL, NULL, NULL, 0, 0, 0, 0, NULL), (context, events, "world", 0xc0ffee, 1, 2, 0, logger))
DEFINE(5, (NULL, 0, NULL, NULL, 0, 0, 0, NULL), (context, 0xc0ffee, events, "world", 1, 2, 0, logger))
DEFINE(6, (NULL, 0, NULL, NULL, 0, 0, 0, NULL), (context, 0xc0ffee, events, NULL, 1, 2, 0, logger))
DEFINE(7, (NULL, 0, NULL, NULL, 0, 0, 0, NULL), (context, 0xc0ffee, events, "world", 1, 2, 0, NULL))

int main(int count, char **arguments) {
  CHECK(count == 2);
  void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  try_v1(library), try_v2(library), try_v3(library), try_v4(library);
  try_v5(library), try_v6(library), try_v7(library);

  /* NCCL closes the plugin with the last communicator. Pinned, it is still there. */
  ncclProfiler_v7_t *table = dlsym(library, "ncclProfiler_v7");
  CHECK(dlclose(library) == 0);
  OK(table->stopEvent(NULL));
  library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL && dlsym(library, "ncclProfiler_v7") == (void *)table);
  return 0;
}
