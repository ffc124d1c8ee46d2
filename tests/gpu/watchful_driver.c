/* A CUDA driver whose device does everything at once, and which notes what is done wrong: at exit it appends to the
 * file WATCHFUL_REPORT how many events were made, destroyed, recorded, and how often it was called in a forked child.
 * WATCHFUL_HANG names a function that never returns; with WATCHFUL_HANG_MS it is its first call, for so long. With WATCHFUL_BUSY_MS the device needs that long for an event. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct event {
    struct timespec at;
    int is_there;
};

static pid_t owner;
static const char *hangs;
static long busy_ms, hang_ms;
static atomic_int has_hung;
static atomic_int made, destroyed, recorded, in_child;

__attribute__((constructor)) static void begin(void) {
    owner = getpid();
    hangs = getenv("WATCHFUL_HANG");
    busy_ms = getenv("WATCHFUL_BUSY_MS") ? atol(getenv("WATCHFUL_BUSY_MS")) : 0;
    hang_ms = getenv("WATCHFUL_HANG_MS") ? atol(getenv("WATCHFUL_HANG_MS")) : 0;
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("WATCHFUL_REPORT");
    FILE *report = path ? fopen(path, "a") : NULL;
    if (report) {
        fprintf(report, "%s made=%d destroyed=%d recorded=%d in_child=%d\n", getpid() == owner ? "owner" : "child",
                made, destroyed, recorded, in_child);
        fclose(report);
    }
}

static void called(const char *function) {
    if (getpid() != owner) {
        in_child++;
    }
    while (hangs && !strcmp(hangs, function)) {
        if (hang_ms) {
            if (!has_hung++) {
                usleep(hang_ms * 1000);
            }
            return;
        }
        pause();
    }
}
#define CALLED called(__func__)

int cuDriverGetVersion(int *version) { return CALLED, *version = 12080, 0; }
int cuCtxGetCurrent(void **context) { return CALLED, *context = &owner, 0; }
int cuCtxGetDevice(int *device) { return CALLED, *device = 0, 0; }
int cuCtxPushCurrent_v2(void *context) { return CALLED, context == &owner ? 0 : 201; }
int cuCtxPopCurrent_v2(void **context) { return CALLED, *context = &owner, 0; }
int cuDeviceGetName(char *name, int room, int device) { return CALLED, (void)device, strncpy(name, "watchful", room), 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return CALLED, *mode = 0, 0; }
int cuStreamIsCapturing(void *stream, int *status) { return CALLED, (void)stream, *status = 0, 0; }
int cuStreamCreate(void **stream, unsigned flags) { return CALLED, (void)flags, *stream = &made, 0; }
int cuStreamDestroy_v2(void *stream) { return CALLED, stream == &made ? 0 : 400; }

int cuEventCreate(struct event **event, unsigned flags) {
    CALLED;
    (void)flags;
    made++;
    *event = calloc(1, sizeof **event);
    (*event)->is_there = 1;
    return 0;
}

int cuEventRecord(struct event *event, void *stream) {
    CALLED;
    (void)stream;
    recorded++;
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return event->is_there ? 0 : 400;
}

int cuEventQuery(struct event *event) {
    CALLED;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long ms = (now.tv_sec - event->at.tv_sec) * 1000 + (now.tv_nsec - event->at.tv_nsec) / 1000000;
    return !event->is_there ? 400 : ms < busy_ms ? 600 : 0;
}

int cuEventElapsedTime(float *ms, struct event *from, struct event *to) {
    CALLED;
    *ms = (to->at.tv_sec - from->at.tv_sec) * 1e3 + (to->at.tv_nsec - from->at.tv_nsec) * 1e-6;
    return from->is_there && to->is_there ? 0 : 400;
}

/* Not freed: who uses it once more is to be told, not to crash. */
int cuEventDestroy_v2(struct event *event) {
    CALLED;
    destroyed += event->is_there;
    event->is_there = 0;
    return 0;
}
