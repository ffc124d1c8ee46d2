/* Substrate plugins: one is loaded, told of the measurement, and of the end of the program.
 *
 *   FAKE_SCOREP_RANKS        what it is told: "rank size"
 */
#define _GNU_SOURCE
#include "fake_scorep.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>

struct substrate {
    uint32_t version;
    int (*init)(void);
    void (*assign_id)(size_t);
    void (*init_mpp)(void);
    void (*finalize)(void);
    void (*between[9])(void);
    size_t (*get_event_functions)(int, void (***)(void));
    void (*set_callbacks)(const void *, size_t);
    bool (*get_requirement)(int);
    void (*dump_manifest)(FILE *, const char *, const char *);
    void (*undeclared[99])(void);
};

static void (*program_end)(SCOREP_Location *, uint64_t, int, uint32_t);
static const char *directory;

static const char *experiment_directory(void)
{
    return directory;
}

static int rank_or_size(int which)
{
    int numbers[2] = {0, 1};
    const char *ranks = getenv("FAKE_SCOREP_RANKS");
    if (ranks) {
        sscanf(ranks, "%d %d", &numbers[0], &numbers[1]);
    }
    return numbers[which];
}

static int size_of_job(void)
{
    return rank_or_size(1);
}

static int rank_in_job(void)
{
    return rank_or_size(0);
}

void fake_load_substrate(const char *name, const char *experiment)
{
    directory = experiment;
    char text[512];
    snprintf(text, sizeof text, "libscorep_substrate_%s.so", name);
    void *library = dlopen(text, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "[Score-P] Error: %s\n", dlerror());
        return;
    }
    snprintf(text, sizeof text, "SCOREP_SubstratePlugin_%s_get_info", name);
    struct substrate (*get_info)(void) = (struct substrate(*)(void))dlsym(library, text);
    if (!get_info) {
        fprintf(stderr, "[Score-P] Error: no %s\n", text);
        return;
    }
    const struct substrate info = get_info();
    if (info.version != 3) {
        fake_fatal("substrate plugin of version %u", info.version);
    }
    for (int i = 0; i < 99; i++) {
        if (info.undeclared[i]) {
            fake_fatal("substrate plugin: undeclared function %d is set", i);
        }
    }
    if (info.init) {
        info.init();
    }
    if (info.assign_id) {
        info.assign_id(1);
    }
    static void *callbacks[53];
    callbacks[0] = (void *)experiment_directory;
    callbacks[1] = (void *)size_of_job;
    callbacks[2] = (void *)rank_in_job;
    if (info.set_callbacks) {
        info.set_callbacks(callbacks, sizeof callbacks);
    }
    for (int mode = 0; mode < 2 && info.get_event_functions; mode++) {
        void (**functions)(void) = NULL;
        const size_t number = info.get_event_functions(mode, &functions);
        if (number > 64 && functions) {
            program_end = (void (*)(SCOREP_Location *, uint64_t, int, uint32_t))functions[64];
        }
        free(functions);
    }
    if (info.get_requirement && info.get_requirement(0)) {
        mkdir(directory, 0777);
        snprintf(text, sizeof text, "%.400s/MANIFEST.md", directory);
        FILE *manifest = fopen(text, "w");
        if (manifest && info.dump_manifest) {
            info.dump_manifest(manifest, ".", directory);
        }
        if (manifest) {
            fclose(manifest);
        }
    }
    if (info.init_mpp) {
        info.init_mpp();
    }
}

void fake_end_substrate(SCOREP_Location *master, uint64_t time)
{
    if (program_end) {
        program_end(master, time, 0, 0);
    }
}
