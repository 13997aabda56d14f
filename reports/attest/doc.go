// Package attest makes and verifies signed attestations of verdicts (spec Q8).
//
// An attestation is a file of two lines, each a DSSE envelope (Ed25519) around
// an in-toto Statement v1 over the same subjects, the digests of what is
// released:
//
//	test result  PASSED, WARNED or FAILED, for tools that know in-toto; its
//	             configuration names freeze, registration, policy, traces and
//	             the second statement by digest
//	figures      the whole verdict document, its evidence class, and from when
//	             to when the attestation is good
//
// The second is named in the first by digest, so neither can be exchanged.
// Verify first checks every signature over the bytes as they are, and only then
// parses what was signed; it then builds the first statement anew from the
// second and wants the same bytes.
//
// There is one way to write an attestation. Parse encodes what it read again
// and refuses whatever is not equal, so that no bit of a file can change
// without being found.
//
// The package does no I/O and knows no clock: keys, moments and files come from
// the caller. The API may change before version 1.
package attest
