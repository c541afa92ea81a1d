#!/usr/bin/env bash
# Prepare the image of docker-compose.yml: build the program, put it and the
# libc it is linked against below root/ (what testnet/image/Dockerfile
# copies), and make the network key the containers share, once.
#
#   bash testnet/image/build.sh && docker-compose up --build
#
# Needs Go and gcc on this machine, no registry of images.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
home=/opt/achbridge # where the programs live inside the image
root=$here/root

cd "$here/../.."
rm -rf "$root"
mkdir -p "$root$home/bin" "$root$home/lib"

# The loader and the libraries are named by their place in the image, so that
# a base image keeps its own libc. Else this is the build that everybody does,
# so that it comes out of the cache.
link="-linkmode=external -s -w -extldflags '-Wl,--dynamic-linker=$home/lib/ld.so -Wl,-rpath,$home/lib'"
CGO_ENABLED=1 go build -ldflags "$link" -o "$root$home/bin/" ./cmd/achbridge

# All that the loader of this machine would load for them, under the same names.
# ldd prints "NAME => FILE (ADDRESS)".
for program in "$root$home"/bin/*; do
	ldd "$program" | awk '$2 == "=>" {print $1, $3}' | while read -r name file; do
		cp -Lu "$file" "$root$home/lib/$(basename "$name")"
	done
done

if [ ! -f "$here/network.key" ]; then
	# Its loader is not where it will be in the image: call it by hand.
	"$root$home/lib/ld.so" "$root$home/bin/achbridge" key new --key "$here/network.key"
fi
