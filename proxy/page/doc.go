// Package page renders the page that people see while they wait in line.
//
// The page is one self-contained answer: its style and its script are inlined
// under a nonce, it asks for nothing from anywhere but the gate's own status
// address, and it works without JavaScript, too. Every text is in
// locales/*.json; every text a state needs is in the page from the start, so
// that the script can follow the line without loading the page again.
//
// Nothing in the page says more than is known: the wait is a range in words or
// "we cannot estimate", progress is shown only once the place has really moved,
// and a place in line is called a turn, never a reservation.
package page
