#include <string.h>

#include "lib/format/format.h"

const infq_scheme infq_scheme_dense = {"dense", {.elem = INFQ_ELEM_NONE, .scale = INFQ_ELEM_NONE}};

// Scale type and group size are filled in by the plan: the table holds what the name says.
static const infq_scheme schemes[] = {
    {"W4A16", {.elem = INFQ_ELEM_U4, .group_rows = 1, .scale = INFQ_ELEM_BF16}},
    {"W4A16_ASYM", {.elem = INFQ_ELEM_U4, .group_rows = 1, .scale = INFQ_ELEM_BF16, .zero = INFQ_ZERO_INT}},
    {"W8A16", {.elem = INFQ_ELEM_U8, .group_rows = 1, .scale = INFQ_ELEM_BF16}},
    {"W8A8-INT8", {.elem = INFQ_ELEM_I8, .group_rows = 1, .scale = INFQ_ELEM_BF16, .act = INFQ_ACT_I8_TOKEN}},
    {"FP8", {.elem = INFQ_ELEM_E4M3, .group_rows = 1, .scale = INFQ_ELEM_BF16, .act = INFQ_ACT_E4M3_TOKEN}},
    {"FP8-BLOCK", {.elem = INFQ_ELEM_E4M3, .group_rows = 128, .group_cols = 128, .scale = INFQ_ELEM_BF16,
                   .act = INFQ_ACT_E4M3_GROUP128}},
};

static const struct {
    const char *alias, *name;
} aliases[] = {
    {"INT4", "W4A16"},        {"INT8", "W8A8-INT8"}, {"W8A8", "W8A8-INT8"},
    {"FP8-DYNAMIC", "FP8"},   {"W8A8-FP8", "FP8"},
};

// Case and the two dashes make no difference.
static bool alike(const char *a, const char *b)
{
    for (;; a++, b++) {
        char x = *a == '_' ? '-' : *a, y = *b == '_' ? '-' : *b;
        if (x >= 'a' && x <= 'z')
            x = (char)(x - 'a' + 'A');
        if (y >= 'a' && y <= 'z')
            y = (char)(y - 'a' + 'A');
        if (x != y)
            return false;
        if (!x)
            return true;
    }
}

size_t infq_scheme_count(void)
{
    return sizeof(schemes) / sizeof(schemes[0]);
}

const infq_scheme *infq_scheme_get(size_t i)
{
    return &schemes[i];
}

const infq_scheme *infq_scheme_find(const char *name)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (alike(name, aliases[i].alias))
            name = aliases[i].name;
    for (size_t i = 0; i < infq_scheme_count(); i++)
        if (alike(name, schemes[i].name))
            return &schemes[i];
    return NULL;
}
