#include "tests/testlib.h"

#include <sys/stat.h>
#include <unistd.h>

#include "lib/eval/corpus.h"

const char *test_shared(void)
{
    const char *p = getenv("INFQ_SHARED");
    char goldens[1024];
    struct stat sb;

    if (!p)
        p = "../shared";
    snprintf(goldens, sizeof(goldens), "%s/goldens", p); // somebody else's folder of that name has none
    return stat(goldens, &sb) == 0 && S_ISDIR(sb.st_mode) ? p : NULL;
}

const char *test_shared_path(const char *rel)
{
    static char path[8][1024];
    static int at;

    at = (at + 1) % 8;
    snprintf(path[at], sizeof(path[at]), "%s/%s", test_shared(), rel);
    return path[at];
}

const char *test_in(const char *dir, const char *name)
{
    static char path[32][1024];
    static int at;

    at = (at + 1) % 32;
    snprintf(path[at], sizeof(path[at]), "%s/%s", dir, name);
    return path[at];
}

static char tmpdirs[8][256];
static int n_tmpdirs;

static void remove_tmpdirs(void)
{
    infq_err err;

    for (int i = 0; i < 8; i++)
        if (tmpdirs[i][0])
            infq_dir_remove(tmpdirs[i], &err);
}

const char *test_tmpdir(void)
{
    const char *base = getenv("TMPDIR");
    char *dir = tmpdirs[n_tmpdirs % 8];

    if (n_tmpdirs++ == 0)
        atexit(remove_tmpdirs);
    snprintf(dir, sizeof(tmpdirs[0]), "%s/infq-test-XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    return dir;
}

cJSON *test_json(const char *path)
{
    infq_err err;
    cJSON *j = NULL;

    ck_ok(infq_json_load(path, (size_t)1 << 30, &j, &err), err);
    return j;
}

uint8_t *test_hex(const char *hex, size_t *n)
{
    size_t len = strlen(hex);
    uint8_t *p = infq_mem_alloc(len / 2 + 1);

    for (size_t i = 0; i + 1 < len; i += 2) {
        unsigned v;
        sscanf(hex + i, "%2x", &v);
        p[i / 2] = (uint8_t)v;
    }
    *n = len / 2;
    return p;
}

int test_main(Suite *s)
{
    SRunner *r = srunner_create(s);
    int failed;

    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}

cJSON *test_eval_goldens(const char *model, const char *name)
{
    char path[300];
    infq_buf text;
    infq_err err;
    cJSON *all = cJSON_CreateArray();

    snprintf(path, sizeof(path), "goldens/evals/%s/%s.jsonl", model, name);
    if (!infq_path_exists(test_shared_path(path)))
        snprintf(path, sizeof(path), "goldens/evals/%s/%s.jsonl.gz", model, name);
    infq_buf_init(&text);
    ck_ok(infq_corpus_read(test_shared_path(path), (size_t)1 << 30, &text, &err), err);
    for (size_t at = 0; at < text.n;) {
        char *end = memchr(text.data + at, '\n', text.n - at);
        size_t n = end ? (size_t)(end - text.data) - at : text.n - at;
        cJSON *o;
        ck_ok(infq_json_parse(text.data + at, n, name, &o, &err), err);
        cJSON_AddItemToArray(all, o);
        at += n + 1;
    }
    infq_buf_deinit(&text);
    return all;
}

void test_inverse(double *m, int64_t n, double *a)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            a[i * n + j] = i == j;
    for (int64_t c = 0; c < n; c++) {
        double p = m[c * n + c];
        for (int64_t j = 0; j < n; j++) {
            m[c * n + j] /= p;
            a[c * n + j] /= p;
        }
        for (int64_t i = 0; i < n; i++) {
            double k = m[i * n + c];
            for (int64_t j = 0; i != c && j < n; j++) {
                m[i * n + j] -= k * m[c * n + j];
                a[i * n + j] -= k * a[c * n + j];
            }
        }
    }
}
