#include "lib/model/arch_int.h"

#include <stdio.h>
#include <string.h>

static const infq_arch_keys llama_keys = {
    .hidden = "hidden_size",
    .n_layers = "num_hidden_layers",
    .n_heads = "num_attention_heads",
    .n_kv_heads = "num_key_value_heads",
    .head_dim = "head_dim",
    .ffn = "intermediate_size",
    .max_positions = "max_position_embeddings",
    .act = "hidden_act",
    .norm_eps = "rms_norm_eps",
};

static const infq_arch_keys gpt2_keys = {
    .hidden = "n_embd",
    .n_layers = "n_layer",
    .n_heads = "n_head",
    .ffn = "n_inner",
    .max_positions = "n_positions",
    .act = "activation_function",
    .norm_eps = "layer_norm_epsilon",
};

static const char *const llama_names[INFQ_SLOT_COUNT] = {
    [INFQ_SLOT_EMBED] = "model.embed_tokens",
    [INFQ_SLOT_FINAL_NORM] = "model.norm",
    [INFQ_SLOT_HEAD] = "lm_head",
    [INFQ_SLOT_ATTN_NORM] = "model.layers.%d.input_layernorm",
    [INFQ_SLOT_Q] = "model.layers.%d.self_attn.q_proj",
    [INFQ_SLOT_K] = "model.layers.%d.self_attn.k_proj",
    [INFQ_SLOT_V] = "model.layers.%d.self_attn.v_proj",
    [INFQ_SLOT_Q_NORM] = "model.layers.%d.self_attn.q_norm",
    [INFQ_SLOT_K_NORM] = "model.layers.%d.self_attn.k_norm",
    [INFQ_SLOT_O] = "model.layers.%d.self_attn.o_proj",
    [INFQ_SLOT_MLP_NORM] = "model.layers.%d.post_attention_layernorm",
    [INFQ_SLOT_GATE] = "model.layers.%d.mlp.gate_proj",
    [INFQ_SLOT_UP] = "model.layers.%d.mlp.up_proj",
    [INFQ_SLOT_DOWN] = "model.layers.%d.mlp.down_proj",
};

static const char *const gpt2_names[INFQ_SLOT_COUNT] = {
    [INFQ_SLOT_EMBED] = "wte",
    [INFQ_SLOT_POSITIONS] = "wpe",
    [INFQ_SLOT_FINAL_NORM] = "ln_f",
    [INFQ_SLOT_HEAD] = "lm_head",
    [INFQ_SLOT_ATTN_NORM] = "h.%d.ln_1",
    [INFQ_SLOT_QKV] = "h.%d.attn.c_attn",
    [INFQ_SLOT_O] = "h.%d.attn.c_proj",
    [INFQ_SLOT_MLP_NORM] = "h.%d.ln_2",
    [INFQ_SLOT_UP] = "h.%d.mlp.c_fc",
    [INFQ_SLOT_DOWN] = "h.%d.mlp.c_proj",
};

// Defaults are those of the transformers 4 and 5 configuration classes (formats.md 2.2).
static const infq_arch rows[] = {
    { .model_type = "llama", .class_name = "LlamaForCausalLM", .keys = &llama_keys, .names = llama_names, .prefix = "",
      .flags = INFQ_ARCH_KEY_ATTN_BIAS | INFQ_ARCH_KEY_MLP_BIAS,
      .hidden = 4096, .n_layers = 32, .n_heads = 32, .ffn = 11008, .vocab = 32000, .max_positions = 2048,
      .act = "silu", .norm_eps = 1e-6, .rope_base = 1e4 },
    { .model_type = "mistral", .class_name = "MistralForCausalLM", .keys = &llama_keys, .names = llama_names, .prefix = "",
      .window = INFQ_WINDOW_ALL,
      .hidden = 4096, .n_layers = 32, .n_heads = 32, .n_kv_heads = 8, .ffn = 14336, .vocab = 32000,
      .max_positions = 131072, .act = "silu", .norm_eps = 1e-6, .rope_base = 1e4 },
    { .model_type = "qwen2", .class_name = "Qwen2ForCausalLM", .keys = &llama_keys, .names = llama_names, .prefix = "",
      .flags = INFQ_ARCH_QKV_BIAS, .window = INFQ_WINDOW_UPPER,
      .hidden = 4096, .n_layers = 32, .n_heads = 32, .n_kv_heads = 32, .ffn = 22016, .vocab = 151936,
      .max_positions = 32768, .act = "silu", .norm_eps = 1e-6, .rope_base = 1e4 },
    { .model_type = "qwen3", .class_name = "Qwen3ForCausalLM", .keys = &llama_keys, .names = llama_names, .prefix = "",
      .flags = INFQ_ARCH_KEY_ATTN_BIAS | INFQ_ARCH_QK_NORM, .window = INFQ_WINDOW_UPPER,
      .hidden = 4096, .n_layers = 32, .n_heads = 32, .n_kv_heads = 32, .head_dim = 128, .ffn = 22016,
      .vocab = 151936, .max_positions = 32768, .act = "silu", .norm_eps = 1e-6, .rope_base = 1e4 },
    { .model_type = "smollm3", .class_name = "SmolLM3ForCausalLM", .keys = &llama_keys, .names = llama_names, .prefix = "",
      .flags = INFQ_ARCH_KEY_ATTN_BIAS | INFQ_ARCH_KEY_MLP_BIAS | INFQ_ARCH_NOPE_LAYERS, .window = INFQ_WINDOW_NOPE,
      .hidden = 2048, .n_layers = 36, .n_heads = 16, .n_kv_heads = 4, .ffn = 11008, .vocab = 128256,
      .max_positions = 32768, .act = "silu", .norm_eps = 1e-6, .rope_base = 2e6, .tied = true },
    { .model_type = "gpt2", .class_name = "GPT2LMHeadModel", .keys = &gpt2_keys, .names = gpt2_names,
      .prefix = "transformer.",
      .flags = INFQ_ARCH_LAYERNORM | INFQ_ARCH_CONV1D | INFQ_ARCH_QKV_BIAS | INFQ_ARCH_O_BIAS | INFQ_ARCH_MLP_BIAS |
               INFQ_ARCH_NO_ROPE | INFQ_ARCH_GPT2_SCALE,
      .hidden = 768, .n_layers = 12, .n_heads = 12, .vocab = 50257, .max_positions = 1024, .act = "gelu_new",
      .norm_eps = 1e-5, .tied = true },
};

size_t infq_arch_count(void)
{
    return sizeof(rows) / sizeof(rows[0]);
}

const infq_arch *infq_arch_get(size_t i)
{
    return i < infq_arch_count() ? &rows[i] : NULL;
}

const infq_arch *infq_arch_find(const char *model_type, const char *class_name)
{
    for (size_t i = 0; model_type && i < infq_arch_count(); i++)
        if (strcmp(rows[i].model_type, model_type) == 0)
            return &rows[i];
    for (size_t i = 0; !model_type && class_name && i < infq_arch_count(); i++)
        if (strcmp(rows[i].class_name, class_name) == 0)
            return &rows[i];
    return NULL;
}

bool infq_arch_slot(const infq_config *c, infq_slot s, infq_slot_shape *out)
{
    unsigned flags = c->arch->flags;
    int64_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    infq_slot_shape sh = { 0 };

    if (!c->arch->names[s] || (s == INFQ_SLOT_HEAD && c->tied))
        return false;
    if ((s == INFQ_SLOT_Q_NORM || s == INFQ_SLOT_K_NORM) && !c->qk_norm)
        return false;
    sh.conv1d = (flags & INFQ_ARCH_CONV1D) != 0 && s >= INFQ_SLOT_BLOCK;
    switch (s) {
    case INFQ_SLOT_EMBED:
    case INFQ_SLOT_HEAD:
        sh.rows = c->vocab, sh.cols = c->hidden;
        break;
    case INFQ_SLOT_POSITIONS:
        sh.rows = c->max_positions, sh.cols = c->hidden;
        break;
    case INFQ_SLOT_FINAL_NORM:
    case INFQ_SLOT_ATTN_NORM:
    case INFQ_SLOT_MLP_NORM:
        sh.rows = c->hidden, sh.vector = true, sh.bias = (flags & INFQ_ARCH_LAYERNORM) != 0;
        break;
    case INFQ_SLOT_Q_NORM:
    case INFQ_SLOT_K_NORM:
        sh.rows = c->head_dim, sh.vector = true;
        break;
    case INFQ_SLOT_Q:
        sh.rows = q, sh.cols = c->hidden, sh.bias = c->qkv_bias;
        break;
    case INFQ_SLOT_K:
    case INFQ_SLOT_V:
        sh.rows = kv, sh.cols = c->hidden, sh.bias = c->qkv_bias;
        break;
    case INFQ_SLOT_QKV:
        sh.rows = q + 2 * kv, sh.cols = c->hidden, sh.bias = c->qkv_bias;
        break;
    case INFQ_SLOT_O:
        sh.rows = c->hidden, sh.cols = q, sh.bias = c->o_bias;
        break;
    case INFQ_SLOT_GATE:
    case INFQ_SLOT_UP:
        sh.rows = c->ffn, sh.cols = c->hidden, sh.bias = c->mlp_bias;
        break;
    case INFQ_SLOT_DOWN:
        sh.rows = c->hidden, sh.cols = c->ffn, sh.bias = c->mlp_bias;
        break;
    case INFQ_SLOT_COUNT:
        return false;
    }
    if (sh.vector)
        sh.conv1d = false;
    *out = sh;
    return true;
}

char *infq_arch_name(const infq_config *c, infq_slot s, int64_t layer, char *out, size_t cap)
{
    const char *name = c->arch->names[s], *at = strstr(name, "%d");
    const char *prefix = s == INFQ_SLOT_HEAD ? "" : c->prefix;

    if (at)
        snprintf(out, cap, "%s%.*s%lld%s", prefix, (int)(at - name), name, (long long)layer, at + 2);
    else
        snprintf(out, cap, "%s%s", prefix, name);
    return out;
}

int64_t infq_config_params(const infq_config *c)
{
    int64_t total = 0;

    for (int s = 0; s < INFQ_SLOT_COUNT; s++) {
        infq_slot_shape sh;
        if (!infq_arch_slot(c, (infq_slot)s, &sh))
            continue;
        int64_t n = sh.rows * (sh.vector ? 1 : sh.cols) + (sh.bias ? sh.rows : 0);
        total += s >= INFQ_SLOT_BLOCK ? n * c->n_layers : n;
    }
    return total;
}
