// Package bundle is the container of trace bundles (spec Q8): parts, each a path
// and its bytes, in one file that has one spelling.
//
// # Form
//
// A bundle is a ustar archive (POSIX.1-1988):
//
//   - one entry a part, in byte order of the paths, and bundle.json as the last,
//     whatever its place in that order would be;
//   - each entry a regular file (type 0) of mode 0644, owner and group 0 without
//     names, time 0, device 0; numbers in octal with leading zeros and a NUL;
//     content padded with zeros to 512 bytes; less than 8 GiB each;
//   - a path of more than 100 bytes is split at the last slash that leaves at
//     most 155 bytes before it and 100 behind it; without such a slash it is
//     refused. There are no extended (PAX) or GNU entries, ever;
//   - at the end two blocks of 512 zeros and nothing more: no padding to 10,240.
//
// Every path can be unpacked everywhere. It is relative, clean, UTF-8, follows
// the rule for files of Go modules (module.CheckFilePath: no reserved name or
// character of Windows, no control character, no element that ends in a dot),
// no element ends in a space, and there are at most 16 of them. No path comes
// twice or is also a folder, and no two paths or folders are the same but for
// case or Unicode form.
//
// bundle.json is the index: canonical JSON and a line end,
//
//	{"parts":[{"path":"a","sha256":"…","size":1}],"schema":"qualify/bundle/v1","withheld":[]}
//
// with all parts in the order of the archive. Withheld names what was left out
// on purpose. The one known word is "bodies": no part lies under records/bodies/.
//
// So the bytes follow from the parts and the withheld words alone, and Open
// refuses any others: each changed bit of a bundle is found. The digest of a
// bundle is that of these bytes; how they are compressed is not part of it.
//
// # Without this package
//
// GNU tar packs an unpacked bundle to the same bytes again. In its folder:
//
//	{ find . -type f ! -path ./bundle.json -printf '%P\n' | LC_ALL=C sort; echo bundle.json; } |
//	tar --create --file=../bundle.tar --blocking-factor=1 --format=ustar --no-recursion --hard-dereference \
//	    --verbatim-files-from --files-from=- --mode=0644 --mtime=@0 --owner=0 --group=0 --numeric-owner
//
// And this checks every part of an unpacked bundle against its index:
//
//	jq -r '.parts[] | .sha256 + "  " + .path' bundle.json | sha256sum --check --strict
//
// # Compression
//
// A bundle is passed on as one frame of Zstandard (RFC 8878). Compress is
// deterministic for one version of its library; Decompress takes what any encoder
// makes at any level, as long as it is one frame and nothing else: skippable
// frames and second frames are refused, since they can carry what no index names.
//
// The package reads and writes only through what the caller hands it, and knows
// no clock. The API may change before version 1.
package bundle
