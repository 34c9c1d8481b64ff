/*
 * A stand-in for libcuda.so.1 on machines without an NVIDIA GPU: the calls that tests/gpu/programs/cuda_program.py and
 * examples/train.py make.
 *
 * It goes by the state file of fakenvml.c. A process that makes a context is in the folder STATE.cuda from then on, as a
 * file with its number as name that says GPU and BYTES; there the stand-in for NVML finds it as long as it lives.
 * CUDA_VISIBLE_DEVICES counts as numbers of the state file. A context takes CONTEXT_MIB. Memory is not there: what was
 * written last is what is read. A kernel that is launched writes to a wild address: XID 31.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define OK 0
#define NO_DEVICE 100
#define INVALID_DEVICE 101
#define ILLEGAL_ADDRESS 700
#define CONTEXT_MIB 500ULL
#define MIB (1ULL << 20)
#define MOST 64

typedef int code;

static int visible[MOST], count, is_broken;
static unsigned last_word;
static unsigned long long taken;
static char own_file[4096];

static int lookup(const char *key, char *value, size_t size) {
    const char *path = getenv("GSCHED_FAKE_NVML");
    FILE *file = path ? fopen(path, "re") : NULL;
    char line[1024];
    size_t length = strlen(key);
    int found = 0;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, key, length) == 0 && line[length] == '=') {
            snprintf(value, size, "%s", line + length + 1);
            found = 1;
        }
    }
    if (file) fclose(file);
    return found;
}

static void say_taken(void) {
    char next[4200];
    snprintf(next, sizeof next, "%s.new", own_file);
    FILE *file = fopen(next, "we");
    if (!file) return;
    fprintf(file, "%d %llu\n", visible[0], taken);
    fclose(file);
    rename(next, own_file);
}

static void leave(void) {
    if (*own_file) unlink(own_file);
}

EXPORT code cuInit(unsigned flags) {
    (void)flags;
    char value[64] = "0";
    const char *chosen = getenv("CUDA_VISIBLE_DEVICES");
    lookup("count", value, sizeof value);
    int all = atoi(value);
    if (!chosen) for (count = 0; count < all && count < MOST; count++) visible[count] = count;
    else for (char *end, *place = (char *)chosen; count < MOST; place = end + 1) {
        long index = strtol(place, &end, 10);
        if (end == place || index < 0 || index >= all) break;
        visible[count++] = (int)index;
        if (*end != ',') break;
    }
    return count ? OK : NO_DEVICE;
}

EXPORT code cuGetErrorString(code error, const char **text) {
    *text = error == NO_DEVICE ? "no CUDA-capable device is detected" : "an error of the stand-in";
    return OK;
}

EXPORT code cuDeviceGetCount(int *found) {
    *found = count;
    return OK;
}

EXPORT code cuDeviceGet(int *device, int ordinal) {
    if (ordinal < 0 || ordinal >= count) return INVALID_DEVICE;
    *device = visible[ordinal];
    return OK;
}

EXPORT code cuDeviceGetUuid(unsigned char *uuid, int device) {
    char key[64], value[128];
    snprintf(key, sizeof key, "gpu.%d.uuid", device);
    if (!lookup(key, value, sizeof value)) return INVALID_DEVICE;
    int place = 0;
    for (const char *at = value + strlen("GPU-"); *at && place < 16; at += 2) {
        unsigned byte;
        if (*at == '-') at++;
        if (sscanf(at, "%2x", &byte) != 1) return INVALID_DEVICE;
        uuid[place++] = (unsigned char)byte;
    }
    return OK;
}

EXPORT code cuDeviceGetPCIBusId(char *name, int size, int device) {
    snprintf(name, (size_t)size, "0000:%02X:00.0", device + 4);
    return OK;
}

EXPORT code cuCtxCreate_v2(void **context, unsigned flags, int device) {
    (void)flags;
    (void)device;
    char folder[4000];
    const char *state = getenv("GSCHED_FAKE_NVML");
    if (!state) return NO_DEVICE;
    snprintf(folder, sizeof folder, "%s.cuda", state);
    mkdir(folder, 0777);
    snprintf(own_file, sizeof own_file, "%s/%d", folder, (int)getpid());
    taken = CONTEXT_MIB * MIB;
    say_taken();
    atexit(leave);
    *context = own_file;
    return OK;
}

EXPORT code cuMemAlloc_v2(unsigned long long *place, size_t size) {
    *place = MIB;
    taken += size;
    say_taken();
    return OK;
}

EXPORT code cuMemsetD32_v2(unsigned long long place, unsigned word, size_t words) {
    struct timespec pause = {0, 5 * 1000000};
    (void)place;
    (void)words;
    last_word = word;
    nanosleep(&pause, NULL);
    return OK;
}

EXPORT code cuMemcpyDtoH_v2(void *target, unsigned long long place, size_t size) {
    (void)place;
    memcpy(target, &last_word, size < sizeof last_word ? size : sizeof last_word);
    return OK;
}

EXPORT code cuModuleLoadData(void **module, const void *image) {
    (void)image;
    *module = own_file;
    return OK;
}

EXPORT code cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)name;
    *function = module;
    return OK;
}

EXPORT code cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                           unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **arguments,
                           void **extra) {
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared, (void)stream, (void)arguments, (void)extra;
    int file = open(getenv("GSCHED_FAKE_NVML"), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file >= 0) {
        dprintf(file, "event=%d:8:31\n", visible[0]);
        close(file);
    }
    is_broken = 1;
    return OK;
}

EXPORT code cuCtxSynchronize(void) { return is_broken ? ILLEGAL_ADDRESS : OK; }
