#include "lib/compress/plan.h"

#include "tests/tiny_model.h"

typedef struct {
    char path[600];
    infq_checkpoint *ck;
    infq_plan *p;
    infq_err err;
} fixture;

static void open_tiny(fixture *f, tiny_options o)
{
    snprintf(f->path, sizeof(f->path), "%s/src%s", test_tmpdir(), o.file.bare ? ".safetensors" : "");
    tiny_write(f->path, o);
    f->p = NULL;
    ck_ok(infq_checkpoint_open(f->path, NULL, &f->ck, &f->err), f->err);
}

static infq_status plan(fixture *f, infq_plan_options o)
{
    infq_plan_free(f->p);
    f->p = NULL;
    return infq_plan_make(f->ck, &o, &f->p, &f->err);
}

static void close_tiny(fixture *f)
{
    infq_plan_free(f->p);
    infq_checkpoint_close(f->ck);
}

static infq_plan_options with_ignore(const char *const *v, size_t n)
{
    infq_plan_options o = infq_plan_options_default();

    o.ignore = v;
    o.n_ignore = n;
    return o;
}

static const infq_plan_entry *entry_of(const infq_plan *p, const char *tensor)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->v[i].tensor->name, tensor) == 0)
            return &p->v[i];
    ck_abort_msg("no entry %s", tensor);
    return NULL;
}

START_TEST(plan_gives_every_tensor_one_fate)
{
    fixture f;

    open_tiny(&f, TINY_DEFAULT);
    ck_ok(plan(&f, infq_plan_options_default()), f.err);
    ck_assert_uint_eq(f.p->n, infq_checkpoint_count(f.ck));
    ck_assert_uint_eq(f.p->n_quantized, 14);
    ck_assert_uint_eq(f.p->n_copied, f.p->n - 14);
    ck_assert_int_eq(f.p->group_size, 128);
    ck_assert_int_eq(entry_of(f.p, "lm_head.weight")->fate, INFQ_FATE_COPY);
    ck_assert_int_eq(entry_of(f.p, "model.embed_tokens.weight")->fate, INFQ_FATE_COPY);
    ck_assert_int_eq(entry_of(f.p, "model.layers.1.mlp.up_proj.weight")->fate, INFQ_FATE_QUANTIZE);
    ck_assert(infq_str_ends(f.p->out, "/src-W4A16-G128"));
    // 4 bits and one BF16 scale for 128 weights; weight_shape adds 16 bytes a matrix.
    ck_assert_double_eq_tol(f.p->bits_per_weight_quantized, 4.125 + 14 * 128.0 / (double)f.p->weights_quantized, 1e-9);
    close_tiny(&f);
}
END_TEST

START_TEST(plan_takes_the_largest_group_that_divides_all_rows)
{
    static const struct {
        int64_t ffn, group;
    } want[] = {{256, 128}, {192, 64}, {160, 32}, {168, 0}};

    for (size_t i = 0; i < 4; i++) {
        fixture f;
        tiny_options o = TINY_DEFAULT;
        o.ffn = want[i].ffn;
        open_tiny(&f, o);
        ck_ok(plan(&f, infq_plan_options_default()), f.err);
        ck_assert_int_eq(f.p->group_size, want[i].group);
        ck_assert_uint_eq(f.p->findings.n, want[i].group ? 0 : 1); // whole rows are told
        close_tiny(&f);
    }
}
END_TEST

START_TEST(plan_refuses_a_group_size_that_does_not_divide_and_names_the_ways_out)
{
    infq_plan_options o = infq_plan_options_default();
    tiny_options t = TINY_DEFAULT;
    fixture f;

    t.ffn = 192;
    open_tiny(&f, t);
    o.group_size = 128;
    ck_assert_int_eq(plan(&f, o), INFQ_E_USAGE);
    ck_assert_msg(strstr(f.err.msg, "model.layers.0.mlp.down_proj (192)") && strstr(f.err.msg, "2 matrices") &&
                      strstr(f.err.msg, "--group-size 64") && strstr(f.err.msg, "--allow-fallback"),
                  "%s", f.err.msg);
    o.allow_fallback = true;
    ck_ok(plan(&f, o), f.err);
    ck_assert_uint_eq(f.p->n_fallback, 2);
    ck_assert_uint_eq(f.p->n_quantized, 12);
    ck_assert(entry_of(f.p, "model.layers.1.mlp.down_proj.weight")->fallback);
    o = infq_plan_options_default();
    o.scheme = infq_scheme_find("FP8");
    o.group_size = 64;
    ck_assert_int_eq(plan(&f, o), INFQ_E_USAGE);
    close_tiny(&f);
}
END_TEST

START_TEST(plan_counts_matches_of_patterns_and_refuses_those_without)
{
    const char *typo[] = {"lm_hed"}, *layer[] = {"re:model\\.layers\\.1\\..*", "down_proj"}, *plain[] = {"layers.1"};
    const char *experts[] = {"re:.*experts.*"}, *head[] = {"lm_head"};
    infq_plan_options o;
    fixture f;

    open_tiny(&f, TINY_DEFAULT);
    ck_assert_int_eq(plan(&f, with_ignore(typo, 1)), INFQ_E_USAGE);
    ck_assert_ptr_nonnull(strstr(f.err.msg, "lm_hed"));
    ck_assert_int_eq(plan(&f, with_ignore(plain, 1)), INFQ_E_USAGE);
    ck_ok(plan(&f, with_ignore(layer, 2)), f.err);
    ck_assert_int_eq(f.p->ignore_hits[0], 7);
    ck_assert_int_eq(f.p->ignore_hits[1], 2);
    ck_assert_uint_eq(f.p->n_quantized, 6);
    ck_assert_ptr_nonnull(strstr(f.p->config_text, "\"model.layers.1.self_attn.q_proj\""));
    ck_assert_ptr_null(strstr(f.p->config_text, "\"model.layers.0.self_attn.q_proj\""));
    o = infq_plan_options_default();
    o.include = experts;
    o.n_include = 1;
    ck_assert_int_eq(plan(&f, o), INFQ_E_USAGE);
    ck_assert_ptr_nonnull(strstr(f.err.msg, "experts"));
    o.include = head;
    ck_ok(plan(&f, o), f.err);
    ck_assert_int_eq(entry_of(f.p, "lm_head.weight")->fate, INFQ_FATE_QUANTIZE);
    ck_assert_ptr_null(strstr(f.p->config_text, "lm_head"));
    close_tiny(&f);
}
END_TEST

START_TEST(plan_never_quantizes_a_router_even_when_asked)
{
    const char *router[] = {"model.layers.0.mlp.gate"};
    infq_plan_options o = infq_plan_options_default();
    tiny_options t = TINY_DEFAULT;
    fixture f;

    t.extra = "model.layers.0.mlp.gate";
    open_tiny(&f, t);
    ck_ok(plan(&f, o), f.err);
    ck_assert_int_eq(entry_of(f.p, "model.layers.0.mlp.gate.weight")->fate, INFQ_FATE_COPY);
    ck_assert_ptr_nonnull(strstr(f.p->config_text, "\"model.layers.0.mlp.gate\""));
    o.include = router;
    o.n_include = 1;
    ck_assert_int_eq(plan(&f, o), INFQ_E_USAGE);
    close_tiny(&f);
}
END_TEST

START_TEST(plan_stores_a_tied_head_once_and_refuses_one_that_differs)
{
    const char *head[] = {"lm_head"}, *embed[] = {"embed_tokens"};
    infq_plan_options o = infq_plan_options_default();
    tiny_options t = TINY_DEFAULT;
    fixture f;

    t.tied = true;
    open_tiny(&f, t);
    ck_ok(plan(&f, with_ignore(head, 1)), f.err); // not stored, yet a module of the model
    o.include = head;
    o.n_include = 1;
    ck_assert_int_eq(plan(&f, o), INFQ_E_USAGE);
    ck_assert_ptr_nonnull(strstr(f.err.msg, "tied"));
    o.include = embed;
    ck_assert_int_eq(plan(&f, o), INFQ_E_UNSUPPORTED);
    close_tiny(&f);
    t.head_equal = true;
    open_tiny(&f, t);
    ck_ok(plan(&f, infq_plan_options_default()), f.err);
    ck_assert_int_eq(entry_of(f.p, "lm_head.weight")->fate, INFQ_FATE_TIE);
    ck_assert_uint_eq(f.p->n_tied, 1);
    close_tiny(&f);
    t.bad_tensor = "lm_head.weight";
    t.bad_value = 1.0f;
    open_tiny(&f, t);
    ck_assert_int_eq(plan(&f, infq_plan_options_default()), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(f.err.msg, "lm_head.weight differs"));
    close_tiny(&f);
}
END_TEST

START_TEST(plan_keeps_scales_in_the_type_of_the_source)
{
    static const struct {
        infq_dtype dtype;
        infq_elem scale;
    } want[] = {{INFQ_DTYPE_F64, INFQ_ELEM_F32}, {INFQ_DTYPE_F32, INFQ_ELEM_F32}, {INFQ_DTYPE_F16, INFQ_ELEM_F16},
                {INFQ_DTYPE_BF16, INFQ_ELEM_BF16}, {INFQ_DTYPE_F8_E4M3, INFQ_ELEM_BF16}};

    for (size_t i = 0; i < 5; i++) {
        tiny_options t = TINY_DEFAULT;
        fixture f;
        t.file.dtype = want[i].dtype;
        open_tiny(&f, t);
        ck_ok(plan(&f, infq_plan_options_default()), f.err);
        ck_assert_int_eq(entry_of(f.p, "model.layers.0.mlp.up_proj.weight")->codec.scale, want[i].scale);
        close_tiny(&f);
    }
}
END_TEST

START_TEST(plan_refuses_too_little_memory_and_shrinks_its_chunks_before)
{
    infq_plan_options o = infq_plan_options_default();
    fixture f;
    uint64_t full;

    open_tiny(&f, TINY_DEFAULT);
    ck_ok(plan(&f, o), f.err);
    full = f.p->peak_bytes;
    o.mem_limit = full - 65536;
    ck_ok(plan(&f, o), f.err);
    ck_assert_uint_le(f.p->peak_bytes, o.mem_limit);
    ck_assert_uint_lt(f.p->chunk_bytes, (size_t)8 << 20);
    o.mem_limit = full + 65536; // enough to write it, not to verify it
    ck_ok(plan(&f, o), f.err);
    o.verified = true;
    ck_assert_int_eq(plan(&f, o), INFQ_E_NOMEM);
    o.mem_limit = 1000;
    ck_assert_int_eq(plan(&f, o), INFQ_E_NOMEM);
    ck_assert_int_eq(infq_status_exit(f.err.code), 5);
    ck_assert_ptr_nonnull(strstr(f.err.msg, "1000"));
    close_tiny(&f);
}
END_TEST

START_TEST(plan_knows_what_an_engine_does_not_load)
{
    const char *some[] = {"q_proj"};
    infq_plan_options o = with_ignore(some, 1);
    fixture f;

    open_tiny(&f, TINY_DEFAULT);
    ck_ok(plan(&f, o), f.err); // without an engine: a note
    ck_assert_uint_eq(f.p->findings.n, 1);
    ck_assert_ptr_nonnull(strstr(f.p->findings.v[0].text, "fuse"));
    o.engine = "vllm";
    ck_assert_int_eq(plan(&f, o), INFQ_E_UNSUPPORTED);
    o = infq_plan_options_default();
    o.engine = "vllm";
    ck_ok(plan(&f, o), f.err);
    o.tp = 2; // k_proj has 64 outputs, o_proj 128 inputs
    ck_assert_int_eq(plan(&f, o), INFQ_E_UNSUPPORTED);
    ck_assert_msg(strstr(f.err.msg, "o_proj") && strstr(f.err.msg, "group size"), "%s", f.err.msg);
    o.group_size = 32;
    ck_assert_int_eq(plan(&f, o), INFQ_E_UNSUPPORTED);
    ck_assert_msg(strstr(f.err.msg, "k_proj") && strstr(f.err.msg, "64"), "%s", f.err.msg);
    o.engine = "foo";
    ck_assert_int_eq(plan(&f, o), INFQ_E_USAGE);
    close_tiny(&f);
}
END_TEST

START_TEST(plan_says_which_blocks_no_loader_runs)
{
    infq_plan_options o = infq_plan_options_default();
    tiny_options t = TINY_DEFAULT;
    fixture f;

    o.scheme = infq_scheme_find("FP8-BLOCK");
    open_tiny(&f, t);
    ck_ok(plan(&f, o), f.err);
    ck_assert_uint_eq(f.p->findings.n, 0);
    o.engine = "vllm"; // k and v have 64 rows: q, k and v would share a block
    ck_assert_int_eq(plan(&f, o), INFQ_E_UNSUPPORTED);
    ck_assert_msg(strstr(f.err.msg, "k_proj [64, 128]") && strstr(f.err.msg, "128 block"), "%s", f.err.msg);
    close_tiny(&f);
    t.ffn = 192;
    o.engine = NULL;
    open_tiny(&f, t);
    ck_ok(plan(&f, o), f.err);
    ck_assert_uint_eq(f.p->findings.n, 1);
    ck_assert_msg(strstr(f.p->findings.v[0].text, "down_proj: rows of 192 are no multiple of the 128") &&
                      strstr(f.p->findings.v[0].text, "(2 such)"), "%s", f.p->findings.v[0].text);
    close_tiny(&f);
}
END_TEST

START_TEST(plan_covers_every_byte_once_in_batches_of_any_size)
{
    infq_block *blocks = calloc(INFQ_BATCH_BLOCKS, sizeof(*blocks));
    tiny_options t = TINY_DEFAULT;
    fixture f;

    t.file.shard_bytes = 100000;
    open_tiny(&f, t);
    ck_ok(plan(&f, infq_plan_options_default()), f.err);
    for (size_t chunk = 1; chunk <= (size_t)8 << 20; chunk *= 64) {
        infq_batch_pos pos = {0};
        infq_batch b;
        size_t entry = 0;
        int64_t row = 0;
        uint64_t bytes = 0;
        f.p->chunk_bytes = chunk;
        while (infq_plan_batch(f.p, &pos, blocks, &b)) {
            bytes += b.src_bytes;
            for (size_t i = 0; i < b.n_blocks; i++) {
                const infq_ck_tensor *tensor = f.p->v[entry].tensor;
                int64_t total = f.p->v[entry].fate == INFQ_FATE_QUANTIZE ? tensor->shape[0] : (int64_t)tensor->n_bytes;
                ck_assert_uint_eq(blocks[i].entry, entry);
                ck_assert_int_eq(blocks[i].row0, row);
                ck_assert_int_eq(tensor->shard, b.shard);
                row += blocks[i].n_rows;
                if (row == total) {
                    entry++;
                    row = 0;
                }
            }
        }
        ck_assert_uint_eq(entry, f.p->n);
        ck_assert_uint_eq(bytes, f.p->bytes_in);
    }
    free(blocks);
    close_tiny(&f);
}
END_TEST

START_TEST(plan_fingerprint_follows_recipe_and_source)
{
    infq_plan_options o = infq_plan_options_default();
    char first[65];
    fixture f;

    open_tiny(&f, TINY_DEFAULT);
    ck_ok(plan(&f, o), f.err);
    snprintf(first, sizeof(first), "%s", f.p->fingerprint);
    o.threads = 3;
    ck_ok(plan(&f, o), f.err);
    ck_assert_str_eq(f.p->fingerprint, first);
    o.method = infq_method_find("rtn");
    ck_ok(plan(&f, o), f.err);
    ck_assert_str_ne(f.p->fingerprint, first);
    close_tiny(&f);
}
END_TEST

static infq_plan_options with_rules(const infq_plan_rule *v, size_t n)
{
    infq_plan_options o = infq_plan_options_default();

    o.rules = v;
    o.n_rules = n;
    return o;
}

START_TEST(plan_rules_decide_in_their_order)
{
    const infq_plan_rule rules[] = {{"re:model\\.layers\\.0\\.mlp\\.", NULL, 0}, {"down_proj", infq_scheme_find("W8A16"), 32},
                                    {"re:.*mlp.*", infq_scheme_find("FP8"), 0}};
    const infq_plan_entry *e;
    fixture f;

    open_tiny(&f, TINY_DEFAULT);
    ck_ok(plan(&f, with_rules(rules, 3)), f.err);
    ck_assert_int_eq(f.p->rule_hits[0], 3);
    ck_assert_int_eq(f.p->rule_hits[1], 1); // the one of layer 0 is decided before
    ck_assert_int_eq(f.p->rule_hits[2], 2);
    ck_assert_uint_eq(f.p->n_quantized, 11);
    e = entry_of(f.p, "model.layers.0.mlp.down_proj.weight");
    ck_assert_int_eq(e->fate, INFQ_FATE_COPY);
    ck_assert_str_eq(e->reason, "kept by a rule");
    e = entry_of(f.p, "model.layers.1.mlp.down_proj.weight");
    ck_assert_int_eq(e->codec.elem, INFQ_ELEM_U8);
    ck_assert_int_eq(e->codec.group_cols, 32);
    ck_assert_int_eq(entry_of(f.p, "model.layers.1.mlp.up_proj.weight")->codec.elem, INFQ_ELEM_E4M3);
    e = entry_of(f.p, "model.layers.1.self_attn.o_proj.weight");
    ck_assert_int_eq(e->codec.elem, INFQ_ELEM_U4);
    ck_assert_int_eq(e->codec.group_cols, 128);
    close_tiny(&f);
}
END_TEST

START_TEST(plan_refuses_rules_that_decide_nothing_or_cannot_hold)
{
    const infq_scheme *w8 = infq_scheme_find("W8A16"), *fp8 = infq_scheme_find("FP8");
    const struct {
        infq_plan_rule rules[2];
        size_t n;
        const char *says;
    } bad[] = {{{{"lm_head", w8, 0}}, 1, "--type lm_head decides nothing"},
               {{{"re:.*", w8, 0}, {"q_proj", fp8, 0}}, 2, "--type q_proj decides nothing"},
               {{{"q_proj", w8, 96}}, 1, "group size 96"},
               {{{"q_proj", fp8, 64}}, 1, "does not apply to scheme FP8"},
               {{{"re:(", w8, 0}}, 1, "--type re:("}};
    fixture f;

    open_tiny(&f, TINY_DEFAULT);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(plan(&f, with_rules(bad[i].rules, bad[i].n)), INFQ_E_USAGE);
        ck_assert_msg(strstr(f.err.msg, bad[i].says), "%s", f.err.msg);
    }
    close_tiny(&f);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plan");
    TCase *t = tcase_create("plan");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, plan_gives_every_tensor_one_fate);
    tcase_add_test(t, plan_takes_the_largest_group_that_divides_all_rows);
    tcase_add_test(t, plan_refuses_a_group_size_that_does_not_divide_and_names_the_ways_out);
    tcase_add_test(t, plan_counts_matches_of_patterns_and_refuses_those_without);
    tcase_add_test(t, plan_never_quantizes_a_router_even_when_asked);
    tcase_add_test(t, plan_stores_a_tied_head_once_and_refuses_one_that_differs);
    tcase_add_test(t, plan_keeps_scales_in_the_type_of_the_source);
    tcase_add_test(t, plan_refuses_too_little_memory_and_shrinks_its_chunks_before);
    tcase_add_test(t, plan_knows_what_an_engine_does_not_load);
    tcase_add_test(t, plan_says_which_blocks_no_loader_runs);
    tcase_add_test(t, plan_covers_every_byte_once_in_batches_of_any_size);
    tcase_add_test(t, plan_fingerprint_follows_recipe_and_source);
    tcase_add_test(t, plan_rules_decide_in_their_order);
    tcase_add_test(t, plan_refuses_rules_that_decide_nothing_or_cannot_hold);
    suite_add_tcase(s, t);
    return test_main(s);
}
