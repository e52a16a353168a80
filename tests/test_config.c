#include "lib/model/config.h"

#include "lib/format/module.h"
#include "lib/model/arch_int.h"
#include "tests/testlib.h"
#include "tests/tiny_model.h"

static const infq_log quiet;

#define SIZES "\"hidden_size\":16,\"num_hidden_layers\":2,\"num_attention_heads\":2,\"intermediate_size\":24,\"vocab_size\":20,"

static infq_status parse(const char *text, infq_config *c, infq_err *err)
{
    cJSON *j = NULL;
    infq_status st;

    ck_ok(infq_json_parse(text, strlen(text), "config", &j, err), *err);
    st = infq_config_parse(j, c, err);
    cJSON_Delete(j);
    return st;
}

static infq_config parsed(const char *text)
{
    infq_config c;
    infq_err err;

    ck_ok(parse(text, &c, &err), err);
    return c;
}

static void refused(const char *text, infq_status want, const char *says)
{
    infq_config c;
    infq_err err = { 0 };
    infq_status st = parse(text, &c, &err);

    ck_assert_msg(st == want, "%s: status %d (%s), %d wanted", text, (int)st, err.msg, (int)want);
    ck_assert_msg(strstr(err.msg, says) != NULL, "'%s' does not say '%s'", err.msg, says);
}

START_TEST(keys_left_out_take_the_class_defaults)
{
    infq_config c = parsed("{\"model_type\":\"llama\"}");

    ck_assert_int_eq(c.hidden, 4096);
    ck_assert_int_eq(c.n_layers, 32);
    ck_assert_int_eq(c.n_kv_heads, 32);
    ck_assert_int_eq(c.head_dim, 128);
    ck_assert_int_eq(c.ffn, 11008);
    ck_assert_int_eq(c.vocab, 32000);
    ck_assert_int_eq(c.max_positions, 2048);
    ck_assert_double_eq(c.norm_eps, 1e-6);
    ck_assert_double_eq(c.rope.base, 10000.0);
    ck_assert(!c.tied && !c.qkv_bias && !c.o_bias && !c.mlp_bias && !c.qk_norm);
    ck_assert_int_eq(c.bos, -1);
    ck_assert_int_eq(c.n_eos, 0);

    c = parsed("{\"model_type\":\"gpt2\"}");
    ck_assert_int_eq(c.hidden, 768);
    ck_assert_int_eq(c.ffn, 3072);
    ck_assert_int_eq(c.head_dim, 64);
    ck_assert(c.tied && c.qkv_bias && c.o_bias && c.mlp_bias);
    ck_assert_int_eq(c.rope.type, INFQ_ROPE_NONE);
    ck_assert_int_eq(c.act, INFQ_FN_GELU_TANH);
}
END_TEST

START_TEST(an_absent_kv_head_count_is_the_default_and_a_null_one_the_head_count)
{
    ck_assert_int_eq(parsed("{\"model_type\":\"mistral\"}").n_kv_heads, 8);
    ck_assert_int_eq(parsed("{\"model_type\":\"mistral\",\"num_key_value_heads\":null}").n_kv_heads, 32);
    ck_assert_int_eq(parsed("{\"model_type\":\"llama\"," SIZES "\"x\":1}").n_kv_heads, 2);
}
END_TEST

START_TEST(the_class_name_decides_when_there_is_no_model_type)
{
    infq_config c = parsed("{\"architectures\":[\"Qwen2ForCausalLM\"]}");

    ck_assert_str_eq(c.model_type, "qwen2");
    ck_assert(c.qkv_bias && !c.o_bias);
}
END_TEST

START_TEST(unknown_architectures_activations_and_rope_types_are_refused_by_name)
{
    refused("{\"model_type\":\"wombat\"}", INFQ_E_UNSUPPORTED, "wombat");
    refused("{}", INFQ_E_FORMAT, "model_type");
    refused("{\"model_type\":\"llama\",\"hidden_act\":\"mish\"}", INFQ_E_UNSUPPORTED, "mish");
    refused("{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"wobbly\",\"factor\":4.0}}", INFQ_E_UNSUPPORTED, "wobbly");
    refused("{\"model_type\":\"llama\",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":5}}}", INFQ_E_UNSUPPORTED,
            "full_attention");
}
END_TEST

START_TEST(numbers_that_contradict_each_other_are_refused)
{
    refused("{\"model_type\":\"llama\",\"hidden_size\":100,\"num_attention_heads\":3}", INFQ_E_FORMAT, "no multiple");
    refused("{\"model_type\":\"llama\",\"num_attention_heads\":32,\"num_key_value_heads\":5}", INFQ_E_FORMAT, "cannot share");
    refused("{\"model_type\":\"llama\",\"hidden_size\":0}", INFQ_E_FORMAT, "hidden_size");
    refused("{\"model_type\":\"llama\",\"hidden_size\":\"64\"}", INFQ_E_FORMAT, "hidden_size");
    refused("{\"model_type\":\"llama\",\"num_hidden_layers\":513}", INFQ_E_UNSUPPORTED, "513");
    refused("{\"model_type\":\"llama\",\"rope_scaling\":\"linear\"}", INFQ_E_FORMAT, "rope_scaling");
    refused("{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\"}}", INFQ_E_FORMAT, "factor");
    refused("{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"longrope\",\"factor\":2,\"short_factor\":[1]}}",
            INFQ_E_FORMAT, "short_factor");
    refused("{\"model_type\":\"llama\",\"rope_theta\":0}", INFQ_E_FORMAT, "rope_theta");
    refused("{\"model_type\":\"llama\",\"eos_token_id\":\"</s>\"}", INFQ_E_FORMAT, "eos_token_id");
    refused("[1]", INFQ_E_FORMAT, "object");
}
END_TEST

START_TEST(both_spellings_of_rope_read_alike)
{
    static const char *const same[][2] = {
        { "{\"model_type\":\"llama\",\"rope_scaling\":null}", "{\"model_type\":\"llama\"}" },
        { "{\"model_type\":\"llama\",\"rope_theta\":500.0,\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}}",
          "{\"model_type\":\"llama\",\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":4.0,\"rope_theta\":500.0}}" },
        { "{\"model_type\":\"llama\",\"rope_theta\":500.0,\"partial_rotary_factor\":0.5}",
          "{\"model_type\":\"llama\",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500.0,"
          "\"partial_rotary_factor\":0.5}}" },
    };

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        infq_config a = parsed(same[i][0]), b = parsed(same[i][1]);
        float x[8 * 128], y[8 * 128];

        ck_assert_int_eq(a.rope.type, b.rope.type);
        ck_assert_int_eq(infq_rope_n_rot(&a), infq_rope_n_rot(&b));
        infq_rope_table(&a, 8, 0, 8, x);
        infq_rope_table(&b, 8, 0, 8, y);
        ck_assert_mem_eq(x, y, (size_t)(8 * infq_rope_n_rot(&a)) * sizeof(float));
    }
}
END_TEST

// transformers 5.24.0, ROPE_INIT_FUNCTIONS, hidden 16, 2 heads, 64 positions, base 10000; its F32 values.
#define ROPE_HEAD "{\"model_type\":\"llama\",\"hidden_size\":16,\"num_attention_heads\":2,\"max_position_embeddings\":64,"
#define LONGROPE                                                                                                       \
    ROPE_HEAD "\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2.0,\"original_max_position_embeddings\":32,"   \
              "\"short_factor\":[1,1.5,2,2.5],\"long_factor\":[2,4,6,8]}}"
static const struct {
    const char *config;
    int64_t length;
    double inv[4], scale;
} freqs[] = {
    { ROPE_HEAD "\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2.0}}", 64, { 1.0, 0.1, 0.01, 0.001 }, 1.0 },
    { ROPE_HEAD "\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2.0}}", 160,
      { 1.0, 0.06299605220556259, 0.00396850286051631, 0.00025 }, 1.0 },
    { LONGROPE, 32, { 1.0, 0.06666667014360428, 0.005, 0.0004 }, 1.0954451150103321 },
    { LONGROPE, 33, { 0.5, 0.025, 0.0016666667070239782, 0.000125 }, 1.0954451150103321 },
    { ROPE_HEAD "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":64,\"mscale\":0.7,"
                "\"mscale_all_dim\":1.3,\"beta_fast\":16,\"beta_slow\":2}}",
      64, { 1.0, 0.025, 0.0025, 0.00025 }, 0.9295234923939468 },
    { ROPE_HEAD "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":64,"
                "\"truncate\":false}}",
      64, { 1.0, 0.025595249608159065, 0.0025, 0.00025 }, 1.138629436111989 },
    { ROPE_HEAD "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"original_max_position_embeddings\":32,"
                "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0}}",
      64, { 1.0, 0.0125, 0.00125, 0.000125 }, 1.0 },
};

START_TEST(rope_frequencies_equal_those_of_transformers)
{
    infq_config c = parsed(freqs[_i].config);
    double inv[INFQ_MAX_ROPE_PAIRS], scale = infq_rope_freqs(&c, freqs[_i].length, inv);

    ck_assert_double_eq_tol(scale, freqs[_i].scale, 1e-12);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(inv[i], freqs[_i].inv[i], 2e-7 * freqs[_i].inv[i]); // F32 there
}
END_TEST

START_TEST(windows_follow_the_rule_of_the_architecture)
{
    infq_config c = parsed("{\"model_type\":\"mistral\",\"sliding_window\":12}");

    ck_assert_int_eq(c.window[0], 12);
    ck_assert_int_eq(parsed("{\"model_type\":\"mistral\"}").window[31], 4096);
    ck_assert_int_eq(parsed("{\"model_type\":\"mistral\",\"sliding_window\":null}").window[0], 0);
    ck_assert_int_eq(parsed("{\"model_type\":\"llama\",\"sliding_window\":12}").window[0], 0);
    ck_assert_int_eq(parsed("{\"model_type\":\"qwen2\",\"sliding_window\":8}").window[31], 0);
    c = parsed("{\"model_type\":\"qwen2\",\"sliding_window\":8,\"use_sliding_window\":true,\"max_window_layers\":1}");
    ck_assert_int_eq(c.window[0], 0);
    ck_assert_int_eq(c.window[1], 8);
    c = parsed("{\"model_type\":\"qwen3\",\"num_hidden_layers\":2,\"sliding_window\":8,\"use_sliding_window\":true,"
               "\"layer_types\":[\"sliding_attention\",\"full_attention\"]}");
    ck_assert_int_eq(c.window[0], 8);
    ck_assert_int_eq(c.window[1], 0);
    refused("{\"model_type\":\"qwen3\",\"num_hidden_layers\":1,\"sliding_window\":8,\"use_sliding_window\":true,"
            "\"layer_types\":[\"linear_attention\"]}", INFQ_E_UNSUPPORTED, "linear_attention");
}
END_TEST

START_TEST(layers_without_rotation_come_from_the_list_or_the_interval)
{
    infq_config c = parsed("{\"model_type\":\"smollm3\",\"num_hidden_layers\":4,\"no_rope_layers\":[1,1,0,1]}");

    ck_assert(!c.no_rope[0] && !c.no_rope[1] && c.no_rope[2] && !c.no_rope[3]);
    c = parsed("{\"model_type\":\"smollm3\"}");
    ck_assert(!c.no_rope[2] && c.no_rope[3] && c.no_rope[7]);
}
END_TEST

START_TEST(a_tied_head_is_read_alike_by_the_engine_and_by_the_plan)
{
    static const struct {
        const char *config;
        bool tied;
    } t[] = { { "{\"model_type\":\"gemma2\"}", true }, { "{\"model_type\":\"phi3\"}", false },
              { "{\"model_type\":\"gemma3\",\"tie_word_embeddings\":false}", false }, { "{}", false },
              { "{\"model_type\":\"x\",\"text_config\":{\"model_type\":\"gemma3_text\"}}", true },
              { "{\"text_config\":{\"tie_word_embeddings\":true}}", true } };

    for (size_t i = 0; i < infq_arch_count(); i++) { // the class defaults of every row
        char text[128];
        cJSON *j;

        snprintf(text, sizeof(text), "{\"model_type\":\"%s\"}", infq_arch_get(i)->model_type);
        j = cJSON_Parse(text);
        ck_assert_msg(infq_config_ties_head(j) == parsed(text).tied, "%s", text);
        cJSON_Delete(j);
    }
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        cJSON *j = cJSON_Parse(t[i].config);
        ck_assert_msg(infq_config_ties_head(j) == t[i].tied, "%s", t[i].config);
        cJSON_Delete(j);
    }
    ck_assert(!infq_config_ties_head(NULL));
}
END_TEST

START_TEST(parameters_are_counted_with_a_tied_head_once)
{
    infq_config tied = parsed("{\"model_type\":\"llama\"," SIZES "\"tie_word_embeddings\":true}");
    infq_config own = parsed("{\"model_type\":\"llama\"," SIZES "\"tie_word_embeddings\":false}");
    int64_t block = 4 * 16 * 16 + 3 * 16 * 24 + 2 * 16;

    ck_assert_int_eq(infq_config_params(&tied), 20 * 16 + 2 * block + 16);
    ck_assert_int_eq(infq_config_params(&own), 2 * 20 * 16 + 2 * block + 16);
}
END_TEST

// Folder cases: a tiny model, written with a change.
#define TINY "{\"model_type\":\"llama\"," SIZES "\"tie_word_embeddings\":false,\"eos_token_id\":2,\"bos_token_id\":1}"
#define TINY_TIED "{\"model_type\":\"llama\"," SIZES "\"tie_word_embeddings\":true}"

static infq_status read_folder(const char *dir, infq_config *c, infq_err *err)
{
    infq_checkpoint *ck = NULL;
    infq_status st;

    ck_ok(infq_checkpoint_open(dir, &quiet, &ck, err), *err);
    st = infq_config_read(ck, c, err);
    infq_checkpoint_close(ck);
    return st;
}

static void folder_refused(tiny_model *m, const char *says, const char *says_too)
{
    const char *dir = test_tmpdir();
    infq_config c;
    infq_err err = { 0 };

    tiny_save(m, dir, TINY_F32);
    ck_assert_int_eq(read_folder(dir, &c, &err), INFQ_E_FORMAT);
    ck_assert_msg(strstr(err.msg, says) && strstr(err.msg, says_too), "'%s' lacks '%s' or '%s'", err.msg, says, says_too);
    tiny_free(m);
}

START_TEST(a_head_size_that_contradicts_the_tensors_is_named)
{
    tiny_model m;

    tiny_make(&m, "{\"model_type\":\"llama\"," SIZES "\"head_dim\":12}", 1);
    cJSON_DeleteItemFromObject(m.json, "head_dim");
    folder_refused(&m, "model.layers.0.self_attn.q_proj.weight: shape [24, 16], config.json asks for [16, 16]", "head_dim 8");
}
END_TEST

START_TEST(a_norm_of_the_wrong_width_is_named)
{
    tiny_model m;
    tiny_tensor *t;

    tiny_make(&m, "{\"model_type\":\"qwen3\"," SIZES "\"head_dim\":8,\"num_key_value_heads\":1}", 1);
    t = tiny_find(&m, "model.layers.1.self_attn.k_norm.weight");
    t->shape[0] = t->n = 7;
    folder_refused(&m, "model.layers.1.self_attn.k_norm.weight: shape [7]", "[8]");
}
END_TEST

START_TEST(more_layers_than_the_configuration_has_are_an_error)
{
    tiny_model m;

    tiny_make(&m, TINY, 1);
    cJSON_ReplaceItemInObject(m.json, "num_hidden_layers", cJSON_CreateNumber(1));
    folder_refused(&m, "model.layers.1.input_layernorm.weight", "1 layers");
}
END_TEST

START_TEST(a_stored_head_equal_to_tied_embeddings_is_fine)
{
    tiny_model m;
    tiny_tensor *e, *h;
    infq_rng rng = infq_rng_seed(1);
    const char *dir = test_tmpdir();
    infq_config c;
    infq_err err;

    tiny_make(&m, TINY_TIED, 1);
    e = tiny_find(&m, "model.embed_tokens.weight");
    h = tiny_add(&m, "lm_head.weight", 20, 16, &rng, 0.0, 1.0);
    memcpy(h->data, e->data, (size_t)e->n * sizeof(float));
    tiny_save(&m, dir, TINY_F32);
    ck_ok(read_folder(dir, &c, &err), err);
    ck_assert(c.tied);
    tiny_free(&m);
}
END_TEST

START_TEST(a_stored_head_that_differs_from_tied_embeddings_is_refused)
{
    tiny_model m;
    infq_rng rng = infq_rng_seed(2);

    tiny_make(&m, TINY_TIED, 1);
    tiny_add(&m, "lm_head.weight", 20, 16, &rng, 0.0, 1.0);
    folder_refused(&m, "lm_head.weight differs", "tie_word_embeddings");
}
END_TEST

START_TEST(an_untied_model_without_a_head_is_refused)
{
    tiny_model m;

    tiny_make(&m, TINY, 1);
    tiny_find(&m, "lm_head.weight")->name[0] = '\0';
    folder_refused(&m, "lm_head.weight is missing", "tie_word_embeddings is false");
}
END_TEST

START_TEST(end_tokens_of_generation_config_replace_those_of_config)
{
    tiny_model m;
    const char *dir = test_tmpdir(), *gen = "{\"eos_token_id\": [3, 5], \"temperature\": 0.6}";
    infq_config c;
    infq_err err;

    tiny_make(&m, TINY, 1);
    tiny_save(&m, dir, TINY_F32);
    ck_ok(read_folder(dir, &c, &err), err);
    ck_assert_int_eq(c.n_eos, 1);
    ck_assert_int_eq(c.eos[0], 2);
    ck_assert_int_eq(c.bos, 1);
    tiny_put(dir, "generation_config.json", gen, strlen(gen));
    ck_ok(read_folder(dir, &c, &err), err);
    ck_assert_int_eq(c.n_eos, 2);
    ck_assert_int_eq(c.eos[1], 5);
    tiny_free(&m);
}
END_TEST

START_TEST(a_bare_file_has_no_configuration)
{
    tiny_model m;
    const char *dir = test_tmpdir();
    char path[512];
    infq_config c;
    infq_err err = { 0 };

    tiny_make(&m, TINY, 1);
    tiny_save(&m, dir, TINY_F32);
    snprintf(path, sizeof(path), "%s/config.json", dir);
    ck_assert_int_eq(remove(path), 0);
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    ck_assert_int_eq(read_folder(path, &c, &err), INFQ_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "no config.json"));
    tiny_free(&m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("config");
    TCase *t = tcase_create("json");

    tcase_add_test(t, keys_left_out_take_the_class_defaults);
    tcase_add_test(t, an_absent_kv_head_count_is_the_default_and_a_null_one_the_head_count);
    tcase_add_test(t, the_class_name_decides_when_there_is_no_model_type);
    tcase_add_test(t, unknown_architectures_activations_and_rope_types_are_refused_by_name);
    tcase_add_test(t, numbers_that_contradict_each_other_are_refused);
    tcase_add_test(t, both_spellings_of_rope_read_alike);
    tcase_add_loop_test(t, rope_frequencies_equal_those_of_transformers, 0, (int)(sizeof(freqs) / sizeof(freqs[0])));
    tcase_add_test(t, windows_follow_the_rule_of_the_architecture);
    tcase_add_test(t, layers_without_rotation_come_from_the_list_or_the_interval);
    tcase_add_test(t, a_tied_head_is_read_alike_by_the_engine_and_by_the_plan);
    tcase_add_test(t, parameters_are_counted_with_a_tied_head_once);
    suite_add_tcase(s, t);
    t = tcase_create("tensors");
    tcase_add_test(t, a_head_size_that_contradicts_the_tensors_is_named);
    tcase_add_test(t, a_norm_of_the_wrong_width_is_named);
    tcase_add_test(t, more_layers_than_the_configuration_has_are_an_error);
    tcase_add_test(t, a_stored_head_equal_to_tied_embeddings_is_fine);
    tcase_add_test(t, a_stored_head_that_differs_from_tied_embeddings_is_refused);
    tcase_add_test(t, an_untied_model_without_a_head_is_refused);
    tcase_add_test(t, end_tokens_of_generation_config_replace_those_of_config);
    tcase_add_test(t, a_bare_file_has_no_configuration);
    suite_add_tcase(s, t);
    return test_main(s);
}
