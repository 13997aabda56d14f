// Package docs holds the written documentation of qualify and, in its tests,
// the proof that two pages still agree with the code: the package map of
// architecture.md and the table of requirements.md.
package docs
