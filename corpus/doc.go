// Package corpus holds the case format: types, the strict loader, digests,
// splits and the built-in cases.
//
// A corpus is a tree <family>/<case>.yaml; gold, world and lint are reserved
// names and never families. What a right solution looks like stands apart, in
// package corpus/gold, and nothing in this package can reach it: the built-in
// cases are embedded by family folder, the gold files by corpus/gold only
// (DESIGN §5).
//
// The built-in corpus has a dev and a holdout split that share no family.
//
// # Tools
//
// A tool is declarative: one operation on the documents of the world, with
// JSON Pointer paths in which "{arg}" stands for an argument of the call, and
// no expressions.
//
//	query   from, where, fields        the value at from; where keeps members
//	                                   of a collection whose fields are equal
//	get     at                         the value at a path, error when missing
//	insert  at, value, exists          a new value; a path that ends in "/-"
//	                                   appends; exists: error | keep | replace
//	update  at, set, missing           sets fields; missing: error | create
//	delete  at, missing                missing: error | ignore
//	send    to, text, at               a message, kept under at when given
//
// query and get belong to action read, the others to draft or write. In where,
// value and set, a string that is exactly "{arg}" becomes the argument's value;
// inside a longer string it is written out. A field whose argument is optional
// and not given is left out.
//
// # Faults
//
// A fault stands at the nth call on (tool, target), or on the tool when no
// target is named, so that it means the same in every arm:
//
//	error_before_commit    an error reply, nothing happened
//	lost_before_commit     unknown outcome, nothing happened
//	ack_lost_after_commit  unknown outcome, the effect took place
//	slow                   the call takes factor times as long (default 20)
//	stale_read             a read answers from before the last write
//
// # Owner
//
// The owner says messages at the start or `when` something an owner could see
// comes true, and corrections after it. `after` is claim (a claim was just
// made), message (something was said that contains a text) or time (seconds
// since the start, and as soon as the document condition holds). A condition
// on a document is {document: pointer, is: VALUE|absent|present} or {is_not:
// VALUE|absent}. A correction not sent yet is dropped when its document
// condition ceases to hold. After `patience` corrections no further one is
// sent.
//
// Stability: not part of the stable API.
package corpus
