// Package paper judges the paper's claims (claims.toml) by what stands in result
// folders, and makes the report of them and of the drawings of live clusters: one
// HTML file that needs nothing else, and the same as Markdown. It reads no broker, no network and no clock, so the
// same folders give the same bytes at any time.
//
// Verdicts are never written down: Judge derives each from the valid attempts
// of the runs that it is given.
package paper
