// Package reports renders what the evaluator computed: terminal tables, Markdown
// and the JSON documents of score, run and compare. It computes no statistic of its own; every
// figure it prints carries its n and stands under the evidence word.
//
// Text from outside (arm names, file names, reasons) is cleaned of control
// characters before it reaches a terminal, and of all markup before it reaches
// a Markdown page.
//
// Stability: internal to qualify; the JSON documents are stable.
package reports
