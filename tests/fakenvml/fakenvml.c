/*
 * A stand-in for libnvidia-ml.so.1 on machines without an NVIDIA GPU: its answers come from a text file.
 *
 * The file is named by GSCHED_FAKE_NVML and holds lines KEY=VALUE; of several lines with one key the last counts. It is
 * read again at every call, so a test changes the machine by appending a line, and so does nvmlDeviceSetComputeMode.
 *
 *   count=4                        GPUs of the machine
 *   driver=535.161.07
 *   gpu.0.name= .uuid= .minor= .mode=0..3 .mem_mib= .used_mib= .reserved_mib= .util= .mem_util= .temp= .power_mw=
 *        .pstate= .ecc= .ecc_corrected= .throttle= (bits; absent: it does not say) .procs=PID:BYTES,PID:BYTES .graphics=PID:BYTES .mps=PID:BYTES
 *   gpu.0.bus=4                    number of its PCI bus; by default 4 more than the index
 *   gpu.0.peers=1,3                it is linked with these over NVLink (told from the lower index)
 *   gpu.0.mig_mode=1               it is split; absent: it cannot be
 *   gpu.0.mig.2.uuid= .name= .gi= .ci= .mem_mib=   its part 2
 *   gpu.0.err=15                   every call about GPU 0 fails with this code, its handle can still be got
 *   gpu.0.handle_err=15            its handle cannot be got either
 *   gpu.0.delay_ms=MS              every call about GPU 0 takes so long
 *   gpu.0.slowdown=90 .remap_failed=1
 *   gpu.0.recovery=1               the recovery action that the driver wants; absent: it does not say
 *   gpu.0.power_limit_mw=          the most power that it may draw; absent: it does not say
 *   gpu.0.energy_mj=               its counter of energy; absent: it has none
 *   gpu.0.proc_util=PID:SM:MEM,... what its processes use; absent or -: it does not tell, empty: none has used it
 *   gpu.0.accounting=1             it keeps accounts of processes; gpu.0.accounts=PID:SM:MEM:MAX_BYTES:MS:START_US,... what it
 *        has of them: MS is 0 as long as one runs, `-` for a number that it does not tell
 *   gpu.0.nvlink_tx_kib= .nvlink_rx_kib= .pcie_tx_bytes= .pcie_rx_bytes=   counters; absent: it has none
 *   gpu.0.narrow=1                 they have 32 bits
 *   STATE.cuda/PID                 a file of fakecuda.c, not a line: `GPU BYTES`, what a process that lives has on a GPU; it counts
 *        for .procs, .used_mib and, as busy as .util, for .proc_util where that is there
 *   gpu.0.gpm=1                    it has GPM; gpu.0.gpm.2=60: its metric 2 is 60 between any two looks, and gpu.0.mig.2.gpm.2
 *        that of the GPU instance of its part 2
 *   event=GPU:TYPE:DATA            the driver tells of an event, XID 79 of GPU 0 say (0:8:79); each line is one
 *   gpu.0.no_events=1              it has none
 *   init_err=9                     nvmlInit fails
 *   err.FUNCTION=CODE              this function fails
 *   delay_ms.FUNCTION=MS           this function takes so long
 *   late_ms.nvmlDeviceSetComputeMode=MS   it returns so long after it has set the mode
 *   clock=SECONDS                  the time that curves go by; else that of the machine since `since=` (UTC seconds)
 *
 * Any number may be a curve over time:
 *   steps:SECONDS:A,B,C            A for so many seconds, then B, then C, and from the beginning again
 *   saw:SECONDS:A:B                from A up to B in so many seconds, again and again
 *   bursts:SECONDS:ON:A            A in the first ON of every so many seconds, else 0
 *   ramp:RATE:A                    A, and RATE more each second
 *
 * Layouts and codes as in NVIDIA's NVML API reference; functions are those that nvidia-ml-py looks up.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define OK 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NO_PERMISSION 4
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define TIMEOUT 10

typedef int code;
typedef struct gpu { unsigned index; int part; } *device; /* part: -1 the whole GPU, else one that MIG made */
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned version, sensor; int value; } temperature_v1;
struct attributes { unsigned counts[8]; unsigned long long memory_mib; };
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process_v2;
typedef struct { unsigned pid; unsigned long long at_us; unsigned sm, mem, encoder, decoder; } process_sample;
typedef struct {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
} pci_v3;

#define MOST 64
#define MOST_PARTS 8
static struct gpu gpus[MOST], parts[MOST][MOST_PARTS];
static int begun;

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

static double played_s(void) {
    char value[1024];
    if (lookup("clock", value, sizeof value)) return strtod(value, NULL);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double since = lookup("since", value, sizeof value) ? strtod(value, NULL) : 0;
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9 - since;
}

/* What a curve is at the time that is played. */
static long curve(const char *value) {
    double seconds, first, second, now = played_s();
    int start = 0;
    if (sscanf(value, "steps:%lf:%n", &seconds, &start) == 1 && start && seconds > 0) {
        long values[128], count = 0;
        char *rest = (char *)value + start;
        while (count < 128 && *rest) {
            values[count++] = strtol(rest, &rest, 0);
            if (*rest != ',') break;
            rest++;
        }
        long place = (long)(now / seconds);
        return count && place >= 0 ? values[place % count] : 0;
    }
    if (sscanf(value, "saw:%lf:%lf:%lf", &seconds, &first, &second) == 3 && seconds > 0) {
        double place = now / seconds;
        return (long)(first + (second - first) * (place - (double)(long)place));
    }
    if (sscanf(value, "bursts:%lf:%lf:%lf", &seconds, &first, &second) == 3 && seconds > 0) {
        double place = now - seconds * (double)(long)(now / seconds);
        return place < first ? (long)second : 0;
    }
    if (sscanf(value, "ramp:%lf:%lf", &first, &second) == 2) return (long)(second + first * now);
    return strtol(value, NULL, 0);
}

static long number(const char *key, long otherwise) {
    char value[1024];
    return lookup(key, value, sizeof value) ? curve(value) : otherwise;
}

static void name_key(device gpu, const char *name, char *key, size_t size) {
    if (gpu->part < 0) snprintf(key, size, "gpu.%u.%s", gpu->index, name);
    else snprintf(key, size, "gpu.%u.mig.%d.%s", gpu->index, gpu->part, name);
}

static long of_gpu(device gpu, const char *name, long otherwise) {
    char key[128];
    name_key(gpu, name, key, sizeof key);
    return number(key, otherwise);
}

static code text(device gpu, const char *name, const char *otherwise, char *out, unsigned size) {
    char key[128], value[1024];
    name_key(gpu, name, key, sizeof key);
    if (!lookup(key, value, sizeof value)) snprintf(value, sizeof value, "%s", otherwise);
    if (strlen(value) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return OK;
}

#define MIB (1024ULL * 1024ULL)
#define MOST_HOLDERS 32
typedef struct { unsigned pid; unsigned long long bytes; } holder;

/* Processes that the stand-in for CUDA has on the GPU, and how many; one that was killed has left its file. */
static unsigned find_holders(device gpu, holder *list) {
    char path[4400], *state = getenv("GSCHED_FAKE_NVML");
    unsigned found = 0, index;
    snprintf(path, sizeof path, "%s.cuda", state ? state : "");
    DIR *folder = gpu->part < 0 ? opendir(path) : NULL;
    for (struct dirent *entry; folder && found < MOST_HOLDERS && (entry = readdir(folder));) {
        int pid = atoi(entry->d_name);
        if (pid <= 0 || strchr(entry->d_name, '.') || (kill(pid, 0) != 0 && errno == ESRCH)) continue;
        snprintf(path, sizeof path, "%s.cuda/%d", state, pid);
        FILE *file = fopen(path, "re");
        list[found].pid = (unsigned)pid;
        if (file && fscanf(file, "%u %llu", &index, &list[found].bytes) == 2 && index == gpu->index) found++;
        if (file) fclose(file);
    }
    if (folder) closedir(folder);
    return found;
}

static void rest(long delay_ms) {
    struct timespec pause = {delay_ms / 1000, delay_ms % 1000 * 1000000};
    if (delay_ms > 0) nanosleep(&pause, NULL);
}

static code enter(const char *function, device gpu) {
    char key[128];
    snprintf(key, sizeof key, "delay_ms.%s", function);
    long delay = number(key, 0);
    if (gpu) delay += of_gpu(gpu, "delay_ms", 0);
    rest(delay);
    snprintf(key, sizeof key, "err.%s", function);
    code result = (code)number(key, OK);
    if (result == OK && gpu) result = (code)of_gpu(gpu, "err", OK);
    return result;
}

#define ENTER(gpu)                                                                                                     \
    if (!begun) return UNINITIALIZED;                                                                                  \
    code entered = enter(__func__, gpu);                                                                               \
    if (entered != OK) return entered

/* The library */

EXPORT code nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    code result = enter(__func__, NULL);
    if (result == OK) result = (code)number("init_err", OK);
    if (result == OK) begun++;
    return result;
}
EXPORT code nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
EXPORT code nvmlInit(void) { return nvmlInitWithFlags(0); }

EXPORT code nvmlShutdown(void) {
    ENTER(NULL);
    begun--;
    return OK;
}

EXPORT const char *nvmlErrorString(code result) {
    static char words[64];
    snprintf(words, sizeof words, "fake error %d", result);
    return words;
}

EXPORT code nvmlSystemGetDriverVersion(char *version, unsigned size) {
    ENTER(NULL);
    char value[1024];
    if (!lookup("driver", value, sizeof value)) strcpy(value, "535.161.07");
    snprintf(version, size, "%s", value);
    return OK;
}

EXPORT code nvmlSystemGetCudaDriverVersion(int *version) {
    ENTER(NULL);
    *version = 12020;
    return OK;
}

/* Finding a GPU */

EXPORT code nvmlDeviceGetCount_v2(unsigned *count) {
    ENTER(NULL);
    long wanted = number("count", 0);
    *count = (unsigned)(wanted > MOST ? MOST : wanted);
    return OK;
}

EXPORT code nvmlDeviceGetHandleByIndex_v2(unsigned index, device *gpu) {
    ENTER(NULL);
    if (index >= MOST || index >= (unsigned)number("count", 0)) return INVALID_ARGUMENT;
    gpus[index].index = index;
    gpus[index].part = -1;
    code result = (code)of_gpu(&gpus[index], "handle_err", OK);
    if (result == OK) *gpu = &gpus[index];
    return result;
}

EXPORT code nvmlDeviceGetUUID(device gpu, char *uuid, unsigned size) {
    ENTER(gpu);
    char otherwise[64];
    snprintf(otherwise, sizeof otherwise, "GPU-fa4e0000-0000-4000-8000-%012u", gpu->index);
    return text(gpu, "uuid", otherwise, uuid, size);
}

EXPORT code nvmlDeviceGetHandleByUUID(const char *uuid, device *gpu) {
    ENTER(NULL);
    for (unsigned index = 0; index < (unsigned)number("count", 0); index++) {
        char known[96];
        if (nvmlDeviceGetHandleByIndex_v2(index, gpu) == OK && nvmlDeviceGetUUID(*gpu, known, sizeof known) == OK &&
            strcmp(known, uuid) == 0)
            return OK;
    }
    return NOT_FOUND;
}

/* About one GPU */

EXPORT code nvmlDeviceGetIndex(device gpu, unsigned *index) {
    ENTER(gpu);
    *index = gpu->index;
    return OK;
}

EXPORT code nvmlDeviceGetName(device gpu, char *name, unsigned size) {
    ENTER(gpu);
    return text(gpu, "name", "Tesla K80", name, size);
}

EXPORT code nvmlDeviceGetMinorNumber(device gpu, unsigned *minor) {
    ENTER(gpu);
    *minor = (unsigned)of_gpu(gpu, "minor", gpu->index);
    return OK;
}

EXPORT code nvmlDeviceGetPciInfo_v3(device gpu, pci_v3 *pci) {
    ENTER(gpu);
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)of_gpu(gpu, "bus", gpu->index + 4);
    snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", pci->bus);
    snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", pci->bus);
    return OK;
}

EXPORT code nvmlDeviceGetComputeMode(device gpu, unsigned *mode) {
    ENTER(gpu);
    *mode = (unsigned)of_gpu(gpu, "mode", 0);
    return OK;
}

EXPORT code nvmlDeviceSetComputeMode(device gpu, unsigned mode) {
    ENTER(gpu);
    if (geteuid() != 0) return NO_PERMISSION;
    if (mode == 1) return NOT_SUPPORTED;
    if (mode > 3) return INVALID_ARGUMENT;
    FILE *file = fopen(getenv("GSCHED_FAKE_NVML"), "ae");
    if (!file) return NO_PERMISSION;
    fprintf(file, "gpu.%u.mode=%u\n", gpu->index, mode);
    fclose(file);
    rest(number("late_ms.nvmlDeviceSetComputeMode", 0));
    return OK;
}

EXPORT code nvmlDeviceGetMemoryInfo(device gpu, memory_v1 *memory) {
    ENTER(gpu);
    holder holders[MOST_HOLDERS];
    memory->total = (unsigned long long)of_gpu(gpu, "mem_mib", 11441) * MIB;
    memory->used = (unsigned long long)of_gpu(gpu, "used_mib", 0) * MIB;
    for (unsigned at = find_holders(gpu, holders); at > 0; at--) memory->used += holders[at - 1].bytes;
    memory->free = memory->total - memory->used;
    return OK;
}

EXPORT code nvmlDeviceGetMemoryInfo_v2(device gpu, memory_v2 *memory) {
    memory_v1 plain;
    code result = nvmlDeviceGetMemoryInfo(gpu, &plain);
    if (result != OK) return result;
    memory->total = plain.total;
    memory->reserved = (unsigned long long)of_gpu(gpu, "reserved_mib", 0) * MIB;
    memory->free = plain.free - memory->reserved;
    memory->used = plain.used;
    return OK;
}

EXPORT code nvmlDeviceGetUtilizationRates(device gpu, utilization *rates) {
    ENTER(gpu);
    rates->gpu = (unsigned)of_gpu(gpu, "util", 0);
    rates->memory = (unsigned)of_gpu(gpu, "mem_util", 0);
    return OK;
}

typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type;
    code result;
    union { double number; unsigned whole; unsigned long long large; } value;
} field_value;
#define UNSIGNED_INT 1
#define UNSIGNED_LONG_LONG 3
static const struct { unsigned field, scope, type; const char *name; } fields[] = {
    {230, 0, UNSIGNED_INT, "recovery"},
    {138, ~0U, UNSIGNED_LONG_LONG, "nvlink_tx_kib"},
    {139, ~0U, UNSIGNED_LONG_LONG, "nvlink_rx_kib"},
    {197, 0, UNSIGNED_LONG_LONG, "pcie_tx_bytes"},
    {198, 0, UNSIGNED_LONG_LONG, "pcie_rx_bytes"},
};

EXPORT code nvmlDeviceGetFieldValues(device gpu, int count, field_value *values) {
    ENTER(gpu);
    for (int place = 0; place < count; place++) {
        values[place].result = NOT_SUPPORTED;
        for (size_t known = 0; known < sizeof fields / sizeof *fields; known++) {
            if (fields[known].field != values[place].field || fields[known].scope != values[place].scope) continue;
            long value = of_gpu(gpu, fields[known].name, -1);
            values[place].result = value == -1 ? NOT_SUPPORTED : OK;
            values[place].type = of_gpu(gpu, "narrow", 0) ? UNSIGNED_INT : fields[known].type;
            if (values[place].type == UNSIGNED_INT) values[place].value.whole = (unsigned)value;
            else values[place].value.large = (unsigned long long)value;
        }
    }
    return OK;
}

/* GPM */

typedef struct { device gpu; double at; } *gpm_sample;
typedef struct { unsigned id; code result; double value; char *names[3]; } gpm_metric;
typedef struct { unsigned version, count; gpm_sample first, second; gpm_metric metrics[]; } gpm_question;
typedef struct { unsigned version, is_supported; } gpm_support;

EXPORT code nvmlGpmQueryDeviceSupport(device gpu, gpm_support *support) {
    ENTER(gpu);
    if (support->version != 1) return INVALID_ARGUMENT;
    support->is_supported = (unsigned)of_gpu(gpu, "gpm", 0);
    return OK;
}

EXPORT code nvmlGpmSampleAlloc(gpm_sample *sample) {
    ENTER(NULL);
    *sample = calloc(1, sizeof **sample);
    return OK;
}

EXPORT code nvmlGpmSampleFree(gpm_sample sample) {
    ENTER(NULL);
    free(sample);
    return OK;
}

EXPORT code nvmlGpmSampleGet(device gpu, gpm_sample sample) {
    ENTER(gpu);
    if (!of_gpu(gpu, "gpm", 0)) return NOT_SUPPORTED;
    sample->gpu = gpu;
    sample->at = played_s();
    return OK;
}

EXPORT code nvmlGpmMigSampleGet(device gpu, unsigned instance, gpm_sample sample) {
    ENTER(gpu);
    if (!of_gpu(gpu, "gpm", 0)) return NOT_SUPPORTED;
    for (int place = 0; place < MOST_PARTS; place++) {
        device part = &parts[gpu->index][place];
        *part = (struct gpu){gpu->index, place};
        if (of_gpu(part, "gi", -1) != (long)instance) continue;
        sample->gpu = part;
        sample->at = played_s();
        return OK;
    }
    return NOT_FOUND;
}

EXPORT code nvmlGpmMetricsGet(gpm_question *question) {
    ENTER(NULL);
    if (question->version != 1 || !question->first->gpu || question->first->gpu != question->second->gpu ||
        question->first->at >= question->second->at)
        return INVALID_ARGUMENT;
    for (unsigned place = 0; place < question->count; place++) {
        gpm_metric *metric = &question->metrics[place];
        char name[32];
        snprintf(name, sizeof name, "gpm.%u", metric->id);
        long value = of_gpu(question->second->gpu, name, -1);
        metric->result = value == -1 ? NOT_SUPPORTED : OK;
        metric->value = (double)value;
    }
    return OK;
}

EXPORT code nvmlDeviceGetTemperature(device gpu, unsigned sensor, unsigned *value) {
    ENTER(gpu);
    if (sensor != 0) return INVALID_ARGUMENT;
    *value = (unsigned)of_gpu(gpu, "temp", 30);
    return OK;
}

EXPORT code nvmlDeviceGetTemperatureV(device gpu, temperature_v1 *value) {
    ENTER(gpu);
    if (value->sensor != 0) return INVALID_ARGUMENT;
    value->value = (int)of_gpu(gpu, "temp", 30);
    return OK;
}

EXPORT code nvmlDeviceGetPowerUsage(device gpu, unsigned *milliwatts) {
    ENTER(gpu);
    *milliwatts = (unsigned)of_gpu(gpu, "power_mw", 60000);
    return OK;
}

EXPORT code nvmlDeviceGetEnforcedPowerLimit(device gpu, unsigned *milliwatts) {
    ENTER(gpu);
    long limit = of_gpu(gpu, "power_limit_mw", -1);
    if (limit < 0) return NOT_SUPPORTED;
    *milliwatts = (unsigned)limit;
    return OK;
}

EXPORT code nvmlDeviceGetTotalEnergyConsumption(device gpu, unsigned long long *millijoules) {
    ENTER(gpu);
    char value[1024], key[128];
    name_key(gpu, "energy_mj", key, sizeof key);
    if (!lookup(key, value, sizeof value)) return NOT_SUPPORTED;
    *millijoules = (unsigned long long)curve(value);
    return OK;
}

EXPORT code nvmlDeviceGetProcessUtilization(device gpu, process_sample *list, unsigned *count,
                                            unsigned long long since_us) {
    ENTER(gpu);
    char value[1024], key[128];
    unsigned found = 0;
    unsigned long long now_us = (unsigned long long)(played_s() * 1e6);
    name_key(gpu, "proc_util", key, sizeof key);
    if (!lookup(key, value, sizeof value) || strcmp(value, "-") == 0) return NOT_SUPPORTED;
    if (now_us <= since_us) return NOT_FOUND;
    for (char *rest, *part = strtok_r(value, ",", &rest); part; part = strtok_r(NULL, ",", &rest), found++) {
        if (found >= *count || !list) continue;
        memset(&list[found], 0, sizeof list[found]);
        list[found].at_us = now_us;
        sscanf(part, "%u:%u:%u", &list[found].pid, &list[found].sm, &list[found].mem);
    }
    holder holders[MOST_HOLDERS];
    for (unsigned at = find_holders(gpu, holders); at > 0; at--, found++) {
        if (found >= *count || !list) continue;
        memset(&list[found], 0, sizeof list[found]);
        list[found].at_us = now_us;
        list[found].pid = holders[at - 1].pid;
        list[found].sm = (unsigned)of_gpu(gpu, "util", 0);
    }
    if (!found) return NOT_FOUND;
    code result = found > *count || !list ? INSUFFICIENT_SIZE : OK;
    *count = found;
    return result;
}

/* Accounting */

typedef struct {
    unsigned gpu, memory;
    unsigned long long most, time_ms, start_us;
    unsigned is_running, reserved[5];
} account;
#define ACCOUNTS 4000

EXPORT code nvmlDeviceGetAccountingMode(device gpu, unsigned *mode) {
    ENTER(gpu);
    long found = of_gpu(gpu, "accounting", -1);
    if (found < 0) return NOT_SUPPORTED;
    *mode = (unsigned)found;
    return OK;
}

EXPORT code nvmlDeviceGetAccountingBufferSize(device gpu, unsigned *size) {
    ENTER(gpu);
    *size = ACCOUNTS;
    return OK;
}

/* The accounts from the first one on: process ids into `pids`, and that of `wanted`; how many there are. */
static unsigned find_accounts(device gpu, unsigned *pids, unsigned most, unsigned wanted, account *found) {
    char value[1024] = "";
    unsigned count = 0;
    text(gpu, "accounts", "", value, sizeof value);
    for (char *rest, *part = strtok_r(value, ",", &rest); part; part = strtok_r(NULL, ",", &rest), count++) {
        unsigned long long numbers[6];
        for (int place = 0; place < 6; place++) {
            numbers[place] = *part == '-' ? ~0ULL : strtoull(part, NULL, 10);
            part += strcspn(part, ":");
            part += *part == ':';
        }
        if (pids && count < most) pids[count] = (unsigned)numbers[0];
        if (!found || numbers[0] != wanted) continue;
        *found = (account){(unsigned)numbers[1], (unsigned)numbers[2], numbers[3], numbers[4], numbers[5], !numbers[4], {0}};
    }
    return count;
}

EXPORT code nvmlDeviceGetAccountingPids(device gpu, unsigned *count, unsigned *pids) {
    ENTER(gpu);
    if (of_gpu(gpu, "accounting", -1) < 0) return NOT_SUPPORTED;
    unsigned found = find_accounts(gpu, pids, *count, 0, NULL);
    code result = found > *count ? INSUFFICIENT_SIZE : OK;
    *count = found;
    return result;
}

EXPORT code nvmlDeviceGetAccountingStats(device gpu, unsigned pid, account *stats) {
    ENTER(gpu);
    if (of_gpu(gpu, "accounting", 0) != 1) return NOT_SUPPORTED;
    memset(stats, 0, sizeof *stats);
    find_accounts(gpu, NULL, 0, pid, stats);
    return stats->start_us ? OK : NOT_FOUND;
}

static code clock_reasons(device gpu, unsigned long long *reasons) {
    long found = of_gpu(gpu, "throttle", -1);
    if (found == -1) return NOT_SUPPORTED;
    *reasons = (unsigned long long)found;
    return OK;
}

EXPORT code nvmlDeviceGetCurrentClocksEventReasons(device gpu, unsigned long long *reasons) {
    ENTER(gpu);
    return clock_reasons(gpu, reasons);
}

EXPORT code nvmlDeviceGetCurrentClocksThrottleReasons(device gpu, unsigned long long *reasons) {
    ENTER(gpu);
    return clock_reasons(gpu, reasons);
}

EXPORT code nvmlDeviceGetPerformanceState(device gpu, unsigned *state) {
    ENTER(gpu);
    *state = (unsigned)of_gpu(gpu, "pstate", 0);
    return OK;
}

EXPORT code nvmlDeviceGetTotalEccErrors(device gpu, unsigned kind, unsigned counter, unsigned long long *errors) {
    ENTER(gpu);
    if (kind > 1 || counter > 1) return INVALID_ARGUMENT;
    *errors = (unsigned long long)of_gpu(gpu, kind == 1 ? "ecc" : "ecc_corrected", 0);
    return OK;
}

static code list_processes(device gpu, const char *name, unsigned *count, process_v2 *list) {
    char value[1024] = "";
    unsigned found = 0;
    code result = text(gpu, name, "", value, sizeof value);
    if (result != OK) return result;
    for (char *rest, *part = strtok_r(value, ",", &rest); part; part = strtok_r(NULL, ",", &rest), found++) {
        if (found >= *count) continue;
        list[found].pid = (unsigned)strtoul(part, &part, 10);
        list[found].used = *part == ':' ? strtoull(part + 1, NULL, 10) : ~0ULL;
        list[found].gi = list[found].ci = ~0U;
    }
    holder holders[MOST_HOLDERS];
    for (unsigned at = strcmp(name, "procs") == 0 ? find_holders(gpu, holders) : 0; at > 0; at--, found++) {
        if (found >= *count) continue;
        list[found].pid = holders[at - 1].pid;
        list[found].used = holders[at - 1].bytes;
        list[found].gi = list[found].ci = ~0U;
    }
    result = found > *count ? INSUFFICIENT_SIZE : OK;
    *count = found;
    return result;
}

EXPORT code nvmlDeviceGetComputeRunningProcesses_v3(device gpu, unsigned *count, process_v2 *list) {
    ENTER(gpu);
    return list_processes(gpu, "procs", count, list);
}

EXPORT code nvmlDeviceGetGraphicsRunningProcesses_v3(device gpu, unsigned *count, process_v2 *list) {
    ENTER(gpu);
    return list_processes(gpu, "graphics", count, list);
}

EXPORT code nvmlDeviceGetMPSComputeRunningProcesses_v3(device gpu, unsigned *count, process_v2 *list) {
    ENTER(gpu);
    return list_processes(gpu, "mps", count, list);
}

/* Health */

EXPORT code nvmlDeviceGetTemperatureThreshold(device gpu, unsigned kind, unsigned *value) {
    ENTER(gpu);
    long limit = kind == 1 ? of_gpu(gpu, "slowdown", -1) : -1;
    if (limit < 0) return NOT_SUPPORTED;
    *value = (unsigned)limit;
    return OK;
}

EXPORT code nvmlDeviceGetCudaComputeCapability(device gpu, int *major, int *minor) {
    ENTER(gpu);
    long capability = of_gpu(gpu, "capability", 0); /* 86 for 8.6 */
    if (!capability) return NOT_SUPPORTED;
    *major = (int)(capability / 10);
    *minor = (int)(capability % 10);
    return OK;
}

EXPORT code nvmlDeviceGetRemappedRows(device gpu, unsigned *corrected, unsigned *other, unsigned *pending,
                                      unsigned *failed) {
    ENTER(gpu);
    *corrected = *other = *pending = 0;
    *failed = (unsigned)of_gpu(gpu, "remap_failed", 0);
    return OK;
}

typedef struct { unsigned long long gpus; long told; } *event_set;
typedef struct { device gpu; unsigned long long type, data; unsigned gi, ci; } event_data;

/* The place of the first event line behind `after` of them, of a GPU of the set; 0: there is none. */
static long next_event(event_set set, event_data *event) {
    const char *path = getenv("GSCHED_FAKE_NVML");
    FILE *file = path ? fopen(path, "re") : NULL;
    char line[1024];
    long place = 0, found = 0;
    unsigned index;
    while (file && !found && fgets(line, sizeof line, file)) {
        if (strncmp(line, "event=", 6) != 0) continue;
        place++;
        if (event && place > set->told && sscanf(line + 6, "%u:%llu:%llu", &index, &event->type, &event->data) == 3 &&
            index < MOST && (set->gpus >> index & 1)) {
            event->gpu = &gpus[index];
            found = place;
        }
    }
    if (file) fclose(file);
    return event ? found : place;
}

EXPORT code nvmlEventSetCreate(event_set *set) {
    ENTER(NULL);
    *set = calloc(1, sizeof **set);
    (*set)->told = next_event(*set, NULL); /* only what comes from now on */
    return OK;
}

EXPORT code nvmlDeviceGetSupportedEventTypes(device gpu, unsigned long long *types) {
    ENTER(gpu);
    *types = of_gpu(gpu, "no_events", 0) ? 0 : 0x1f;
    return OK;
}

EXPORT code nvmlDeviceRegisterEvents(device gpu, unsigned long long types, event_set set) {
    ENTER(gpu);
    if (types & ~0x1fULL || of_gpu(gpu, "no_events", 0)) return NOT_SUPPORTED;
    set->gpus |= 1ULL << gpu->index;
    return OK;
}

EXPORT code nvmlEventSetWait_v2(event_set set, event_data *event, unsigned timeout_ms) {
    struct timespec pause = {0, 20 * 1000000};
    memset(event, 0, sizeof *event);
    for (unsigned waited = 0;; waited += 20) {
        ENTER(NULL);
        long place = next_event(set, event);
        if (place) {
            set->told = place;
            event->gi = event->ci = ~0U;
            return OK;
        }
        if (waited >= timeout_ms) return TIMEOUT;
        nanosleep(&pause, NULL);
    }
}

EXPORT code nvmlEventSetFree(event_set set) {
    free(set);
    return OK;
}

/* Links and parts */

EXPORT code nvmlDeviceGetP2PStatus(device one, device other, unsigned kind, unsigned *status) {
    ENTER(one);
    char value[1024] = "";
    code result = text(one, "peers", "", value, sizeof value);
    *status = kind == 2 ? 1 : 2; /* not supported by the chipset */
    for (char *rest, *part = strtok_r(value, ",", &rest); part && kind == 2; part = strtok_r(NULL, ",", &rest))
        if (strtoul(part, NULL, 10) == other->index) *status = 0;
    return result;
}

EXPORT code nvmlDeviceGetMigMode(device gpu, unsigned *current, unsigned *pending) {
    ENTER(gpu);
    long mode = of_gpu(gpu, "mig_mode", -1);
    if (mode < 0) return NOT_SUPPORTED;
    *current = *pending = (unsigned)mode;
    return OK;
}

EXPORT code nvmlDeviceGetMaxMigDeviceCount(device gpu, unsigned *count) {
    ENTER(gpu);
    *count = MOST_PARTS;
    return OK;
}

EXPORT code nvmlDeviceGetMigDeviceHandleByIndex(device gpu, unsigned place, device *part) {
    ENTER(gpu);
    if (place >= MOST_PARTS) return INVALID_ARGUMENT;
    parts[gpu->index][place] = (struct gpu){gpu->index, (int)place};
    if (of_gpu(&parts[gpu->index][place], "gi", -1) < 0) return NOT_FOUND;
    *part = &parts[gpu->index][place];
    return OK;
}

EXPORT code nvmlDeviceGetGpuInstanceId(device part, unsigned *number) {
    ENTER(part);
    *number = (unsigned)of_gpu(part, "gi", 0);
    return OK;
}

EXPORT code nvmlDeviceGetComputeInstanceId(device part, unsigned *number) {
    ENTER(part);
    *number = (unsigned)of_gpu(part, "ci", 0);
    return OK;
}

EXPORT code nvmlDeviceGetAttributes_v2(device part, struct attributes *found) {
    ENTER(part);
    memset(found, 0, sizeof *found);
    found->memory_mib = (unsigned long long)of_gpu(part, "mem_mib", 0);
    return OK;
}
