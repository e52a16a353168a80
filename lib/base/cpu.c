#include "lib/base/cpu.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const level_names[] = { "scalar", "avx2", "avx512", "vnni" };

#if defined(__x86_64__)
#include <cpuid.h>

// Register state that the operating system saves, bit by bit (XCR0).
static uint64_t xgetbv(void)
{
    uint32_t a, d;

    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

static infq_cpu_level detect(void)
{
    unsigned a, b, c, d, b7, c7, d7;
    uint64_t os;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA) || !(c & bit_F16C))
        return INFQ_CPU_SCALAR;
    os = xgetbv();
    if ((os & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || !(b7 & bit_AVX2))
        return INFQ_CPU_SCALAR;
    if ((os & 0xe6) != 0xe6 || !(b7 & bit_AVX512F) || !(b7 & bit_AVX512BW) || !(b7 & bit_AVX512DQ) ||
        !(b7 & bit_AVX512VL))
        return INFQ_CPU_AVX2;
    return c7 & bit_AVX512VNNI ? INFQ_CPU_VNNI : INFQ_CPU_AVX512;
}
#else
static infq_cpu_level detect(void)
{
    return INFQ_CPU_SCALAR;
}
#endif

// The CPU feature word: -1 until asked. First calls of several threads store the same value.
static atomic_int level_max = -1, level_now = -1;

infq_cpu_level infq_cpu_level_max(void)
{
    int level = atomic_load_explicit(&level_max, memory_order_relaxed);

    if (level < 0) {
        level = (int)detect();
        atomic_store_explicit(&level_max, level, memory_order_relaxed);
    }
    return (infq_cpu_level)level;
}

infq_cpu_level infq_cpu_level_get(void)
{
    int now = atomic_load_explicit(&level_now, memory_order_relaxed);

    if (now < 0) {
        const char *want = getenv("INFQ_CPU");

        now = (int)infq_cpu_level_max();
        for (int i = 0; want && i < now; i++)
            if (strcmp(want, level_names[i]) == 0)
                now = i;
        atomic_store_explicit(&level_now, now, memory_order_relaxed);
    }
    return (infq_cpu_level)now;
}

infq_status infq_cpu_level_set(infq_cpu_level level, infq_err *err)
{
    if (level > infq_cpu_level_max())
        return infq_err_set(err, INFQ_E_USAGE, "this processor has no %s", infq_cpu_level_name(level));
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
    return INFQ_E_OK;
}

const char *infq_cpu_level_name(infq_cpu_level level)
{
    return (unsigned)level <= INFQ_CPU_VNNI ? level_names[level] : "unknown";
}

char *infq_cpu_model(char *out, size_t cap)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");

    snprintf(out, cap, "%s", "");
    while (f && fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            colon[1 + strcspn(colon + 1, "\n")] = '\0';
            snprintf(out, cap, "%s", colon + 1 + strspn(colon + 1, " "));
            break;
        }
    }
    if (f)
        fclose(f);
    return out;
}

int infq_cpu_count(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t infq_time_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}
