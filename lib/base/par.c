#include "lib/base/par.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "lib/base/cpu.h"

#define MAX_THREADS 1024

static void *pass(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

// How many threads, this one included, the system lets us have at a time, n at most.
static int startable(int n)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t ids[MAX_THREADS];
    int made = 0;

    pthread_mutex_lock(&gate);
    while (made < n - 1 && pthread_create(&ids[made], NULL, pass, &gate) == 0)
        made++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < made; i++)
        pthread_join(ids[i], NULL);
    pthread_mutex_destroy(&gate);
    return made + 1;
}

void infq_par_threads_set(int n)
{
    n = n > 0 ? n : infq_cpu_count();
    n = startable(n < MAX_THREADS ? n : MAX_THREADS);
    omp_set_num_threads(n);
    // The library of OpenMP ends the process when it gets no thread: have them before memory is used up.
#pragma omp parallel
    {
    }
}

int infq_par_threads(void)
{
    return omp_get_max_threads();
}

/* Team. `word` holds the number of the job, its number of parts and the next part to take, so that one
 * atomic addition takes a part of a known job; a job is written only while no part of the last one is
 * out, and read only by who took a part of it. */
#define PART_BITS 16
#define PART_MASK ((UINT64_C(1) << PART_BITS) - 1)
/* Parts a thread and job: late threads leave theirs to others. */
#define PARTS_A_THREAD 4
/* A thread without work looks for it this long before it sleeps. */
#define STAND_BY_NS 200000
#define LOOKS_A_CLOCK 64

typedef struct {
    _Alignas(64) _Atomic uint64_t word; /* job | parts | next */
    _Alignas(64) _Atomic int64_t done;  /* parts that are finished */
    _Alignas(64) infq_par_fn fn;
    void *ctx;
    int64_t n, grain, n_grains;
    uint64_t job;
    bool busy; /* a part runs on the thread that leads */
    _Alignas(64) _Atomic int sleepers;
    atomic_bool over;
    pthread_mutex_t lock;
    pthread_cond_t wake;
} team;

// The team that this thread leads, for the time of infq_par_team.
static _Thread_local team *leads;

static uint64_t parts_of(uint64_t word)
{
    return word >> PART_BITS & PART_MASK;
}

static bool has_work(uint64_t word)
{
    return (word & PART_MASK) < parts_of(word);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Takes parts until none is left.
static void take_parts(team *t, int thread)
{
    while (has_work(atomic_load_explicit(&t->word, memory_order_acquire))) {
        uint64_t w = atomic_fetch_add(&t->word, 1);
        int64_t parts = (int64_t)parts_of(w), p = (int64_t)(w & PART_MASK), begin, end;

        if (!has_work(w))
            return;
        begin = t->n_grains * p / parts * t->grain;
        end = t->n_grains * (p + 1) / parts * t->grain;
        t->fn(t->ctx, begin, end < t->n ? end : t->n, thread);
        atomic_fetch_add_explicit(&t->done, 1, memory_order_release);
    }
}

static void sleep_until_work(team *t)
{
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->sleepers, 1);
    while (!has_work(atomic_load(&t->word)) && !atomic_load(&t->over))
        pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->sleepers, 1);
    pthread_mutex_unlock(&t->lock);
}

static void wake_sleepers(team *t)
{
    if (atomic_load(&t->sleepers) == 0)
        return;
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

static void stand_by(team *t, int thread)
{
    int64_t since = now_ns();

    for (unsigned looks = 0; !atomic_load_explicit(&t->over, memory_order_acquire); looks++) {
        if (has_work(atomic_load_explicit(&t->word, memory_order_acquire))) {
            take_parts(t, thread);
            since = now_ns();
        }
        relax();
        if (looks % LOOKS_A_CLOCK == 0 && now_ns() - since > STAND_BY_NS) {
            sleep_until_work(t);
            since = now_ns();
        }
    }
}

static void team_for(team *t, int64_t n, int64_t grain, int64_t n_grains, infq_par_fn fn, void *ctx)
{
    int64_t most = (int64_t)omp_get_max_threads() * PARTS_A_THREAD, parts = n_grains < most ? n_grains : most, since;

    parts = parts < (int64_t)PART_MASK / 2 ? parts : (int64_t)PART_MASK / 2;
    t->fn = fn;
    t->ctx = ctx;
    t->n = n;
    t->grain = grain;
    t->n_grains = n_grains;
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    atomic_store(&t->word, ++t->job << 2 * PART_BITS | (uint64_t)parts << PART_BITS);
    wake_sleepers(t);
    t->busy = true;
    take_parts(t, 0);
    t->busy = false;
    since = now_ns();
    for (unsigned looks = 0; atomic_load_explicit(&t->done, memory_order_acquire) < parts; looks++) {
        relax();
        if (looks % LOOKS_A_CLOCK == LOOKS_A_CLOCK - 1 && now_ns() - since > STAND_BY_NS)
            sched_yield(); // its processor may be the one that another thread of ours needs
    }
}

void infq_par_team(infq_team_fn fn, void *ctx)
{
    team t = { .job = 0 };

    if (leads || omp_in_parallel() || omp_get_max_threads() == 1) {
        fn(ctx);
        return;
    }
    pthread_mutex_init(&t.lock, NULL);
    pthread_cond_init(&t.wake, NULL);
#pragma omp parallel
    {
        if (omp_get_thread_num() == 0) {
            leads = &t;
            fn(ctx);
            leads = NULL;
            atomic_store(&t.over, true);
            wake_sleepers(&t);
        } else {
            stand_by(&t, omp_get_thread_num());
        }
    }
    pthread_cond_destroy(&t.wake);
    pthread_mutex_destroy(&t.lock);
}

void infq_par_for(int64_t n, int64_t grain, infq_par_fn fn, void *ctx)
{
    int64_t n_grains, parts;

    if (n <= 0)
        return;
    n_grains = (n + grain - 1) / grain;
    if (leads && !leads->busy && n_grains > 1) {
        team_for(leads, n, grain, n_grains, fn, ctx);
        return;
    }
    parts = omp_in_parallel() ? 1 : omp_get_max_threads();
    if (parts > n_grains)
        parts = n_grains;
    if (parts <= 1) {
        fn(ctx, 0, n, 0);
        return;
    }
#pragma omp parallel for schedule(static) num_threads((int)parts)
    for (int64_t p = 0; p < parts; p++) {
        int64_t begin = n_grains * p / parts * grain, end = n_grains * (p + 1) / parts * grain;
        fn(ctx, begin, end < n ? end : n, (int)p);
    }
}
