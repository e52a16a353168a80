#include <stdio.h>
#include <string.h>

#include "lib/io/tok_int.h"

// Built into the ByteLevel pre-tokenizer (formats.md 3.4).
#define GPT2_PATTERN \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

// \w of the Whitespace pre-tokenizer: Alphabetic, M, Nd, Pc and the joiners, as in Rust's regular
// expressions.
#define RUST_WORDS                                                                                \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}" \
    "\\x{1f150}-\\x{1f169}"                                                                       \
    "\\x{1f170}-\\x{1f189}"

static infq_status type_of(const cJSON *o, const char *what, const char **type, infq_err *err)
{
    if (!cJSON_IsObject(o))
        return infq_err_set(err, INFQ_E_FORMAT, "%s is not an object", what);
    if (infq_json_str(o, "type", NULL, type, err))
        return infq_err_in(err, "%s", what);
    return *type ? INFQ_E_OK : infq_err_set(err, INFQ_E_FORMAT, "%s has no type", what);
}

static infq_status unknown_type(const char *what, const char *type, infq_err *err)
{
    return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s %.60s is not supported", what, type);
}

static infq_status too_many(const char *what, infq_err *err)
{
    return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s has more than %d steps", what,
                        INFQ_TOK_MAX_STEPS);
}

static infq_status text_of(infq_tokenizer *t, const cJSON *o, const char *key, const char *what,
                           infq_tok_str *out, infq_err *err)
{
    const char *s;

    if (infq_json_str(o, key, NULL, &s, err))
        return infq_err_in(err, "%s", what);
    if (!s)
        return infq_err_set(err, INFQ_E_FORMAT, "%s has no %s", what, key);
    return infq_tok_strdup(t, s, strlen(s), out, err);
}

static infq_status char_of(infq_tokenizer *t, const cJSON *o, const char *key, const char *what,
                           infq_tok_str *out, infq_err *err)
{
    INFQ_TRY(text_of(t, o, key, what, out, err));
    if (infq_utf8_count(out->p, out->n) != 1)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: %s is not one character", what, key);
    return INFQ_E_OK;
}

static infq_status flag_of(const cJSON *o, const char *key, bool dflt, const char *what, bool *out,
                           infq_err *err)
{
    return infq_json_bool(o, key, dflt, out, err) ? infq_err_in(err, "%s", what) : INFQ_E_OK;
}

static infq_status find_pattern(infq_tokenizer *t, const char *pattern, const char *what,
                                infq_tok_finder *f, infq_err *err)
{
    f->kind = INFQ_TOK_FIND_REGEX;
    INFQ_BUG_ON(t->n_regexes == sizeof(t->regexes) / sizeof(*t->regexes));
    INFQ_TRY(infq_tok_re_new(pattern, what, &f->re, err));
    t->regexes[t->n_regexes++] = f->re;
    return INFQ_E_OK;
}

static void find_char(infq_tok_finder *f, bool (*is)(uint32_t cp))
{
    f->kind = INFQ_TOK_FIND_CHAR;
    f->is = is;
}

// "pattern": {"Regex": text} or {"String": text}
static infq_status finder_of(infq_tokenizer *t, const cJSON *o, const char *what,
                             infq_tok_finder *f, infq_err *err)
{
    const cJSON *pattern = infq_json_get(o, "pattern");
    const char *regex;

    if (!cJSON_IsObject(pattern))
        return infq_err_set(err, INFQ_E_FORMAT, "%s has no pattern of the form Regex or String",
                            what);
    if (infq_json_str(pattern, "Regex", NULL, &regex, err))
        return infq_err_in(err, "%s", what);
    if (regex)
        return find_pattern(t, regex, what, f, err);
    f->kind = INFQ_TOK_FIND_STRING;
    return text_of(t, pattern, "String", what, &f->text, err);
}

typedef infq_status (*parse_step)(infq_tokenizer *t, const cJSON *o, infq_err *err);

// Every member of a Sequence.
static infq_status sequence(infq_tokenizer *t, const cJSON *o, const char *what, const char *key,
                            parse_step each, infq_err *err)
{
    const cJSON *list = infq_json_get(o, key), *item;

    if (!cJSON_IsArray(list))
        return infq_err_set(err, INFQ_E_FORMAT, "%s Sequence has no list %s", what, key);
    cJSON_ArrayForEach(item, list)
        INFQ_TRY(each(t, item, err));
    return INFQ_E_OK;
}

static infq_status normalizer(infq_tokenizer *t, const cJSON *o, infq_err *err)
{
    static const struct {
        const char *type;
        infq_tok_norm_kind kind;
    } kinds[] = {
        { "NFC", INFQ_TOK_NFC },
        { "NFD", INFQ_TOK_NFD },
        { "NFKC", INFQ_TOK_NFKC },
        { "NFKD", INFQ_TOK_NFKD },
        { "Lowercase", INFQ_TOK_LOWERCASE },
        { "Strip", INFQ_TOK_STRIP },
        { "StripAccents", INFQ_TOK_STRIP_ACCENTS },
        { "Prepend", INFQ_TOK_PREPEND },
        { "Replace", INFQ_TOK_REPLACE },
        { "ByteLevel", INFQ_TOK_BYTE_LEVEL },
    };
    const size_t n_kinds = sizeof(kinds) / sizeof(*kinds);
    infq_tok_norm *f = &t->norm[t->n_norm];
    const char *type;
    size_t i = 0;

    INFQ_TRY(type_of(o, "normalizer", &type, err));
    if (strcmp(type, "Sequence") == 0)
        return sequence(t, o, "normalizer", "normalizers", normalizer, err);
    while (i < n_kinds && strcmp(type, kinds[i].type) != 0)
        i++;
    if (i == n_kinds)
        return unknown_type("normalizer", type, err);
    if (t->n_norm == INFQ_TOK_MAX_STEPS)
        return too_many("normalizer", err);
    f->kind = kinds[i].kind;
    if (f->kind == INFQ_TOK_PREPEND)
        INFQ_TRY(text_of(t, o, "prepend", "normalizer Prepend", &f->content, err));
    if (f->kind == INFQ_TOK_REPLACE) {
        INFQ_TRY(finder_of(t, o, "normalizer Replace", &f->find, err));
        INFQ_TRY(text_of(t, o, "content", "normalizer Replace", &f->content, err));
    }
    if (f->kind == INFQ_TOK_STRIP) {
        INFQ_TRY(flag_of(o, "strip_left", true, "normalizer Strip", &f->left, err));
        INFQ_TRY(flag_of(o, "strip_right", true, "normalizer Strip", &f->right, err));
    }
    t->n_norm++;
    return INFQ_E_OK;
}

static infq_status behavior_of(const cJSON *o, const char *what, const char *dflt,
                               infq_tok_behavior *out, infq_err *err)
{
    static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous" };
    const char *name;

    if (infq_json_str(o, "behavior", dflt, &name, err))
        return infq_err_in(err, "%s", what);
    for (size_t i = 0; name && i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (infq_tok_behavior)i;
            return INFQ_E_OK;
        }
    return infq_err_set(err, INFQ_E_FORMAT, "%s has no known behavior (%.40s)", what,
                        name ? name : "none");
}

static infq_status scheme_of(const cJSON *o, const char *what, infq_tok_scheme *out, infq_err *err)
{
    static const char *const names[] = { "always", "first", "never" };
    const char *name;
    bool prefix;
    size_t i = 0;

    if (infq_json_str(o, "prepend_scheme", NULL, &name, err))
        return infq_err_in(err, "%s", what);
    INFQ_TRY(flag_of(o, "add_prefix_space", true, what, &prefix, err));
    if (!name)
        name = prefix ? "always" : "never";
    while (i < 3 && strcmp(name, names[i]) != 0)
        i++;
    if (i == 3)
        return infq_err_set(err, INFQ_E_FORMAT, "%s has an unknown prepend_scheme %.40s", what,
                            name);
    *out = (infq_tok_scheme)i;
    if (!prefix && *out != INFQ_TOK_NEVER)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: add_prefix_space contradicts prepend_scheme",
                            what);
    return INFQ_E_OK;
}

static infq_status next_pre(infq_tokenizer *t, infq_tok_pre **out, infq_err *err)
{
    if (t->n_pre == INFQ_TOK_MAX_STEPS)
        return too_many("pre_tokenizer", err);
    *out = &t->pre[t->n_pre++];
    memset(*out, 0, sizeof(**out));
    return INFQ_E_OK;
}

static infq_status pre_byte_level(infq_tokenizer *t, const cJSON *o, infq_err *err)
{
    const char *what = "pre_tokenizer ByteLevel";
    bool prefix, regex;
    infq_tok_pre *f = NULL;

    INFQ_TRY(flag_of(o, "add_prefix_space", true, what, &prefix, err));
    INFQ_TRY(flag_of(o, "use_regex", true, what, &regex, err));
    if (prefix) {
        INFQ_TRY(next_pre(t, &f, err));
        f->kind = INFQ_TOK_PRE_PREFIX_SPACE;
    }
    if (regex) {
        INFQ_TRY(next_pre(t, &f, err));
        f->kind = INFQ_TOK_PRE_SPLIT;
        f->behavior = INFQ_TOK_ISOLATED;
        INFQ_TRY(find_pattern(t, GPT2_PATTERN, what, &f->find, err));
    }
    INFQ_TRY(next_pre(t, &f, err));
    f->kind = INFQ_TOK_PRE_BYTE_LEVEL;
    return INFQ_E_OK;
}

static infq_status pre_metaspace(infq_tokenizer *t, const cJSON *o, infq_err *err)
{
    const char *what = "pre_tokenizer Metaspace";
    infq_tok_pre *f = NULL;

    INFQ_TRY(next_pre(t, &f, err));
    f->kind = INFQ_TOK_PRE_METASPACE;
    INFQ_TRY(char_of(t, o, "replacement", what, &f->marker, err));
    f->find.kind = INFQ_TOK_FIND_STRING;
    f->find.text = f->marker;
    INFQ_TRY(flag_of(o, "split", true, what, &f->split, err));
    return scheme_of(o, what, &f->scheme, err);
}

static infq_status pre_split(infq_tokenizer *t, const cJSON *o, const char *type, infq_err *err)
{
    infq_tok_pre *f = NULL;
    char what[64];

    snprintf(what, sizeof(what), "pre_tokenizer %s", type);
    INFQ_TRY(next_pre(t, &f, err));
    f->kind = INFQ_TOK_PRE_SPLIT;
    if (strcmp(type, "Split") == 0) {
        INFQ_TRY(finder_of(t, o, what, &f->find, err));
        INFQ_TRY(flag_of(o, "invert", false, what, &f->invert, err));
        return behavior_of(o, what, NULL, &f->behavior, err);
    }
    if (strcmp(type, "Digits") == 0) {
        bool single;
        INFQ_TRY(flag_of(o, "individual_digits", false, what, &single, err));
        find_char(&f->find, infq_tok_is_numeric);
        f->behavior = single ? INFQ_TOK_ISOLATED : INFQ_TOK_CONTIGUOUS;
        return INFQ_E_OK;
    }
    if (strcmp(type, "Punctuation") == 0) {
        find_char(&f->find, infq_tok_is_punct);
        return behavior_of(o, what, "Isolated", &f->behavior, err);
    }
    f->behavior = INFQ_TOK_REMOVED;
    if (strcmp(type, "WhitespaceSplit") == 0) {
        find_char(&f->find, infq_tok_is_space);
        return INFQ_E_OK;
    }
    f->invert = true;
    return find_pattern(t, "[" RUST_WORDS "]+|[^" RUST_WORDS "\\s]+", what, &f->find, err);
}

static infq_status pre_tokenizer(infq_tokenizer *t, const cJSON *o, infq_err *err)
{
    static const char *const splits[] = { "Split", "Digits", "Punctuation", "WhitespaceSplit",
                                          "Whitespace" };
    const char *type;

    INFQ_TRY(type_of(o, "pre_tokenizer", &type, err));
    if (strcmp(type, "Sequence") == 0)
        return sequence(t, o, "pre_tokenizer", "pretokenizers", pre_tokenizer, err);
    if (strcmp(type, "ByteLevel") == 0)
        return pre_byte_level(t, o, err);
    if (strcmp(type, "Metaspace") == 0)
        return pre_metaspace(t, o, err);
    for (size_t i = 0; i < sizeof(splits) / sizeof(*splits); i++)
        if (strcmp(type, splits[i]) == 0)
            return pre_split(t, o, type, err);
    return unknown_type("pre_tokenizer", type, err);
}

static infq_status strip_counts(const cJSON *o, infq_tok_dec *d, infq_err *err)
{
    if (infq_json_i64(o, "start", 0, &d->start, err) || infq_json_i64(o, "stop", 0, &d->stop, err))
        return infq_err_in(err, "decoder Strip");
    if (d->start < 0 || d->stop < 0)
        return infq_err_set(err, INFQ_E_FORMAT, "decoder Strip: start and stop cannot be negative");
    return INFQ_E_OK;
}

static infq_status decoder(infq_tokenizer *t, const cJSON *o, infq_err *err)
{
    static const char *const types[] = { "ByteLevel", "Replace",      "Fuse",
                                         "Strip",     "ByteFallback", "Metaspace" };
    const size_t n_types = sizeof(types) / sizeof(*types);
    infq_tok_dec *d = &t->dec[t->n_dec];
    const char *type;
    size_t i = 0;

    INFQ_TRY(type_of(o, "decoder", &type, err));
    if (strcmp(type, "Sequence") == 0)
        return sequence(t, o, "decoder", "decoders", decoder, err);
    while (i < n_types && strcmp(type, types[i]) != 0)
        i++;
    if (i == n_types)
        return unknown_type("decoder", type, err);
    if (t->n_dec == INFQ_TOK_MAX_STEPS)
        return too_many("decoder", err);
    t->n_dec++;
    d->kind = i;
    switch (d->kind) {
    case INFQ_TOK_DEC_REPLACE:
        INFQ_TRY(finder_of(t, o, "decoder Replace", &d->find, err));
        return text_of(t, o, "content", "decoder Replace", &d->content, err);
    case INFQ_TOK_DEC_STRIP:
        INFQ_TRY(char_of(t, o, "content", "decoder Strip", &d->content, err));
        return strip_counts(o, d, err);
    case INFQ_TOK_DEC_METASPACE:
        INFQ_TRY(char_of(t, o, "replacement", "decoder Metaspace", &d->content, err));
        return scheme_of(o, "decoder Metaspace", &d->scheme, err);
    default:
        return INFQ_E_OK;
    }
}

infq_status infq_tok_parse_steps(infq_tokenizer *t, const cJSON *root, infq_err *err)
{
    const cJSON *norm = infq_json_get(root, "normalizer"),
                *pre = infq_json_get(root, "pre_tokenizer");
    const cJSON *dec = infq_json_get(root, "decoder");

    if (norm)
        INFQ_TRY(normalizer(t, norm, err));
    if (pre)
        INFQ_TRY(pre_tokenizer(t, pre, err));
    if (dec) {
        t->has_decoder = true;
        INFQ_TRY(decoder(t, dec, err));
    }
    return INFQ_E_OK;
}

// Ids of a special token of the template, by its name in special_tokens.
static infq_status template_ids(const infq_tokenizer *t, const cJSON *special, const char *name,
                                int32_t *ids, size_t *n, infq_err *err)
{
    const cJSON *entry = infq_json_get(special, name), *list = infq_json_get(entry, "ids"), *id;

    if (!cJSON_IsArray(list))
        return infq_err_set(err, INFQ_E_FORMAT,
                            "post_processor TemplateProcessing: %.60s is not in special_tokens",
                            name);
    cJSON_ArrayForEach(id, list) {
        if (!cJSON_IsNumber(id) ||
            !(id->valuedouble >= 0 && id->valuedouble < (double)t->vocab.n) ||
            id->valuedouble != (double)(int32_t)id->valuedouble ||
            !(t->vocab.flags[(int32_t)id->valuedouble] & INFQ_TOK_PRESENT))
            return infq_err_set(
                err, INFQ_E_FORMAT,
                "post_processor TemplateProcessing: an id of %.60s is not in the vocabulary", name);
        if (*n == INFQ_TOK_MAX_TEMPLATE)
            return infq_err_set(err, INFQ_E_UNSUPPORTED,
                                "post_processor TemplateProcessing has more than %d tokens",
                                INFQ_TOK_MAX_TEMPLATE);
        ids[(*n)++] = (int32_t)id->valuedouble;
    }
    return INFQ_E_OK;
}

// The text in this template is what earlier post-processors made: their tokens go inside.
static infq_status template_processing(infq_tokenizer *t, const cJSON *o, infq_err *err)
{
    const cJSON *single = infq_json_get(o, "single"), *special = infq_json_get(o, "special_tokens"),
                *item;
    int32_t ids[INFQ_TOK_MAX_TEMPLATE];
    size_t n = 0, n_text = 0;

    if (!cJSON_IsArray(single))
        return infq_err_set(err, INFQ_E_FORMAT,
                            "post_processor TemplateProcessing has no list single");
    cJSON_ArrayForEach(item, single) {
        const cJSON *token = infq_json_get(item, "SpecialToken"),
                    *text = infq_json_get(item, "Sequence");
        const char *name;

        if (infq_json_str(token ? token : text, "id", NULL, &name, err) || !name)
            return infq_err_set(
                err, INFQ_E_FORMAT,
                "post_processor TemplateProcessing: a piece is neither SpecialToken nor Sequence");
        if (token) {
            INFQ_TRY(template_ids(t, special, name, ids, &n, err));
            continue;
        }
        n_text++;
        if (strcmp(name, "A") != 0)
            return infq_err_set(err, INFQ_E_FORMAT,
                                "post_processor TemplateProcessing: single uses Sequence %.40s",
                                name);
        if (n + t->n_template > INFQ_TOK_MAX_TEMPLATE)
            return infq_err_set(err, INFQ_E_UNSUPPORTED,
                                "post_processor TemplateProcessing has more than %d tokens",
                                INFQ_TOK_MAX_TEMPLATE);
        memcpy(ids + n, t->template_ids, t->n_template * sizeof(*ids));
        n += t->n_template;
    }
    if (n_text != 1)
        return infq_err_set(
            err, INFQ_E_FORMAT,
            "post_processor TemplateProcessing: single holds Sequence A %zu times, not once",
            n_text);
    memcpy(t->template_ids, ids, n * sizeof(*ids));
    t->n_template = n;
    return INFQ_E_OK;
}

infq_status infq_tok_parse_template(infq_tokenizer *t, const cJSON *post, infq_err *err)
{
    const char *type;

    INFQ_TRY(type_of(post, "post_processor", &type, err));
    if (strcmp(type, "Sequence") == 0)
        return sequence(t, post, "post_processor", "processors", infq_tok_parse_template, err);
    if (strcmp(type, "ByteLevel") == 0) // changes offsets only
        return INFQ_E_OK;
    if (strcmp(type, "TemplateProcessing") == 0)
        return template_processing(t, post, err);
    return unknown_type("post_processor", type, err);
}
