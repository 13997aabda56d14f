// Package seal encrypts a private corpus into one file that says without its
// key what is in it (spec Q4.4).
//
// # Form
//
// The first line is the Manifest, canonical JSON. Everything behind it is one
// age file (age-encryption.org/v1, binary), whose plaintext is a tar archive. So
// common tools read a sealed corpus too:
//
//	head -n 1 FILE | jq .                        # the manifest
//	tail -n +2 FILE | age -d -i KEY | tar -xf -  # the files
//
// The archive has one form only: ustar; "manifest.json" first, which is the
// manifest without its payload as canonical JSON; then the files of the corpus,
// <family>/<case>.yaml and gold/<family>/<case>.yaml, sorted by path in byte
// order; mode 0644, owner and group 0 without names, times 0. What the loaders of
// cases and gold pass over is not in it.
//
// # What holds
//
// Open gives back a corpus only if every byte counts: the manifest outside is
// the one inside, which only somebody who could read or replace the whole could
// have written; size and digest of the payload, digests of files, cases, splits
// and corpus are those of the manifest; and the archive is, byte for byte, the
// one that its files make. That a file was not replaced by another sealed one is
// for the freeze to say, which holds the digest of the file: anybody can encrypt
// for a public key.
//
// Digests are of the plaintext and have no salt: the digests of cases and gold
// stand in freezes and plans anyhow. Whoever has a text, whole and to the byte,
// can see that it is in a corpus; a part of a text shows nothing.
//
// The content stays in memory, up to MaxSize bytes: nothing here writes to a
// disk. No error holds a key.
//
// Stability: not part of the stable API.
package seal
