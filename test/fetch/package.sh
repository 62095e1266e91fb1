#!/bin/sh
# package.sh NAME@VERSION SHA256 FOLDER PATH...
#
# Puts files of an npm package, their folders left out, into FOLDER. The package is downloaded once, kept in the user's cache,
# and checked by its SHA256; nothing of it is run.
set -eu
package=$1 want=$2 folder=$3
shift 3

missing=
for path; do
	[ -s "$folder/${path##*/}" ] || missing=1
done
[ "$missing" ] || exit 0

cache=${XDG_CACHE_HOME:-$HOME/.cache}/loadline
tarball=$cache/$(echo "$package" | tr '@/' '--').tgz
sum() { sha256sum "$1" | cut -d' ' -f1; }
mkdir -p "$cache" "$folder"
if [ ! -s "$tarball" ] || [ "$(sum "$tarball")" != "$want" ]; then
	echo "get $package"
	part=$(mktemp -d "$cache/part.XXXXXX")
	trap 'rm -rf "$part"' EXIT
	(cd "$part" && npm pack --silent --ignore-scripts "$package" >/dev/null)
	got=$(sum "$part"/*.tgz)
	if [ "$got" != "$want" ]; then
		echo "$package has sha256 $got, not $want: it is not the package that was tested" >&2
		exit 1
	fi
	mv "$part"/*.tgz "$tarball"
fi
for path; do # by way of another name: whoever is interrupted leaves nothing half written
	tar -xzOf "$tarball" "$path" >"$folder/.part"
	mv "$folder/.part" "$folder/${path##*/}"
done
