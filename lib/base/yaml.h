/* YAML files as the cJSON trees that JSON files give, with the line of every node; and tables of fields that read them.
 *
 * One document of YAML 1.2's core schema (yaml.org/spec/1.2.2, 10.3): plain scalars null, true, false and numbers have their type, everything
 * quoted or anything else ("yes", "no") is text. JSON is read as it is. Refused: aliases, anchors, tags, "<<", keys that are lists, the same key
 * twice, numbers that are not finite, NUL in text, nesting beyond 64. */
#ifndef INFQ_BASE_YAML_H
#define INFQ_BASE_YAML_H

#include <stdint.h>

#include "lib/base/json.h"

typedef struct infq_yaml infq_yaml;
/* `what` names the text in messages ("recipes/w8a8.yaml"). FORMAT as "<what>:<line>: <rule>". An empty document is null. */
infq_status infq_yaml_parse(const char *text, size_t n, const char *what, infq_yaml **out, infq_err *err);
infq_status infq_yaml_load(const char *path, size_t max_bytes, infq_yaml **out, infq_err *err);
void infq_yaml_free(infq_yaml *y);
const cJSON *infq_yaml_root(const infq_yaml *y);     /* borrowed; unchanged by the caller, or lines are lost */
int64_t infq_yaml_line(const infq_yaml *y, const cJSON *node); /* of a member: its key's line. From 1; 0: no node of y */

/* A copy in which ${name} inside text (not in keys) is the variable's text, and text that is only ${name} is its value of whatever type; $${ stands
 * for ${. Lines are those of y. vars: an object. FORMAT names an unknown variable, or one inside text that is a list or object. */
infq_status infq_yaml_expand(const infq_yaml *y, const cJSON *vars, infq_yaml **out, infq_err *err);
/* The same of one node of y, which becomes the root of the copy. */
infq_status infq_yaml_expand_node(const infq_yaml *y, const cJSON *node, const cJSON *vars, infq_yaml **out, infq_err *err);

/* FORMAT with "<what>:<line>: <key of node>: " in front (the key only where node is a member of an object). */
infq_status infq_yaml_err(const infq_yaml *y, const cJSON *node, infq_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

typedef enum {
    INFQ_YAML_STR,   /* const char *, borrowed */
    INFQ_YAML_I64,   /* int64_t, lo..hi */
    INFQ_YAML_F64,   /* double, lo..hi */
    INFQ_YAML_BOOL,  /* bool */
    INFQ_YAML_ENUM,  /* int: index in names */
    INFQ_YAML_LIST,  /* const cJSON *, an array; no array: one entry stands for a list of itself (see infq_yaml_first) */
    INFQ_YAML_STRS,  /* as LIST, and every entry is text */
    INFQ_YAML_MAP,   /* const cJSON *, an object */
    INFQ_YAML_ANY    /* const cJSON * */
} infq_yaml_kind;

/* One key of an object. What is absent (or null) keeps the value that `out` holds. */
typedef struct {
    const char *key;
    infq_yaml_kind kind;
    bool required;
    size_t offset;               /* offsetof(struct, member) */
    double lo, hi;               /* I64 and F64: lo == hi means no limit */
    const char *const *names;    /* ENUM: NULL-terminated */
} infq_yaml_field;

/* Reads object `obj` by its table. FORMAT names file, line and key: not an object, unknown key (with the one that was probably meant), missing
 * key, another type, out of range. */
infq_status infq_yaml_fields(const infq_yaml *y, const cJSON *obj, const infq_yaml_field *fields, size_t n_fields, void *out,
                             infq_err *err);
/* Entries of a LIST: first, then node->next until NULL. A single value is its own only entry: ask infq_yaml_next. */
const cJSON *infq_yaml_first(const cJSON *list);
const cJSON *infq_yaml_next(const cJSON *list, const cJSON *entry);

/* The name among n that differs least from `word` (edit distance with transpositions at most a third of its length and one), NULL if none is near. */
const char *infq_nearest(const char *word, const char *const *names, size_t n);

#endif
