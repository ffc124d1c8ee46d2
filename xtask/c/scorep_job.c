/* A small NCCL job, with or without MPI, for measurements with Score-P. Each round is an all-reduce, and every tenth
 * also a ring of sends and receives; the last sum is checked.
 *
 *   scorep_job LIBNCCL ROUNDS                             compiled with -DWITH_MPI
 *   scorep_job LIBNCCL ROUNDS FILE PROCESS PROCESSES      otherwise; FILE passes NCCL's id from process 0 to the others
 *
 * Each process has one NCCL rank. With -DTHREADS=1 a POSIX thread calls NCCL, with -DTHREADS=2 an OpenMP thread, else
 * the main thread. CUDA's functions come from the emulated devices, which are preloaded.
 *
 * With SCOREP_JOB_LATE_US=MICROSECONDS and MPI, the last rank is this late for each all-reduce, and the first for the
 * MPI_Allreduce after it; all-reduces alternate between two communicators. At the end each rank prints its call times.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif
#if THREADS == 2
#include <omp.h>
#endif

#define COUNT 1000
enum { FLOAT = 7, SUM = 0, HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2 };

typedef struct { char bytes[128]; } Id;
typedef void *Comm, *Stream;

static struct {
    int (*id)(Id *), (*init)(Comm *, int, Id, int), (*destroy)(Comm), (*begin)(void), (*end)(void);
    int (*all_reduce)(const void *, void *, size_t, int, int, Comm, Stream);
    int (*send)(const void *, size_t, int, int, Comm, Stream), (*recv)(void *, size_t, int, int, Comm, Stream);
} nccl;
static struct {
    int (*set_device)(int), (*malloc)(void **, size_t), (*copy)(void *, const void *, size_t, int);
    int (*stream)(Stream *, unsigned), (*wait)(Stream);
} cuda;

static int process, processes, rounds, late_us;
static Id ids[2];

static void check(int result, const char *what)
{
    if (result != 0) {
        fprintf(stderr, "scorep_job: %s: %d\n", what, result);
        _exit(1);
    }
}
#define CHECK(call) check(call, #call)

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "scorep_job: there is no %s\n", name);
        _exit(2);
    }
    return found;
}

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "scorep_job: %s\n", dlerror());
        _exit(2);
    }
    *(void **)&nccl.id = symbol(library, "ncclGetUniqueId");
    *(void **)&nccl.init = symbol(library, "ncclCommInitRank");
    *(void **)&nccl.destroy = symbol(library, "ncclCommDestroy");
    *(void **)&nccl.begin = symbol(library, "ncclGroupStart");
    *(void **)&nccl.end = symbol(library, "ncclGroupEnd");
    *(void **)&nccl.all_reduce = symbol(library, "ncclAllReduce");
    *(void **)&nccl.send = symbol(library, "ncclSend");
    *(void **)&nccl.recv = symbol(library, "ncclRecv");
    *(void **)&cuda.set_device = symbol(RTLD_DEFAULT, "cudaSetDevice");
    *(void **)&cuda.malloc = symbol(RTLD_DEFAULT, "cudaMalloc");
    *(void **)&cuda.copy = symbol(RTLD_DEFAULT, "cudaMemcpy");
    *(void **)&cuda.stream = symbol(RTLD_DEFAULT, "cudaStreamCreateWithFlags");
    *(void **)&cuda.wait = symbol(RTLD_DEFAULT, "cudaStreamSynchronize");
}

#ifdef WITH_MPI
enum { MOST_ROUNDS = 100 };
static long long called[2][MOST_ROUNDS];

/* Pauses in one process, and records in all processes when a function is called. */
static void late(int process_that_is, int function, int round)
{
    struct timespec now;
    if (process == process_that_is) {
        usleep(late_us);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    called[function][round % MOST_ROUNDS] = now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void say_calls(void)
{
    static const char *functions[] = {"ncclAllReduce", "MPI_Allreduce"};
    for (int function = 0; function < 2; function++) {
        for (int round = 0; round < rounds && round < MOST_ROUNDS; round++) {
            printf("called %s %d %d %lld\n", functions[function], round, process, called[function][round]);
        }
    }
}
#else
/* Process 0 writes NCCL's ids to a file, and the others wait for it. */
static void exchange(const char *path)
{
    char made[4096];
    if (process == 0) {
        snprintf(made, sizeof made, "%s.new", path);
        FILE *file = fopen(made, "w");
        check(!file || fwrite(ids, sizeof ids, 1, file) != 1 || fclose(file) != 0 || rename(made, path) != 0, made);
    }
    FILE *file = NULL;
    for (int tries = 0; !file && tries < 3000; tries++) {
        file = fopen(path, "r");
        usleep(10000);
    }
    check(!file || fread(ids, sizeof ids, 1, file) != 1 || fclose(file) != 0, path);
}
#endif

static void job(void)
{
    static float values[COUNT];
    float *in, *out, *received;
    Comm comm, comms[2] = {0};
    Stream stream;
    for (int i = 0; i < COUNT; i++) {
        values[i] = 1.0f;
    }
    CHECK(cuda.set_device(process));
    CHECK(cuda.malloc((void **)&in, sizeof values));
    CHECK(cuda.malloc((void **)&out, sizeof values));
    CHECK(cuda.malloc((void **)&received, sizeof values));
    CHECK(cuda.stream(&stream, 1));
    CHECK(cuda.copy(in, values, sizeof values, HOST_TO_DEVICE));
    for (int number = 0; number <= (late_us > 0); number++) {
        CHECK(nccl.init(&comms[number], processes, ids[number], process));
    }
    for (int number = 0; number < rounds; number++) {
        comm = comms[late_us ? number % 2 : 0];
#ifdef WITH_MPI
        if (late_us) {
            late(processes - 1, 0, number);
        }
#endif
        CHECK(nccl.all_reduce(in, out, COUNT, FLOAT, SUM, comm, stream));
        if (number % 10 == 9) {
            CHECK(nccl.begin());
            CHECK(nccl.send(out, COUNT, FLOAT, (process + 1) % processes, comm, stream));
            CHECK(nccl.recv(received, COUNT, FLOAT, (process + processes - 1) % processes, comm, stream));
            CHECK(nccl.end());
        }
        CHECK(cuda.wait(stream));
#ifdef WITH_MPI
        if (late_us) {
            int one = 1, sum;
            late(0, 1, number);
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        } else {
            MPI_Barrier(MPI_COMM_WORLD);
        }
#endif
    }
    CHECK(cuda.copy(values, out, sizeof values, DEVICE_TO_HOST));
    check(values[0] != (float)processes || values[COUNT - 1] != values[0], "a wrong sum");
    for (int number = 0; number <= (late_us > 0); number++) {
        CHECK(nccl.destroy(comms[number]));
    }
}

#if THREADS == 1
static void *thread(void *nothing)
{
    job();
    return nothing;
}
#endif

int main(int argc, char **argv)
{
#ifdef WITH_MPI
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    check(argc != 3, "usage: scorep_job LIBNCCL ROUNDS");
#else
    check(argc != 6, "usage: scorep_job LIBNCCL ROUNDS FILE PROCESS PROCESSES");
    process = atoi(argv[4]);
    processes = atoi(argv[5]);
#endif
    rounds = atoi(argv[2]);
    late_us = getenv("SCOREP_JOB_LATE_US") ? atoi(getenv("SCOREP_JOB_LATE_US")) : 0;
    load(argv[1]);
    if (process == 0) {
        for (int number = 0; number <= (late_us > 0); number++) {
            CHECK(nccl.id(&ids[number]));
        }
    }
#ifdef WITH_MPI
    MPI_Bcast(ids, sizeof ids, MPI_BYTE, 0, MPI_COMM_WORLD);
#else
    exchange(argv[3]);
#endif
#if THREADS == 1
    pthread_t caller;
    check(pthread_create(&caller, NULL, thread, NULL), "pthread_create");
    pthread_join(caller, NULL);
#elif THREADS == 2
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
        job();
    }
#else
    job();
#endif
#ifdef WITH_MPI
    if (late_us) {
        say_calls();
    }
    MPI_Finalize();
#endif
    return 0;
}
