/* A small libnvidia-ml.so.1 that says what a script says.
 *
 * The script is the file named by FAKE_NVML_SCRIPT, one setting a line, read again whenever it has changed:
 *
 *   init CODE                     nvmlInit returns CODE
 *   driver TEXT                   driver version
 *   count N                       number of GPUs, at most 16
 *   gpu N|all KEY VALUE           a value, see KEYS; the last line that names a GPU wins
 *   gpu N|all process PID BYTES   one more compute process; BYTES may be n/a
 *   gpu N|all error FUNCTION CODE this function returns CODE, "*" every function
 *   gpu N|all lost CALLS          "GPU is lost" from every function after so many more calls on this GPU
 *   log FILE                      append the name of every function called and its GPU to FILE
 *
 * Without a script: eight idle GPUs. Types and codes are those of nvml.h.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_GPUS 16
#define MAX_PROCESSES 64
#define MAX_ERRORS 32

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };

typedef unsigned long long u64;
typedef void *device_t;

enum key {
    MEMORY_USED, MEMORY_TOTAL, MEMORY_RESERVED, UTIL, MEMORY_UTIL, POWER_MW, POWER_LIMIT_MW, TEMPERATURE, SM_CLOCK,
    THROTTLE, ECC, PCIE_TX_KB, PCIE_RX_KB, KEYS
};
static const char *const KEY_NAMES[KEYS] = {
    "memory_used", "memory_total", "memory_reserved", "util", "memory_util", "power_mw", "power_limit_mw",
    "temperature", "sm_clock", "throttle", "ecc", "pcie_tx_kb", "pcie_rx_kb"
};
static const u64 DEFAULTS[KEYS] = {
    1ULL << 29, 96ULL << 30, 1ULL << 28, 0, 0, 85000, 600000, 41, 180, 1, 0, 0, 0
};

struct process { unsigned pid; u64 memory; };
struct error { char function[64]; int code; };
struct gpu {
    char name[96], uuid[96];
    u64 value[KEYS];
    struct process processes[MAX_PROCESSES];
    unsigned process_count;
    struct error errors[MAX_ERRORS];
    unsigned error_count;
    long lost_after; /* -1: never */
};

static struct { int init; char driver[80]; unsigned count; struct gpu gpus[MAX_GPUS]; char log[512]; } script;
static long calls[MAX_GPUS];
static int initialised;
static struct stat read_as;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void defaults(void) {
    memset(&script, 0, sizeof script);
    memset(calls, 0, sizeof calls);
    strcpy(script.driver, "580.95.05");
    script.count = 8;
    for (unsigned i = 0; i < MAX_GPUS; i++) {
        struct gpu *gpu = &script.gpus[i];
        snprintf(gpu->name, sizeof gpu->name, "NVIDIA Fake 96GB");
        snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%08x-fake-4000-8000-000000000000", i);
        memcpy(gpu->value, DEFAULTS, sizeof DEFAULTS);
        gpu->lost_after = -1;
    }
}

static void set(struct gpu *gpu, const char *key, const char *rest) {
    char word[64];
    unsigned pid;
    if (!strcmp(key, "name")) {
        snprintf(gpu->name, sizeof gpu->name, "%s", rest);
    } else if (!strcmp(key, "uuid")) {
        snprintf(gpu->uuid, sizeof gpu->uuid, "%s", rest);
    } else if (!strcmp(key, "lost")) {
        gpu->lost_after = strtol(rest, NULL, 0);
    } else if (!strcmp(key, "process") && sscanf(rest, "%u %63s", &pid, word) == 2) {
        if (gpu->process_count < MAX_PROCESSES) {
            u64 memory = strcmp(word, "n/a") ? strtoull(word, NULL, 0) : ~0ULL;
            gpu->processes[gpu->process_count++] = (struct process){pid, memory};
        }
    } else if (!strcmp(key, "error")) {
        if (gpu->error_count < MAX_ERRORS) {
            struct error *error = &gpu->errors[gpu->error_count];
            if (sscanf(rest, "%63s %d", error->function, &error->code) == 2) gpu->error_count++;
        }
    } else {
        for (int i = 0; i < KEYS; i++)
            if (!strcmp(key, KEY_NAMES[i])) gpu->value[i] = strtoull(rest, NULL, 0);
    }
}

static void parse(FILE *file) {
    char line[1024];
    while (fgets(line, sizeof line, file)) {
        char which[16], key[64];
        int used = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "init %d", &script.init) == 1) continue;
        if (sscanf(line, "count %u", &script.count) == 1) {
            if (script.count > MAX_GPUS) script.count = MAX_GPUS;
            continue;
        }
        if (!strncmp(line, "driver ", 7)) {
            snprintf(script.driver, sizeof script.driver, "%.79s", line + 7);
        } else if (!strncmp(line, "log ", 4)) {
            snprintf(script.log, sizeof script.log, "%.511s", line + 4);
        } else if (sscanf(line, "gpu %15s %63s %n", which, key, &used) == 2 && used) {
            for (unsigned i = 0; i < MAX_GPUS; i++)
                if (!strcmp(which, "all") || (unsigned)atoi(which) == i) set(&script.gpus[i], key, line + used);
        }
    }
}

/* Settings begin anew with each version of the script, calls until a loss included. */
static void refresh(void) {
    const char *path = getenv("FAKE_NVML_SCRIPT");
    struct stat now;
    if (!path || stat(path, &now)) memset(&now, 0, sizeof now);
    if (script.count || script.driver[0]) {
        if (now.st_ino == read_as.st_ino && now.st_size == read_as.st_size
            && now.st_mtim.tv_sec == read_as.st_mtim.tv_sec && now.st_mtim.tv_nsec == read_as.st_mtim.tv_nsec)
            return;
    }
    read_as = now;
    defaults();
    FILE *file = now.st_ino ? fopen(path, "r") : NULL;
    if (file) {
        parse(file);
        fclose(file);
    }
}

static void note(const char *function, int index) {
    FILE *file = script.log[0] ? fopen(script.log, "a") : NULL;
    if (file) {
        fprintf(file, "%s %d\n", function, index);
        fclose(file);
    }
}

/* What every function on a GPU does first. */
static int enter(device_t device, const char *function, struct gpu **gpu) {
    pthread_mutex_lock(&lock);
    refresh();
    unsigned index = (unsigned)((size_t)device - 1);
    int code = SUCCESS;
    if (!initialised) {
        code = UNINITIALIZED;
    } else if (index >= MAX_GPUS) {
        code = INVALID_ARGUMENT;
    } else {
        *gpu = &script.gpus[index];
        note(function, (int)index);
        if ((*gpu)->lost_after >= 0 && calls[index]++ >= (*gpu)->lost_after) code = GPU_IS_LOST;
        for (unsigned i = 0; i < (*gpu)->error_count && code == SUCCESS; i++) {
            const struct error *error = &(*gpu)->errors[i];
            if (!strcmp(error->function, function) || !strcmp(error->function, "*")) code = error->code;
        }
    }
    pthread_mutex_unlock(&lock);
    return code;
}

#define ENTER                                                                                                          \
    struct gpu *gpu = NULL;                                                                                            \
    int code = enter(device, __func__, &gpu);                                                                          \
    if (code) return code;

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    refresh();
    note(__func__, -1);
    initialised = script.init == SUCCESS;
    int code = script.init;
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT int nvmlShutdown(void) {
    initialised = 0;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int code) {
    static char text[40];
    snprintf(text, sizeof text, "fake error %d", code);
    return text;
}

EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    if (!initialised) return UNINITIALIZED;
    snprintf(version, length, "%s", script.driver);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count) {
    pthread_mutex_lock(&lock);
    refresh();
    *count = script.count;
    int code = script.init ? script.init : initialised ? SUCCESS : UNINITIALIZED;
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *handle) {
    device_t device = (device_t)(size_t)(index + 1);
    ENTER
    *handle = device;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetName(device_t device, char *name, unsigned length) {
    ENTER
    snprintf(name, length, "%s", gpu->name);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUUID(device_t device, char *uuid, unsigned length) {
    ENTER
    snprintf(uuid, length, "%s", gpu->uuid);
    return SUCCESS;
}

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

EXPORT int nvmlDeviceGetPciInfo_v3(device_t device, struct pci *pci) {
    ENTER
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10 + (unsigned)((size_t)device - 1);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return SUCCESS;
}

struct memory { u64 total, free, used; };
struct memory_v2 { unsigned version; u64 total, reserved, free, used; };

EXPORT int nvmlDeviceGetMemoryInfo(device_t device, struct memory *memory) {
    ENTER
    memory->total = gpu->value[MEMORY_TOTAL];
    memory->used = gpu->value[MEMORY_USED] + gpu->value[MEMORY_RESERVED];
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(device_t device, struct memory_v2 *memory) {
    ENTER
    memory->total = gpu->value[MEMORY_TOTAL];
    memory->used = gpu->value[MEMORY_USED];
    memory->reserved = gpu->value[MEMORY_RESERVED];
    memory->free = memory->total - memory->used - memory->reserved;
    return SUCCESS;
}

struct utilization { unsigned gpu, memory; };

EXPORT int nvmlDeviceGetUtilizationRates(device_t device, struct utilization *rates) {
    ENTER
    rates->gpu = (unsigned)gpu->value[UTIL];
    rates->memory = (unsigned)gpu->value[MEMORY_UTIL];
    return SUCCESS;
}

#define ONE_VALUE(FUNCTION, TYPE, KEY)                                                                                 \
    EXPORT int FUNCTION(device_t device, TYPE *value) {                                                                \
        ENTER                                                                                                          \
        *value = (TYPE)gpu->value[KEY];                                                                                \
        return SUCCESS;                                                                                                \
    }

ONE_VALUE(nvmlDeviceGetPowerUsage, unsigned, POWER_MW)
ONE_VALUE(nvmlDeviceGetEnforcedPowerLimit, unsigned, POWER_LIMIT_MW)
ONE_VALUE(nvmlDeviceGetCurrentClocksEventReasons, u64, THROTTLE)
ONE_VALUE(nvmlDeviceGetCurrentClocksThrottleReasons, u64, THROTTLE)

EXPORT int nvmlDeviceGetTemperature(device_t device, int sensor, unsigned *value) {
    (void)sensor;
    ENTER
    *value = (unsigned)gpu->value[TEMPERATURE];
    return SUCCESS;
}

struct temperature { unsigned version; int sensor; int value; };

EXPORT int nvmlDeviceGetTemperatureV(device_t device, struct temperature *temperature) {
    ENTER
    temperature->value = (int)gpu->value[TEMPERATURE];
    return SUCCESS;
}

EXPORT int nvmlDeviceGetClockInfo(device_t device, int type, unsigned *value) {
    (void)type;
    ENTER
    *value = (unsigned)gpu->value[SM_CLOCK];
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTotalEccErrors(device_t device, int type, int counter, u64 *value) {
    (void)type, (void)counter;
    ENTER
    *value = gpu->value[ECC];
    return SUCCESS;
}

EXPORT int nvmlDeviceGetPcieThroughput(device_t device, int counter, unsigned *value) {
    ENTER
    *value = (unsigned)gpu->value[counter ? PCIE_RX_KB : PCIE_TX_KB];
    return SUCCESS;
}

struct process_info { unsigned pid; u64 memory; unsigned gpu_instance, compute_instance; };

static int list(const struct gpu *gpu, unsigned *count, struct process_info *out) {
    unsigned room = *count;
    *count = gpu->process_count;
    if (!gpu->process_count) return SUCCESS;
    if (room < gpu->process_count) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < gpu->process_count; i++)
        out[i] = (struct process_info){gpu->processes[i].pid, gpu->processes[i].memory, ~0u, ~0u};
    return SUCCESS;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(device_t device, unsigned *count, struct process_info *out) {
    ENTER
    return list(gpu, count, out);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(device_t device, unsigned *count, struct process_info *out) {
    ENTER
    return list(gpu, count, out);
}
