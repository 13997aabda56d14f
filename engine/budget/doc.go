// Package budget is the arithmetic of money: exact amounts in integer USD
// micros, and accounts that reserve, settle, hold, release and grant
// (requirements R36 to R42). Transitions are pure: each returns the account
// after it, or an error and the account as it was.
//
// Nothing here clamps, rounds or overflows silently: a sum that does not fit
// int64 is an error.
//
// Stability: may change between versions.
package budget
