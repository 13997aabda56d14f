// Package freeze fixes what a qualification is about before its holdout is
// opened, and keeps the log that proves the order of events (spec Q4).
//
// A Manifest holds digests and values of everything that could change a
// result: files, binaries, modules, prompts, prices, model settings, the corpus
// by split, evaluator and policy. Its id is the digest of its canonical JSON;
// it holds no time, host or absolute path, so the same content has the same id
// everywhere. Verify compares a manifest with one built anew and names each
// difference with its old and new value.
//
// The seal log is a list of rows, each chained to the one before by digest
// (Row, VerifyLog). A chain alone proves that nothing inside it was edited,
// reordered or left out; it cannot prove that its end was not cut off, nor that
// it was not written anew as a whole. Signed checkpoints (Sign), a copy in a
// repository (FileLog, Mirror) and the comparison of copies (Compare) find those.
//
// This package knows neither stores nor campaigns: Log is the port it needs.
// The API may change before version 1.
package freeze
