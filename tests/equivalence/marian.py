"""transformers' MarianMTModel with our weights, built from a configuration alone."""

import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from mtkit.network import EncoderDecoder
from mtkit.network.embeddings import sinusoids

_MAX_POSITIONS = 256


def build_marian_twin(
    model: EncoderDecoder, *, pad_id: int = 0, bos_id: int = 2, eos_id: int = 3
) -> MarianMTModel:
    """Returns a MarianMTModel in evaluation mode that computes what `model` computes.

    Its decoder starts from `bos_id`, as ours does, where Marian's own models start from padding.
    Its positions, [sine | cosine] halves as published, are overwritten with our interleaved ones.
    """
    section = model.model
    assert (section.norm, section.tied_embeddings) == ("post", "three-way")
    assert section.positions == "sinusoidal"
    assert section.activation in ("relu", "gelu")
    assert section.d_key == section.d_value == section.d_model // section.num_heads
    vocab_size = model.output_embedding.weight.shape[0]
    twin = MarianMTModel(
        MarianConfig(
            vocab_size=vocab_size,
            d_model=section.d_model,
            encoder_layers=section.num_encoder_layers,
            decoder_layers=section.num_decoder_layers,
            encoder_attention_heads=section.num_heads,
            decoder_attention_heads=section.num_heads,
            encoder_ffn_dim=section.d_ff,
            decoder_ffn_dim=section.d_ff,
            activation_function=section.activation,
            max_position_embeddings=_MAX_POSITIONS,
            scale_embedding=True,
            dropout=0.0,
            pad_token_id=pad_id,
            bos_token_id=bos_id,
            eos_token_id=eos_id,
            forced_eos_token_id=None,
            decoder_start_token_id=bos_id,
        )
    )
    missing, unexpected = twin.load_state_dict(_marian_weights(model), strict=False)
    # Tied names stand for `model.shared.weight`; the logits' bias stays zero.
    assert not unexpected, unexpected
    assert set(missing) <= {
        "final_logits_bias",
        "lm_head.weight",
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
    }, missing
    assert twin.lm_head.weight is twin.model.shared.weight
    assert twin.model.encoder.embed_tokens.weight is twin.model.shared.weight
    assert twin.model.decoder.embed_tokens.weight is twin.model.shared.weight
    assert not twin.final_logits_bias.any()
    return twin.to(model.output_embedding.weight.dtype).eval()


def _marian_weights(model: EncoderDecoder) -> dict[str, Tensor]:
    positions = sinusoids(_MAX_POSITIONS, model.model.d_model)
    weights = {
        "model.shared.weight": model.output_embedding.weight.detach(),
        "model.encoder.embed_positions.weight": positions,
        "model.decoder.embed_positions.weight": positions,
    }
    for number, layer in enumerate(model.encoder.layers):
        name = f"model.encoder.layers.{number}"
        attention = layer.attention
        weights |= _linear_weights(
            attention.query_key_value,
            [f"{name}.self_attn.{letter}_proj" for letter in "qkv"],
        )
        weights |= _linear_weights(attention.output, [f"{name}.self_attn.out_proj"])
        weights |= _linear_weights(layer.attention_norm, [f"{name}.self_attn_layer_norm"])
        weights |= _feed_forward_weights(layer, name)
    for number, layer in enumerate(model.decoder.layers):
        name = f"model.decoder.layers.{number}"
        weights |= _linear_weights(
            layer.self_attention.query_key_value,
            [f"{name}.self_attn.{letter}_proj" for letter in "qkv"],
        )
        weights |= _linear_weights(layer.self_attention.output, [f"{name}.self_attn.out_proj"])
        weights |= _linear_weights(layer.self_attention_norm, [f"{name}.self_attn_layer_norm"])
        weights |= _linear_weights(layer.cross_attention.query, [f"{name}.encoder_attn.q_proj"])
        weights |= _linear_weights(
            layer.cross_attention.key_value,
            [f"{name}.encoder_attn.{letter}_proj" for letter in "kv"],
        )
        weights |= _linear_weights(layer.cross_attention.output, [f"{name}.encoder_attn.out_proj"])
        weights |= _linear_weights(layer.cross_attention_norm, [f"{name}.encoder_attn_layer_norm"])
        weights |= _feed_forward_weights(layer, name)
    return weights


def _feed_forward_weights(layer: nn.Module, name: str) -> dict[str, Tensor]:
    return {
        **_linear_weights(layer.feed_forward.inner, [f"{name}.fc1"]),
        **_linear_weights(layer.feed_forward.output, [f"{name}.fc2"]),
        **_linear_weights(layer.feed_forward_norm, [f"{name}.final_layer_norm"]),
    }


def _linear_weights(ours: nn.Linear | nn.LayerNorm, names: list[str]) -> dict[str, Tensor]:
    """Returns weight and bias under each name, cut in equal parts where there are several."""
    weights = torch.chunk(ours.weight.detach(), len(names))
    biases = torch.chunk(ours.bias.detach(), len(names))
    named: dict[str, Tensor] = {}
    for name, weight, bias in zip(names, weights, biases, strict=True):
        named[f"{name}.weight"], named[f"{name}.bias"] = weight, bias
    return named
