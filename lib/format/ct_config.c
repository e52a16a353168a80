#include "lib/format/ct_int.h"

#include <string.h>

static infq_status target_parse(const cJSON *item, infq_ct_target *t, infq_err *err)
{
    if (!cJSON_IsString(item))
        return infq_err_set(err, INFQ_E_FORMAT, "quantization_config: targets and ignore hold strings");
    t->text = infq_mem_strdup(item->valuestring);
    if (!t->text)
        return infq_err_set(err, INFQ_E_NOMEM, "quantization_config: targets");
    if (infq_str_starts(t->text, "re:") && infq_pattern_new(t->text, &t->re, err)) {
        // Our own options answer USAGE; in a file it is the file's fault.
        infq_err_in(err, "quantization_config");
        return err->code = INFQ_E_FORMAT;
    }
    return INFQ_E_OK;
}

static void targets_free(infq_ct_target *t, size_t n)
{
    for (size_t i = 0; t && i < n; i++) {
        infq_mem_free(t[i].text);
        infq_pattern_free(t[i].re);
    }
    infq_mem_free(t);
}

static infq_status targets_parse(const cJSON *list, infq_ct_target **out, size_t *n_out, infq_err *err)
{
    const cJSON *item;
    infq_ct_target *t;

    if (!list)
        return INFQ_E_OK;
    if (!cJSON_IsArray(list))
        return infq_err_set(err, INFQ_E_FORMAT, "quantization_config: targets and ignore are lists");
    t = infq_mem_calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*t));
    if (!t)
        return infq_err_set(err, INFQ_E_NOMEM, "quantization_config: targets");
    *out = t;
    cJSON_ArrayForEach(item, list)
    {
        size_t at = (*n_out)++;
        INFQ_TRY(target_parse(item, &t[at], err));
    }
    return INFQ_E_OK;
}

static bool target_match(const infq_ct_target *t, const char *module, infq_role role)
{
    if (t->re)
        return infq_pattern_match(t->re, module);
    if (strcmp(t->text, "Linear") == 0)
        return role != INFQ_ROLE_EMBED;
    if (strcmp(t->text, "Embedding") == 0)
        return role == INFQ_ROLE_EMBED;
    return strcmp(t->text, module) == 0;
}

const infq_ct_group *infq_ct_config_match(const infq_ct_config *c, const char *module)
{
    infq_role role = infq_role_of(module);

    for (size_t i = 0; i < c->n_ignore; i++)
        if (target_match(&c->ignore[i], module, role))
            return NULL;
    for (size_t g = 0; g < c->n_groups; g++)
        for (size_t i = 0; i < c->groups[g].n_targets; i++)
            if (target_match(&c->groups[g].targets[i], module, role))
                return &c->groups[g];
    return NULL;
}

static infq_status strategy_parse(const cJSON *args, infq_ct_group *g, infq_err *err)
{
    static const char *const names[] = {"tensor", "channel", "group", "block", "tensor_group"};
    const cJSON *size = infq_json_get(args, "group_size"), *block = infq_json_get(args, "block_structure");
    const char *name;
    int64_t n;

    INFQ_TRY(infq_json_str(args, "strategy", NULL, &name, err));
    INFQ_TRY(infq_json_i64(args, "group_size", 0, &n, err));
    if (n < -1 || n > 1 << 20)
        return infq_err_set(err, INFQ_E_FORMAT, "group_size %lld is out of range", (long long)n);
    if (!name)
        name = !size ? "tensor" : n > 0 ? "group" : "channel";
    for (g->strategy = INFQ_CT_TENSOR; g->strategy <= INFQ_CT_TENSOR_GROUP; g->strategy++)
        if (strcmp(name, names[g->strategy]) == 0)
            break;
    if (g->strategy > INFQ_CT_TENSOR_GROUP)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "weight strategy %s is not supported", name);
    if (g->strategy == INFQ_CT_GROUP || g->strategy == INFQ_CT_TENSOR_GROUP) {
        if (n <= 0)
            return infq_err_set(err, INFQ_E_FORMAT, "strategy %s needs a positive group_size", name);
        g->group_size = (int32_t)n;
    }
    if (g->strategy == INFQ_CT_BLOCK) {
        const cJSON *r = cJSON_GetArrayItem(block, 0), *c = cJSON_GetArrayItem(block, 1);
        if (cJSON_GetArraySize(block) != 2 || !cJSON_IsNumber(r) || !cJSON_IsNumber(c) || r->valuedouble < 1 ||
            c->valuedouble < 1 || r->valuedouble > 65536 || c->valuedouble > 65536)
            return infq_err_set(err, INFQ_E_FORMAT, "strategy block needs block_structure [rows, columns]");
        g->block_rows = (int32_t)r->valuedouble;
        g->block_cols = (int32_t)c->valuedouble;
    }
    return INFQ_E_OK;
}

static infq_status weights_parse(const cJSON *args, infq_ct_group *g, infq_err *err)
{
    const cJSON *order = infq_json_get(args, "actorder");
    const char *type;
    int64_t bits;

    if (!cJSON_IsObject(args))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "a group without quantized weights is not supported");
    INFQ_TRY(infq_json_str(args, "type", "int", &type, err));
    INFQ_TRY(infq_json_i64(args, "num_bits", 8, &bits, err));
    INFQ_TRY(infq_json_bool(args, "symmetric", true, &g->symmetric, err));
    INFQ_TRY(strategy_parse(args, g, err));
    g->is_float = strcmp(type, "float") == 0;
    if (!g->is_float && strcmp(type, "int"))
        return infq_err_set(err, INFQ_E_FORMAT, "type %s is neither int nor float", type);
    if (bits < 1 || bits > 8)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%lld bits are not supported", (long long)bits);
    g->bits = (int)bits;
    g->act_order = cJSON_IsTrue(order) || (cJSON_IsString(order) && (strcmp(order->valuestring, "group") == 0 ||
                                                                     strcmp(order->valuestring, "dynamic") == 0));
    return INFQ_E_OK;
}

static infq_status act_parse(const cJSON *args, infq_ct_group *g, infq_err *err)
{
    const cJSON *dyn = args ? infq_json_get(args, "dynamic") : NULL;
    const char *type, *strategy;
    int64_t bits, size;
    bool symmetric;

    g->act = INFQ_ACT_NONE;
    if (!args)
        return INFQ_E_OK;
    INFQ_TRY(infq_json_str(args, "type", "int", &type, err));
    INFQ_TRY(infq_json_str(args, "strategy", "tensor", &strategy, err));
    INFQ_TRY(infq_json_i64(args, "num_bits", 8, &bits, err));
    INFQ_TRY(infq_json_i64(args, "group_size", 0, &size, err));
    INFQ_TRY(infq_json_bool(args, "symmetric", true, &symmetric, err));
    if (symmetric && bits == 8 && cJSON_IsTrue(dyn) && strcmp(strategy, "token") == 0)
        g->act = strcmp(type, "float") ? INFQ_ACT_I8_TOKEN : INFQ_ACT_E4M3_TOKEN;
    else if (symmetric && bits == 8 && cJSON_IsTrue(dyn) && strcmp(strategy, "group") == 0 && size == 128 &&
             strcmp(type, "float") == 0)
        g->act = INFQ_ACT_E4M3_GROUP128;
    else if (symmetric && bits == 8 && !cJSON_IsTrue(dyn) && !cJSON_IsString(dyn) && strcmp(strategy, "tensor") == 0 &&
             strcmp(type, "float") == 0)
        g->act = INFQ_ACT_E4M3_TENSOR;
    else
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "input activations (%s, %lld bits, strategy %s) are not supported",
                            type, (long long)bits, strategy);
    return INFQ_E_OK;
}

static infq_status kind_parse(const char *format, infq_ct_group *g, infq_err *err)
{
    static const struct {
        const char *name;
        infq_ct_kind kind;
    } kinds[] = {{"pack-quantized", INFQ_CT_PACK},        {"int-quantized", INFQ_CT_INT},
                 {"float-quantized", INFQ_CT_FLOAT},      {"naive-quantized", INFQ_CT_NAIVE},
                 {"nvfp4-pack-quantized", INFQ_CT_NVFP4}, {"mxfp4-pack-quantized", INFQ_CT_MXFP4}};
    size_t i = 0, n = sizeof(kinds) / sizeof(kinds[0]);
    bool ok;

    while (i < n && (!format || strcmp(format, kinds[i].name)))
        i++;
    if (i == n)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "format %s is not supported", format ? format : "(none)");
    g->kind = kinds[i].kind;
    if (g->kind == INFQ_CT_NAIVE && !g->is_float)
        g->kind = INFQ_CT_INT;
    else if (g->kind == INFQ_CT_NAIVE)
        g->kind = INFQ_CT_FLOAT;
    switch (g->kind) {
    case INFQ_CT_PACK:
        if (!g->is_float && g->bits != 2 && g->bits != 4 && g->bits != 8)
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "pack-quantized with %d bits is not supported", g->bits);
        ok = !g->is_float && g->strategy <= INFQ_CT_GROUP;
        break;
    case INFQ_CT_INT:
        ok = !g->is_float && g->strategy <= INFQ_CT_BLOCK;
        break;
    case INFQ_CT_FLOAT:
        ok = g->is_float && g->bits == 8 && g->symmetric && g->strategy <= INFQ_CT_BLOCK;
        break;
    case INFQ_CT_NVFP4:
        ok = g->is_float && g->bits == 4 && g->symmetric && (g->strategy == INFQ_CT_TENSOR_GROUP);
        break;
    default:
        ok = g->is_float && g->bits == 4 && g->symmetric && g->strategy == INFQ_CT_GROUP;
    }
    if (!ok)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "format %s with these weights (%s, %d bits) is not supported",
                            format, g->is_float ? "float" : "int", g->bits);
    return INFQ_E_OK;
}

// A group written as a plain list of targets: the key names a preset.
static infq_status preset_parse(const char *key, const cJSON *list, infq_ct_group *g, infq_err *err)
{
    static const struct {
        const char *name;
        infq_ct_group group;
    } presets[] = {
        {"W4A16", {.kind = INFQ_CT_PACK, .bits = 4, .symmetric = true, .strategy = INFQ_CT_GROUP, .group_size = 128}},
        {"W4A16_ASYM", {.kind = INFQ_CT_PACK, .bits = 4, .strategy = INFQ_CT_GROUP, .group_size = 128}},
        {"W8A16", {.kind = INFQ_CT_PACK, .bits = 8, .symmetric = true, .strategy = INFQ_CT_CHANNEL}},
        {"W8A8", {.kind = INFQ_CT_INT, .bits = 8, .symmetric = true, .strategy = INFQ_CT_CHANNEL, .act = INFQ_ACT_I8_TOKEN}},
        {"INT8", {.kind = INFQ_CT_INT, .bits = 8, .symmetric = true, .strategy = INFQ_CT_CHANNEL, .act = INFQ_ACT_I8_TOKEN}},
        {"FP8_DYNAMIC", {.kind = INFQ_CT_FLOAT, .bits = 8, .is_float = true, .symmetric = true, .strategy = INFQ_CT_CHANNEL,
                         .act = INFQ_ACT_E4M3_TOKEN}},
        {"FP8_BLOCK", {.kind = INFQ_CT_FLOAT, .bits = 8, .is_float = true, .symmetric = true, .strategy = INFQ_CT_BLOCK,
                       .block_rows = 128, .block_cols = 128, .act = INFQ_ACT_E4M3_GROUP128}},
    };

    for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
        if (strcmp(key, presets[i].name) == 0) {
            *g = presets[i].group;
            return targets_parse(list, &g->targets, &g->n_targets, err);
        }
    return infq_err_set(err, INFQ_E_UNSUPPORTED, "preset %s is not supported", key);
}

static infq_status group_parse(const cJSON *item, const char *format, infq_ct_group *g, infq_err *err)
{
    if (cJSON_IsArray(item))
        return preset_parse(item->string, item, g, err);
    if (!cJSON_IsObject(item))
        return infq_err_set(err, INFQ_E_FORMAT, "a group is an object or a list");
    INFQ_TRY(infq_json_str(item, "format", format, &format, err));
    INFQ_TRY(weights_parse(infq_json_get(item, "weights"), g, err));
    INFQ_TRY(act_parse(infq_json_get(item, "input_activations"), g, err));
    if (infq_json_get(item, "output_activations"))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "output activations are not supported");
    INFQ_TRY(kind_parse(format, g, err));
    return targets_parse(infq_json_get(item, "targets"), &g->targets, &g->n_targets, err);
}

void infq_ct_config_free(infq_ct_config *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->groups && i < c->n_groups; i++)
        targets_free(c->groups[i].targets, c->groups[i].n_targets);
    infq_mem_free(c->groups);
    targets_free(c->ignore, c->n_ignore);
    infq_mem_free(c);
}

static infq_status parse_into(const cJSON *q, infq_ct_config *c, infq_err *err)
{
    const cJSON *groups = infq_json_get(q, "config_groups"), *sparse = infq_json_get(q, "sparsity_config"), *item;
    const cJSON *transform = infq_json_get(q, "transform_config");
    const char *format, *status, *sparse_format = "dense";

    INFQ_TRY(infq_json_str(q, "format", NULL, &format, err));
    INFQ_TRY(infq_json_str(q, "quantization_status", "compressed", &status, err));
    if (sparse)
        INFQ_TRY(infq_json_str(sparse, "format", "dense", &sparse_format, err));
    if (strcmp(status, "compressed"))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "quantization_status %s is not supported, only compressed", status);
    if (strcmp(sparse_format, "dense"))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "sparsity format %s is not supported", sparse_format);
    if (transform && cJSON_GetArraySize(transform) > 0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "transform_config is not supported");
    if (!cJSON_IsObject(groups) || cJSON_GetArraySize(groups) == 0)
        return infq_err_set(err, INFQ_E_FORMAT, "config_groups is missing");
    c->groups = infq_mem_calloc((size_t)cJSON_GetArraySize(groups), sizeof(*c->groups));
    if (!c->groups)
        return infq_err_set(err, INFQ_E_NOMEM, "config_groups");
    cJSON_ArrayForEach(item, groups)
    {
        infq_ct_group *g = &c->groups[c->n_groups++];
        if (group_parse(item, format, g, err))
            return infq_err_in(err, "%s", item->string);
    }
    return targets_parse(infq_json_get(q, "ignore"), &c->ignore, &c->n_ignore, err);
}

infq_status infq_ct_config_parse(const cJSON *q, infq_ct_config **out, infq_err *err)
{
    infq_ct_config *c = infq_mem_calloc(1, sizeof(*c));

    if (!c)
        return infq_err_set(err, INFQ_E_NOMEM, "quantization_config");
    if (parse_into(q, c, err)) {
        infq_ct_config_free(c);
        return infq_err_in(err, "quantization_config");
    }
    *out = c;
    return INFQ_E_OK;
}
