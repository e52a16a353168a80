/* Backends by name. The CUDA part is a shared object of its own, opened at run time so that the
 * tools are the same files on machines without it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/backend/backend.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"

#define CUDA_FILE "libinfq_cuda.so"
#define CUDA_ENTRY "infq_backend_entry"

typedef const infq_backend_ops *(*entry_fn)(void);

static void fill_optional(infq_backend_ops *ops)
{
#define FILL(op)                                                                                   \
    if (!ops->op)                                                                                  \
    ops->op = infq_backend_ref.op
    FILL(rmsnorm);
    FILL(layernorm);
    FILL(rope);
    FILL(attention);
    FILL(kv_store);
    FILL(glu);
    FILL(add);
    FILL(round);
#undef FILL
}

// Folder of the CUDA part: INFQ_BACKEND_DIR, else the executable's. False when neither is known.
static bool cuda_path(char *out, size_t cap)
{
    const char *dir = getenv("INFQ_BACKEND_DIR");
    char exe[1024], *slash;
    ssize_t n;

    if (dir && *dir)
        return (size_t)snprintf(out, cap, "%s/%s", dir, CUDA_FILE) < cap;
    n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n <= 0)
        return false;
    exe[n] = '\0';
    slash = strrchr(exe, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return (size_t)snprintf(out, cap, "%s/%s", exe, CUDA_FILE) < cap;
}

static infq_status cuda_ops(const infq_backend_ops **out, infq_err *err)
{
    char path[1200];
    void *lib;
    entry_fn entry;
    const infq_backend_ops *ops;

    if (!cuda_path(path, sizeof(path)))
        return infq_err_set(err, INFQ_E_DEVICE,
                            "the folder of " CUDA_FILE " cannot be told; set INFQ_BACKEND_DIR");
    if (access(path, R_OK) != 0)
        return infq_err_set(err, INFQ_E_DEVICE,
                            "cuda: the CUDA part is not built here, there is no %s", path);
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return infq_err_set(err, INFQ_E_DEVICE, "cuda: %s", dlerror());
    // POSIX: the object pointer of dlsym is converted by its bytes.
    *(void **)(void *)&entry = dlsym(lib, CUDA_ENTRY);
    ops = entry ? entry() : NULL;
    if (!ops || ops->abi_version != INFQ_BACKEND_ABI || ops->struct_size != sizeof(*ops)) {
        dlclose(lib);
        return infq_err_set(err, INFQ_E_DEVICE,
                            "cuda: %s is of another version (interface %u is needed)", path,
                            (unsigned)INFQ_BACKEND_ABI);
    }
    *out = ops;
    return INFQ_E_OK;
}

infq_status infq_backend_open(const char *name, infq_backend **out, infq_err *err)
{
    const infq_backend_ops *ops = NULL;
    infq_backend *b;
    void *mem;
    infq_status st;

    if (strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0)
        ops = &infq_backend_cpu;
    else if (strcmp(name, "ref") == 0)
        ops = &infq_backend_ref;
    else if (strcmp(name, "cuda") == 0)
        INFQ_TRY(cuda_ops(&ops, err));
    else
        return infq_err_set(err, INFQ_E_USAGE, "unknown backend %s (auto, cpu, ref, cuda)", name);
    INFQ_TRY(infq_mem_new(1, sizeof(*b), "a backend", &mem, err));
    b = mem;
    b->ops = *ops;
    b->state = NULL;
    fill_optional(&b->ops);
    st = b->ops.open(name, &b->state, err);
    if (st) {
        infq_mem_free(b);
        return st;
    }
    *out = b;
    return INFQ_E_OK;
}

void infq_backend_close(infq_backend *b)
{
    if (!b)
        return;
    b->ops.close(b->state);
    infq_mem_free(b);
}

void infq_k_order(uint64_t k_seed, int32_t n, int32_t order[INFQ_K_PARTS_MAX])
{
    infq_rng rng = infq_rng_seed(k_seed);

    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    for (int32_t i = n - 1; i > 0; i--) {
        int32_t j = (int32_t)infq_rng_below(&rng, (uint64_t)i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}
