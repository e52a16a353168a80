/* Files: private read-only maps, whole-file reads, atomic outputs. */
#ifndef INFQ_BASE_FILE_H
#define INFQ_BASE_FILE_H

#include <stdint.h>

#include "lib/base/buf.h"

/* PROT_READ, MAP_PRIVATE; the descriptor is closed after mapping. Empty files map to size 0, data "". */
typedef struct {
    const uint8_t *data;
    size_t size;
} infq_filemap;
infq_status infq_filemap_open(const char *path, infq_filemap *out, infq_err *err);
void infq_filemap_close(infq_filemap *m);
/* Tells the kernel that the range is done with, so that it leaves our resident set. */
void infq_filemap_drop(const infq_filemap *m, size_t offset, size_t n_bytes);
void infq_filemap_ahead(const infq_filemap *m, size_t offset, size_t n_bytes);

bool infq_path_exists(const char *path);
bool infq_path_is_dir(const char *path);
/* Both are there, and are one file or folder. */
bool infq_path_is_same(const char *a, const char *b);
/* path, which is there, lies below the folder dir, links followed. */
infq_status infq_path_is_inside(const char *path, const char *dir, bool *yes, infq_err *err);
/* dir + "/" + name into a new string (infq_mem_free). */
infq_status infq_path_join(const char *dir, const char *name, char **out, infq_err *err);
const char *infq_path_base(const char *path);  /* borrowed; after the last slash (trailing ones ignored) */
infq_status infq_file_read(const char *path, size_t max_bytes, infq_buf *out, infq_err *err);
/* Free bytes for us on the file system that holds (or would hold) path. */
infq_status infq_disk_free(const char *path, uint64_t *n_bytes, infq_err *err);
/* Names in a folder, sorted bytewise, without "." and ".."; free each and the array. */
infq_status infq_dir_list(const char *path, char ***names, size_t *n, infq_err *err);
void infq_dir_list_free(char **names, size_t n);
/* Removes a folder with all it holds; refuses to follow links. Absent is fine. */
infq_status infq_dir_remove(const char *path, infq_err *err);

/* Sequential or positioned output file, created exclusively. Every failure is IO with path and byte. */
typedef struct infq_outfile infq_outfile;
infq_status infq_outfile_create(const char *path, infq_outfile **out, infq_err *err);
infq_status infq_outfile_write(infq_outfile *f, const void *p, size_t n, infq_err *err);
infq_status infq_outfile_write_at(infq_outfile *f, uint64_t offset, const void *p, size_t n, infq_err *err);
infq_status infq_outfile_sync(infq_outfile *f, infq_err *err);
/* fsync and close; the file stays. free without finish closes and unlinks it. */
infq_status infq_outfile_finish(infq_outfile *f, infq_err *err);
void infq_outfile_free(infq_outfile *f);

/* Writes a whole file beside path, fsyncs, renames. Without `replace`, EXISTS when path is there. */
infq_status infq_file_write_atomic(const char *path, const void *p, size_t n, bool replace, infq_err *err);
infq_status infq_file_copy(const char *from, const char *to, infq_err *err); /* bytes equal, fsynced */
/* rename(2). Without `replace`, EXISTS when `to` is there. */
infq_status infq_file_rename(const char *from, const char *to, bool replace, infq_err *err);
/* fsync of the folder that holds path, so that a rename in it lasts. */
infq_status infq_dir_sync(const char *dir, infq_err *err);

/* For tests: makes the n-th write, fsync or rename from now fail as if the disk were full; 0 = off. */
void infq_file_fail_at(size_t n);
/* For tests: ends the process by SIGKILL just before the n-th write, fsync or rename from now; 0 = off. */
void infq_file_die_at(size_t n);

#endif
