#!/usr/bin/env bash
# Prepare scratch.yml: the image of all hosts, with the programs of examples/compose, without a registry of images.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bash "$here/../image/build.sh"
home=/opt/achbridge
peer=$here/../../localach/testdata/peer
for program in robot planner; do
	gcc -O2 -Wall -Werror -pthread -I"$peer" -Wl,--dynamic-linker=$home/lib/ld.so -Wl,-rpath,$home/lib \
		-o "$here/../image/root$home/bin/$program" "$here/../../examples/compose/$program.c" "$peer/channel.c"
done
