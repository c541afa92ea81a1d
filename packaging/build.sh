#!/usr/bin/env bash
# Make the Debian packages in dist/:
#
#   bash packaging/build.sh              # amd64 and arm64, as far as there are compilers
#   bash packaging/build.sh amd64
#
# Needs Go and, for the architecture that this machine is not, Debian's cross
# compiler (apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross). The
# program is linked against this machine's libc, dynamically, since it has to share
# the layout of a mutex with the libach programs of the host where it runs.
set -euo pipefail
cd "$(dirname "$0")/.."

nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4 # later ones need modules that are not on the proxy
release=0.1.0

# The tag that HEAD has or comes after, else the release and when HEAD was committed,
# and which commit it is: a later one is a later version, in a shallow clone too.
version() {
	local tag
	if tag=$(git describe --tags --abbrev=8 --match 'v[0-9]*' 2>/dev/null); then
		sed -E 's/-([0-9]+)-g([0-9a-f]+)$/+\1.\2/' <<<"${tag#v}"
		return
	fi
	TZ=UTC0 git log -1 --date=format-local:%Y%m%d%H%M%S --abbrev=8 --format="$release+%cd.%h"
}

compiler() {
	case $1 in
	"$(go env GOHOSTARCH)") echo gcc ;;
	arm64) echo aarch64-linux-gnu-gcc ;;
	amd64) echo x86_64-linux-gnu-gcc ;;
	*) echo "no package for $1; there are amd64 and arm64" >&2 && return 1 ;;
	esac
}

# lacks ARCH: says what to install, if there is no compiler for it.
lacks() {
	local cc
	cc=$(compiler "$1")
	! command -v "$cc" >/dev/null || return 1
	echo "there is no $cc: apt-get install $(sed -E 's/(.*)-gcc/gcc-\1/; s/_/-/g' <<<"$cc") libc6-dev-$1-cross"
}

# The newest version of glibc's symbols that a program uses is the oldest that it
# runs with.
oldest_libc() {
	grep -aoE 'GLIBC_2\.[0-9]+' "$1" | sort -Vu | tail -n 1 | sed 's/GLIBC_//'
}

# Pages and completions are the same everywhere: made by the program for this
# machine, of this very source.
pages() {
	local host=$1/host day
	day=$(git log -1 --format=%cs)
	go build -ldflags "$stamp" -o "$host" ./cmd/achbridge
	mkdir -p "$1/man" "$1/completion"
	"$host" man --date "$day" "$1/man"
	mkdir -p "$1/man5"
	mv "$1"/man/*.5 "$1/man5"
	gzip -9n "$1"/man/*.1 "$1"/man5/*.5
	"$host" completion bash >"$1/completion/achbridge.bash"
	"$host" completion zsh >"$1/completion/_achbridge"
	"$host" completion fish >"$1/completion/achbridge.fish"
}

archs=()
if [ $# -gt 0 ]; then
	archs=("$@")
	for arch in "${archs[@]}"; do
		compiler "$arch" >/dev/null
		! missing=$(lacks "$arch") || { echo "FAILED: $missing" >&2 && exit 1; }
	done
else
	for arch in amd64 arm64; do
		if missing=$(lacks "$arch"); then
			echo "no package for $arch: $missing" >&2
		else
			archs+=("$arch")
		fi
	done
fi

version=$(version)
stamp="-X main.release=$version"
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
pages "$built"
mkdir -p dist
for arch in "${archs[@]}"; do
	CC=$(compiler "$arch")
	export CC
	CGO_ENABLED=1 GOARCH=$arch go build -trimpath -ldflags "-s -w $stamp" -o "$built/achbridge" ./cmd/achbridge
	GOARCH=$arch bash packaging/notices.sh >"$built/NOTICES"
	CC= VERSION=$version ARCH=$arch LIBC=$(oldest_libc "$built/achbridge") BUILT=$built \
		go run "$nfpm" package --config packaging/nfpm.yaml --packager deb --target dist/
done
