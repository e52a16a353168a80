/* Driver for machines without a fuzzing engine: gives every file of the named folders (or files) to LLVMFuzzerTestOneInput, and
 * all prefixes and single-byte changes of small ones. With clang -fsanitize=fuzzer the engine takes its place. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t n_inputs;

static void feed(const uint8_t *p, size_t n)
{
    uint8_t *copy = infq_mem_alloc(n ? n : 1);

    if (!copy)
        return;
    memcpy(copy, p, n);
    LLVMFuzzerTestOneInput(copy, n);
    infq_mem_free(copy);
    n_inputs++;
}

static int one_file(const char *path)
{
    infq_err err;
    infq_buf b;

    infq_buf_init(&b);
    if (infq_file_read(path, (size_t)64 << 20, &b, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        infq_buf_deinit(&b);
        return 1;
    }
    feed((const uint8_t *)b.data, b.n);
    if (b.n <= 2048) {
        for (size_t n = 0; n < b.n; n++)
            feed((const uint8_t *)b.data, n);
        for (size_t i = 0; i < b.n; i++) {
            char was = b.data[i];
            b.data[i] = (char)(was ^ (1 << (i % 8)));
            feed((const uint8_t *)b.data, b.n);
            b.data[i] = (char)0xff;
            feed((const uint8_t *)b.data, b.n);
            b.data[i] = was;
        }
    }
    infq_buf_deinit(&b);
    return 0;
}

int main(int argc, char **argv)
{
    infq_err err;
    int bad = 0;

    for (int i = 1; i < argc; i++) {
        char **names = NULL;
        size_t n = 0;

        if (!infq_path_is_dir(argv[i])) {
            bad |= one_file(argv[i]);
            continue;
        }
        if (infq_dir_list(argv[i], &names, &n, &err)) {
            fprintf(stderr, "%s\n", err.msg);
            return 1;
        }
        for (size_t k = 0; k < n; k++) {
            char *path = NULL;
            if (infq_path_join(argv[i], names[k], &path, &err) == 0)
                bad |= one_file(path);
            infq_mem_free(path);
        }
        infq_dir_list_free(names, n);
    }
    printf("%zu inputs\n", n_inputs);
    return bad || n_inputs == 0;
}
