#include "lib/format/module.h"

#include "lib/io/folder.h"
#include "tests/testlib.h"

// A checkpoint of empty-valued tensors with these names and shapes.
typedef struct {
    const char *name;
    int64_t rows, cols;
} named;

static infq_checkpoint *checkpoint_of(const named *v, size_t n, const char *config)
{
    const char *dir = test_tmpdir();
    char path[600];
    infq_folder_options fo = {.path = path, .fingerprint = "module"};
    infq_checkpoint *ck;
    infq_folder *f;
    infq_err err;

    snprintf(path, sizeof(path), "%s/m", dir);
    ck_ok(infq_folder_begin(&fo, &f, &err), err);
    for (size_t i = 0; i < n; i++)
        ck_ok(infq_folder_declare(f, v[i].name, INFQ_DTYPE_BF16, v[i].cols ? 2 : 1, (int64_t[]){v[i].rows, v[i].cols}, &err),
              err);
    ck_ok(infq_folder_seal(f, &err), err);
    for (size_t i = 0; i < n; i++) {
        size_t bytes = (size_t)(v[i].rows * (v[i].cols ? v[i].cols : 1)) * 2;
        void *zero = calloc(bytes + 1, 1);
        if (bytes)
            ck_ok(infq_folder_write(f, v[i].name, 0, zero, bytes, &err), err);
        free(zero);
    }
    ck_ok(infq_folder_shard_done(f, 0, &err), err);
    if (config)
        ck_ok(infq_folder_put(f, "config.json", config, strlen(config), &err), err);
    ck_ok(infq_folder_commit(f, &err), err);
    ck_ok(infq_checkpoint_open(path, NULL, &ck, &err), err);
    return ck;
}

static infq_modules *modules_of(infq_checkpoint *ck)
{
    infq_modules *ms;
    infq_err err;

    ck_ok(infq_modules_find(ck, &ms, &err), err);
    return ms;
}

START_TEST(module_roles_follow_from_the_last_names)
{
    static const struct {
        const char *name;
        infq_role role;
    } want[] = {
        {"model.layers.3.self_attn.q_proj", INFQ_ROLE_Q},
        {"model.layers.3.block_sparse_moe.experts.7.w3", INFQ_ROLE_UP},
        {"model.layers.3.block_sparse_moe.experts.7.w2", INFQ_ROLE_DOWN},
        {"transformer.h.0.attn.c_proj", INFQ_ROLE_O},
        {"transformer.h.0.mlp.c_proj", INFQ_ROLE_DOWN},
        {"model.layers.0.mlp.gate", INFQ_ROLE_ROUTER},
        {"model.layers.0.block_sparse_moe.gate", INFQ_ROLE_ROUTER},
        {"model.layers.0.router.proj", INFQ_ROLE_ROUTER},
        {"model.layers.0.mlp.shared_expert_gate", INFQ_ROLE_ROUTER},
        {"model.layers.0.mlp.shared_expert.gate_proj", INFQ_ROLE_GATE},
        {"model.embed_tokens", INFQ_ROLE_EMBED},
        {"lm_head", INFQ_ROLE_HEAD},
        {"big", INFQ_ROLE_OTHER},
    };

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        ck_assert_msg(infq_role_of(want[i].name) == want[i].role, "%s is %s, not %s", want[i].name,
                      infq_role_name(infq_role_of(want[i].name)), infq_role_name(want[i].role));
}
END_TEST

START_TEST(module_finds_layers_experts_and_fused_groups)
{
    static const named v[] = {
        {"model.layers.11.self_attn.q_proj.weight", 8, 8}, {"model.layers.11.self_attn.k_proj.weight", 8, 8},
        {"model.layers.11.mlp.experts.5.gate_proj.weight", 8, 8}, {"model.layers.11.mlp.experts.5.up_proj.weight", 8, 8},
        {"model.layers.11.mlp.experts.6.gate_proj.weight", 8, 8}, {"model.layers.11.input_layernorm.weight", 8, 0},
        {"model.layers.11.self_attn.o_proj.weight", 8, 16},
    };
    infq_checkpoint *ck = checkpoint_of(v, 7, NULL);
    infq_modules *ms = modules_of(ck);
    const infq_module *q = infq_modules_by_name(ms, "model.layers.11.self_attn.q_proj");
    const infq_module *k = infq_modules_by_name(ms, "model.layers.11.self_attn.k_proj");
    const infq_module *g5 = infq_modules_by_name(ms, "model.layers.11.mlp.experts.5.gate_proj");
    const infq_module *u5 = infq_modules_by_name(ms, "model.layers.11.mlp.experts.5.up_proj");
    const infq_module *g6 = infq_modules_by_name(ms, "model.layers.11.mlp.experts.6.gate_proj");
    const infq_module *o = infq_modules_by_name(ms, "model.layers.11.self_attn.o_proj");

    ck_assert_uint_eq(infq_modules_count(ms), 6); // the norm is no module
    ck_assert_int_eq(q->layer, 11);
    ck_assert_int_eq(q->expert, -1);
    ck_assert_int_eq(g5->expert, 5);
    ck_assert_int_ge(q->fused, 0);
    ck_assert_int_eq(q->fused, k->fused);
    ck_assert_int_eq(g5->fused, u5->fused);
    ck_assert_int_ne(g5->fused, q->fused);
    ck_assert_int_eq(g6->fused, -1); // alone: its partner is not in the file
    ck_assert_int_eq(o->fused, -1);
    ck_assert_int_eq(o->n_cols, 16);
    ck_assert(o->target);
    infq_modules_free(ms);
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(module_leaves_routers_embeddings_mtp_and_empty_matrices_alone)
{
    static const named v[] = {
        {"lm_head.weight", 8, 8}, {"model.embed_tokens.weight", 8, 8}, {"model.layers.0.mlp.gate.weight", 4, 8},
        {"mtp.fc.weight", 8, 16}, {"mtp.layers.0.self_attn.q_proj.weight", 8, 8},
        {"model.visual.blocks.0.attn.qkv_proj.weight", 8, 8},
        {"model.layers.0.self_attn.v_proj.weight", 0, 8}, {"model.layers.0.self_attn.relative_attention_bias.weight", 8, 8},
        {"model.layers.0.self_attn.kv_a_proj_with_mqa.weight", 8, 8},
    };
    infq_checkpoint *ck = checkpoint_of(v, 9, NULL);
    infq_modules *ms = modules_of(ck);

    for (size_t i = 0; i < infq_modules_count(ms); i++) {
        const infq_module *m = infq_modules_get(ms, i);
        bool want = strcmp(m->name, "model.layers.0.self_attn.kv_a_proj_with_mqa") == 0;
        ck_assert_msg(m->target == want, "%s: target %d", m->name, m->target);
    }
    infq_modules_free(ms);
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(module_takes_a_lone_matrix_of_any_name)
{
    static const named v[] = {{"big.weight", 16, 8}};
    infq_checkpoint *ck = checkpoint_of(v, 1, NULL);
    infq_modules *ms = modules_of(ck);

    ck_assert(infq_modules_by_name(ms, "big")->target);
    ck_assert_ptr_null(infq_modules_by_name(ms, "bi"));
    infq_modules_free(ms);
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(module_flags_conv1d_by_config_or_shape)
{
    static const named gpt2[] = {{"h.0.attn.c_attn.weight", 8, 24}, {"h.0.mlp.c_fc.weight", 8, 32}};
    static const named linear[] = {{"h.0.attn.c_attn.weight", 12, 8}, {"h.0.mlp.c_fc.weight", 32, 8}};
    static const struct {
        const named *v;
        const char *config;
        bool conv;
    } cases[] = {{gpt2, NULL, true}, {gpt2, "{\"model_type\": \"gpt2\"}", true}, {linear, NULL, false},
                 {linear, "{\"model_type\": \"gpt_bigcode\"}", false}};

    for (size_t i = 0; i < 4; i++) {
        infq_checkpoint *ck = checkpoint_of(cases[i].v, 2, cases[i].config);
        infq_modules *ms = modules_of(ck);
        ck_assert_int_eq(infq_modules_by_name(ms, "h.0.attn.c_attn")->conv1d, cases[i].conv);
        ck_assert_int_eq(infq_modules_by_name(ms, "h.0.mlp.c_fc")->conv1d, cases[i].conv);
        infq_modules_free(ms);
        infq_checkpoint_close(ck);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("module");
    TCase *t = tcase_create("names");

    tcase_add_test(t, module_roles_follow_from_the_last_names);
    tcase_add_test(t, module_finds_layers_experts_and_fused_groups);
    tcase_add_test(t, module_leaves_routers_embeddings_mtp_and_empty_matrices_alone);
    tcase_add_test(t, module_takes_a_lone_matrix_of_any_name);
    tcase_add_test(t, module_flags_conv1d_by_config_or_shape);
    suite_add_tcase(s, t);
    return test_main(s);
}
