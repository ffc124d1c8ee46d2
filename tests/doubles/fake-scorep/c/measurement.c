/* The measurement: definitions, regions, locations, and the end of the program. Calls that a real Score-P answers with
 * an abort or with corrupt data end the program here as well. What came is in the file that FAKE_SCOREP_LOG and the
 * process id name.
 *
 *   FAKE_SCOREP_TIMER        tsc (default on x86-64), gettimeofday, clock_gettime
 *   SCOREP_ENABLE_PROFILING  false: tracing only, when crossed regions are corrupt but no reason to abort
 *   SCOREP_TOTAL_MEMORY      bytes, each location takes 2 MiB (default 16 MiB)
 *   FAKE_SCOREP_REGISTER_AT  with so many regions entered, register the handler at exit again, as MPI_Finalize does
 *   FAKE_SCOREP_END_AT       with so many regions entered, the measurement ends
 *   FAKE_SCOREP_RECORDING    0: the user has switched recording off
 */
#define _GNU_SOURCE
#include "fake_scorep.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define MOST 1024
#define DEPTH 256
#define LOCATION_BYTES (2u << 20)

struct SCOREP_Location {
    int number;
    bool is_cpu;
    /* 0 as long as nothing is recorded, as a real one says, too. */
    uint64_t last_timestamp;
    uint32_t stack[DEPTH];
    int depth;
    char attributes[1024];
};

volatile int scorep_measurement_phase = -1;
static __thread volatile sig_atomic_t in_measurement;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static FILE *file;
static bool is_profiling = true;
static uint64_t begin_epoch;
static bool is_recording = true;
/* While the measurement ends its own callbacks may still write. */
static bool is_ending;
static char directory[4096];

static char *regions[MOST];
static uint32_t number_of_regions = 1;
static struct { char *name; int type; } attributes[MOST];
static uint32_t number_of_attributes = 1;
static char *strings[MOST];
static uint32_t number_of_strings = 1;
static SCOREP_Location *locations[MOST];
static int number_of_locations;
static long entered, register_at = -1, end_at = -1;
static int (*exit_callback)(void);

static long number_of(const char *variable, long otherwise)
{
    const char *value = getenv(variable);
    return value && *value ? atol(value) : otherwise;
}

void fake_fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "[Score-P] Fatal: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    if (file) {
        fflush(file);
    }
    abort();
}

void fake_log(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (file) {
        vfprintf(file, format, arguments);
        fputc('\n', file);
        fflush(file);
    }
    va_end(arguments);
}

static uint64_t now(void)
{
    const char *timer = getenv("FAKE_SCOREP_TIMER");
    struct timespec time;
    if (timer && strcmp(timer, "gettimeofday") == 0) {
        clock_gettime(CLOCK_REALTIME, &time);
        return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
    }
#if defined(__x86_64__)
    if (!timer || strcmp(timer, "tsc") == 0) {
        return __rdtsc();
    }
#endif
    clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

bool fake_is_within(void)
{
    return scorep_measurement_phase == 0 || is_ending;
}

static void need_within(const char *what)
{
    if (!fake_is_within()) {
        fake_fatal("%s called in phase %d", what, scorep_measurement_phase);
    }
}

/* Ours and the user adapter's calls are Score-P's own work: a thread that calls from outside says so. */
void fake_need(const char *what)
{
    need_within(what);
    if (in_measurement == 0) {
        fake_fatal("%s called without saying that the thread is inside of the measurement", what);
    }
}

int fake_number(const SCOREP_Location *location)
{
    return location->number;
}

uint64_t SCOREP_GetBeginEpoch(void)
{
    if (begin_epoch == 0) {
        fake_fatal("scorep_clock_synchronization.c: Assertion: scorep_epoch_begin_set");
    }
    return begin_epoch;
}

SCOREP_Location *fake_new_location(const char *name, bool is_cpu)
{
    pthread_mutex_lock(&mutex);
    const long bytes = number_of("SCOREP_TOTAL_MEMORY", 16 << 20);
    if (number_of_locations >= MOST || (number_of_locations + 1) * (long)LOCATION_BYTES > bytes) {
        fake_fatal("Out of memory: %d locations with %ld bytes", number_of_locations + 1, bytes);
    }
    SCOREP_Location *location = calloc(1, sizeof *location);
    location->number = number_of_locations;
    location->is_cpu = is_cpu;
    locations[number_of_locations++] = location;
    fake_log("location %d %s %s", location->number, is_cpu ? "cpu" : "gpu", name);
    pthread_mutex_unlock(&mutex);
    return location;
}

SCOREP_Location *fake_master(void)
{
    return locations[0];
}

sig_atomic_t *scorep_get_in_measurement(void)
{
    return (sig_atomic_t *)&in_measurement;
}

bool SCOREP_RecordingEnabled(void)
{
    return is_recording;
}

/* ---- Definitions */

static uint32_t define(char **list, uint32_t *number, const char *what, const char *name)
{
    fake_need(what);
    pthread_mutex_lock(&mutex);
    if (*number >= MOST) {
        fake_fatal("%s: too many", what);
    }
    list[*number] = strdup(name);
    const uint32_t handle = (*number)++;
    pthread_mutex_unlock(&mutex);
    return handle;
}

uint32_t SCOREP_Definitions_NewSourceFile(const char *name)
{
    need_within("NewSourceFile");
    return name ? 1 : 0;
}

uint32_t SCOREP_Definitions_NewString(const char *text)
{
    return define(strings, &number_of_strings, "NewString", text);
}

uint32_t SCOREP_Definitions_NewRegion(const char *name, const char *canonical, uint32_t source_file, uint32_t begin,
                                      uint32_t end, int paradigm, int role)
{
    (void)begin, (void)end;
    if (!canonical || source_file == 0) {
        fake_fatal("NewRegion(%s) without a canonical name or a file", name);
    }
    const uint32_t region = define(regions, &number_of_regions, "NewRegion", name);
    fake_log("region %u role %d paradigm %d %s", region, role, paradigm, name);
    return region;
}

uint32_t SCOREP_Definitions_NewAttribute(const char *name, const char *description, int type)
{
    (void)description;
    fake_need("NewAttribute");
    if (type != 7 && type != 10) {
        fake_fatal("NewAttribute: type %d", type);
    }
    pthread_mutex_lock(&mutex);
    attributes[number_of_attributes].name = strdup(name);
    attributes[number_of_attributes].type = type;
    const uint32_t attribute = number_of_attributes++;
    pthread_mutex_unlock(&mutex);
    return attribute;
}

uint32_t SCOREP_GetSystemTreeNodeHandleForSharedMemory(void)
{
    return 1;
}

uint32_t SCOREP_GetProcessLocationGroup(void)
{
    return 1;
}

#if FAKE_SCOREP_VERSION >= 8
static uint32_t number_of_groups = 2;

uint32_t SCOREP_AcceleratorMgmt_CreateContext(uint32_t node, const char *name)
{
    (void)node, (void)name;
    fake_fatal("AcceleratorMgmt_CreateContext without an accelerator");
}

uint32_t SCOREP_Definitions_NewLocationGroup(const char *name, uint32_t node, int type, uint32_t creator)
{
    need_within("NewLocationGroup");
    if (node != 1 || type != 1 || creator != 1) {
        fake_fatal("NewLocationGroup(%s, %u, %d, %u)", name, node, type, creator);
    }
    return number_of_groups++;
}

SCOREP_Location *SCOREP_Location_CreateNonCPULocation(SCOREP_Location *parent, int type, int paradigm, const char *name,
                                                      uint32_t group)
{
    fake_need("CreateNonCPULocation");
    if (!parent || !parent->is_cpu || type != 1 || group < 2 || group >= number_of_groups) {
        fake_fatal("CreateNonCPULocation(type %d, group %u)", type, group);
    }
    if (paradigm == 11) {
        fake_fatal("CreateNonCPULocation: a location of CUDA that is none");
    }
    /* Its memory is the calling thread's. */
    (void)SCOREP_Location_GetCurrentCPULocation();
    return fake_new_location(name, false);
}
#else
/* Other arguments than today. */
uint32_t SCOREP_Definitions_NewLocationGroup(const char *name)
{
    fake_fatal("NewLocationGroup(%s) of 7.1", name);
}

SCOREP_Location *SCOREP_Location_CreateNonCPULocation(SCOREP_Location *parent, int type, const char *name)
{
    (void)parent, (void)type;
    fake_fatal("CreateNonCPULocation(%s) of 7.1", name);
}
#endif

uint64_t SCOREP_Location_GetLastTimestamp(SCOREP_Location *location)
{
    return location->last_timestamp;
}

/* ---- Events */

static void end_measurement(void);

static void need_region(uint32_t region)
{
    if (region == 0 || region >= number_of_regions) {
        fake_fatal("there is no region %u", region);
    }
}

static void add_attribute(SCOREP_Location *location, uint32_t attribute, const void *value)
{
    fake_need("AddAttribute");
    if (attribute == 0 || attribute >= number_of_attributes) {
        fake_fatal("there is no attribute %u", attribute);
    }
    const size_t used = strlen(location->attributes);
    char *rest = location->attributes + used;
    const size_t room = sizeof location->attributes - used;
    if (attributes[attribute].type == 7) {
        snprintf(rest, room, " %s=%llu", attributes[attribute].name, (unsigned long long)*(const uint64_t *)value);
        return;
    }
    const uint32_t string = *(const uint32_t *)value;
    if (string == 0 || string >= number_of_strings) {
        fake_fatal("there is no string %u", string);
    }
    snprintf(rest, room, " %s=%s", attributes[attribute].name, strings[string]);
}

void SCOREP_AddAttribute(uint32_t attribute, const void *value)
{
    add_attribute(SCOREP_Location_GetCurrentCPULocation(), attribute, value);
}

void SCOREP_Location_AddAttribute(SCOREP_Location *location, uint32_t attribute, const void *value)
{
    add_attribute(location, attribute, value);
}

static void enter(SCOREP_Location *location, uint64_t timestamp, uint32_t region)
{
    need_region(region);
    pthread_mutex_lock(&mutex);
    if (timestamp < location->last_timestamp) {
        fake_fatal("time goes back on location %d: %llu after %llu", location->number, (unsigned long long)timestamp,
                   (unsigned long long)location->last_timestamp);
    }
    if (timestamp > now() + 1000) {
        fake_fatal("location %d is ahead of time: %llu", location->number, (unsigned long long)timestamp);
    }
    if (location->depth >= DEPTH) {
        fake_fatal("too deep on location %d", location->number);
    }
    location->last_timestamp = timestamp;
    location->stack[location->depth++] = region;
    fake_log("enter %d %llu %s%s", location->number, (unsigned long long)timestamp, regions[region], location->attributes);
    location->attributes[0] = 0;
    pthread_mutex_unlock(&mutex);
}

static void leave(SCOREP_Location *location, uint64_t timestamp, uint32_t region)
{
    need_region(region);
    pthread_mutex_lock(&mutex);
    if (timestamp < location->last_timestamp) {
        fake_fatal("time goes back on location %d", location->number);
    }
    const bool nests = location->depth > 0 && location->stack[location->depth - 1] == region;
    if (!nests) {
        fake_log("crossed %d %s", location->number, regions[region]);
        if (is_profiling) {
            fake_fatal("Inconsistent profile. Exit event for other than current region occurred at location %d (%s)",
                       location->number, regions[region]);
        }
    }
    location->depth -= location->depth > 0;
    location->last_timestamp = timestamp;
    fake_log("exit %d %llu %s", location->number, (unsigned long long)timestamp, regions[region]);
    pthread_mutex_unlock(&mutex);
}

static void count_entered(void)
{
    const long number = __atomic_add_fetch(&entered, 1, __ATOMIC_RELAXED);
    if (number == register_at) {
        atexit(end_measurement);
    }
    if (number == end_at) {
        end_measurement();
    }
}

void SCOREP_EnterRegion(uint32_t region)
{
    fake_need("EnterRegion");
    SCOREP_Location *location = SCOREP_Location_GetCurrentCPULocation();
    enter(location, now(), region);
    count_entered();
}

void SCOREP_ExitRegion(uint32_t region)
{
    fake_need("ExitRegion");
    SCOREP_Location *location = SCOREP_Location_GetCurrentCPULocation();
    leave(location, now(), region);
}

static void need_own(const SCOREP_Location *location, const char *what)
{
    fake_need(what);
    if (!location || location->is_cpu) {
        fake_fatal("%s on the location of a thread", what);
    }
    /* A buffer that is full would be written out on the calling thread's location. */
    (void)SCOREP_Location_GetCurrentCPULocation();
}

void SCOREP_Location_EnterRegion(SCOREP_Location *location, uint64_t timestamp, uint32_t region)
{
    need_own(location, "Location_EnterRegion");
    enter(location, timestamp, region);
}

void SCOREP_Location_ExitRegion(SCOREP_Location *location, uint64_t timestamp, uint32_t region)
{
    need_own(location, "Location_ExitRegion");
    leave(location, timestamp, region);
}

void SCOREP_RegisterExitCallback(int (*callback)(void))
{
    if (exit_callback) {
        fake_fatal("RegisterExitCallback: there is one");
    }
    exit_callback = callback;
}

/* ---- Beginning and end */

static bool directory_is_temporary;

static void begin_once(void)
{
    char name[4200];
    const char *log = getenv("FAKE_SCOREP_LOG");
    if (log) {
        snprintf(name, sizeof name, "%s.%d", log, (int)getpid());
        file = fopen(name, "w");
    }
    is_profiling = fake_is_on("SCOREP_ENABLE_PROFILING");
    begin_epoch = now();
    is_recording = number_of("FAKE_SCOREP_RECORDING", 1) != 0;
    register_at = number_of("FAKE_SCOREP_REGISTER_AT", -1);
    end_at = number_of("FAKE_SCOREP_END_AT", -1);
    const char *given = getenv("SCOREP_EXPERIMENT_DIRECTORY");
    char *here = getcwd(NULL, 0);
    directory_is_temporary = given == NULL;
    snprintf(directory, sizeof directory, "%s/%s", given && *given == '/' ? "" : here,
             given ? given : "scorep-measurement-tmp");
    free(here);
    scorep_measurement_phase = 0;
    fake_new_location("Master thread", true);
    fake_adopt_main_thread();
    atexit(end_measurement);
    const char *plugins = getenv("SCOREP_SUBSTRATE_PLUGINS");
    if (plugins && *plugins) {
        fake_load_substrate(plugins, directory);
    }
}

void fake_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_once);
}

__attribute__((constructor)) static void begin(void)
{
    fake_begin();
}

static void end_measurement(void)
{
    static bool is_over;
    if (__atomic_exchange_n(&is_over, true, __ATOMIC_ACQ_REL)) {
        return;
    }
    in_measurement++;
    scorep_measurement_phase = 1;
    is_ending = true;
    if (exit_callback) {
        exit_callback();
    }
    fake_end_substrate(locations[0], now());
    is_ending = false;
    fake_log("end");
    if (directory_is_temporary) {
        char finished[4200];
        snprintf(finished, sizeof finished, "%.*s/scorep-finished", (int)(strrchr(directory, '/') - directory), directory);
        if (rename(directory, finished) != 0 && errno != ENOENT) {
            fake_fatal("%s: %s", finished, strerror(errno));
        }
    }
    in_measurement--;
}
