#include "tools/cmd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/cpu.h"
#include "lib/base/file.h"

static void on_signal(int sig)
{
    infq_interrupted = sig;
}

// A standard stream that is closed is opened on /dev/null: otherwise the next file takes its number, and what is meant for the stream would go
// into that file. Output that nobody can see is still an error, because this one is opened for reading only.
static void keep_standard_numbers(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 1 ? O_RDONLY : O_RDWR) < 0)
            return; // no /dev/null: as it was
}

// Files are mapped: one that is cut while it is read, or whose disk fails, shows as this signal. What a killed run leaves is there too.
static void on_bus_error(int sig, siginfo_t *info, void *context)
{
    static const char text[] = "infq: read failed: a file became shorter while it was read, or its disk failed\n";

    (void)context;
    if (info->si_code != BUS_ADRERR) {
        signal(sig, SIG_DFL); // a bug of ours: the instruction runs again and ends the process
        return;
    }
    if (write(2, text, sizeof(text) - 1) < 0)
        _exit(4);
    _exit(4);
}

// Set when a command has come to its end by itself.
static bool came_to_end;

/* A library that ends the process (OpenMP's, when the system gives it no thread) has said why, with a code of its own, which may be that of a
 * verdict here. */
static void on_exit_by_others(void)
{
    if (!came_to_end)
        _exit(5);
}

static void set_signals(void)
{
    struct sigaction a;

    memset(&a, 0, sizeof(a));
    a.sa_sigaction = on_bus_error;
    a.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &a, NULL);
    memset(&a, 0, sizeof(a));
    a.sa_handler = on_signal;
    a.sa_flags = (int)SA_RESETHAND; // a second Ctrl-C ends the process at once
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    signal(SIGXFSZ, SIG_IGN); // a size limit then is a failed write with a message
    signal(SIGPIPE, SIG_IGN);
    atexit(on_exit_by_others);
}

// OpenMP reads its wait policy before main. Busy waiting with other work on the machine makes a product of 0.03 ms take 8 ms
// (docs/bench/log.md), so the process starts itself once more with passive waiting, unless the user has chosen.
static void wait_passively(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || setenv("OMP_WAIT_POLICY", "passive", 1))
        return;
    execv("/proc/self/exe", argv); // returns only when it fails; then we go on as we are
}

static int finish(const char *tool, int code)
{
    came_to_end = true;
    if ((fflush(stdout) || ferror(stdout)) && (code == 0 || code == 1 || code == 6)) { // otherwise something else was said
        fprintf(stderr, "%s: standard output cannot be written\n", tool);
        return 4;
    }
    return code;
}

int cmd_fail(const char *name, const infq_err *err)
{
    fprintf(stderr, "%s: %s\n", name, err->msg);
    return infq_status_exit(err->code);
}

static void list_commands(FILE *to, const char *tool, const char *summary, const cmd_row *rows, int n_rows)
{
    fprintf(to, "usage: %s COMMAND [options]\n\n%s\n\ncommands:\n", tool, summary);
    for (int i = 0; i < n_rows; i++)
        fprintf(to, "  %-10s %s\n", rows[i].name, rows[i].summary);
    fprintf(to, "\n%s COMMAND --help tells the options of a command.\n", tool);
}

int cmd_main(const char *tool, const char *summary, const cmd_row *rows, int n_rows, int argc, char **argv)
{
    keep_standard_numbers();
    wait_passively(argv);
    set_signals();
    if (argc < 2) {
        list_commands(stderr, tool, summary, rows, n_rows);
        return finish(tool, 2);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("%s %s\n", tool, INFQ_VERSION);
        return finish(tool, 0);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        list_commands(stdout, tool, summary, rows, n_rows);
        return finish(tool, 0);
    }
    for (int i = 0; i < n_rows; i++)
        if (strcmp(argv[1], rows[i].name) == 0)
            return finish(tool, rows[i].run(argc - 1, argv + 1));
    fprintf(stderr, "%s: unknown command %s (see %s --help)\n", tool, argv[1], tool);
    return finish(tool, 2);
}

int cmd_single(const char *tool, int (*run)(int argc, char **argv), int argc, char **argv)
{
    keep_standard_numbers();
    wait_passively(argv);
    set_signals();
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        printf("%s %s\n", tool, INFQ_VERSION);
        return finish(tool, 0);
    }
    return finish(tool, run(argc, argv));
}

static void wipe(cmd_sink *s)
{
    if (s->drawn)
        fprintf(stderr, "\r\033[K");
    s->drawn = false;
}

static void warn(void *ctx, const char *line)
{
    cmd_sink *s = ctx;

    if (s->quiet)
        return;
    wipe(s);
    fprintf(stderr, "%s: warning: %s\n", s->name, line);
}

static void progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    cmd_sink *s = ctx;
    int64_t now = infq_time_ns();
    double share, elapsed;
    char name[61];

    if (s->quiet || (!isatty(2) && !getenv("INFQ_PROGRESS")) || total == 0 || now - s->last_ns < 100000000)
        return;
    s->last_ns = now;
    share = (double)done / (double)total;
    elapsed = (double)(now - s->started_ns) * 1e-9;
    fprintf(stderr, "\r\033[K%3.0f %%  %.0f s", 100 * share, elapsed);
    if (share > 0.02)
        fprintf(stderr, ", %.0f s left", elapsed / share - elapsed);
    snprintf(name, sizeof(name), "%s", what);
    infq_text_one_line(name);
    fprintf(stderr, "  %s", name);
    fflush(stderr);
    s->drawn = true;
}

infq_log cmd_log(cmd_sink *sink, const char *name, bool quiet)
{
    infq_log log = { warn, progress, sink };

    sink->name = name;
    sink->quiet = quiet;
    sink->started_ns = infq_time_ns();
    sink->last_ns = 0;
    sink->drawn = false;
    return log;
}

void cmd_log_end(cmd_sink *sink)
{
    wipe(sink);
}

infq_status cmd_keep_input(const char *output, const char *input, infq_err *err)
{
    bool inside = false;

    if (infq_path_is_dir(input) && infq_path_exists(output))
        INFQ_TRY(infq_path_is_inside(output, input, &inside, err));
    return inside || infq_path_is_same(output, input)
               ? infq_err_set(err, INFQ_E_USAGE, "%s is read: it is not replaced, name another output", output)
               : INFQ_E_OK;
}

infq_status cmd_print(const infq_buf *text, infq_err *err)
{
    INFQ_TRY(infq_buf_status(text, err));
    if (fwrite(text->data, 1, text->n, stdout) != text->n || fflush(stdout))
        return infq_err_set(err, INFQ_E_IO, "standard output cannot be written");
    return INFQ_E_OK;
}
