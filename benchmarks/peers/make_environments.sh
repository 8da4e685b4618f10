#!/bin/sh
# Makes the virtual environments that train_speed.py runs its peers in, one folder each, all with
# the same torch.
#
#   benchmarks/peers/make_environments.sh FOLDER [PEER ...]     PEER: onmt joeynmt marian; all without
#   benchmarks/peers/make_environments.sh FOLDER kenlm
#   benchmarks/peers/make_environments.sh FOLDER fastchrf mbrs
#
# fastchrf, for minimum_bayes_risk.py, is without torch, and mbrs without its learned metrics.
#
# kenlm, for language_model_peers.py, isn't an environment but programs, built from the sources on PyPI.
# That takes cmake, a C++ compiler and Boost; on Debian:
#
#   apt-get install cmake g++ libboost-all-dev zlib1g-dev libbz2-dev liblzma-dev
#
# On a machine without a GPU, torch's own index has a build without CUDA, which is far smaller:
#
#   TORCH_INDEX=https://download.pytorch.org/whl/cpu benchmarks/peers/make_environments.sh FOLDER
#
# PYTHON names the interpreter (3.11 is known to work), TORCH_VERSION the torch.
set -eu
[ $# -ge 1 ] || { sed -n '2,21s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$1
shift
[ $# -ge 1 ] || set -- onmt joeynmt marian
torch=torch==${TORCH_VERSION:-2.13.0}

install() {
  "$folder/$peer/bin/python" -m pip --quiet install "$@"
}

# The package itself installs only a Python reader, so its sources are built here.
build_kenlm() {
  version=0.3.0
  build=$(mktemp -d)
  # By name, not :all:, which would build cmake from its sources, too.
  "${PYTHON:-python3}" -m pip --quiet download --no-deps --no-binary kenlm -d "$build" "kenlm==$version"
  tar -xzf "$build/kenlm-$version.tar.gz" -C "$build"
  cmake -S "$build/kenlm-$version" -B "$build/made" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF
  cmake --build "$build/made" --target lmplz build_binary query
  mkdir -p "$folder/kenlm/bin"
  cp "$build/made/bin/lmplz" "$build/made/bin/build_binary" "$build/made/bin/query" "$folder/kenlm/bin"
  echo "$version" > "$folder/kenlm/version.txt"
  rm -r "$build"
  echo "kenlm $version"
}

for peer; do
  case $peer in onmt | joeynmt | marian | fastchrf | mbrs) ;; kenlm) build_kenlm; continue ;; *) echo "no such peer: $peer" >&2; exit 2 ;; esac
  "${PYTHON:-python3}" -m venv "$folder/$peer"
  if [ "$peer" = fastchrf ]; then install fastchrf==0.2.1; continue; fi
  # First: as somebody's requirement it would come as another version, with gigabytes of CUDA.
  install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$torch"
  case $peer in
    mbrs) install --no-deps mbrs==0.1.8; install fastchrf==0.2.1 simple-parsing sacrebleu ;;
    onmt)
      # It asks for torch < 2.3, which pip says is missing, and which it doesn't need: its other
      # requirements are named one by one.
      install --no-deps OpenNMT-py==3.5.1
      install 'numpy<2' setuptools sentencepiece configargparse 'ctranslate2<5' \
        'pyonmttok<2' tensorboard flask waitress pyyaml sacrebleu rapidfuzz pyahocorasick \
        fasttext-wheel spacy six
      ;;
    joeynmt)
      install "$torch" joeynmt==2.3.0 importlib_metadata sentencepiece==0.2.0
      ;;
    marian)
      install "$torch" transformers==5.23.0 accelerate
      ;;
  esac
  "$folder/$peer/bin/python" -c 'import sys, torch
print(sys.argv[1], "python", sys.version.split()[0], "torch", torch.__version__)' "$peer"
done
