/* A tool that is preloaded: records with CUPTI from the start, and writes what it got to $TOOL_OUT.<pid> at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *cupti;
static FILE *out;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define CALL(name, types, ...) ((int (*) types)dlsym(cupti, name))(__VA_ARGS__)

static void request(uint8_t **buffer, size_t *size, size_t *records) {
    *size = 1 << 20;
    *buffer = aligned_alloc(4096, *size);
    *records = 0;
}

#define U32(at) (*(const uint32_t *)(record + (at)))
#define U64(at) (*(const uint64_t *)(record + (at)))

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    uint8_t *record = NULL;
    (void)context, (void)stream, (void)size;
    pthread_mutex_lock(&lock);
    while (CALL("cuptiActivityGetNextRecord", (uint8_t *, size_t, uint8_t **), buffer, valid, &record) == 0) {
        if (U32(0) == 4 || U32(0) == 5)
            fprintf(out, "call %u %u %u %u\n", U32(0), U32(4), U32(32), U32(28));
        if (U32(0) == 10)
            fprintf(out, "kernel %u %" PRIu64 " %" PRIu64 " %u %u %u %" PRIu64 " %s\n", U32(92), U64(16), U64(24), U32(40),
                    U32(48), U32(156), U64(144), *(const char **)(record + 104));
        if (U32(0) == 1)
            fprintf(out, "copy %u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", U32(44), U64(16), U64(24), U64(8));
    }
    pthread_mutex_unlock(&lock);
    free(buffer);
}

static void finish(void) {
    ((void (*)(void))dlsym(cupti, "fake_cupti_drain"))();
    CALL("cuptiActivityFlushAll", (uint32_t), 1);
    fclose(out);
}

__attribute__((constructor)) static void begin(void) {
    char path[4096];
    void *subscriber;
    const char *library = getenv("TOOL_CUPTI");
    if (!library || !dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD))
        return; /* the launcher, which has no device */
    cupti = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    snprintf(path, sizeof path, "%s.%d", getenv("TOOL_OUT"), (int)getpid());
    out = fopen(path, "w");
    if (!cupti || !out || CALL("cuptiSubscribe", (void **, void *, void *), &subscriber, NULL, NULL) != 0)
        abort();
    CALL("cuptiActivityRegisterCallbacks", (void *, void *), (void *)request, (void *)complete);
    CALL("cuptiActivityEnable", (uint32_t), 4);
    CALL("cuptiActivityEnable", (uint32_t), 5);
    CALL("cuptiActivityEnable", (uint32_t), 1);
    CALL("cuptiActivityEnable", (uint32_t), 10);
    atexit(finish);
}
