#!/bin/sh
# Training speed of OpenNMT-py 3.5.1 on the pieces of a prepared mtkit workspace: the tiny model
# (4+4 layers, 128, 256, 4 heads), batches of BATCH target tokens. It prints source and target tokens
# per second every 20 updates.
#
#   python -m venv onmt
#   onmt/bin/pip install OpenNMT-py==3.5.1 'numpy<2' setuptools sentencepiece
#   onmt/bin/pip uninstall triton          # an older torch brings it, and a newer one trips over it
#   onmt/bin/pip install --no-deps torch==2.13.0
#   benchmarks/opennmt_py_speed.sh onmt/bin WORKSPACE SOURCE.gz TARGET.gz [BATCH] [UPDATES]
set -eu
bin=$1 workspace=$2 source=$3 target=$4 batch=${5:-2048} updates=${6:-200}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for side in source target; do
  eval "path=\$$side"
  gzip -dc "$path" | "$bin/python" -c '
import sys, sentencepiece
model = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
for line in sys.stdin:
    print(" ".join(model.encode(line.rstrip("\n"), out_type=str)))
' "$workspace/data/tokenizer/joint.spm" > "$work/$side"
done
cat > "$work/config.yaml" <<EOF
save_data: $work/data
overwrite: true
src_vocab: $work/vocab
tgt_vocab: $work/vocab
share_vocab: true
data: {corpus: {path_src: $work/source, path_tgt: $work/target}}
save_model: $work/model
batch_type: tokens
batch_size: $batch
normalization: tokens
train_steps: $updates
save_checkpoint_steps: 100000
report_every: 20
num_workers: 0
encoder_type: transformer
decoder_type: transformer
position_encoding: true
enc_layers: 4
dec_layers: 4
heads: 4
hidden_size: 128
word_vec_size: 128
transformer_ff: 256
dropout: [0.2]
label_smoothing: 0.1
share_embeddings: true
share_decoder_embeddings: true
optim: adam
adam_beta2: 0.998
decay_method: noam
learning_rate: 2
warmup_steps: 2000
EOF
"$bin/onmt_build_vocab" -config "$work/config.yaml" -n_sample -1 > "$work/log" 2>&1 ||
  { tail "$work/log"; exit 1; }
"$bin/onmt_train" -config "$work/config.yaml" 2>&1 | grep -E "tok/s|Error" || exit 1
