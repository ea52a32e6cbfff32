"""Architectures of transformers, with small configurations."""
import torch
import transformers as T
from torch import nn

from .registry import architecture, draw, ids

WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 60, "attn_implementation": "eager"}


class Called(nn.Module):
    """Calls a model with the inputs by name, and returns the named results."""
    def __init__(self, model, names, results=None):
        super().__init__()
        self.model, self.names, self.results = model, names, results

    def forward(self, *values):
        out = self.model(**dict(zip(self.names, values)))
        return tuple(out[key] for key in self.results) if self.results else out[0]


def called(model, small, large, results=None):
    return Called(model, list(small), results), small, large


def text(model, results=None, small=(1, 7), large=(3, 12), mask=True):
    def inputs(batch, length):
        present = torch.ones(batch, length, dtype=torch.long)
        present[-1, length - 2:] = 0
        return {"input_ids": ids(50, batch, length) + 5, **({"attention_mask": present} if mask else {})}
    return called(model, inputs(*small), inputs(*large), results)


def picture(model, size=32, results=None, channels=3):
    return called(model, {"pixel_values": draw(1, channels, size, size)}, {"pixel_values": draw(3, channels, size, size)}, results)


@architecture("dynamo", "dynamo-23", "script")
def bert():
    return text(T.BertModel(T.BertConfig(**WIDTH, max_position_embeddings=32)), ("last_hidden_state", "pooler_output"))


@architecture()
def roberta():
    return text(T.RobertaModel(T.RobertaConfig(**WIDTH, max_position_embeddings=32)))


@architecture()
def distilbert():
    return text(T.DistilBertForSequenceClassification(T.DistilBertConfig(vocab_size=60, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=32, attn_implementation="eager")))


@architecture()
def albert():
    return text(T.AlbertModel(T.AlbertConfig(**WIDTH, embedding_size=16, max_position_embeddings=32)))


@architecture()
def electra():
    return text(T.ElectraForTokenClassification(T.ElectraConfig(**WIDTH, embedding_size=16, max_position_embeddings=32)))


@architecture()
def mpnet():
    return text(T.MPNetModel(T.MPNetConfig(**WIDTH, max_position_embeddings=32)))


@architecture("script")
def deberta_v2():
    return text(T.DebertaV2Model(T.DebertaV2Config(**WIDTH, max_position_embeddings=32, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True)))


@architecture()
def convbert():
    return text(T.ConvBertModel(T.ConvBertConfig(**WIDTH, embedding_size=16, max_position_embeddings=32, head_ratio=2, conv_kernel_size=3)))


@architecture()
def squeezebert():
    return text(T.SqueezeBertModel(T.SqueezeBertConfig(**WIDTH, embedding_size=32, max_position_embeddings=32)))


@architecture("script")
def xlnet():
    return text(T.XLNetModel(T.XLNetConfig(vocab_size=60, d_model=32, n_layer=2, n_head=4, d_inner=48)))


@architecture("dynamo", "dynamo-23", "script")
def gpt2():
    return text(T.GPT2LMHeadModel(T.GPT2Config(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False, attn_implementation="eager")))


@architecture()
def gpt_neo():
    return text(T.GPTNeoForCausalLM(T.GPTNeoConfig(vocab_size=60, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=4, max_position_embeddings=32, use_cache=False)))


@architecture()
def opt():
    return text(T.OPTForCausalLM(T.OPTConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, word_embed_proj_dim=32, max_position_embeddings=32, use_cache=False, attn_implementation="eager")))


@architecture()
def bloom():
    return text(T.BloomForCausalLM(T.BloomConfig(vocab_size=60, hidden_size=32, n_layer=2, n_head=4, use_cache=False)))


@architecture()
def llama():
    return text(T.LlamaForCausalLM(T.LlamaConfig(**WIDTH, num_key_value_heads=2, max_position_embeddings=32, use_cache=False)))


@architecture()
def qwen2():
    return text(T.Qwen2ForCausalLM(T.Qwen2Config(**WIDTH, num_key_value_heads=2, max_position_embeddings=32, use_cache=False)))


@architecture()
def gemma():
    return text(T.GemmaForCausalLM(T.GemmaConfig(**WIDTH, num_key_value_heads=1, head_dim=8, max_position_embeddings=32, use_cache=False)))


@architecture()
def phi():
    return text(T.PhiForCausalLM(T.PhiConfig(**WIDTH, max_position_embeddings=32, use_cache=False)))


@architecture(fixed=True)
def mamba():
    return text(T.MambaForCausalLM(T.MambaConfig(vocab_size=60, hidden_size=16, state_size=4, num_hidden_layers=2, use_cache=False)), None, (1, 4), (2, 6), False)


@architecture()
def t5_encoder():
    return text(T.T5EncoderModel(T.T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu")))


@architecture("dynamo", "dynamo-23", "script")
def bart():
    model = T.BartModel(T.BartConfig(vocab_size=60, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
                                     max_position_embeddings=32, use_cache=False, attn_implementation="eager"))
    return called(model, {"input_ids": ids(50, 1, 7) + 5, "decoder_input_ids": ids(50, 1, 4) + 5}, {"input_ids": ids(50, 3, 11) + 5, "decoder_input_ids": ids(50, 3, 6) + 5}, ("last_hidden_state", "encoder_last_hidden_state"))


@architecture("dynamo")  # the other exporter has no diff
def whisper():
    model = T.WhisperModel(T.WhisperConfig(vocab_size=60, num_mel_bins=16, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
                                           max_source_positions=20, max_target_positions=16, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, attn_implementation="eager"))
    return called(model, {"input_features": draw(1, 16, 40), "decoder_input_ids": ids(50, 1, 3)}, {"input_features": draw(2, 16, 40), "decoder_input_ids": ids(50, 2, 6)})


@architecture()
def wav2vec2():
    model = T.Wav2Vec2ForCTC(T.Wav2Vec2Config(**WIDTH, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4))
    return called(model, {"input_values": draw(1, 200)}, {"input_values": draw(3, 311)})


VISION = {key: value for key, value in WIDTH.items() if key != "vocab_size"}


@architecture()
def deit():
    return picture(T.DeiTModel(T.DeiTConfig(**VISION, image_size=32, patch_size=8)))


@architecture()
def beit():
    return picture(T.BeitModel(T.BeitConfig(**VISION, image_size=32, patch_size=8, use_relative_position_bias=True)))


@architecture(fixed=True)
def swin_hugging_face():
    return picture(T.SwinModel(T.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4)))


@architecture()
def segformer():
    return picture(T.SegformerForSemanticSegmentation(T.SegformerConfig(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 24], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2],
                                                                        decoder_hidden_size=16)), 32)


@architecture()
def mobilevit():
    return picture(T.MobileViTModel(T.MobileViTConfig(image_size=64, patch_size=2, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 32], num_attention_heads=4)), 64)


@architecture()
def dpt_depth():
    return picture(T.DPTForDepthEstimation(T.DPTConfig(**(VISION | {"num_hidden_layers": 4}), image_size=32, patch_size=8, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 12, 16, 16], fusion_hidden_size=16)))


@architecture()
def clip():
    small = {key: WIDTH[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
    model = T.CLIPModel(T.CLIPConfig(text_config={**small, "vocab_size": 60, "max_position_embeddings": 16, "eos_token_id": 2}, vision_config={**small, "image_size": 32, "patch_size": 8}, projection_dim=16,
                                     attn_implementation="eager"))

    def inputs(texts, length, pictures):
        return {"input_ids": ids(50, texts, length) + 5, "pixel_values": draw(pictures, 3, 32, 32), "attention_mask": torch.ones(texts, length, dtype=torch.long)}
    return called(model, inputs(2, 6, 1), inputs(3, 9, 2), ("logits_per_image", "text_embeds", "image_embeds"))


@architecture()
def poolformer():
    return picture(T.PoolFormerModel(T.PoolFormerConfig(depths=[1, 1], hidden_sizes=[16, 24], patch_sizes=[7, 3], strides=[4, 2], padding=[2, 1], num_encoder_blocks=2)))


@architecture()
def video_mae():
    model = T.TimesformerModel(T.TimesformerConfig(**VISION, image_size=16, patch_size=8, num_frames=4))
    return called(model, {"pixel_values": draw(1, 4, 3, 16, 16)}, {"pixel_values": draw(2, 4, 3, 16, 16)})


@architecture()
def layoutlm():
    def inputs(batch, length):
        return {"input_ids": ids(50, batch, length) + 5, "bbox": ids(40, batch, length, 2).repeat_interleave(2, -1).sort(-1).values}
    return called(T.LayoutLMModel(T.LayoutLMConfig(**WIDTH, max_position_embeddings=32, max_2d_position_embeddings=64)), inputs(1, 7), inputs(3, 11))
