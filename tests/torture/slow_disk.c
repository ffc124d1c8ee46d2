/* Preloaded: a file system on which the plugin's maintenance thread waits for space, up to SLOW_DISK_US at a time. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int fallocate(int file, int mode, off_t offset, off_t length) {
    static unsigned state = 1;
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    if (!strcmp(name, "nccl-otf2")) {
        usleep(rand_r(&state) % atoi(getenv("SLOW_DISK_US")));
    }
    return syscall(SYS_fallocate, file, mode, offset, length);
}
